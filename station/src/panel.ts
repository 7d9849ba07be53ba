/** The menu in the headset: a board below the picture that a controller's ray presses, with the red button always on it. */

import type { Vector2 } from "three";
import { Board, GROUNDS, INKS } from "./board";
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
/** [ms] between two looks at the numbers of the link. */
const LINK_PERIOD = 1000;
/** Three columns beside the red button. */
const GRID: readonly CommandName[] = [
  "home", "precision", "texture_scan",
  "resume", "reset_fault", "face_video",
  "listen", "speak", "look_ahead",
  "seat", "eye_distance", "training",
  "narrow", "vr",
]; // prettier-ignore
/** Of the first row, from one row to the next, and of a button [px]. */
const ROWS = { top: 460, step: 107, height: 96 };

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
  /** Whether the buttons are shown; the red one always is. */
  isOpen = true;
  private readonly board = new Board(WIDTH, HEIGHT, WIDTH_M);
  private boxes: Box[] = [];
  private drawn = "";
  private link = { line: "", until: 0 };

  get mesh(): Board["mesh"] {
    return this.board.mesh;
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
    this.keepLink(view.link);
    const state = JSON.stringify([notice, this.link.line, training, view.hovered, this.isOpen, buttons]);
    if (state === this.drawn) return;
    this.drawn = state;
    const { board } = this;
    board.clear();
    this.boxes = [];
    this.drawWords(view);
    const stop: Box = { name: "stop", x: 1190, y: 16, width: 350, height: 968 };
    this.boxes.push(stop);
    board.fill(stop, "#c8102e", view.hovered === "stop" ? "#ffd54a" : "#ffffff", 12);
    board.text("E-STOP", stop.x + stop.width / 2, 130, 80, "#ffffff", "center", 310);
    board.text("B or Y", stop.x + stop.width / 2, 230, LETTERS, "#ffffff", "center");
    if (this.isOpen) {
      buttons.forEach((button, i) => {
        const y = ROWS.top + Math.floor(i / 3) * ROWS.step;
        const box = { name: button.name, x: 20 + (i % 3) * 388, y, width: 370, height: ROWS.height };
        const isLive = button.name === "speak" && button.isOn;
        const ground = isLive ? "#c8102e" : button.isOn ? "#1c5aa3" : button.isEnabled ? "#27333e" : "#1a222a";
        board.fill(box, ground, view.hovered === button.name && button.isEnabled ? "#ffd54a" : "#74899a", 6);
        const ink = button.isEnabled ? "#ffffff" : "#93a2ae";
        board.text(button.label, box.x + box.width / 2, box.y + box.height / 2, LETTERS, ink, "center", 340);
        if (button.isEnabled) this.boxes.push(box);
      });
    }
    board.done();
  }

  /** The numbers of the link once a second: to draw a board costs a headset more than to show it. */
  private keepLink(line: string): void {
    const now = performance.now();
    if (now > this.link.until) this.link = { line, until: now + LINK_PERIOD };
  }

  private drawWords({ notice, training, known }: PanelView): void {
    const { board } = this;
    const quiet = notice.level === "good";
    const head: Box = { name: "stop", x: 20, y: 16, width: 1146, height: 428 };
    board.fill(head, quiet ? "#10151aee" : GROUNDS[notice.level], "#74899a", 4);
    const ink = quiet ? "#ffffff" : INKS[notice.level];
    board.text(notice.title.toUpperCase(), 46, 68, 60, ink, "left", 520);
    board.text(known.phase === "in" ? this.link.line : "", 1140, 68, LETTERS, ink, "right", 580);
    const words = quiet && training ? training : `${notice.sentence} ${notice.remedy}`.trim();
    board.wrap(words, 46, 152, 1096, LETTERS, 60, 5, ink);
  }
}
