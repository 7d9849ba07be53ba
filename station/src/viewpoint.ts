/** From where the drawing is seen on the desktop: over the robot's shoulder, from its side, from above. */

import { PerspectiveCamera, Vector3 } from "three";

const LOOK_AT = new Vector3(0, 0.72, -0.3);
const PLACES: readonly [number, number, number][] = [
  [0.0, 1.75, 1.3],
  [1.9, 1.1, -0.3],
  [0.0, 2.8, -0.29],
  [-1.2, 1.6, -1.7],
];

export class Viewpoint {
  readonly camera = new PerspectiveCamera(50, 1, 0.05, 30);
  private index = 0;

  constructor() {
    this.place();
  }

  next(): void {
    this.index = (this.index + 1) % PLACES.length;
    this.place();
  }

  private place(): void {
    this.camera.position.set(...(PLACES[this.index] as [number, number, number]));
    this.camera.lookAt(LOOK_AT);
    this.camera.updateMatrixWorld();
  }
}
