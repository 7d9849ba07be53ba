/** The training as it is shown on the desktop. */

import type { Store } from "./store";
import { clockText, STEPS, Training, TOTAL_MINUTES } from "./training";

export class TrainingPage {
  training: Training | null = null;
  private shown = "";

  constructor(
    private readonly section: HTMLElement,
    private readonly body: HTMLElement,
    private readonly store: Store,
    private readonly name: () => string,
    private readonly say: (sentence: string) => void,
  ) {}

  toggle(): void {
    this.training = this.training ? null : new Training();
    this.section.hidden = this.training === null;
    this.draw();
    if (this.training) this.body.querySelector("button")?.focus();
  }

  next(outcome: "confirmed" | "skipped"): void {
    this.training?.next(outcome);
    this.draw();
  }

  back(): void {
    this.training?.back();
    this.draw();
  }

  /** One line for the panel in the headset; "": there is no training. */
  get line(): string {
    const { training } = this;
    if (!training) return "";
    if (!training.step) return "Training: all steps are done.";
    const done = training.outcomes[training.at] === "detected" ? " Done." : "";
    return `${training.at + 1} of ${STEPS.length}: ${training.step.text}${done}`;
  }

  /** Called a few times a second: the times, and the whole where it has changed. */
  draw(): void {
    const { training } = this;
    if (!training) return;
    const step = training.step;
    const state = `${training.at} ${training.outcomes.join()}`;
    if (state !== this.shown) {
      this.shown = state;
      const focused = (document.activeElement as HTMLElement | null)?.dataset.does;
      this.body.replaceChildren(...(step ? this.stepParts(training) : this.summaryParts(training)));
      if (focused) this.body.querySelector<HTMLElement>(`[data-does="${focused}"]`)?.focus();
      this.say(step ? `Step ${training.at + 1}: ${step.title}. ${step.text}` : "The training is over.");
    }
    if (!step) return;
    const spent = training.spent[training.at] ?? 0;
    const planned = 60_000 * step.minutes;
    const over = spent > planned ? `, ${clockText(spent - planned)} over` : "";
    const total = training.spent.reduce((sum, value) => sum + value, 0);
    const times = this.body.querySelector(".times");
    if (times) {
      times.textContent = `${clockText(spent)} of ${step.minutes}:00${over} · in all ${clockText(total)} of ${TOTAL_MINUTES}:00`;
    }
    const bar = this.body.querySelector("progress");
    if (bar) bar.value = Math.min(1, spent / planned);
  }

  private stepParts(training: Training): HTMLElement[] {
    const step = training.step as NonNullable<typeof training.step>;
    const seen = training.outcomes[training.at] === "detected";
    const bar = document.createElement("progress");
    bar.setAttribute("aria-label", "time of this step");
    const hint = seen
      ? "Done: the page has seen it."
      : step.detect
        ? "The page ticks this step off when it sees it done."
        : "Confirm this step yourself.";
    return [
      element("h3", `${training.at + 1}. ${step.title}`, seen ? "done" : ""),
      element("p", step.text, "text"),
      element("p", hint, "small"),
      element("p", "", "times numbers"),
      bar,
      this.list(training),
      row(
        button("Back", "back", () => this.back(), training.at === 0),
        button("Done, next step", "next", () => this.next("confirmed")),
        button("Skip the step", "skip", () => this.next("skipped")),
        button("End the training", "end", () => this.toggle()),
      ),
    ];
  }

  private summaryParts(training: Training): HTMLElement[] {
    const table = document.createElement("table");
    const head = table.createTHead().insertRow();
    for (const text of ["step", "planned", "taken", "outcome"]) head.append(element("th", text));
    const body = table.createTBody();
    STEPS.forEach((step, i) => {
      const line = body.insertRow();
      const times = [`${step.minutes}:00`, clockText(training.spent[i] ?? 0), training.outcomes[i] ?? ""];
      line.append(element("th", `${i + 1}. ${step.title}`), ...times.map((text) => element("td", text)));
    });
    return [
      element("h3", "Summary"),
      table,
      row(
        button("Back", "back", () => this.back()),
        button("Save as JSON", "save", () => this.save(training)),
        button("End the training", "end", () => this.toggle()),
      ),
    ];
  }

  private list(training: Training): HTMLElement {
    const list = document.createElement("ol");
    STEPS.forEach((step, i) => {
      const outcome = training.outcomes[i];
      const item = element("li", `${step.title}, ${step.minutes} min`, outcome === "detected" || outcome === "confirmed" ? "done" : "");
      if (i === training.at) item.setAttribute("aria-current", "step");
      list.append(item);
    });
    return list;
  }

  private save(training: Training): void {
    const text = `${JSON.stringify(training.summary(this.store.now, this.name()), null, 2)}\n`;
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    link.download = `training_${training.started.toISOString().slice(0, 16).replace(":", "")}.json`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }
}

export function element(name: string, text: string, kind = ""): HTMLElement {
  const made = document.createElement(name);
  made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

function button(label: string, does: string, run: () => void, disabled = false): HTMLButtonElement {
  const made = element("button", label) as HTMLButtonElement;
  made.type = "button";
  made.dataset.does = does;
  made.disabled = disabled;
  made.onclick = run;
  return made;
}

function row(...parts: HTMLElement[]): HTMLElement {
  const made = element("div", "", "row");
  made.append(...parts);
  return made;
}
