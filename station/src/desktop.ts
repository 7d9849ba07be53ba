/** The operator's hands, head and stick where there is no headset: moved by mouse, keyboard and gamepad. */

import { Euler, Quaternion, Vector3 } from "three";
import { HELD, type Motion, PAD_OTHER_HAND, PAD_PRESSED, PRESSED, type Choice } from "./bindings";
import type { CommandName } from "./menu";
import { type Devices, type Hand, SIDES, type Side } from "./protocol";

/** Of a hand that is moved by keys [m/s], [rad/s]; by the mouse [m or rad per pixel]; by the wheel [m per unit]. */
const SPEED = 0.15;
const TURNING = 0.8;
const PIXEL = 0.0006;
const PIXEL_TURN = 0.004;
const WHEEL = 0.0002;
/** A gripper closes and opens within a second; the head turns so fast [rad/s], and so far [rad]. */
const GRIPPING = 1.0;
const HEAD_TURNING = 0.8;
const HEAD_MOST = { yaw: 1.4, pitch: 0.8 };
/** Keys of a slider that has the focus. */
const SLIDING = new Set(["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "PageUp", "PageDown", "Home", "End"]);
/** Of a stick, around its middle. */
const DEAD = 0.12;
/** Where hands and head are while nothing is clutched [m]. */
const START: Record<Side, [number, number, number]> = { right: [0.2, 1.1, -0.4], left: [-0.2, 1.1, -0.4] };
const HEAD: [number, number, number] = [0, 1.6, 0];

class VirtualHand {
  readonly p = new Vector3();
  readonly q = new Quaternion();
  trigger = 0;

  constructor(private readonly side: Side) {
    this.toStart();
  }

  /** Where it is does not matter while its clutch is open, so that it never wanders off. */
  toStart(): void {
    this.p.set(...START[this.side]);
    this.q.identity();
  }

  said(clutch: boolean): Hand {
    return { p: this.p.toArray(), q: [this.q.x, this.q.y, this.q.z, this.q.w], clutch, trigger: this.trigger };
  }
}

export interface DesktopEvents {
  press(name: CommandName | Choice): void;
}

export class Desktop {
  /** Which hands mouse and keys move. */
  chosen: readonly Side[] = ["right"];
  /** Whether the page's button holds the clutch. */
  latched = false;
  private hands: Record<Side, VirtualHand> = { right: new VirtualHand("right"), left: new VirtualHand("left") };
  private head = { yaw: 0, pitch: 0 };
  private held = new Set<Motion>();
  private dragged = { x: 0, y: 0, z: 0, yaw: 0, pitch: 0 };
  private padHeld: boolean[] = [];
  private padClutch = false;
  private wasClutched = false;

  constructor(
    stage: HTMLElement,
    private readonly events: DesktopEvents,
  ) {
    addEventListener("keydown", (event) => this.onKey(event, true), { capture: true });
    addEventListener("keyup", (event) => this.onKey(event, false), { capture: true });
    // A window that is no longer looked at is not held by anybody.
    addEventListener("blur", () => this.letGo());
    document.addEventListener("visibilitychange", () => document.hidden && this.letGo());
    stage.addEventListener("pointerdown", (event) => stage.setPointerCapture(event.pointerId));
    stage.addEventListener("pointermove", (event) => this.onDrag(event));
    stage.addEventListener("contextmenu", (event) => event.preventDefault());
    stage.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        this.dragged.z += WHEEL * event.deltaY;
      },
      { passive: false },
    );
  }

  /** Open every clutch, and let go of every key. */
  letGo(): void {
    this.held.clear();
    this.latched = this.padClutch = false;
  }

  choose(choice: Choice): void {
    this.letGo();
    this.chosen = choice === "choose_both" ? SIDES : choice === "choose_left" ? ["left"] : ["right"];
  }

  get isClutched(): boolean {
    return this.latched || this.padClutch || this.held.has("clutch");
  }

  /** What the devices say, after `seconds` more of what is held. */
  read(seconds: number): Devices {
    const pad = this.readPad();
    const axis = (plus: Motion, minus: Motion): number => Number(this.held.has(plus)) - Number(this.held.has(minus));
    this.turnHead(axis, seconds);
    this.moveHands(axis, pad, seconds);
    const clutch = this.isClutched;
    const said = (side: Side): Hand => this.hands[side].said(clutch && this.chosen.includes(side));
    const { yaw, pitch } = this.head;
    const q = new Quaternion().setFromEuler(new Euler(pitch, yaw, 0, "YXZ"));
    return {
      head: { p: HEAD, q: [q.x, q.y, q.z, q.w] },
      right: said("right"),
      left: said("left"),
      stick: [
        axis("forward", "back") + pad.base[0],
        axis("left", "right") + pad.base[1],
        axis("anticlockwise", "clockwise") + pad.base[2],
      ],
    };
  }

  private turnHead(axis: (plus: Motion, minus: Motion) => number, seconds: number): void {
    const most = (value: number, limit: number): number => Math.max(-limit, Math.min(limit, value));
    const { yaw, pitch } = this.head;
    this.head.yaw = most(yaw + HEAD_TURNING * seconds * axis("head_left", "head_right"), HEAD_MOST.yaw);
    this.head.pitch = most(pitch + HEAD_TURNING * seconds * axis("head_up", "head_down"), HEAD_MOST.pitch);
  }

  private moveHands(axis: (plus: Motion, minus: Motion) => number, pad: Pad, seconds: number): void {
    // What was dragged before the clutch was pressed counts for nothing.
    const dragged = this.wasClutched ? this.dragged : { x: 0, y: 0, z: 0, yaw: 0, pitch: 0 };
    this.wasClutched = this.isClutched;
    const way = SPEED * seconds;
    const turn = TURNING * seconds;
    // As the operator sees it: the robot takes a hand's way in the direction in which the head looks.
    const looking = new Quaternion().setFromAxisAngle(new Vector3(0, 1, 0), this.head.yaw);
    const step = new Vector3(
      dragged.x + way * (axis("hand_right", "hand_left") + pad.hand[0]),
      dragged.y + way * (axis("hand_up", "hand_down") + pad.hand[1]),
      dragged.z + way * (axis("hand_back", "hand_forward") + pad.hand[2]),
    ).applyQuaternion(looking);
    const turned = new Quaternion().setFromEuler(
      new Euler(
        dragged.pitch + turn * axis("pitch_up", "pitch_down"),
        dragged.yaw + turn * (axis("yaw_left", "yaw_right") + pad.turn),
        turn * axis("roll_left", "roll_right"),
        "YXZ",
      ),
    );
    this.dragged = { x: 0, y: 0, z: 0, yaw: 0, pitch: 0 };
    for (const side of SIDES) {
      const hand = this.hands[side];
      if (!this.chosen.includes(side) || !this.isClutched) hand.toStart();
      else {
        hand.p.add(step);
        hand.q.premultiply(looking.clone().multiply(turned).multiply(looking.clone().invert()));
      }
      if (!this.chosen.includes(side)) continue;
      const closing = pad.trigger ?? hand.trigger + GRIPPING * seconds * axis("close", "open");
      hand.trigger = Math.max(0, Math.min(1, closing));
    }
  }

  // -- devices --------------------------------------------------------------------------------------

  private onKey(event: KeyboardEvent, down: boolean): void {
    const field = event.target instanceof HTMLInputElement ? event.target.type : "";
    // A slider is moved by its own keys; the others are the robot's, and the stop is everybody's.
    if (field === "range" && SLIDING.has(event.code)) return;
    const typing = field !== "" && field !== "range";
    const pressed = PRESSED.find((binding) => binding.code === event.code);
    const held = HELD.find((binding) => binding.code === event.code);
    if (typing && event.code !== "Escape") return;
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (!pressed && !held) return;
    event.preventDefault();
    if (held) down ? this.held.add(held.does) : this.held.delete(held.does);
    // A stop is as good when the key repeats; everything else is pressed once.
    if (pressed && down && !event.repeat) this.events.press(pressed.does);
  }

  private onDrag(event: PointerEvent): void {
    if (event.buttons & 2) {
      this.dragged.yaw -= PIXEL_TURN * event.movementX;
      this.dragged.pitch -= PIXEL_TURN * event.movementY;
    } else if (event.buttons & 1) {
      this.dragged.x += PIXEL * event.movementX;
      this.dragged.y -= PIXEL * event.movementY;
    }
  }

  private readPad(): Pad {
    const found = navigator.getGamepads?.().find((pad) => pad?.connected && pad.mapping === "standard") ?? null;
    if (!found) {
      this.padClutch = false;
      return { base: [0, 0, 0], hand: [0, 0, 0], turn: 0, trigger: null };
    }
    const down = (button: number): number => Number(found.buttons[button]?.pressed ?? false);
    found.buttons.forEach((button, number) => {
      const before = this.padHeld[number] ?? false;
      this.padHeld[number] = button.pressed;
      if (!button.pressed || before) return;
      const does = PAD_PRESSED[number];
      if (does) this.events.press(does);
      if (number === PAD_OTHER_HAND) this.choose(this.chosen.includes("right") ? "choose_left" : "choose_right");
    });
    this.padClutch = (found.buttons[7]?.value ?? 0) > 0.5;
    const stick = (index: number): number => beyondDead(found.axes[index] ?? 0);
    const trigger = found.buttons[6]?.value ?? 0;
    return {
      base: [-stick(1), -stick(0), down(4) - down(5)],
      hand: [stick(2), down(12) - down(13), stick(3)],
      turn: down(14) - down(15),
      trigger,
    };
  }
}

interface Pad {
  base: [number, number, number];
  hand: [number, number, number];
  turn: number;
  /** null: no gamepad says anything about the gripper. */
  trigger: number | null;
}

/** A stick's way beyond what it has when nobody touches it. */
export function beyondDead(value: number): number {
  return Math.abs(value) < DEAD ? 0 : (value - Math.sign(value) * DEAD) / (1 - DEAD);
}
