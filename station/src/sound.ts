/** What the robot hears, played here, and the operator's own microphone, which is open only while it is live. */

/** [dB of full scale] at the lower end of a meter, and below which nothing is heard. */
const FLOOR_DB = -60;
const SILENCE_DB = -75;
/** [ms] of silence after which the operator is told of it. */
const SILENT = 3000;

/** How loud a stream is. */
class Meter {
  private readonly analyser: AnalyserNode;
  private readonly source: MediaStreamAudioSourceNode;
  private readonly samples: Float32Array<ArrayBuffer>;

  constructor(audio: AudioContext, stream: MediaStream) {
    this.analyser = audio.createAnalyser();
    this.analyser.fftSize = 2048;
    this.samples = new Float32Array(this.analyser.fftSize);
    this.source = audio.createMediaStreamSource(stream);
    this.source.connect(this.analyser); // and to nothing else: who plays it is another matter
  }

  /** RMS [dB of full scale]. */
  get level(): number {
    this.analyser.getFloatTimeDomainData(this.samples);
    const power = this.samples.reduce((sum, value) => sum + value * value, 0) / this.samples.length;
    return power > 0 ? 10 * Math.log10(power) : -Infinity;
  }

  end(): void {
    this.source.disconnect();
  }
}

/** Of a meter on the page, 0 to 1. */
const shown = (level: number): number => Math.max(0, Math.min(1, 1 - level / FLOOR_DB));

let context: AudioContext | null = null;

/** The browser's sound; null: it has none. Sound needs a hand's leave once: call it from a press. */
function audio(): AudioContext | null {
  try {
    context ??= new AudioContext();
    void context.resume();
  } catch {
    context = null;
  }
  return context;
}

/** The robot's sound. */
export class Ear {
  private readonly element = new Audio();
  private meter: Meter | null = null;
  private heardAt = 0;

  /** `held`: the browser does not let it play yet. */
  constructor(private readonly held: () => void) {
    this.element.autoplay = true;
  }

  /** Play a track; null: nothing. */
  use(track: MediaStreamTrack | null): void {
    this.meter?.end();
    this.meter = null;
    this.heardAt = performance.now();
    const stream = track && new MediaStream([track]);
    this.element.srcObject = stream;
    if (!stream) return;
    this.element.play().catch((error: unknown) => (error as Error).name === "NotAllowedError" && this.held());
    const sound = audio();
    if (sound) this.meter = new Meter(sound, stream);
  }

  /** 0 to 1. */
  set volume(value: number) {
    this.element.volume = value;
  }

  /** How loud it is, 0 to 1. */
  get level(): number {
    const level = this.meter?.level ?? -Infinity;
    if (level > SILENCE_DB) this.heardAt = performance.now();
    return shown(level);
  }

  /** Whether nothing has been heard for a while. */
  get isSilent(): boolean {
    return performance.now() - this.heardAt > SILENT;
  }
}

/** The operator's microphone. The browser asks for leave when it is opened, and not before. */
export class Mouth {
  private stream: MediaStream | null = null;
  private meter: Meter | null = null;

  /** `ended`: the microphone is gone without anybody's wish. */
  constructor(private readonly ended: () => void) {}

  get track(): MediaStreamTrack | null {
    return this.stream?.getAudioTracks()[0] ?? null;
  }

  /** Open it; "" or the sentence why not. */
  async open(): Promise<string> {
    this.close();
    const wanted = { audio: { echoCancellation: true, noiseSuppression: true, autoGainControl: true } };
    if (!navigator.mediaDevices) return "The browser gives a microphone only to pages from this machine or by https.";
    try {
      this.stream = await navigator.mediaDevices.getUserMedia(wanted);
    } catch (error) {
      return whyNot((error as Error).name);
    }
    const { track } = this;
    if (track) track.onended = () => this.ended();
    const sound = audio();
    if (sound) this.meter = new Meter(sound, this.stream);
    return "";
  }

  close(): void {
    for (const track of this.stream?.getTracks() ?? []) {
      track.onended = null;
      track.stop();
    }
    this.meter?.end();
    this.stream = this.meter = null;
  }

  /** How loud it is, 0 to 1. */
  get level(): number {
    return this.meter ? shown(this.meter.level) : 0;
  }
}

function whyNot(name: string): string {
  switch (name) {
    case "NotAllowedError":
      return "The microphone was not allowed: give this page leave in the browser's settings, and press Speak again.";
    case "NotFoundError":
      return "The browser finds no microphone: plug one in, and press Speak again.";
    case "NotReadableError":
      return "Another program holds the microphone: close it, and press Speak again.";
    default:
      return `The browser gives no microphone (${name}).`;
  }
}
