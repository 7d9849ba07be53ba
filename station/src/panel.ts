/** The menu in the headset: a board below the picture that a controller's ray presses, with the red button always on it. */

import { CanvasTexture, Mesh, MeshBasicMaterial, PlaneGeometry, SRGBColorSpace, type Vector2 } from "three";
import type { Notice } from "./halts";
import { command, type CommandName } from "./menu";
import type { Known } from "./store";

/** Of the board [m], which is DISTANCE away, and its canvas [px]. */
export const PANEL_DISTANCE = 1.05;
const WIDTH_M = 1.3;
const WIDTH = 1560;
const HEIGHT = 1000;
/** Smallest letters [px]: 1.3 degrees at that distance, and more. */
const LETTERS = Math.max(46, Math.ceil((2 * PANEL_DISTANCE * Math.tan((0.65 * Math.PI) / 180) * WIDTH) / WIDTH_M));
const FONT = "system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif";
const GROUNDS = { good: "#14692c", wait: "#ffb300", halt: "#c8102e" };
const INKS = { good: "#ffffff", wait: "#000000", halt: "#ffffff" };
/** Three columns beside the red button. */
const GRID: readonly CommandName[] = [
  "home", "precision", "texture_scan",
  "resume", "reset_fault", "face_video",
  "seat", "training", "vr",
]; // prettier-ignore

interface Box {
  name: CommandName;
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface PanelView {
  known: Readonly<Known>;
  notice: Notice;
  link: string;
  training: string;
  hovered: CommandName | null;
}

export class Panel {
  readonly mesh: Mesh<PlaneGeometry, MeshBasicMaterial>;
  /** Whether the buttons are shown; the red one always is. */
  isOpen = true;
  private readonly context: CanvasRenderingContext2D;
  private readonly texture: CanvasTexture;
  private boxes: Box[] = [];
  private drawn = "";

  constructor() {
    const canvas = document.createElement("canvas");
    canvas.width = WIDTH;
    canvas.height = HEIGHT;
    this.context = canvas.getContext("2d") as CanvasRenderingContext2D;
    this.texture = new CanvasTexture(canvas);
    this.texture.colorSpace = SRGBColorSpace;
    this.texture.anisotropy = 4;
    const material = new MeshBasicMaterial({ map: this.texture, transparent: true, toneMapped: false });
    this.mesh = new Mesh(new PlaneGeometry(WIDTH_M, (WIDTH_M * HEIGHT) / WIDTH), material);
    this.mesh.renderOrder = 2;
  }

  /** The button at a place of the board, as a ray's hit says it. */
  at(uv: Vector2 | null | undefined): CommandName | null {
    if (!uv) return null;
    const x = uv.x * WIDTH;
    const y = (1 - uv.y) * HEIGHT;
    const hit = this.boxes.find((box) => x >= box.x && x <= box.x + box.width && y >= box.y && y <= box.y + box.height);
    return hit?.name ?? null;
  }

  /** Draws where something has changed. */
  draw(view: PanelView): void {
    const { known, notice, training } = view;
    const buttons = GRID.map((name) => {
      const each = command(name);
      const label = name === "training" && training ? "Next step" : each.label(known);
      return { name, label, isOn: each.isOn(known), isEnabled: each.isEnabled(known) };
    });
    const state = JSON.stringify([notice, view.link, training, view.hovered, this.isOpen, buttons, known.operator]);
    if (state === this.drawn) return;
    this.drawn = state;
    const { context } = this;
    context.clearRect(0, 0, WIDTH, HEIGHT);
    this.boxes = [];
    this.drawWords(view);
    const stop: Box = { name: "stop", x: 1180, y: 420, width: 360, height: 560 };
    this.boxes.push(stop);
    this.fill(stop, "#c8102e", view.hovered === "stop" ? "#ffd54a" : "#ffffff", 12);
    this.text("E-STOP", stop.x + stop.width / 2, stop.y + stop.height / 2, 88, "#ffffff", "center");
    if (this.isOpen) {
      buttons.forEach((button, i) => {
        const box = { name: button.name, x: 20 + (i % 3) * 385, y: 420 + Math.floor(i / 3) * 192, width: 365, height: 176 };
        const ground = button.isOn ? "#1c5aa3" : button.isEnabled ? "#27333e" : "#1a222a";
        this.fill(box, ground, view.hovered === button.name && button.isEnabled ? "#ffd54a" : "#74899a", 6);
        const ink = button.isEnabled ? "#ffffff" : "#93a2ae";
        this.text(button.label, box.x + box.width / 2, box.y + box.height / 2, LETTERS, ink, "center", 340);
        if (button.isEnabled) this.boxes.push(box);
      });
    }
    this.texture.needsUpdate = true;
  }

  private drawWords({ notice, link, training, known }: PanelView): void {
    const quiet = notice.level === "good";
    const head: Box = { name: "stop", x: 20, y: 16, width: 1520, height: 384 };
    this.fill(head, quiet ? "#10151aee" : GROUNDS[notice.level], "#74899a", 4);
    const ink = quiet ? "#ffffff" : INKS[notice.level];
    this.text(notice.title.toUpperCase(), 50, 68, 64, ink, "left");
    const right = known.phase === "in" ? link : "";
    this.text(right, 1510, 68, LETTERS, ink, "right", 900);
    const words = quiet && training ? training : `${notice.sentence} ${notice.remedy}`.trim();
    this.wrap(words, 50, 150, 1460, 66, 4, ink);
  }

  private fill(box: Box, ground: string, edge: string, width: number): void {
    const { context } = this;
    context.beginPath();
    context.roundRect(box.x, box.y, box.width, box.height, 24);
    context.fillStyle = ground;
    context.fill();
    context.lineWidth = width;
    context.strokeStyle = edge;
    context.stroke();
  }

  private text(
    text: string, x: number, y: number, size: number, ink: string, align: CanvasTextAlign, most = 1460,
  ): void {
    const { context } = this;
    context.font = `600 ${size}px ${FONT}`;
    context.fillStyle = ink;
    context.textAlign = align;
    context.textBaseline = "middle";
    context.fillText(text, x, y, most);
  }

  /** Words in lines; what does not fit into the last one ends with an ellipsis. */
  private wrap(text: string, x: number, y: number, width: number, step: number, lines: number, ink: string): void {
    const { context } = this;
    context.font = `600 ${LETTERS}px ${FONT}`;
    let line = "";
    let count = 0;
    const words = text.split(" ");
    words.forEach((word, i) => {
      if (count >= lines) return;
      const longer = line ? `${line} ${word}` : word;
      const isLast = count === lines - 1;
      if (context.measureText(isLast && i < words.length - 1 ? `${longer} …` : longer).width <= width) {
        line = longer;
      } else {
        this.text(isLast ? `${line} …` : line, x, y + step * count, LETTERS, ink, "left", width);
        count += 1;
        line = word;
      }
    });
    if (line && count < lines) this.text(line, x, y + step * count, LETTERS, ink, "left", width);
  }
}
