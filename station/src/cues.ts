/** What the operator feels and hears of a force or a surface: vibration, a frame that reddens, a sound. */

import { SIDES, type Side, type Status, type Texture } from "./protocol";

/** Shakes a hand: 0 to 1, for so long [ms]. */
export type Pulse = (side: Side, strength: number, ms: number) => void;

/** A cue as long as there is until the next status, and a little more, so that a strong force is felt without gaps. */
const PULSE_MS = 70;
/** Below this a cue is none. */
const LEAST = 0.02;
/** Of a texture: how long it is felt and heard [s], and roughness that is felt at full strength [mm]. */
const TEXTURE_S = 1.5;
const ROUGHEST_MM = 1.0;
/** Of a sound that says none of its own [samples/s]. */
const SAMPLE_RATE = 8000;

/** The strongest cue of a status, 0 to 1. */
export function strongest(status: Status | null): number {
  return Math.max(0, ...(status?.cue ?? []).map((value) => value ?? 0));
}

export class Cues {
  private audio: AudioContext | null = null;

  constructor(
    private readonly frame: HTMLElement,
    private readonly pulse: Pulse,
  ) {}

  /** Sound needs a hand's leave once: call it from a press. */
  wake(): void {
    try {
      this.audio ??= new AudioContext();
      void this.audio.resume();
    } catch {
      this.audio = null; // no sound here, and no harm
    }
  }

  show(status: Status): void {
    this.frame.style.opacity = String(Math.min(1, strongest(status)));
    status.cue.forEach((value, i) => {
      const side = SIDES[i];
      if (side && value !== null && value > LEAST) this.pulse(side, Math.min(1, value), PULSE_MS);
    });
  }

  /** The link is lost: nothing is felt of a robot that is not heard. */
  clear(): void {
    this.frame.style.opacity = "0";
  }

  texture(texture: Texture): void {
    const strength = Math.min(1, texture.roughness_mm / ROUGHEST_MM);
    for (const side of SIDES) this.pulse(side, strength, 1000 * TEXTURE_S);
    const { audio } = this;
    if (!audio) return;
    const source = audio.createBufferSource();
    source.buffer = texture.sound?.length ? recorded(audio, texture.sound) : made(audio, texture, strength);
    source.connect(audio.destination);
    source.start();
  }
}

function recorded(audio: AudioContext, sound: number[]): AudioBuffer {
  const buffer = audio.createBuffer(1, sound.length, SAMPLE_RATE);
  buffer.copyToChannel(Float32Array.from(sound), 0);
  return buffer;
}

/** A rubbing sound: noise in bursts of the surface's own frequency, louder the rougher it is. */
function made(audio: AudioContext, texture: Texture, strength: number): AudioBuffer {
  const count = Math.round(TEXTURE_S * audio.sampleRate);
  const buffer = audio.createBuffer(1, count, audio.sampleRate);
  const data = buffer.getChannelData(0);
  const volume = 0.1 + 0.5 * strength;
  for (let i = 0; i < count; i += 1) {
    const t = i / audio.sampleRate;
    const burst = 0.5 - 0.5 * Math.cos(2 * Math.PI * texture.frequency_hz * t);
    const fade = Math.min(1, 20 * t, 20 * (TEXTURE_S - t));
    data[i] = volume * fade * burst * (2 * Math.random() - 1);
  }
  return buffer;
}

/** By the motors of a gamepad, which has no sides: the left one is the strong one. */
export const padPulse: Pulse = (side, strength, ms) => {
  for (const pad of navigator.getGamepads?.() ?? []) {
    const magnitudes =
      side === "left" ? { strongMagnitude: strength, weakMagnitude: 0 } : { strongMagnitude: 0, weakMagnitude: strength };
    pad?.vibrationActuator?.playEffect("dual-rumble", { duration: ms, ...magnitudes }).catch(() => undefined);
  }
};
