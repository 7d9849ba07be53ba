/** Version 1 of the protocol of the link, as a client sees it: docs/telepresence_protocol.md. */

export const VERSION = 1;
/** Bytes of one message to the robot. */
export const MAX_BYTES = 16384;

export type Role = "operator" | "watcher";
export type Side = "right" | "left";
/** In the order of every list of two that the robot sends. */
export const SIDES: readonly Side[] = ["right", "left"];

export type Vector = [number, number, number];
export type Quaternion = [number, number, number, number];

/** Position [m] and unit quaternion x, y, z, w. */
export interface Place {
  p: Vector;
  q: Quaternion;
}

export interface Hand extends Place {
  clutch: boolean;
  /** 0: open, 1: closed. */
  trigger: number;
}

/** What the operator's devices say at one moment, in OpenXR's axes: x right, y up, z backward. */
export interface Devices {
  head: Place | null;
  right: Hand | null;
  left: Hand | null;
  /** Forward, left, anticlockwise, each -1 to 1. */
  stick: Vector;
}

export type ButtonName = "stop" | "resume" | "home" | "narrow" | "precision" | "reset_fault" | "texture_scan" | "face_video" | "speak";
/** What may be set to a number: yaw of the robot's head while the operator looks straight ahead [rad]; distance of its eyes [m]. */
export type Adjustment = "head_yaw" | "eye_distance";

export type ClientMessage =
  | { type: "hello"; version: number; token: string; nonce: string; name: string; role: Role; axes: "openxr" }
  | ({ type: "sample"; seq: number; t: number; glove: null } & Devices)
  | { type: "button"; seq: number; t: number; name: ButtonName; value: boolean }
  | { type: "adjust"; seq: number; t: number; name: Adjustment; value: number }
  | { type: "ping" | "pong"; id: number; t: number }
  | { type: "take" | "release" }
  | { type: "offer"; sdp: string };

export interface Welcome {
  type: "welcome";
  version: number;
  session: string;
  role: Role;
  robot: string;
  title: string;
  streams: string[];
  limits: { base: number[]; leash: number; stale_ms: number; hold_ms: number };
}

export type RefusalCode = "version" | "token" | "replay" | "occupied" | "schema" | "rate" | "busy";

export interface Refused {
  type: "refused";
  code: RefusalCode;
  sentence: string;
}

export type SessionState = "disconnected" | "handshake" | "idle" | "teleop" | "hold" | "fault" | "recovering";

export interface LinkNumbers {
  rtt_ms: number | null;
  loss: number | null;
  jitter_ms: number | null;
  age_ms: number | null;
  bandwidth_kbit: Record<string, number>;
}

export interface Status {
  type: "status";
  t: number;
  state: SessionState;
  code: number;
  message: string;
  session: string;
  clutched: boolean[];
  arm_mode: string[];
  arm_message: string[];
  effectors: Place[];
  targets: Place[];
  force: (number | null)[];
  cue: (number | null)[];
  precision: number | null;
  base_velocity: (number | null)[];
  supervisor: { state: string; code: number; message: string };
  link: LinkNumbers;
  joints: { names: string[]; positions: number[] };
}

export interface Texture {
  type: "texture";
  roughness_mm: number;
  frequency_hz: number;
  sound: number[] | null;
}

export type RobotMessage =
  | Welcome
  | Refused
  | Status
  | Texture
  | { type: "ping" | "pong"; id: number; t: number }
  | { type: "answer"; sdp: string }
  | { type: "operator"; name: string | null };

const KINDS = new Set(["welcome", "refused", "status", "ping", "pong", "answer", "operator", "texture"]);

/** A robot's message; null: it is none that this page knows. The robot is trusted to keep its own schema. */
export function parse(text: unknown): RobotMessage | null {
  if (typeof text !== "string") return null;
  try {
    const message = JSON.parse(text) as { type?: unknown } | null;
    return message && KINDS.has(String(message.type)) ? (message as RobotMessage) : null;
  } catch {
    return null;
  }
}

/** Sixteen hexadecimal digits that nobody has used before. */
export function freshNonce(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(8));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

const rounded = (value: number): number => Math.round(value * 1e6) / 1e6;
const clamped = (value: number, low: number, high: number): number => Math.min(high, Math.max(low, value || 0));

function place(of: Place): Place {
  return { p: of.p.map(rounded) as Vector, q: of.q.map(rounded) as Quaternion };
}

function hand(of: Hand | null): Hand | null {
  return of && { ...place(of), clutch: of.clutch, trigger: rounded(clamped(of.trigger, 0, 1)) };
}

/** A sample as text; numbers to a micrometre, and within their ranges. */
export function sampleText(seq: number, t: number, devices: Devices): string {
  const { head, right, left, stick } = devices;
  return JSON.stringify({
    type: "sample",
    seq,
    t,
    head: head && place(head),
    right: hand(right),
    left: hand(left),
    stick: stick.map((value) => rounded(clamped(value, -1, 1))),
    glove: null,
  });
}
