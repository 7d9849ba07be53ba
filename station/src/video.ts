/**
 * The robot's cameras by WebRTC, the channel of the samples, and the operator's own camera.
 *
 * Each offer has one line for each camera and asks for VP8 alone, because a description of every codec of a browser would be
 * longer than a message may be. A new offer replaces the connection before it.
 */

import { type ClientMessage, MAX_BYTES } from "./protocol";

/** [ms] for a browser to list its addresses, for the robot's answer, and before a connection that failed is made anew. */
const GATHERING = 600;
const ANSWER_LIMIT = 8000;
const AGAIN = 2000;

export interface VideoEvents {
  say(message: ClientMessage): boolean;
  /** The elements whose pictures come, by the camera's name. */
  pictures(names: string[]): void;
  channel(open: boolean): void;
}

export class Video {
  /** One element for each camera, whether pictures come or not. */
  readonly elements = new Map<string, HTMLVideoElement>();
  private connection: RTCPeerConnection | null = null;
  private channel: RTCDataChannel | null = null;
  private streams: string[] = [];
  private face: MediaStream | null = null;
  private timer = 0;
  private seen = "";

  constructor(private readonly events: VideoEvents) {
    setInterval(() => this.look(), 250);
  }

  /** Ask for these cameras, in the robot's order, and show it a face if there is one. */
  begin(streams: string[], face: MediaStream | null): void {
    this.streams = streams;
    this.face = face;
    void this.connect();
  }

  end(): void {
    clearTimeout(this.timer);
    this.connection?.close();
    this.connection = this.channel = null;
    for (const element of this.elements.values()) element.srcObject = null;
    this.events.channel(false);
  }

  answer(sdp: string): void {
    clearTimeout(this.timer);
    this.connection?.setRemoteDescription({ type: "answer", sdp }).catch(() => this.again());
  }

  /** Whether a sample can go by the channel now; one that would wait is left out. */
  get isOpen(): boolean {
    return this.channel?.readyState === "open";
  }

  sendSample(text: string): void {
    if (this.channel && this.channel.bufferedAmount === 0) this.channel.send(text);
  }

  private async connect(): Promise<void> {
    this.end();
    if (typeof RTCPeerConnection === "undefined") return;
    for (let count = this.streams.length; count >= 0; count -= 1) {
      const connection = this.made(this.streams.slice(0, count));
      try {
        await connection.setLocalDescription();
        await gathered(connection);
      } catch {
        connection.close();
        return;
      }
      if (connection !== this.connection) return;
      const offer: ClientMessage = { type: "offer", sdp: connection.localDescription?.sdp ?? "" };
      if (JSON.stringify(offer).length < MAX_BYTES) {
        this.events.say(offer);
        this.timer = setTimeout(() => this.again(), ANSWER_LIMIT);
        return;
      }
      connection.close(); // with one camera less it may fit into a message
    }
  }

  private made(streams: string[]): RTCPeerConnection {
    const connection = (this.connection = new RTCPeerConnection({ iceServers: [], bundlePolicy: "max-bundle" }));
    const channel = (this.channel = connection.createDataChannel("samples", { ordered: false, maxRetransmits: 0 }));
    channel.onopen = channel.onclose = () => channel === this.channel && this.events.channel(this.isOpen);
    for (const _ of streams) vp8(connection.addTransceiver("video", { direction: "recvonly" }));
    for (const track of this.face?.getVideoTracks() ?? []) {
      vp8(connection.addTransceiver(track, { direction: "sendonly" }));
    }
    connection.ontrack = (event) => this.show(event.streams[0]?.id ?? "", event.track);
    connection.onconnectionstatechange = () => {
      if (connection === this.connection && connection.connectionState === "failed") this.again();
    };
    return connection;
  }

  private again(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.connect(), AGAIN);
  }

  private show(name: string, track: MediaStreamTrack): void {
    const element = this.elements.get(name) ?? document.createElement("video");
    element.muted = element.autoplay = element.playsInline = true;
    element.setAttribute("aria-label", `camera ${name.replaceAll("_", " ")}`);
    element.srcObject = new MediaStream([track]);
    element.play().catch(() => undefined); // begins by itself as soon as a picture is there
    this.elements.set(name, element);
  }

  /** Tell which cameras show something, when that has changed. */
  private look(): void {
    const names = [...this.elements].filter(([, e]) => e.srcObject && e.videoWidth > 0).map(([name]) => name);
    const order = (name: string): number => this.streams.indexOf(name);
    names.sort((a, b) => order(a) - order(b));
    if (names.join() !== this.seen) {
      this.seen = names.join();
      this.events.pictures(names);
    }
  }
}

/** The cameras for the two eyes; of one camera alone, or of none that says which eye it is, both see the first. */
export function eyesOf(pictures: string[]): { left: string | undefined; right: string | undefined } {
  const left = pictures.find((name) => name.includes("left_eye"));
  const right = pictures.find((name) => name.includes("right_eye"));
  return { left: left ?? right ?? pictures[0], right: right ?? left ?? pictures[0] };
}

function vp8(line: RTCRtpTransceiver): void {
  const codecs = RTCRtpReceiver.getCapabilities("video")?.codecs.filter((codec) => codec.mimeType === "video/VP8");
  if (codecs?.length) line.setCodecPreferences(codecs);
}

function gathered(connection: RTCPeerConnection): Promise<void> {
  return new Promise((done) => {
    const look = (): void => {
      if (connection.iceGatheringState === "complete") done();
    };
    connection.addEventListener("icegatheringstatechange", look);
    setTimeout(done, GATHERING);
    look();
  });
}
