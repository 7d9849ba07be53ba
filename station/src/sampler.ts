/** Says what the operator's devices do, at most 120 times a second, and nothing that would have to wait. */

import type { Link } from "./link";
import { type Devices, sampleText } from "./protocol";
import type { Video } from "./video";

/** [ms] between two samples; a little less than a 120th of a second, so that a display of 120 Hz leaves none out. */
const PERIOD = 1000 / 125;

export class Sampler {
  private seq = 0;
  private due = 0;

  constructor(
    private readonly link: Link,
    private readonly video: Video,
  ) {}

  /** `isDriving`: whether the robot takes samples of this page. */
  send(devices: Devices, isDriving: boolean): void {
    const now = performance.now();
    if (!isDriving || now < this.due || !this.link.isFree) return;
    this.due = Math.max(this.due + PERIOD, now);
    this.seq += 1;
    const text = sampleText(this.seq, now, devices);
    if (this.video.isOpen) this.video.sendSample(text);
    else this.link.say(text);
  }
}
