/** What the cameras see, hung up in front of the operator in the headset: to each eye its own picture. */

import {
  EdgesGeometry,
  Group,
  LineBasicMaterial,
  LineSegments,
  Mesh,
  MeshBasicMaterial,
  PlaneGeometry,
  SRGBColorSpace,
  VideoTexture,
} from "three";
import { eyesOf } from "./video";

/** Of the big picture: away from the eyes [m], as wide as so many degrees. */
const DISTANCE = 2.0;
const WIDTH = 2 * DISTANCE * Math.tan((33 * Math.PI) / 180);
/** Of the small ones [m], which stand in a row above. */
const SMALL = 0.52;
const MOST_SMALL = 4;
/** three.js gives what is on these layers to the left and the right eye alone; 0 is everybody's. */
const LAYER = { left: 1, right: 2, both: 0 };

/** One camera on a plane, as high as its pictures ask for. */
class Screen {
  readonly mesh: Mesh<PlaneGeometry, MeshBasicMaterial>;
  private readonly texture: VideoTexture;

  constructor(
    readonly element: HTMLVideoElement,
    readonly width: number,
    layer: number,
  ) {
    this.texture = new VideoTexture(element);
    this.texture.colorSpace = SRGBColorSpace;
    const material = new MeshBasicMaterial({ map: this.texture, toneMapped: false, fog: false });
    this.mesh = new Mesh(new PlaneGeometry(1, 1), material);
    this.mesh.layers.set(layer);
  }

  fit(): void {
    this.mesh.scale.set(this.width, (this.width * this.element.videoHeight) / (this.element.videoWidth || 1) || 1e-3, 1);
  }

  dispose(): void {
    this.texture.dispose();
    this.mesh.geometry.dispose();
    this.mesh.material.dispose();
  }
}

export class Pane {
  /** Its origin is in the operator's eyes, its front towards −z. */
  readonly group = new Group();
  private screens: Screen[] = [];
  private frame: LineSegments<EdgesGeometry, LineBasicMaterial>;
  private isThere = false;

  constructor() {
    const edges = new EdgesGeometry(new PlaneGeometry(1, 1));
    this.frame = new LineSegments(edges, new LineBasicMaterial({ color: 0x74899a }));
    this.group.add(this.frame);
    this.frame.visible = false;
  }

  get hasPictures(): boolean {
    return this.isThere;
  }

  /** Other cameras show something now. */
  use(pictures: string[], elements: Map<string, HTMLVideoElement>): void {
    for (const screen of this.screens) {
      this.group.remove(screen.mesh);
      screen.dispose();
    }
    this.screens = [];
    const eyes = eyesOf(pictures);
    const left = elements.get(eyes.left ?? "");
    const right = elements.get(eyes.right ?? "");
    this.isThere = Boolean(left && right);
    this.frame.visible = this.isThere;
    if (!left || !right) return;
    if (left === right) this.add(new Screen(left, WIDTH, LAYER.both), 0, 0);
    else {
      this.add(new Screen(left, WIDTH, LAYER.left), 0, 0);
      this.add(new Screen(right, WIDTH, LAYER.right), 0, 0);
    }
    const others = pictures.filter((name) => name !== eyes.left && name !== eyes.right).slice(0, MOST_SMALL);
    others.forEach((name, i) => {
      const element = elements.get(name);
      const x = (i - (others.length - 1) / 2) * (SMALL + 0.05);
      if (element) this.add(new Screen(element, SMALL, LAYER.both), x, 1.22);
    });
  }

  /** `cue`: how much the frame reddens, 0 to 1. */
  update(cue: number): void {
    for (const screen of this.screens) screen.fit();
    const big = this.screens[0]?.mesh;
    if (big) {
      this.frame.scale.set(big.scale.x * 1.015, big.scale.y * 1.02, 1);
      this.frame.position.copy(big.position);
    }
    this.frame.material.color.setRGB(0.2 + 0.8 * cue, 0.25 * (1 - cue), 0.32 * (1 - cue));
  }

  private add(screen: Screen, x: number, y: number): void {
    screen.mesh.position.set(x, y, -DISTANCE);
    this.screens.push(screen);
    this.group.add(screen.mesh);
  }
}
