/**
 * The training of a new operator as a guided, timed list.
 *
 * Steps and minutes: Zhu, PhD thesis, University of Illinois (2023), table 8.6. A step that the page can see being done is
 * ticked off by itself; the others are confirmed by hand.
 */

import { yawOf } from "./head";
import type { Devices, Status } from "./protocol";
import type { Known } from "./store";

/** What a step has seen so far; each step begins with an empty one. */
type Seen = Record<string, number>;

export interface Step {
  title: string;
  minutes: number;
  text: string;
  /** Whether it is done by now; null: the page cannot see it. */
  detect: ((known: Readonly<Known>, devices: Devices | null, seen: Seen) => boolean) | null;
}

const DEGREES = Math.PI / 180;

/** How far each effector has gone while its clutch was pressed, and whether it is open again. */
function clutching(status: Status, seen: Seen): boolean {
  let done = true;
  status.clutched.forEach((clutched, i) => {
    if (status.arm_mode[i] === "absent") return;
    const p = status.effectors[i]?.p ?? [0, 0, 0];
    if (clutched) {
      if (seen[`x${i}`] === undefined) p.forEach((value, k) => (seen["xyz"[k] + `${i}`] = value));
      const far = Math.hypot(...p.map((value, k) => value - (seen["xyz"[k] + `${i}`] ?? value)));
      seen[`far${i}`] = Math.max(seen[`far${i}`] ?? 0, far);
    }
    done &&= !clutched && (seen[`far${i}`] ?? 0) > 0.05;
  });
  return done;
}

/** A hand closed about something and lifted it by 5 cm. */
function lifted(status: Status, devices: Devices, seen: Seen): boolean {
  return [devices.right, devices.left].some((hand, i) => {
    const height = status.effectors[i]?.p[2] ?? 0;
    if (!hand?.clutch || hand.trigger < 0.9) delete seen[`low${i}`];
    else seen[`low${i}`] = Math.min(seen[`low${i}`] ?? height, height);
    return height - (seen[`low${i}`] ?? height) > 0.05;
  });
}

export const STEPS: readonly Step[] = [
  {
    title: "Distance of the eyes",
    minutes: 1,
    text: "Put the headset on and enter VR. The page reads how far apart your eyes are; the board's button with that distance sets the robot's eyes so.",
    detect: (known) => known.eyes !== null,
  },
  {
    title: "Introduction",
    minutes: 2,
    text: "Watch the introduction, or let somebody show you how the robot moves and what it can reach.",
    detect: null,
  },
  {
    title: "Glove",
    minutes: 7,
    text: "Put the glove on and take the poses that calibrate it. Without a glove, skip this step.",
    detect: null,
  },
  {
    title: "Headset",
    minutes: 2,
    text: "Look around in VR. Find the panel below the picture and its red button. Point at a button and press it with the trigger.",
    detect: (known, _, seen) => {
      if (known.inVr) seen.since ??= performance.now();
      return known.inVr && performance.now() - (seen.since ?? Infinity) > 10_000;
    },
  },
  {
    title: "Head",
    minutes: 2,
    text: "Turn your head by more than 30 degrees to the left, then to the right. The robot's head follows yours.",
    detect: (_, devices, seen) => {
      if (devices?.head) {
        const yaw = yawOf(devices);
        seen.low = Math.min(seen.low ?? yaw, yaw);
        seen.high = Math.max(seen.high ?? yaw, yaw);
      }
      return (seen.high ?? 0) - (seen.low ?? 0) > 60 * DEGREES;
    },
  },
  {
    title: "Clutching",
    minutes: 4,
    text: "Hold the clutch and move your hand by 10 cm: the arm follows. Let go, put your hand elsewhere: the arm stays. Do so with both arms.",
    detect: (known, _, seen) => known.status !== null && clutching(known.status, seen),
  },
  {
    title: "Homing",
    minutes: 1,
    text: "Press Home arms and wait until both arms hold again. Any clutch ends it.",
    detect: (known, _, seen) => {
      const modes = known.status?.arm_mode ?? [];
      if (modes.some((mode) => mode.includes("home"))) seen.home = 1;
      return seen.home === 1 && modes.every((mode) => mode === "holds" || mode === "absent");
    },
  },
  {
    title: "Fault warnings",
    minutes: 1,
    text: "Press E-STOP, or Space. Read what the page says. Then press Resume, and open and press the clutch.",
    detect: (known, _, seen) => {
      const state = known.status?.state;
      if (state === "fault") seen.fault = 1;
      return seen.fault === 1 && (state === "idle" || state === "teleop");
    },
  },
  {
    title: "Base",
    minutes: 2,
    text: "Drive forward, then turn on the spot. The base stops by itself before what its rangefinders see.",
    detect: (known, _, seen) => {
      const [forward, left, turn] = known.status?.base_velocity ?? [0, 0, 0];
      if (Math.hypot(forward ?? 0, left ?? 0) > 0.05) seen.drove = 1;
      if (Math.abs(turn ?? 0) > 0.1) seen.turned = 1;
      return seen.drove === 1 && seen.turned === 1;
    },
  },
  {
    title: "Canisters and weight",
    minutes: 10,
    text: "Grasp a canister, lift it and put it down again, then the other one. Which is heavier? The frame reddens with the force.",
    detect: (known, devices, seen) =>
      known.status !== null && devices !== null && lifted(known.status, devices, seen),
  },
  {
    title: "Drill",
    minutes: 8,
    text: "Grasp the drill with the hand, lift it, and press its trigger with the forefinger.",
    detect: null,
  },
  {
    title: "Texture of a rock",
    minutes: 5,
    text: "Hold the wrist's camera over a rock and press Texture scan. Feel and hear how rough it is, and compare it with another one.",
    detect: (known, _, seen) => {
      seen.before ??= known.texture ? 1 : 0;
      if (!known.texture) seen.before = 0;
      return known.texture !== null && seen.before === 0;
    },
  },
];

export const TOTAL_MINUTES = STEPS.reduce((sum, step) => sum + step.minutes, 0);

export type Outcome = "open" | "detected" | "confirmed" | "skipped";

export class Training {
  /** Number of the present step; the number of steps: it is over. */
  at = 0;
  readonly outcomes: Outcome[] = STEPS.map(() => "open");
  /** Spent in each step [ms]. */
  readonly spent: number[] = STEPS.map(() => 0);
  readonly started = new Date();
  private seen: Seen = {};
  private since = performance.now();

  get step(): Step | null {
    return STEPS[this.at] ?? null;
  }

  get isOver(): boolean {
    return this.at >= STEPS.length;
  }

  /** Time goes on, and the step may have been done meanwhile. True: it has just been. */
  observe(known: Readonly<Known>, devices: Devices | null): boolean {
    this.count();
    const step = this.step;
    if (!step?.detect || this.outcomes[this.at] === "detected" || !step.detect(known, devices, this.seen)) return false;
    this.outcomes[this.at] = "detected";
    return true;
  }

  /** To the next step; what was not seen to be done has been confirmed or skipped. */
  next(outcome: "confirmed" | "skipped"): void {
    if (this.outcomes[this.at] !== "detected") this.outcomes[this.at] = outcome;
    this.go(this.at + 1);
  }

  back(): void {
    this.go(this.at - 1);
  }

  private go(at: number): void {
    this.count();
    this.at = Math.max(0, Math.min(STEPS.length, at));
    this.seen = {};
  }

  private count(): void {
    const now = performance.now();
    if (!this.isOver) this.spent[this.at] = (this.spent[this.at] ?? 0) + now - this.since;
    this.since = now;
  }

  /** What is saved: of each step its plan, its time and its outcome. */
  summary(known: Readonly<Known>, name: string): object {
    const seconds = this.spent.map((ms) => Math.round(ms / 1000));
    return {
      format: "refit training 1",
      robot: known.welcome?.robot ?? "",
      operator: name,
      started: this.started.toISOString(),
      planned_minutes: TOTAL_MINUTES,
      seconds: seconds.reduce((sum, value) => sum + value, 0),
      eye_distance_m: known.eyes,
      steps: STEPS.map((step, i) => ({
        number: i + 1,
        title: step.title,
        planned_minutes: step.minutes,
        seconds: seconds[i],
        outcome: this.outcomes[i],
      })),
    };
  }
}

export const clockText = (ms: number): string => {
  const seconds = Math.floor(ms / 1000);
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
};
