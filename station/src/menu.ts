/** The commands of the menu, the same on the desktop, in the headset, by key and by gamepad. */

import type { Link } from "./link";
import type { ButtonName, ClientMessage } from "./protocol";
import { drives, type Known, type Store } from "./store";

export type CommandName = ButtonName | "seat" | "side_cameras" | "training" | "vr";

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

/** What a command does besides speaking to the robot. */
export interface MenuEvents {
  /** Let go of everything that moves an arm, at once and here. */
  letGo(): void;
  face(on: boolean): Promise<boolean>;
  cameras(): void;
  training(): void;
  vr(): void;
}

export class Menu {
  private seq = 0;

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

  private say(message: ClientMessage, sentence: string): boolean {
    const said = this.link.say(message);
    if (said) this.store.change({ pressed: sentence });
    return said;
  }
}
