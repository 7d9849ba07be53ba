/** A canvas in the room: what the headset shows as text and buttons. */

import { CanvasTexture, Mesh, MeshBasicMaterial, PlaneGeometry, SRGBColorSpace } from "three";

const FONT = "system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif";
/** By the level of a notice. */
export const GROUNDS = { good: "#14692c", wait: "#ffb300", halt: "#c8102e" };
export const INKS = { good: "#ffffff", wait: "#000000", halt: "#ffffff" };

/** [px]. */
interface Rectangle {
  x: number;
  y: number;
  width: number;
  height: number;
}

export class Board {
  readonly mesh: Mesh<PlaneGeometry, MeshBasicMaterial>;
  private readonly context: CanvasRenderingContext2D;
  private readonly texture: CanvasTexture;

  /** Of a canvas [px], so wide in the room [m]. */
  constructor(
    private readonly width: number,
    private readonly height: number,
    metres: number,
  ) {
    const canvas = document.createElement("canvas");
    canvas.width = width;
    canvas.height = height;
    this.context = canvas.getContext("2d") as CanvasRenderingContext2D;
    this.texture = new CanvasTexture(canvas);
    this.texture.colorSpace = SRGBColorSpace;
    this.texture.anisotropy = 4;
    const material = new MeshBasicMaterial({ map: this.texture, transparent: true, toneMapped: false, depthTest: false });
    this.mesh = new Mesh(new PlaneGeometry(metres, (metres * height) / width), material);
    this.mesh.renderOrder = 2;
  }

  clear(): void {
    this.context.clearRect(0, 0, this.width, this.height);
  }

  /** What was drawn is shown from now on. */
  done(): void {
    this.texture.needsUpdate = true;
  }

  fill(box: Rectangle, ground: string, edge: string, width: number): void {
    const { context } = this;
    context.beginPath();
    context.roundRect(box.x, box.y, box.width, box.height, 24);
    context.fillStyle = ground;
    context.fill();
    context.lineWidth = width;
    context.strokeStyle = edge;
    context.stroke();
  }

  text(
    text: string, x: number, y: number, size: number, ink: string, align: CanvasTextAlign, most = Infinity,
  ): void {
    const { context } = this;
    context.font = `600 ${size}px ${FONT}`;
    context.fillStyle = ink;
    context.textAlign = align;
    context.textBaseline = "middle";
    if (most < Infinity) context.fillText(text, x, y, most);
    else context.fillText(text, x, y);
  }

  /** Words in lines; what does not fit into the last one ends with an ellipsis. */
  wrap(
    text: string, x: number, y: number, width: number, size: number, step: number, lines: number, ink: string,
  ): void {
    const { context } = this;
    context.font = `600 ${size}px ${FONT}`;
    const done: string[] = [];
    let line = "";
    for (const word of text.split(" ")) {
      const longer = line ? `${line} ${word}` : word;
      if (line && context.measureText(longer).width > width) {
        done.push(line);
        line = word;
      } else line = longer;
    }
    done.push(line);
    if (done.length > lines) done[lines - 1] += " …";
    done.slice(0, lines).forEach((each, i) => this.text(each, x, y + step * i, size, ink, "left", width));
  }
}
