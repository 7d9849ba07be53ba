/** What a controller or a bare hand says: grip pose, clutch, trigger, stick. */

import type { Hand, Place, Quaternion, Vector } from "./protocol";

/** A squeeze beyond this is a pressed clutch. */
const PRESSED = 0.5;
/** [m] between thumb and middle finger of a bare hand: below the first the clutch is pressed, above the second open. */
const PINCH = { closed: 0.022, open: 0.04 };
/** [m] between thumb and forefinger: a closed and an open gripper. */
const GRIPPER = { closed: 0.02, open: 0.09 };

export function placeOf(pose: XRPose | undefined): Place | null {
  if (!pose) return null;
  const { position, orientation } = pose.transform;
  return {
    p: [position.x, position.y, position.z],
    q: [orientation.x, orientation.y, orientation.z, orientation.w] as Quaternion,
  };
}

/** How far a button is pressed, 0 to 1. */
export function pressed(source: XRInputSource, button: number): number {
  const found = source.gamepad?.buttons[button];
  return found ? Math.max(found.value, Number(found.pressed)) : 0;
}

/** Sideways and forward of a thumbstick; [0, 0] where there is none. */
export function stick(source: XRInputSource | undefined): [number, number] {
  const axes = source?.gamepad?.axes ?? [];
  return axes.length >= 4 ? [axes[2] ?? 0, axes[3] ?? 0] : [0, 0];
}

/** A hand in the room, or null where it is not tracked. `before`: whether its clutch was pressed. */
export function handOf(source: XRInputSource, frame: XRFrame, room: XRReferenceSpace, before: boolean): Hand | null {
  const place = placeOf(frame.getPose(source.gripSpace ?? source.targetRaySpace, room));
  if (!place) return null;
  if (source.hand) {
    const thumb = joint(source.hand, "thumb-tip", frame, room);
    const middle = joint(source.hand, "middle-finger-tip", frame, room);
    const index = joint(source.hand, "index-finger-tip", frame, room);
    return {
      ...place,
      clutch: isPinched(distance(thumb, middle), before),
      trigger: closing(distance(thumb, index)),
    };
  }
  return { ...place, clutch: pressed(source, 1) > PRESSED, trigger: pressed(source, 0) };
}

function joint(hand: XRHand, name: XRHandJoint, frame: XRFrame, room: XRReferenceSpace): Vector | null {
  const space = hand.get(name);
  const pose = space && frame.getJointPose?.(space, room);
  return placeOf(pose ?? undefined)?.p ?? null;
}

function distance(a: Vector | null, b: Vector | null): number {
  return a && b ? Math.hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]) : Infinity;
}

export function isPinched(gap: number, before: boolean): boolean {
  return gap < (before ? PINCH.open : PINCH.closed);
}

export function closing(gap: number): number {
  return Math.max(0, Math.min(1, (GRIPPER.open - gap) / (GRIPPER.open - GRIPPER.closed)));
}
