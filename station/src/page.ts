/** The page on the desktop: writes what is known into the document, and hands presses on. */

import { HELP } from "./bindings";
import type { Choice } from "./bindings";
import { linkLine, type Notice } from "./halts";
import { COMMANDS, type CommandName, EYES_APART } from "./menu";
import { type Role, SIDES, type Side } from "./protocol";
import type { Ear } from "./sound";
import { drives, type Known } from "./store";
import { element } from "./training_page";

export interface PageEvents {
  press(name: CommandName | Choice): void;
  join(name: string, token: string, role: Role): void;
  leave(): void;
  clutch(): void;
  again(): void;
  /** Of the robot's sound here, 0 to 1. */
  volume(volume: number): void;
  /** [m], of the robot's eyes. */
  eyesApart(distance: number): void;
}

/** Name under which the browser keeps who somebody said to be, and for this tab alone the token. */
const NAME = "refit-name";
const TOKEN = "refit-token";

export function find<Kind extends HTMLElement = HTMLElement>(id: string): Kind {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no element '${id}'`);
  return found as Kind;
}

export class Page {
  readonly name = find<HTMLInputElement>("name");
  private readonly token = find<HTMLInputElement>("token");
  private readonly buttons = new Map<CommandName, HTMLButtonElement>();
  private announced = "";

  constructor(private readonly events: PageEvents) {
    this.name.value = localStorage.getItem(NAME) ?? "";
    this.token.value = takeToken();
    this.makeMenu();
    this.makeHelp();
    this.makeSliders();
    find("stop").onclick = () => events.press("stop");
    find("leave").onclick = () => events.leave();
    find("clutch").onclick = () => events.clutch();
    find("texture-again").onclick = () => events.again();
    find("help-open").onclick = find("help-close").onclick = () => events.press("help");
    for (const choice of ["choose_right", "choose_left", "choose_both"] as const) {
      find(choice).onclick = () => events.press(choice);
    }
    find<HTMLFormElement>("door").onsubmit = (event) => {
      event.preventDefault();
      this.join("operator");
    };
    find("watch").onclick = () => this.join("watcher");
    // Of a page that looks as if the mouse drove the robot, only the picture does.
    for (const kind of ["pointerdown", "wheel"]) {
      find("door").addEventListener(kind, (event) => event.stopPropagation());
    }
  }

  toggleHelp(): void {
    const help = find("help");
    help.hidden = !help.hidden;
    find(help.hidden ? "help-open" : "help-close").focus();
  }

  show(known: Readonly<Known>, notice: Notice): void {
    const title = known.welcome?.title || "refit station";
    text("title", title);
    const role = known.welcome?.role === "operator" ? "you drive" : "you watch";
    const who = known.operator ? `operator: ${known.operator}` : "operator: nobody";
    text("seat-line", known.phase === "in" ? `${role} · ${who}` : "");
    text("badge", known.phase === "in" && known.status ? known.status.state : notice.title);
    find("badge").className = `badge ${notice.level}`;
    text("link-line", known.phase === "in" ? linkLine(known) : "");
    text("notice-title", notice.title);
    text("notice-sentence", notice.sentence);
    text("notice-remedy", notice.remedy);
    find("notice").className = notice.level;
    this.announce(notice);
    find("door").hidden = known.phase !== "out" && known.linkSentence !== "";
    text("door-said", known.phase === "out" ? known.linkSentence : "");
    find<HTMLButtonElement>("leave").disabled = known.phase === "out";
    text("pressed", known.pressed);
    find("live").hidden = !known.speaking;
    text("live", known.speaking ? "Your microphone is live" : "");
    document.title = `${known.speaking ? "● LIVE · " : ""}refit · station`;
    this.showMenu(known);
    this.showArms(known);
    this.showNumbers(known);
    this.showTexture(known);
    if (find<HTMLDetailsElement>("joints").closest("details")?.open) this.showJoints(known);
  }

  showHands(chosen: readonly Side[], clutched: boolean, isDriving: boolean): void {
    for (const [id, on] of [
      ["choose_right", chosen.length === 1 && chosen[0] === "right"],
      ["choose_left", chosen.length === 1 && chosen[0] === "left"],
      ["choose_both", chosen.length === 2],
      ["clutch", clutched],
    ] as const) {
      pressed(find<HTMLButtonElement>(id), on);
    }
    find<HTMLButtonElement>("clutch").disabled = !isDriving;
  }

  showPictures(pictures: string[], elements: Map<string, HTMLVideoElement>, eye: string | undefined): void {
    find("stage").classList.toggle("has-video", eye !== undefined);
    const main = eye === undefined ? undefined : elements.get(eye);
    find("eye").replaceChildren(...(main ? [main] : []));
    const others = pictures.filter((name) => !name.includes("_eye") && name !== eye);
    find("side-pictures").replaceChildren(...others.map((name) => elements.get(name) as HTMLVideoElement));
  }

  private join(role: Role): void {
    if (!find<HTMLFormElement>("door").reportValidity()) return;
    const name = this.name.value.trim();
    localStorage.setItem(NAME, name);
    sessionStorage.setItem(TOKEN, this.token.value.trim());
    (document.activeElement as HTMLElement | null)?.blur(); // keys are for the robot from here on
    this.events.join(name, this.token.value.trim(), role);
  }

  /** A halt interrupts whoever listens; everything else waits until they have heard the sentence before. */
  private announce(notice: Notice): void {
    const words = `${notice.title}. ${notice.sentence} ${notice.remedy}`;
    if (words === this.announced) return;
    this.announced = words;
    text(notice.level === "halt" ? "announcer" : "murmur", words);
  }

  say(sentence: string): void {
    text("murmur", sentence);
  }

  /** Levels of both directions, and what the operator should know of them. */
  showSound(known: Readonly<Known>, ear: Ear, voice: number): void {
    find<HTMLMeterElement>("sound-level").value = known.listening ? ear.level : 0;
    find<HTMLMeterElement>("voice-level").value = known.speaking ? voice : 0;
    const isDeaf = known.listening && known.phase === "in" && ear.isSilent;
    const heard = isDeaf ? "Nothing is heard: the robot has no microphone, or all is silent there." : "You hear the robot.";
    const said = known.speaking ? "Everybody near the robot can hear you." : "Your microphone is off.";
    text("sound-line", known.listening ? heard : "The robot's sound is off.");
    text("voice-line", said);
    const slider = find<HTMLInputElement>("eyes");
    slider.disabled = !drives(known);
    text("eyes-line", known.eyesRefused || (drives(known) ? "" : "Only who drives can set them."));
  }

  private makeSliders(): void {
    const volume = find<HTMLInputElement>("volume");
    volume.oninput = () => this.events.volume(Number(volume.value) / 100);
    const eyes = find<HTMLInputElement>("eyes");
    eyes.min = String(1000 * EYES_APART.least);
    eyes.max = String(1000 * EYES_APART.most);
    eyes.oninput = () => text("eyes-value", `${eyes.value} mm`);
    eyes.onchange = () => this.events.eyesApart(Number(eyes.value) / 1000); // when it is let go
    // Arrow keys move the hand again, once the mouse has let go of a slider.
    for (const slider of [volume, eyes]) slider.onpointerup = () => slider.blur();
  }

  private makeMenu(): void {
    for (const { name } of COMMANDS.filter((each) => each.name !== "stop")) {
      const button = document.createElement("button");
      button.type = "button";
      button.onclick = () => this.events.press(name);
      this.buttons.set(name, button);
      find("menu").append(button);
    }
  }

  private showMenu(known: Readonly<Known>): void {
    for (const each of COMMANDS) {
      const button = this.buttons.get(each.name);
      if (!button) continue;
      const label = each.label(known);
      if (button.textContent !== label) button.textContent = label;
      button.disabled = !each.isEnabled(known);
      const on = each.isOn(known);
      if (on !== null) pressed(button, on);
      if (each.name === "speak") button.classList.toggle("is-live", known.speaking);
    }
  }

  private showArms(known: Readonly<Known>): void {
    const body = find<HTMLTableElement>("arms").tBodies[0] as HTMLTableSectionElement;
    const { status } = known;
    const rows = SIDES.map((side, i) => {
      const mode = status?.arm_mode[i] || "–";
      const does = [mode, status?.clutched[i] ? "clutched" : "", status?.arm_message[i]].filter(Boolean).join(" · ");
      const force = status?.force[i];
      return [side, does, force === null || force === undefined ? "–" : `${force.toFixed(1)} N`];
    });
    fill(body, rows);
  }

  private showNumbers(known: Readonly<Known>): void {
    const link = known.phase === "in" ? known.status?.link : undefined;
    const number = (value: number | null | undefined, unit: string, digits = 1, scale = 1): string =>
      value === null || value === undefined ? "–" : `${(scale * value).toFixed(digits)} ${unit}`;
    const velocity = known.status?.base_velocity ?? [];
    fill(find<HTMLTableElement>("numbers").tBodies[0] as HTMLTableSectionElement, [
      ["round trip", number(link?.rtt_ms ?? known.rtt, "ms")],
      ["loss of samples", number(link?.loss, "%", 1, 100)],
      ["jitter", number(link?.jitter_ms, "ms")],
      ["age of a sample", number(link?.age_ms, "ms")],
      ["samples go by", known.phase !== "in" ? "–" : known.fast ? "data channel" : "WebSocket"],
      ...Object.entries(link?.bandwidth_kbit ?? {}).map(([name, rate]) => [name.replaceAll("_", " "), number(rate, "kbit/s", 0)]),
      ["base forward, left", `${number(velocity[0], "", 2)}/ ${number(velocity[1], "m/s", 2)}`],
      ["base anticlockwise", number(velocity[2], "rad/s", 2)],
      ["supervisor", known.status?.supervisor.state ?? "–"],
      ...(known.eyes === null ? [] : [["your eyes", number(known.eyes, "mm", 1, 1000)]]),
    ]);
  }

  private showTexture(known: Readonly<Known>): void {
    const { texture } = known;
    find("texture").hidden = texture === null;
    if (!texture) return;
    text("texture-line", `Roughness ${texture.roughness_mm.toFixed(2)} mm, ${texture.frequency_hz.toFixed(0)} Hz`);
  }

  private showJoints(known: Readonly<Known>): void {
    const { names, positions } = known.status?.joints ?? { names: [], positions: [] };
    fill(
      find<HTMLTableElement>("joints").tBodies[0] as HTMLTableSectionElement,
      names.map((name, i) => [name, (positions[i] ?? NaN).toFixed(3)]),
    );
  }

  private makeHelp(): void {
    const table = find<HTMLTableElement>("help-table");
    const head = table.createTHead().insertRow();
    for (const column of ["", "keyboard and mouse", "gamepad", "headset"]) head.append(element("th", column));
    const body = table.createTBody();
    for (const [what, ...how] of HELP) {
      const line = body.insertRow();
      const first = element("th", what);
      first.setAttribute("scope", "row");
      line.append(first, ...how.map((words) => element("td", words)));
    }
  }
}

/** What the pointer and the keys do now, in one line over the picture. */
export function hint(known: Readonly<Known>, chosen: readonly Side[], clutched: boolean): string {
  const state = known.status?.state;
  if (!drives(known) || (state !== "idle" && state !== "teleop")) return "";
  const hand = chosen.length === 2 ? "both hands" : `the ${chosen[0]} hand`;
  return clutched
    ? `Clutched: drag, or use the arrow keys, to move ${hand}. Let go of C to stop.`
    : `Hold C and drag to move ${hand}. W A S D Q E drive the base. F1 shows all keys.`;
}

/** The token of the address's fragment, which no server ever sees, or of this tab's earlier join. */
function takeToken(): string {
  const found = new URLSearchParams(location.hash.slice(1)).get("token");
  if (found !== null) {
    sessionStorage.setItem(TOKEN, found);
    history.replaceState(null, "", location.pathname); // so that it is on no screenshot and in no bookmark
  }
  return found ?? sessionStorage.getItem(TOKEN) ?? "";
}

function text(id: string, words: string): void {
  const found = find(id);
  if (found.textContent !== words) found.textContent = words;
}

function pressed(button: HTMLButtonElement, on: boolean): void {
  if (button.getAttribute("aria-pressed") !== String(on)) button.setAttribute("aria-pressed", String(on));
}

/** Rows of a table, of which only what changed is written. */
function fill(body: HTMLTableSectionElement, rows: string[][]): void {
  while (body.rows.length > rows.length) body.deleteRow(-1);
  rows.forEach((words, i) => {
    const line = body.rows[i] ?? body.insertRow();
    words.forEach((word, k) => {
      let cell = line.cells[k];
      if (!cell) {
        cell = document.createElement(k === 0 ? "th" : "td");
        if (k === 0) cell.setAttribute("scope", "row");
        line.append(cell);
      }
      if (cell.textContent !== word) cell.textContent = word;
    });
  });
}
