/** What the operator must know before anything else: why the robot does not follow, and what helps. */

import type { Known } from "./store";

export interface Notice {
  /** good: it follows or could; wait: it stands by itself and goes on by itself; halt: somebody has to do something. */
  level: "good" | "wait" | "halt";
  /** Two words at most. */
  title: string;
  sentence: string;
  /** What the operator does about it; "": nothing. */
  remedy: string;
}

/** A fault of the whole robot, which the supervisor has halted (sim_core/telepresence/avatar.py). */
const SUPERVISOR_CODE = 100;
/** [ms] of silence after which the page no longer believes what it shows. */
const SILENT = 700;
/** [ms] for which a refusal is shown. */
const REFUSAL_SHOWN = 6000;
/** States of the supervisor in which a controller may move the robot. */
const MOVING = new Set(["READY", "RUNNING", "DEGRADED", "UNKNOWN"]);
/** States that pass by themselves. */
const PASSING = new Set(["STARTING"]);

const ended = (text: string): string => {
  const trimmed = text.trim();
  const sentence = trimmed && !/[.!?]$/.test(trimmed) ? `${trimmed}.` : trimmed;
  return sentence.charAt(0).toUpperCase() + sentence.slice(1);
};

export function noticeOf(known: Readonly<Known>, now: number): Notice {
  const { phase, status, welcome } = known;
  const hold = welcome ? ` The robot holds its arms and stands after ${Math.round(welcome.limits.hold_ms)} ms.` : "";
  if (phase !== "in") {
    const isFirst = phase !== "out" && !welcome;
    const isOccupied = phase !== "out" && known.linkCode === "occupied";
    const title = isOccupied ? "occupied" : isFirst ? "connecting" : phase === "out" ? "not connected" : "link lost";
    const stop = known.stopWaits ? "The stop will be said first when the link is back; " : "";
    return {
      level: title === "link lost" ? "halt" : "wait",
      title,
      sentence: ended(known.linkSentence) + (title === "link lost" ? hold : ""),
      remedy: stop ? `${stop}use the robot's own emergency stop now.` : "",
    };
  }
  if (!status) return { level: "wait", title: "connected", sentence: "Waiting for the robot's first word.", remedy: "" };
  if (known.silence > SILENT) {
    return { level: "halt", title: "link silent", sentence: `The robot says nothing.${hold}`, remedy: "" };
  }
  return ofStatus(known, now);
}

function ofStatus(known: Readonly<Known>, now: number): Notice {
  const status = known.status as NonNullable<Known["status"]>;
  const said = ended(status.message);
  const mine = known.welcome?.role === "operator";
  const supervisor = status.supervisor;
  const halted = `Supervisor, code ${supervisor.code}: ${ended(supervisor.message)}`;
  const isHalted = !MOVING.has(supervisor.state);
  // A fault that is the supervisor's is best told in its own words.
  const why = status.code === SUPERVISOR_CODE && isHalted ? halted : said;
  const coded = status.code ? `Code ${status.code}: ${why}` : said;
  switch (status.state) {
    case "fault": {
      const byRobot = status.code === SUPERVISOR_CODE;
      const remedy = byRobot
        ? "Press Resume when it is safe to go on."
        : "Clear the way, press Reset fault, then open and press the clutch.";
      return { level: "halt", title: "halted", sentence: coded, remedy };
    }
    case "recovering":
      return { level: "wait", title: "recovering", sentence: coded, remedy: "" };
    case "hold":
      return { level: "wait", title: "hold", sentence: said, remedy: "It goes on by itself when samples arrive." };
    case "disconnected":
      return { level: "wait", title: "no operator", sentence: said, remedy: mine ? "" : "Press Take the seat to drive." };
    case "handshake":
      return { level: "wait", title: "ready soon", sentence: said, remedy: mine ? "Open both clutches once." : "" };
  }
  if (isHalted) {
    const remedy = supervisor.state === "DISARMED" ? "Somebody beside the robot has to arm it." : "";
    const level = PASSING.has(supervisor.state) ? "wait" : "halt";
    return { level, title: supervisor.state.toLowerCase(), sentence: halted, remedy };
  }
  const stopped = status.arm_mode.findIndex((mode) => mode.includes("stop"));
  if (stopped >= 0) {
    const sentence = ended(status.arm_message[stopped] ?? "");
    return { level: "halt", title: "arm stopped", sentence, remedy: "Clear its way and press Reset fault." };
  }
  const refused = known.refused;
  if (refused && now - refused.at < REFUSAL_SHOWN) {
    return { level: "wait", title: "not done", sentence: ended(refused.sentence), remedy: "" };
  }
  if (!mine) {
    const who = known.operator ? `${known.operator} drives.` : "Nobody drives.";
    return { level: "good", title: "watching", sentence: `You watch. ${who}`, remedy: "" };
  }
  return { level: "good", title: status.state === "teleop" ? "following" : "ready", sentence: said, remedy: "" };
}

/** One line about the link. */
export function linkLine(known: Readonly<Known>): string {
  if (known.phase !== "in" || !known.status) return known.linkSentence;
  const { rtt_ms, loss, age_ms } = known.status.link;
  const number = (value: number | null, unit: string, scale = 1): string =>
    value === null ? "–" : `${(scale * value).toFixed(0)} ${unit}`;
  return `${number(rtt_ms ?? known.rtt, "ms")} · loss ${number(loss, "%", 100)} · age ${number(age_ms, "ms")}`;
}
