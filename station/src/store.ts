/** What the page knows, in one place: whoever shows something reads it here, and is told when it changes. */

import type { RefusalCode, Refused, Status, Texture, Welcome } from "./protocol";

/** Of the link: out (nobody wants to be in), under way, in, or waiting for the next attempt. */
export type Phase = "out" | "connecting" | "greeting" | "in" | "waiting";

export interface Known {
  phase: Phase;
  /** What the link does, in one sentence. */
  linkSentence: string;
  /** Of the refusal because of which the page is not in; null: there was none. */
  linkCode: RefusalCode | null;
  welcome: Welcome | null;
  status: Status | null;
  /** For how long the robot has said nothing [ms]. */
  silence: number;
  /** Name of who drives; null: nobody. */
  operator: string | null;
  refused: (Refused & { at: number }) | null;
  texture: Texture | null;
  /** By this page's own pings [ms]. */
  rtt: number | null;
  /** Names of the cameras whose pictures come. */
  pictures: string[];
  /** Whether samples go by the data channel. */
  fast: boolean;
  inVr: boolean;
  face: boolean;
  sideCameras: boolean;
  /** Whether the robot's sound is asked for. */
  listening: boolean;
  /** Whether the operator's microphone is live. */
  speaking: boolean;
  /** To which the robot's head is turned left while the operator looks straight ahead, as this page has set it [rad]. */
  headYaw: number;
  /** Why the distance of the robot's eyes was not set; "": nobody has refused. */
  eyesRefused: string;
  /** Distance of the eyes that a headset has told [m]. */
  eyes: number | null;
  /** A stop that was pressed while there was no link; it is said first of all when there is one. */
  stopWaits: boolean;
  /** What was last pressed and where it went, in one sentence. */
  pressed: string;
}

type Listener = (known: Readonly<Known>) => void;

export class Store {
  private listeners: Listener[] = [];
  private known: Known = {
    phase: "out",
    linkSentence: "",
    linkCode: null,
    welcome: null,
    status: null,
    silence: 0,
    operator: null,
    refused: null,
    texture: null,
    rtt: null,
    pictures: [],
    fast: false,
    inVr: false,
    face: false,
    sideCameras: true,
    listening: false,
    speaking: false,
    headYaw: 0,
    eyesRefused: "",
    eyes: null,
    stopWaits: false,
    pressed: "",
  };

  get now(): Readonly<Known> {
    return this.known;
  }

  change(part: Partial<Known>): void {
    this.known = { ...this.known, ...part };
    for (const listener of this.listeners) listener(this.known);
  }

  onChange(listener: Listener): void {
    this.listeners.push(listener);
  }
}

export const drives = (known: Readonly<Known>): boolean => known.phase === "in" && known.welcome?.role === "operator";
