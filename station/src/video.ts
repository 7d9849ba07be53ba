/**
 * The robot's cameras and its sound by WebRTC, the channel of the samples, and the operator's own camera and voice.
 *
 * Each offer has one line for each camera and asks for VP8 alone, and for Opus alone, because a description of every codec of a
 * browser would be longer than a message may be. A new offer replaces the connection before it. The voice's line is there as long as
 * somebody drives, and says nothing until it is given a microphone: so to speak needs no new connection.
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
  /** The robot's sound; null: there is none. */
  sound(track: MediaStreamTrack | null): void;
}

/** What is asked for. */
export interface Wanted {
  /** In the robot's order. */
  streams: string[];
  sound: boolean;
  /** The operator's own camera. */
  face: MediaStream | null;
  /** Whether there is a line for a voice. */
  voice: boolean;
}

export class Video {
  /** One element for each camera, whether pictures come or not. */
  readonly elements = new Map<string, HTMLVideoElement>();
  private connection: RTCPeerConnection | null = null;
  private channel: RTCDataChannel | null = null;
  private wanted: Wanted = { streams: [], sound: false, face: null, voice: false };
  private voice: MediaStreamTrack | null = null;
  private voiceSender: RTCRtpSender | null = null;
  private timer = 0;
  private seen = "";

  constructor(private readonly events: VideoEvents) {
    setInterval(() => this.look(), 250);
  }

  begin(wanted: Wanted): void {
    this.wanted = wanted;
    void this.connect();
  }

  /** Whether there is a line for a voice now. */
  get canSpeak(): boolean {
    return this.voiceSender !== null;
  }

  /** Say what a microphone hears; null: nothing. */
  speak(voice: MediaStreamTrack | null): void {
    this.voice = voice;
    this.voiceSender?.replaceTrack(voice).catch(() => this.again());
  }

  end(): void {
    clearTimeout(this.timer);
    this.connection?.close();
    this.connection = this.channel = null;
    this.voiceSender = null;
    this.events.sound(null);
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
    const { streams } = this.wanted;
    for (let count = streams.length; count >= 0; count -= 1) {
      const connection = this.made(streams.slice(0, count));
      try {
        const offer = await connection.createOffer();
        await connection.setLocalDescription({ type: "offer", sdp: stereo(offer.sdp ?? "") });
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
    for (const _ of streams) only("video/VP8", connection.addTransceiver("video", { direction: "recvonly" }));
    for (const track of this.wanted.face?.getVideoTracks() ?? []) {
      only("video/VP8", connection.addTransceiver(track, { direction: "sendonly" }));
    }
    if (this.wanted.sound) only("audio/opus", connection.addTransceiver("audio", { direction: "recvonly" }));
    if (this.wanted.voice) this.addVoice(connection);
    connection.ontrack = ({ track, streams: [stream] }) => {
      if (track.kind === "audio") this.events.sound(track);
      else this.show(stream?.id ?? "", track);
    };
    connection.onconnectionstatechange = () => {
      if (connection === this.connection && connection.connectionState === "failed") this.again();
    };
    return connection;
  }

  private addVoice(connection: RTCPeerConnection): void {
    const line = connection.addTransceiver("audio", { direction: "sendonly" });
    only("audio/opus", line);
    this.voiceSender = line.sender;
    if (this.voice) this.speak(this.voice);
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
    const order = (name: string): number => this.wanted.streams.indexOf(name);
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

/** Describe one codec of a line and no other. */
function only(mimeType: string, line: RTCRtpTransceiver): void {
  const kind = mimeType.split("/")[0] as string;
  const codecs = RTCRtpReceiver.getCapabilities(kind)?.codecs.filter((codec) => codec.mimeType === mimeType);
  if (codecs?.length) line.setCodecPreferences(codecs);
}

/** Ask for both channels of Opus, of which a browser plays one otherwise (RFC 7587, section 6.1). */
function stereo(sdp: string): string {
  return sdp.replace(/^a=fmtp:\d+ .*useinbandfec=1.*$/gm, "$&;stereo=1");
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
