/**
 * The WebSocket to the robot: joining, and joining again after a loss without anybody's help.
 *
 * A connection that fails or falls silent is given up and made anew, each time with a fresh nonce, at most one second after
 * the last attempt. An attempt that hangs is given up too, because a packet that asks for a connection is repeated only
 * after ever longer pauses. What the robot refuses for good (token, version) is not asked again.
 */

import { Clock, PING_PERIOD_MS } from "./clock";
import {
  type ClientMessage,
  freshNonce,
  parse,
  type RefusalCode,
  type Refused,
  type RobotMessage,
  type Role,
  VERSION,
} from "./protocol";
import type { Phase } from "./store";

/** [ms] for a connection; for the answer to a hello, which the robot may hold back for 2 s; without any word. */
const CONNECT_LIMIT = 2000;
const ANSWER_LIMIT = 4000;
const SILENCE_LIMIT = 2000;
/** [ms] before the next attempt, by the number of those that failed. */
const PAUSES = [100, 300, 600, 1000];
/** [ms] before asking again for a seat that is occupied, or a door that is crowded. */
const OCCUPIED_PAUSE = 1500;
/** Beats after a refusal within which the robot ends a connection because of it. */
const REFUSAL_BEATS = 5;
/** Times in a row that a robot may find this page's words senseless. */
const MOST_MISTAKES = 3;

export interface Who {
  name: string;
  token: string;
  role: Role;
}

export interface LinkEvents {
  /** `code`: of the refusal because of which the page is not in; null: there was none. */
  phase(phase: Phase, sentence: string, code: RefusalCode | null): void;
  /** Everything that the robot says, pings and pongs left out. */
  said(message: RobotMessage): void;
}

export class Link {
  readonly clock = new Clock();
  private socket: WebSocket | null = null;
  private who: Who | null = null;
  private isIn = false;
  private attempts = 0;
  private mistakes = 0;
  /** What was refused last, while it may still be why the connection ends; and why the page was not let in last. */
  private refusal: Refused | null = null;
  private refusalBeats = 0;
  private code: RefusalCode | null = null;
  private quietBeats = 0;
  private limit = 0;
  private retry = 0;

  constructor(
    private readonly url: string,
    private readonly events: LinkEvents,
  ) {
    setInterval(() => this.beat(), PING_PERIOD_MS);
    // A network that is back is tried at once.
    addEventListener("online", () => this.retry && this.connect());
  }

  /** Ask to be let in, and keep asking after every loss. */
  join(who: Who): void {
    this.who = who;
    this.attempts = this.mistakes = 0;
    this.code = null;
    this.connect();
  }

  /** Be out, and stay out. */
  leave(sentence = "You have left."): void {
    this.who = null;
    this.drop();
    this.events.phase("out", sentence, null);
  }

  /** Ask to be let in as something else than before. */
  joinAs(role: Role): void {
    if (this.who) this.join({ ...this.who, role });
  }

  /** Whether nothing waits to be sent: what waits would only be late. */
  get isFree(): boolean {
    return this.isIn && this.socket?.bufferedAmount === 0;
  }

  /** [ms] without a word, counted in beats: a browser that was busy itself has not heard what waits to be read. */
  get silence(): number {
    return this.quietBeats * PING_PERIOD_MS;
  }

  /** Say something to a robot that has let this page in; false: there is none. */
  say(message: ClientMessage | string): boolean {
    if (!this.isIn || this.socket?.readyState !== WebSocket.OPEN) return false;
    this.socket.send(typeof message === "string" ? message : JSON.stringify(message));
    return true;
  }

  private connect(): void {
    this.drop();
    const socket = (this.socket = new WebSocket(this.url));
    this.refusal = null;
    this.events.phase("connecting", "Connecting to the robot.", this.code);
    this.limitTo(CONNECT_LIMIT, "The robot cannot be reached.");
    socket.onopen = () => {
      const { name, token, role } = this.who as Who;
      this.limitTo(ANSWER_LIMIT, "The robot does not answer.");
      this.events.phase("greeting", "Connected; waiting to be let in.", this.code);
      socket.send(
        JSON.stringify({ type: "hello", version: VERSION, token, nonce: freshNonce(), name, role, axes: "openxr" }),
      );
    };
    socket.onmessage = (event) => this.hear(parse(event.data));
    socket.onclose = () => this.lost("The connection to the robot was lost.");
  }

  /** Forget the connection; nothing that it still says is heard. */
  private drop(): void {
    clearTimeout(this.limit);
    clearTimeout(this.retry);
    this.retry = 0;
    this.isIn = false;
    const socket = this.socket;
    this.socket = null;
    if (!socket) return;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close();
  }

  private limitTo(ms: number, sentence: string): void {
    clearTimeout(this.limit);
    this.limit = setTimeout(() => this.lost(sentence), ms);
  }

  private hear(message: RobotMessage | null): void {
    if (!message) return;
    this.quietBeats = 0;
    switch (message.type) {
      case "ping":
        this.socket?.send(JSON.stringify({ type: "pong", id: message.id, t: performance.now() }));
        return;
      case "pong":
        this.clock.pong(message.id);
        return;
      case "welcome":
        clearTimeout(this.limit);
        this.isIn = true;
        this.quietBeats = 0;
        this.attempts = this.mistakes = 0;
        this.refusal = this.code = null;
        this.clock.reset();
        if (this.who) this.who = { ...this.who, role: message.role }; // in which to come back after a loss
        this.events.phase("in", "Connected.", null);
        this.socket?.send(JSON.stringify(this.clock.ping()));
        break;
      case "refused":
        this.refusal = message;
        this.refusalBeats = REFUSAL_BEATS;
        break;
    }
    this.events.said(message);
  }

  private beat(): void {
    if (!this.isIn) return;
    this.quietBeats += 1;
    this.refusalBeats -= 1;
    if (this.refusalBeats < 0) this.refusal = null; // a button was refused, and the connection went on
    if (this.silence > SILENCE_LIMIT) this.lost("The robot has fallen silent.");
    else if (this.isFree) this.say(this.clock.ping());
  }

  /** A connection ended: what next depends on whether the robot gave a reason. */
  private lost(sentence: string): void {
    const { refusal } = this;
    this.drop();
    if (!this.who) return;
    this.attempts += 1;
    this.code = refusal?.code ?? null;
    if (refusal) sentence = refusal.sentence;
    switch (refusal?.code) {
      case "token":
      case "version":
        this.who = null;
        this.events.phase("out", sentence, this.code);
        return;
      case "schema":
      case "rate":
      case "replay":
        this.mistakes += 1;
        if (this.mistakes > MOST_MISTAKES) {
          this.who = null;
          this.events.phase("out", `${sentence} The page has stopped trying; reload it.`, this.code);
          return;
        }
        break;
    }
    const isCrowded = refusal?.code === "occupied" || refusal?.code === "busy";
    const pause = isCrowded ? OCCUPIED_PAUSE : (PAUSES[Math.min(this.attempts, PAUSES.length) - 1] as number);
    this.retry = setTimeout(() => this.connect(), pause);
    this.events.phase("waiting", `${sentence} The page keeps trying by itself.`, this.code);
  }
}
