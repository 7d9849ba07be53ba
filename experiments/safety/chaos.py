"""Does the safety chain hold by itself, whatever happens to its processes and whoever talks in its graph?

    ./refit experiment chaos            # 306 injections into the graphs of the Panda and of the emulated servo arm
    ./refit experiment chaos --quick    # 20
    ./refit shell python -m experiments.safety.chaos ARM KIND SEED      # one of them alone, with its seed from the results

Every launched graph is what `refit launch` starts, with its own parameters and a recorder. Processes are killed and
stopped; commands, states, words of the supervisor, leases and parameters are flooded, forged, garbled and misdated;
time is reset and stands still; the recorder's disk is full. Somebody who only watches judges by the arm's true motion,
never by what the chain says of itself; what the chain says is judged too. docs/chaos.md explains the figures.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from experiments.problems.chaos_arm import ARMS
from experiments.problems.chaos_injections import Injection, plan
from experiments.problems.chaos_study import NOT_DONE, VERDICTS, Outcome, study
from reporting import PALETTE, Progress, Report, Result, SilentProgress, figure
from scripting.errors import GraphError

SOURCE = "own target"
MOST = 1.05  # of a limit
LATER = 0.02  # [rad] that a stopped arm may move
LOST = 1.0  # [s] of a bag
RATIOS = {"speed": "speed", "torque": "torque", "position": "position", "share": "distance after a stop"}


def run(
    size: str = "full", seed: int = 0, progress: Progress = SilentProgress(), run_directory: Path | None = None
) -> Result:
    """Do everything that the plan of this seed holds, and judge it."""
    result = Result("chaos", seed=seed, size=size)
    graphs = plan(size, seed)
    total = sum(map(len, graphs))
    folder = Path(run_directory or tempfile.mkdtemp(prefix="refit-chaos-")) / "graphs"
    outcomes: list[Outcome] = []
    with progress.stage("injections", total) as stage:
        try:
            for outcome in study(graphs, folder):
                outcomes.append(outcome)
                with (folder / "outcomes.jsonl").open("a") as file:  # what has been seen survives whatever comes
                    file.write(json.dumps(asdict(outcome)) + "\n")
                stage.say(f"{outcome.arm} {outcome.kind}: {outcome.verdict}")
                stage.advance(1)
        except (KeyboardInterrupt, GraphError) as error:
            # What was done until then is judged; the first check says how much that is.
            result.detail("ended early", str(error) or "by Ctrl-C")
    judge(result, outcomes, total)
    if run_directory is not None:
        report(result, outcomes).write(Path(run_directory) / "report.html")
    return result


def judge(result: Result, outcomes: Sequence[Outcome], planned: int) -> None:
    """The checks, and every outcome for the JSON file."""
    done = sum(not o.what.startswith(NOT_DONE) for o in outcomes)
    result.check("injections done", done, planned, "==", "", SOURCE)
    for arm in dict.fromkeys(o.arm for o in outcomes):
        mine = [o for o in outcomes if o.arm == arm]
        for name, words in RATIOS.items():
            worst = max(getattr(o, name) for o in mine)
            allowed = "what the stop takes" if name == "share" else "its limit"
            result.check(f"{arm}: largest {words} over {allowed}", worst, MOST, "<=", "1", SOURCE)
        result.check(f"{arm}: farthest move of a stopped joint", max(o.later for o in mine), LATER, "<=", "rad", SOURCE)
    beyond = [o for o in outcomes if violations(o)]
    halts, faulty = sum(len(o.halts) for o in outcomes), sum(len(o.objections) for o in outcomes)
    result.check("injections with a limit violated", len(beyond), 0, "==", "", SOURCE)
    result.check("silent states", sum(len(o.silent) for o in outcomes), 0, "==", "", SOURCE)
    result.check("halts and ends explained in one sentence", halts - faulty, halts, "==", "", SOURCE)
    result.check(
        "injections after which the arm followed again",
        sum(o.recovered for o in outcomes),
        len(outcomes),
        "==",
        "",
        SOURCE,
    )
    result.check(
        "ways back that needed a restart although all processes ran",
        sum(o.stuck for o in outcomes),
        0,
        "==",
        "",
        SOURCE,
    )
    result.check("forged parameters accepted", sum(bool(o.accepted) for o in outcomes), 0, "==", "", SOURCE)
    result.check("processes that died by themselves", sum(len(o.died) for o in outcomes), 0, "==", "", SOURCE)
    killed = [o.exit_code for o in outcomes if o.kind == "kill_supervisor"]
    if killed:
        result.check(
            "launches that ended with code 1 when their supervisor was killed",
            killed.count(1),
            len(killed),
            "==",
            "",
            SOURCE,
        )
    for kind, words in (("kill_recorder", "SIGKILL"), ("disk_full", "a full disk")):
        lost = [o.lost for o in outcomes if o.kind == kind]
        if lost:
            result.check(f"data lost at {words}, most", max(lost), LOST, "<=", "s", SOURCE)
    result.check(
        "graphs with a bag that cannot be read", sum(bool(o.unreadable) for o in outcomes), 0, "==", "", SOURCE
    )
    result.detail("by kind", by_kind(outcomes))
    for name in ("limp", "caught"):
        result.detail(
            name, {arm: max((getattr(o, name) for o in outcomes if o.arm == arm), default=0.0) for arm in ARMS}
        )
    result.detail("what was said", said(outcomes))
    result.detail("injections", [asdict(o) for o in outcomes])


def violations(outcome: Outcome) -> list[str]:
    """What went beyond MOST of its limit, or moved when it should not."""
    found = [words for name, words in RATIOS.items() if getattr(outcome, name) > MOST]
    return [*found, *(["motion of a stopped arm"] if outcome.later > LATER else [])]


def by_kind(outcomes: Sequence[Outcome]) -> list[dict]:
    """One row for each arm and kind of injection: what it did."""
    rows = []
    for arm, kind in dict.fromkeys((o.arm, o.kind) for o in sorted(outcomes, key=lambda o: (o.arm != "panda", o.kind))):
        mine = [o for o in outcomes if (o.arm, o.kind) == (arm, kind)]
        took = [o.took for o in mine if o.recovered and o.way]
        rows.append(
            {
                "arm": arm,
                "injection": kind,
                "times": len(mine),
                **{verdict: sum(o.verdict == verdict for o in mine) for verdict in VERDICTS},
                "refused": sum(sum(o.refused.values()) for o in mine),
                "speed": max(o.speed for o in mine),
                "torque": max(o.torque for o in mine),
                "stop": max(o.share for o in mine),
                "way back, s": round(max(took), 1) if took else 0.0,
            }
        )
    return rows


def said(outcomes: Sequence[Outcome]) -> list[dict]:
    """What halts were explained with: one sentence for each code and kind."""
    found: dict[tuple[str, str], str] = {}
    for outcome in outcomes:
        for sentence in outcome.halts:
            found.setdefault((outcome.kind, sentence.partition(":")[0]), sentence)
    return [{"injection": kind, "sentence": sentence} for (kind, _), sentence in sorted(found.items())]


def report(result: Result, outcomes: Sequence[Outcome]) -> Report:
    """Targets, what each kind of injection did, how fast joints became, and how long the way back took."""
    page = Report("Chaos", f"{result.size}, seed {result.seed}")
    page.numbers(
        {
            "injections": len(outcomes),
            **{verdict: sum(o.verdict == verdict for o in outcomes) for verdict in VERDICTS},
            "messages refused": sum(sum(o.refused.values()) for o in outcomes),
        }
    )
    page.section("Targets").checks(result)
    page.section("Motion", "Every injection; the line is the target. A joint without torque is not counted, it falls.")
    fig, axes = figure(size=(8.4, 3.0))
    for k, arm in enumerate(ARMS):
        mine = [(n, o) for n, o in enumerate(outcomes) if o.arm == arm]
        axes.scatter([n for n, _ in mine], [o.speed for _, o in mine], s=10, color=PALETTE[k], label=f"{arm}: speed")
        axes.scatter(
            [n for n, _ in mine], [o.share for _, o in mine], s=10, color=PALETTE[k], marker="x", label=f"{arm}: stop"
        )
    axes.axhline(MOST, color=PALETTE[3], linewidth=1.0)
    axes.set_xlabel("injection")
    axes.set_ylabel("over its limit")
    axes.legend(fontsize=7, ncols=2)
    page.figure(fig, "Largest joint speed over its limit, and distance after a stop over what the stop takes.")
    rows = result.details["by kind"]
    page.section("What each did").table(list(rows[0]), [list(row.values()) for row in rows])
    took = sorted(o.took for o in outcomes if o.recovered and o.way)
    if took:
        fig, axes = figure(size=(8.4, 2.4))
        axes.plot(took, np.arange(1, len(took) + 1), color=PALETTE[0])
        axes.set_xlabel("until the arm follows its path [s]")
        axes.set_ylabel("injections")
        page.section("Way back").figure(
            fig, "Where a person had to do something: resume, arm, stop and resume, restart."
        )
    bad = [o for o in outcomes if shortcomings(o)]
    page.section("What fell short", "With the seed that repeats it alone." if bad else "Nothing.")
    if bad:
        page.table(
            ["arm", "injection", "seed", "what was done", "waited for a core, s", "what fell short"],
            [[o.arm, o.kind, o.seed, o.what, o.waited, "; ".join(shortcomings(o))] for o in bad],
        )
    rows = result.details["what was said"]
    if rows:
        page.section("What was said").table(list(rows[0]), [list(row.values()) for row in rows])
    return page


def shortcomings(outcome: Outcome) -> list[str]:
    """Everything about an outcome that misses a target, in words."""
    return [
        *violations(outcome),
        *(f"silent {spell}" for spell in outcome.silent),
        *outcome.objections,
        *(f"{name} died by itself" for name in outcome.died),
        *(["needed a restart"] if outcome.stuck else []),
        *([outcome.unreadable] if outcome.unreadable else []),
        *([] if outcome.recovered else ["did not follow again"]),
    ]


def main(words: Sequence[str]) -> int:
    """One injection alone: arm, kind, seed."""
    arm, kind, seed = words
    folder = Path(tempfile.mkdtemp(prefix="refit-chaos-"))
    for outcome in study([[Injection(arm, kind, int(seed))]], folder):
        for name, value in asdict(outcome).items():
            print(f"{name:12} {value}")
    print(f"log and bag  {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
