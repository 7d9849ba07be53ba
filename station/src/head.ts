/** Which way the operator looks, beside where he looked when the robot's head was centred. */

import type { Devices } from "./protocol";

/** Yaw of the head [rad], to the left. */
export function yawOf(devices: Devices): number {
  const [x, y, z, w] = devices.head?.q ?? [0, 0, 0, 1];
  return Math.atan2(2 * (x * z + w * y), 1 - 2 * (x * x + y * y));
}

/** An angle within half a turn [rad]. */
const wrapped = (angle: number): number => Math.atan2(Math.sin(angle), Math.cos(angle));

export class HeadCentre {
  private session = "";
  private centre = 0;
  private yaw = 0;

  /** A sample is said: the robot takes the first of a session with a head in it for straight ahead, as teleop does. */
  say(devices: Devices, session: string): void {
    if (!devices.head) return;
    this.yaw = yawOf(devices);
    if (session === this.session) return;
    this.session = session;
    this.centre = this.yaw;
  }

  /** By how much the operator's head is turned to the left of it now [rad]. */
  get turned(): number {
    return wrapped(this.yaw - this.centre);
  }
}
