/** In the headset, over the picture: the operator's microphone is live. */

import { Board } from "./board";

/** [m] from the eyes, and so far above them; width in the room [m] and on the canvas [px]. */
const AWAY = 1.7;
const ABOVE = 0.52;
const WIDTH_M = 0.62;
const WIDTH = 620;
const HEIGHT = 96;

export class LiveSign {
  private readonly board = new Board(WIDTH, HEIGHT, WIDTH_M);

  constructor() {
    this.mesh.position.set(0, ABOVE, -AWAY);
    this.mesh.renderOrder = 3;
    this.mesh.visible = false;
    this.board.fill({ x: 4, y: 4, width: WIDTH - 8, height: HEIGHT - 8 }, "#c8102e", "#ffffff", 6);
    this.board.text("● MICROPHONE LIVE", WIDTH / 2, HEIGHT / 2, 50, "#ffffff", "center", WIDTH - 40);
    this.board.done();
  }

  get mesh(): Board["mesh"] {
    return this.board.mesh;
  }

  show(live: boolean): void {
    this.mesh.visible = live;
  }
}
