/** What the operator must read, in the middle of the view of the headset: a halt, a loss, the step of a training. */

import { Board, GROUNDS, INKS } from "./board";
import type { Notice } from "./halts";

/** [m] from the eyes, and so far below them; width in the room [m] and on the canvas [px]. */
const AWAY = 1.7;
const BELOW = 0.32;
const WIDTH_M = 1.5;
const WIDTH = 1400;
const HEIGHT = 330;
/** [px]: 1.7 degrees. */
const LETTERS = 48;

export class Banner {
  private readonly board = new Board(WIDTH, HEIGHT, WIDTH_M);
  private drawn = "";

  constructor() {
    this.mesh.position.set(0, -BELOW, -AWAY);
    this.mesh.renderOrder = 3;
  }

  get mesh(): Board["mesh"] {
    return this.board.mesh;
  }

  /**
   * `training`: its step, shown where nothing is more urgent; "": none. `isRead`: the operator looks at the board, which says the
   * same and must not be covered.
   */
  draw(notice: Notice, training: string, isRead: boolean): void {
    const quiet = notice.level === "good";
    const words = quiet ? training : `${notice.sentence} ${notice.remedy}`.trim();
    this.mesh.visible = words !== "" && !isRead;
    const state = `${notice.level} ${notice.title} ${words}`;
    if (!this.mesh.visible || state === this.drawn) return;
    this.drawn = state;
    const { board } = this;
    const ink = quiet ? "#ffffff" : INKS[notice.level];
    board.clear();
    board.fill({ x: 4, y: 4, width: WIDTH - 8, height: HEIGHT - 8 }, quiet ? "#10151aee" : GROUNDS[notice.level], "#ffffff", 4);
    board.text(quiet ? "TRAINING" : notice.title.toUpperCase(), 36, 58, 58, ink, "left", WIDTH - 72);
    board.wrap(words, 36, 138, WIDTH - 72, LETTERS, 62, 3, ink);
    board.done();
  }
}
