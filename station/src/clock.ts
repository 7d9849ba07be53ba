/** Pings five times a second: without them the robot does not know how old a sample is, and takes none. */

import type { ClientMessage } from "./protocol";

export const PING_PERIOD_MS = 200;
/** Round trips that are remembered: those of five seconds. */
const REMEMBERED = 25;

export class Clock {
  private id = 0;
  private asked = new Map<number, number>();
  private trips: number[] = [];

  reset(): void {
    this.asked.clear();
    this.trips = [];
  }

  ping(): ClientMessage {
    const t = performance.now();
    this.id += 1;
    this.asked.set(this.id, t);
    if (this.asked.size > REMEMBERED) this.asked.delete(this.asked.keys().next().value as number);
    return { type: "ping", id: this.id, t };
  }

  pong(id: number): void {
    const t = this.asked.get(id);
    if (t === undefined) return;
    this.asked.delete(id);
    this.trips = [...this.trips.slice(1 - REMEMBERED), performance.now() - t];
  }

  /** Median of the last round trips [ms]. */
  get rtt(): number | null {
    const sorted = [...this.trips].sort((a, b) => a - b);
    return sorted[Math.floor(sorted.length / 2)] ?? null;
  }
}
