/** Keys, mouse, gamepad and controllers in one table, from which both the page's help and its behaviour are made. */

import type { CommandName } from "./menu";

/** What a key that is held does, each a signed share of full speed. */
export type Motion =
  | "clutch" | "close" | "open" | "forward" | "back" | "left" | "right" | "anticlockwise" | "clockwise"
  | "hand_left" | "hand_right" | "hand_up" | "hand_down" | "hand_forward" | "hand_back"
  | "yaw_left" | "yaw_right" | "pitch_up" | "pitch_down" | "roll_left" | "roll_right"
  | "head_left" | "head_right" | "head_up" | "head_down"; // prettier-ignore

export type Choice = "choose_right" | "choose_left" | "choose_both" | "view" | "help";

interface Binding<Does> {
  /** `KeyboardEvent.code`: the place of a key, whatever is printed on it. */
  code: string;
  does: Does;
}

export const HELD: readonly Binding<Motion>[] = [
  { code: "KeyC", does: "clutch" },
  { code: "KeyF", does: "close" },
  { code: "KeyR", does: "open" },
  { code: "KeyW", does: "forward" },
  { code: "KeyS", does: "back" },
  { code: "KeyA", does: "left" },
  { code: "KeyD", does: "right" },
  { code: "KeyQ", does: "anticlockwise" },
  { code: "KeyE", does: "clockwise" },
  { code: "ArrowLeft", does: "hand_left" },
  { code: "ArrowRight", does: "hand_right" },
  { code: "ArrowUp", does: "hand_up" },
  { code: "ArrowDown", does: "hand_down" },
  { code: "PageUp", does: "hand_forward" },
  { code: "PageDown", does: "hand_back" },
  { code: "KeyJ", does: "yaw_left" },
  { code: "KeyL", does: "yaw_right" },
  { code: "KeyI", does: "pitch_up" },
  { code: "KeyK", does: "pitch_down" },
  { code: "KeyU", does: "roll_left" },
  { code: "KeyO", does: "roll_right" },
  { code: "KeyB", does: "head_left" },
  { code: "KeyN", does: "head_right" },
  { code: "KeyT", does: "head_up" },
  { code: "KeyG", does: "head_down" },
];

export const PRESSED: readonly Binding<CommandName | Choice>[] = [
  { code: "Space", does: "stop" },
  { code: "Escape", does: "stop" },
  { code: "Digit1", does: "choose_right" },
  { code: "Digit2", does: "choose_left" },
  { code: "Digit3", does: "choose_both" },
  { code: "KeyH", does: "home" },
  { code: "Digit7", does: "narrow" },
  { code: "KeyP", does: "precision" },
  { code: "KeyX", does: "texture_scan" },
  { code: "KeyM", does: "resume" },
  { code: "KeyZ", does: "reset_fault" },
  { code: "Digit4", does: "listen" },
  { code: "Digit5", does: "speak" },
  { code: "Digit6", does: "look_ahead" },
  { code: "KeyV", does: "view" },
  { code: "F1", does: "help" },
];

/** Of a gamepad in the browsers' standard layout: button -> command at a press. */
export const PAD_PRESSED: Readonly<Record<number, CommandName | Choice>> = {
  0: "home",
  1: "stop",
  2: "precision",
  8: "reset_fault",
  9: "resume",
};
/** The button that changes between the hands. */
export const PAD_OTHER_HAND = 3;

/** Rows of the help: what it does, keyboard and mouse, gamepad, controllers of a headset. */
export const HELP: readonly (readonly [string, string, string, string])[] = [
  ["Emergency stop", "Space or Esc, or the red button", "B", "B or Y, or the red button"],
  ["Choose the hand", "1 right, 2 left, 3 both", "Y", "each hand is its own"],
  ["Clutch: the arm follows", "hold C, or the button Clutch", "hold RT", "hold the grip (squeeze)"],
  ["Hand sideways and up", "drag, or arrow keys", "right stick ←→, D-pad ↑↓", "move the hand"],
  ["Hand forward and back", "wheel, or Page Up, Page Down", "right stick ↑↓", "move the hand"],
  ["Turn the hand", "right drag, or J L I K U O", "D-pad ←→", "turn the hand"],
  ["Close, open the gripper", "F, R", "LT", "trigger"],
  ["Drive the base", "W S A D", "left stick", "left stick"],
  ["Turn the base", "Q E", "LB, RB", "right stick ←→"],
  ["Turn the head", "B N T G", "–", "turn the head"],
  ["Home arms", "H", "A", "menu"],
  ["Fold arms", "7", "–", "menu"],
  ["Precision mode", "P", "X", "menu"],
  ["Texture scan", "X", "–", "menu"],
  ["Listen, speak", "4, 5", "–", "menu"],
  ["Look straight ahead", "6", "–", "menu"],
  ["Resume, reset fault", "M, Z", "Start, Back", "menu"],
  ["Look from elsewhere", "V", "–", "–"],
  ["Show or hide the menu", "–", "–", "A or X"],
  ["Press the menu's buttons", "click, or Tab and Enter", "–", "point at it, trigger"],
  ["This table", "F1", "–", "–"],
];
