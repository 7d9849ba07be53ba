/** The commands of the menu, the same on the desktop, in the headset, by key and by gamepad. */

import type { Link } from "./link";
import type { Adjustment, ButtonName, ClientMessage, Refused } from "./protocol";
import { drives, type Known, type Store } from "./store";

export type CommandName =
  | ButtonName | "listen" | "look_ahead" | "eye_distance" | "seat" | "side_cameras" | "training" | "vr"; // prettier-ignore

export interface Command {
  name: CommandName;
  label(known: Readonly<Known>): string;
  /** Whether it is on; null: it is no switch. */
  isOn(known: Readonly<Known>): boolean | null;
  isEnabled(known: Readonly<Known>): boolean;
}

const plain = () => null;
const isIn = (known: Readonly<Known>): boolean => known.phase === "in";
/** Somebody else drives, and the page asks for the seat again and again. */
const isWaiting = (known: Readonly<Known>): boolean =>
  known.phase !== "in" && known.phase !== "out" && known.linkCode === "occupied";

/** In the order in which they are shown. The stop is everybody's, and always enabled. */
export const COMMANDS: readonly Command[] = [
  { name: "stop", label: () => "E-STOP", isOn: plain, isEnabled: () => true },
  { name: "home", label: () => "Home arms", isOn: plain, isEnabled: drives },
  { name: "narrow", label: () => "Fold arms", isOn: plain, isEnabled: drives },
  {
    name: "precision",
    label: () => "Precision",
    isOn: (known) => (known.status?.precision ?? 1) < 1,
    isEnabled: drives,
  },
  { name: "texture_scan", label: () => "Texture scan", isOn: plain, isEnabled: drives },
  { name: "resume", label: () => "Resume", isOn: plain, isEnabled: drives },
  { name: "reset_fault", label: () => "Reset fault", isOn: plain, isEnabled: drives },
  { name: "face_video", label: () => "Face video", isOn: (known) => known.face, isEnabled: drives },
  { name: "listen", label: () => "Listen", isOn: (known) => known.listening, isEnabled: isIn },
  {
    name: "speak",
    label: (known) => (known.speaking ? "LIVE: end speaking" : "Speak"),
    isOn: (known) => known.speaking,
    isEnabled: drives,
  },
  {
    name: "look_ahead",
    label: () => "Look straight ahead",
    isOn: (known) => known.headYaw !== 0,
    isEnabled: drives,
  },
  {
    name: "eye_distance",
    label: (known) => (known.eyes === null ? "Eyes as mine" : `Eyes ${(1000 * known.eyes).toFixed(0)} mm`),
    isOn: plain,
    isEnabled: (known) => drives(known) && known.eyes !== null,
  },
  {
    name: "seat",
    label: (known) =>
      isWaiting(known)
        ? "Watch meanwhile"
        : known.phase === "in" && known.welcome?.role === "operator"
          ? "Release the seat"
          : "Take the seat",
    isOn: plain,
    isEnabled: (known) => isIn(known) || isWaiting(known),
  },
  {
    name: "side_cameras",
    label: () => "Side cameras",
    isOn: (known) => known.sideCameras,
    isEnabled: (known) => isIn(known) && (known.welcome?.streams.length ?? 0) > 2,
  },
  { name: "training", label: () => "Training", isOn: plain, isEnabled: () => true },
  { name: "vr", label: (known) => (known.inVr ? "Leave VR" : "Enter VR"), isOn: plain, isEnabled: () => true },
];

export function command(name: CommandName): Command {
  return COMMANDS.find((each) => each.name === name) as Command;
}

/** Between which the eyes of people are apart [m]. */
export const EYES_APART = { least: 0.05, most: 0.075 };

/** What a command does besides speaking to the robot. */
export interface MenuEvents {
  /** Let go of everything that moves an arm, at once and here. */
  letGo(): void;
  face(on: boolean): Promise<boolean>;
  /** Ask for cameras and sound anew. */
  cameras(): void;
  /** Open the microphone; "" or the sentence why not. */
  speak(): Promise<string>;
  /** Close it. */
  hush(): void;
  /** By how much the operator's head is turned to the left of straight ahead [rad]. */
  turned(): number;
  training(): void;
  vr(): void;
}

export class Menu {
  private seq = 0;
  /** What the head's yaw was before it was changed last [rad]. */
  private yawBefore = 0;

  constructor(
    private readonly store: Store,
    private readonly link: Link,
    private readonly events: MenuEvents,
  ) {}

  press(name: CommandName): void {
    const known = this.store.now;
    if (!command(name).isEnabled(known)) return;
    switch (name) {
      case "stop":
        this.stop();
        return;
      case "precision":
        this.button("precision", !command("precision").isOn(known), "Precision was asked for.");
        return;
      case "face_video":
        void this.switchFace(!known.face);
        return;
      case "seat":
        this.events.letGo();
        if (isWaiting(known)) this.link.joinAs("watcher");
        else if (drives(known)) this.say({ type: "release" }, "The seat was released.");
        else this.say({ type: "take" }, "The seat was asked for.");
        return;
      case "side_cameras":
        this.store.change({ sideCameras: !known.sideCameras });
        this.events.cameras();
        return;
      case "listen":
        this.store.change({ listening: !known.listening });
        this.events.cameras();
        return;
      case "speak":
        if (known.speaking) this.hush("Your microphone is off.");
        else void this.speak();
        return;
      case "look_ahead":
        this.lookAhead(known);
        return;
      case "eye_distance":
        this.eyesApart(known.eyes ?? 0);
        return;
      case "training":
        this.events.training();
        return;
      case "vr":
        this.events.vr();
        return;
      default:
        this.button(name, true, `${command(name).label(known)} was asked for.`);
    }
  }

  /** The link is there again: what could not be said is said now, if it was a stop. */
  linkIsBack(): void {
    if (this.store.now.stopWaits) this.stop();
  }

  /** The robot has refused something; what the page believed to be done is not. */
  refused({ sentence }: Refused): void {
    const known = this.store.now;
    if (known.speaking && sentence.includes("'speak'")) this.hush("Your microphone is off: the robot does not take your voice.");
    if (sentence.includes("'head_yaw'")) this.store.change({ headYaw: this.yawBefore });
    if (sentence.includes("'eye_distance'")) this.store.change({ eyesRefused: sentence });
  }

  /** Set the robot's eyes so far apart [m]. */
  eyesApart(distance: number): void {
    const value = Math.min(EYES_APART.most, Math.max(EYES_APART.least, distance));
    this.store.change({ eyesRefused: "" });
    this.adjust("eye_distance", value, `Eyes ${(1000 * value).toFixed(0)} mm apart were asked for.`);
  }

  /** Close the microphone, and say why. */
  hush(sentence: string): void {
    if (!this.store.now.speaking) return;
    this.events.hush();
    this.store.change({ speaking: false });
    this.button("speak", false, sentence);
    this.store.change({ pressed: sentence });
  }

  private async speak(): Promise<void> {
    const why = await this.events.speak();
    if (why || !drives(this.store.now)) {
      this.events.hush();
      const sentence = why || "You do not drive any more, so that nobody hears you.";
      this.store.change({ pressed: sentence, refused: { type: "refused", code: "busy", sentence, at: performance.now() } });
      return;
    }
    this.store.change({ speaking: true });
    if (!this.button("speak", true, "Your microphone is live.")) this.hush("There is no link: your microphone is off.");
  }

  /** What the operator looks at now is straight ahead; pressed again, as it was. */
  private lookAhead(known: Readonly<Known>): void {
    this.turnHead(known.headYaw === 0 ? -this.events.turned() : 0);
  }

  private turnHead(yaw: number): void {
    this.yawBefore = this.store.now.headYaw;
    const sentence = yaw === 0 ? "The head looks where yours does again." : "Where you look now is straight ahead.";
    if (this.adjust("head_yaw", yaw, sentence)) this.store.change({ headYaw: yaw });
  }

  private stop(): void {
    this.events.letGo();
    const said = this.button("stop", true, "STOP was sent to the robot.");
    this.store.change({ stopWaits: !said && this.store.now.phase !== "out" });
    if (!said) this.store.change({ pressed: "STOP cannot reach the robot: there is no link. Use its own emergency stop." });
  }

  private async switchFace(on: boolean): Promise<void> {
    const works = await this.events.face(on);
    if (on && !works) {
      this.store.change({ pressed: "The browser gives no camera for the face video." });
      return;
    }
    this.store.change({ face: on });
    this.button("face_video", on, `Face video is ${on ? "on" : "off"}.`);
  }

  private button(name: ButtonName, value: boolean, sentence: string): boolean {
    this.seq += 1;
    return this.say({ type: "button", seq: this.seq, t: performance.now(), name, value }, sentence);
  }

  private adjust(name: Adjustment, value: number, sentence: string): boolean {
    this.seq += 1;
    return this.say({ type: "adjust", seq: this.seq, t: performance.now(), name, value }, sentence);
  }

  private say(message: ClientMessage, sentence: string): boolean {
    const said = this.link.say(message);
    if (said) this.store.change({ pressed: sentence });
    return said;
  }
}
