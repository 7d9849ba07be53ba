"""What does a bad link do to a robot that follows a person's hand, and how soon is the person back when it returns?

    ./refit experiment teleop_link            # delays, losses and jitters, three seeds each
    ./refit experiment teleop_link --quick    # the corners of the same grid, one seed

A scripted hand leads the avatar's right arm through a link with a constant delay, jitter, loss, messages that come twice, and
outages. The robot's side is the one of the graph: clocks aligned by pings, the gate for samples, session, inverse kinematics,
guard, feedback law and the command gate's limits, with the avatar in MuJoCo. All of it runs in lock-step in simulated time, so
that what is measured is the link, the control cycle, the servos and the arm; what the middleware and a busy machine add on top is
what `./refit bench teleop` measures.

By rule a sample that is more than 250 ms old moves nothing. Beyond that delay the outcome that is declared is therefore: the robot
does not move, and the operator reads why. It is checked as such, and the table says which delays are driven and which are refused.

The link carries datagrams, as the protocol's data channel does. Loss over a WebSocket alone is delay instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import numpy as np

from experiments.problems.teleop_drive import BEGIN, CYCLE, Drive, Outcome, driven, model
from nodes.telepresence.protocol import Hand, Ping, Place, Pong, Sample, write
from nodes.telepresence.protocol_robot import Joints, LinkNumbers, Status, SupervisorWords
from reporting import PALETTE, Progress, Report, Result, SilentProgress, figure
from sim_core.host.executors import spread
from sim_core.telepresence.session import State

SOURCE = "telepresence specification, algorithms F and J, acceptance 11"
#: [s] of a sample, of silence before a hold and before a loss, and after which an operator shall be back
STALE, HOLD, LOSS, REJOIN = 0.25, 0.2, 2.0, 5.0
#: one-way delays [s], losses [1], jitters [s], seeds, and the length of a drive [s]
SIZES = {
    "quick": ((0.0, 0.1, 0.2, 0.3), (0.0, 0.05), (0.005,), 1, 6.0),
    "full": ((0.0, 0.05, 0.1, 0.15, 0.2, 0.225, 0.24, 0.25, 0.3), (0.0, 0.01, 0.02, 0.05), (0.002, 0.01), 3, 14.0),
}
#: [s] of a link that is lost, each in a run of its own; and what is left afterwards
OUTAGES = {"quick": (0.15, 0.6, 3.0), "full": (0.15, 0.3, 0.6, 1.5, 2.5, 3.0, 6.0)}
AFTER = 4.5
#: [m] by which an end effector may pass what was asked of it, and by which one counts as moved; [m/s] at which it counts as still
OVERSHOOT, MOVED, STILL = 0.006, 0.001, 0.005
#: [s] of hand to arm on top of the link
OWN = 0.1
#: hours by which a headset's clock is wrong [s], and the rate by which it drifts
WRONG, DRIFT = 5.0 * 3600.0, 1e-4


def bandwidth() -> dict[str, float]:
    """[kbit/s] of each stream that is not a picture, by the protocol's own messages with typical numbers in them."""
    place = dict(p=(0.2013, 1.1024, -0.4127), q=(0.0123, -0.7012, 0.0234, 0.7125))
    hand = Hand(**place, clutch=True, trigger=0.25)
    sample = Sample(123456, 1234567.891, Place(**place), hand, hand, (0.0, 0.0, 0.0), None)
    glove = Sample(123456, 1234567.891, Place(**place), hand, hand, (0.0, 0.0, 0.0), (0.1234,) * 20)
    names = tuple(model().joint_names)
    streams = LinkNumbers(20.5, 0.0123, 1.25, 12.5, {"samples": 312.5, "status": 345.6})
    status = Status(
        1234567.891, "teleop", 0, "the robot follows the operator", "5e3b1c9a-2f4d-4c1f-9a57-0d3a7f3c2b11", (True, False),
        ("follows the hand", "holds"), ("", ""), (Place(**place),) * 2, (Place(**place),) * 2, (1.234, 2.345), (0.0, 0.0),
        1.0, (0.0, 0.0, 0.0), SupervisorWords("RUNNING", 0, "running"), streams, Joints(names, (0.123456,) * len(names)),
    )  # fmt: skip
    beats = 5 * (len(write(Ping(123, 1234567.891))) + len(write(Pong(123, 1234567.891))))
    per_second = {
        "samples, 90 Hz": 90 * len(write(sample)),
        "samples with a glove, 90 Hz": 90 * len(write(glove)),
        "status, 20 Hz": 20 * len(write(status)),
        "pings and pongs, either way": beats,
    }
    return {name: 8e-3 * size for name, size in per_second.items()}


def run(
    size: str = "full",
    seed: int = 0,
    progress: Progress = SilentProgress(),
    run_directory: Path | None = None,
    executor: Executor | None = None,
) -> Result:
    """Drive through every link, and judge.

    Returns:
        Result with a row for each link, latencies and ages by delay, outages, and the checks.
    """
    result = Result("teleop_link", seed=seed, size=size)
    delays, losses, jitters, seeds, seconds = SIZES[size]
    grid = [
        Drive(delay, loss, jitter, seed + k, seconds)
        for delay in delays
        for loss in losses
        for jitter in jitters
        for k in range(seeds)
    ]
    outages = [Drive(0.05, 0.01, 0.005, seed, BEGIN + outage + AFTER, outage) for outage in OUTAGES[size]]
    clocks = [
        Drive(0.05, 0.01, 0.005, seed, 5.0),
        Drive(0.05, 0.01, 0.005, seed, 5.0, ahead=-WRONG, drift=DRIFT),
    ]
    perfect = Drive(0.0, 0.0, 0.0, seed, seconds)
    jobs = [*grid, *outages, *clocks, perfect]
    with progress.stage("links", total=len(jobs)) as stage:
        found = spread(driven, jobs, executor, lambda done: stage.advance())
    links, lost, apart = found[: len(grid)], found[len(grid) : -3], found[-3:]
    result.detail("links", [_row(one) for one in links])
    result.detail("outages", [_outage_row(one) for one in lost])
    result.detail("latency by delay", latency_by_delay(links))
    result.detail("bandwidth [kbit/s]", bandwidth())
    _judge(result, links, lost, *apart)
    if run_directory is not None:
        report(result, links, lost).write(Path(run_directory) / "report.html")
    return result


def _row(one: Outcome) -> dict[str, object]:
    job = one.job
    return {
        "delay [ms]": 1e3 * job.delay,
        "loss [%]": 100.0 * job.loss,
        "jitter [ms]": 1e3 * job.jitter,
        "seed": job.seed,
        "latency p50, p95 [ms]": _percentiles(one.latencies),
        "age p50, p95 [ms]": _percentiles(one.ages),
        "measured rtt [ms], loss [%], jitter [ms]": [_ms(one.rtt), 100.0 * one.loss, _ms(one.jitter)],
        "taken": len(one.ages),
        "refused": one.refused,
        "overshoot [mm]": _ms(one.overshoot),
        "moved [mm]": _ms(one.moved),
        "speed at the end [mm/s]": _ms(one.speed_after),
        "kinetic energy, moving and at the end [J]": list(one.energy),
        "commands refused by the gate": one.gate_refused,
        "read at the end": one.sentence,
    }


def _outage_row(one: Outcome) -> dict[str, Any]:
    return {
        "outage [s]": one.job.outage,
        "hold after [s]": _known(one.hold_after),
        "rejoined after [s]": _known(one.rejoined),
        "followed after [s]": _known(one.followed),
        "drift [mm]": _ms(one.drift),
        "states": [State(state).name for state in one.states],
    }


def _ms(value: float) -> float | None:
    return 1e3 * float(value) if np.isfinite(value) else None


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _percentiles(values: np.ndarray) -> list[float | None]:
    return [1e3 * float(np.percentile(values, share)) if len(values) else None for share in (50, 95)]


def latency_by_delay(links: list[Outcome]) -> list[dict[str, Any]]:
    """Over all losses, jitters and seeds of each delay."""
    rows = []
    for delay in sorted({one.job.delay for one in links}):
        mine = [one for one in links if one.job.delay == delay]
        latencies, ages = (np.concatenate([getattr(one, name) for one in mine]) for name in ("latencies", "ages"))
        rows.append(
            {
                "delay [ms]": 1e3 * delay,
                "latency p50, p95 [ms]": _percentiles(latencies),
                "age p50, p95 [ms]": _percentiles(ages),
                "windows": len(latencies),
                "taken of those that came [%]": 100.0
                * len(ages)
                / max(1, sum(len(one.ages) + sum(one.refused.values()) for one in mine)),
            }
        )
    return rows


def _judge(
    result: Result, links: list[Outcome], lost: list[Outcome], right: Outcome, wrong: Outcome, perfect: Outcome
) -> None:
    # A link whose every sample is too old is refused; one at the limit is some of both, and only has to be stable.
    within = [one for one in links if one.job.delay + 4.0 * one.job.jitter < STALE]
    beyond = [one for one in links if one.job.delay > STALE]
    everything = [*links, *lost, right, wrong, perfect]

    def at_most(name: str, values: Iterable[float], most: float, unit: str, source: str = SOURCE) -> None:
        scale = 1e3 if unit.startswith("m") else 1.0  # mm, ms, mm/s
        result.check(name, scale * max(values), scale * most, "<=", unit, source)

    def none(name: str, count: int) -> None:
        result.check(name, count, 0, "==", "", SOURCE)

    at_most("the arm passed what was asked of it by", (one.overshoot for one in everything), OVERSHOOT, "mm")
    at_most("speed of the arm a second after the hand rests", (one.speed_after for one in everything), STILL, "mm/s")
    moving = (one.energy[0] / perfect.energy[0] for one in within)
    at_most("kinetic energy over that of the same motion over a perfect link", moving, 1.5, "1")
    none("commands that the gate refused", sum(one.gate_refused for one in everything))
    ages = (one.true_ages.max(initial=0.0) for one in everything)
    at_most("true age of a sample that was taken", ages, STALE + CYCLE, "ms")
    late = sum(one.refused.get("order", 0) for one in within)
    result.check("samples that came late or twice and moved nothing", late, 1, ">=", "", SOURCE)
    over = []
    for delay in sorted({one.job.delay for one in within}):
        latencies = np.concatenate([one.latencies for one in within if one.job.delay == delay])
        over.append(float(np.percentile(latencies, 95)) - delay)
    at_most("motion to motion less the link's delay, 95th percentile, worst delay", over, OWN, "ms", "own target")
    least = min(_taken(one) for one in within)
    result.check("delay below 250 ms: share of samples taken of those that came in time", least, 0.9, ">=", "1", SOURCE)
    none("delay above 250 ms: samples taken", sum(len(one.ages) for one in beyond))
    at_most("delay above 250 ms: the arm moved by", (one.moved for one in beyond), MOVED, "mm")
    said = sum("older than its age limit" in one.sentence for one in beyond)
    result.check("delay above 250 ms: operators who read why", said, len(beyond), "==", "", SOURCE)
    brief, long, gone = (
        [one for one in lost if least < one.job.outage <= most]
        for least, most in ((0.0, 0.8 * HOLD), (1.5 * HOLD, np.inf), (1.05 * LOSS, np.inf))
    )
    # What is under way when the link goes still arrives: the jitter and two cycles.
    slack = 2 * CYCLE + 4.0 * max(one.job.jitter for one in lost)
    at_most("outages: hold after the last sample can have come", (one.hold_after for one in long), HOLD + slack, "s")
    none("outages below 200 ms that held", sum(State.HOLD in one.states for one in brief))
    released = sum(State.DISCONNECTED in one.track.state[one.track.time > BEGIN] for one in gone)
    result.check("outages above 2 s: clutches released", released, len(gone), "==", "", SOURCE)
    at_most("outages: the arm moved while it held", (one.drift for one in lost), MOVED, "mm")
    for name, times in (("ready again", "rejoined"), ("the arm follows again", "followed")):
        latest = max(getattr(one, times) for one in lost)
        result.check(f"outages: {name} after the link's return", latest, REJOIN, "<", "s", SOURCE)
    apart = float(np.abs(right.track.effector - wrong.track.effector).max())
    at_most("a headset's clock 5 h wrong and drifting: the arm elsewhere by", [apart], MOVED, "mm")


def _taken(one: Outcome) -> float:
    """Share of samples that arrived once they could be judged, without those that were late or came twice."""
    arrived = len(one.ages) + sum(count for reason, count in one.refused.items() if reason != "order")
    return len(one.ages) / max(arrived, 1)


def report(result: Result, links: list[Outcome], lost: list[Outcome]) -> Report:
    page = Report("A bad link between a hand and an arm", f"{result.size}, seed {result.seed}")
    page.text(__doc__.split("\n\n", 2)[2])
    page.section("Targets").checks(result)
    page.section(
        "Latency",
        "From the hand's motion to that of the end effector, by the lag at which the two tracks fit best, and the samples' age when "
        "they were taken. Dotted: the delay itself. Beyond 250 ms nothing is taken.",
    )
    rows = latency_by_delay(links)
    fig, axes = figure(1, 1)
    for colour, (name, label) in zip(
        PALETTE, (("latency p50, p95 [ms]", "motion to motion"), ("age p50, p95 [ms]", "age"))
    ):
        known = [(row["delay [ms]"], *row[name]) for row in rows if row[name][0] is not None]
        for k, style in ((1, "-"), (2, "--")):
            axes.plot(
                [one[0] for one in known],
                [one[k] for one in known],
                style,
                marker="o",
                color=colour,
                label=f"{label}, p{(50, 95)[k - 1]}",
            )
    top = max(row["delay [ms]"] for row in rows)
    axes.plot([0, top], [0, top], ":", color=PALETTE[6])
    axes.axvspan(1e3 * STALE, max(top, 1e3 * STALE), alpha=0.15, color=PALETTE[6])
    axes.set(xlabel="one-way delay [ms]", ylabel="[ms]")
    axes.legend()
    page.figure(fig, "Latency and age against the delay; all losses and jitters together.")
    page.table(
        ["delay [ms]", "latency p50", "latency p95", "age p50", "age p95", "windows", "taken of those that came [%]"],
        [
            [
                row["delay [ms]"],
                *row["latency p50, p95 [ms]"],
                *row["age p50, p95 [ms]"],
                row["windows"],
                row["taken of those that came [%]"],
            ]
            for row in rows
        ],
    )
    page.section(
        "A hold and a rejoin", "The hand, the end effector, and the session's state. Grey: nothing comes through."
    )
    for one in lost[-2:]:
        page.figure(outage_figure(one), f"An outage of {one.job.outage:g} s.")
    page.table(list(_outage_row(lost[0])), [[_text(value) for value in _outage_row(one).values()] for one in lost])
    page.section("Bandwidth", "Of each stream but pictures, by the protocol's own messages.")
    page.table(["stream", "kbit/s"], list(bandwidth().items()))
    page.section("Every link")
    names = [name for name in _row(links[0]) if name != "read at the end"]
    page.table(names, [[_text(_row(one)[name]) for name in names] for one in links])
    return page


def outage_figure(one: Outcome) -> Any:
    fig, axes = figure(2, 1, sharex=True)
    track = one.track
    for k, name in ((1, "left"), (2, "up")):
        axes[0].plot(
            track.time, 1e3 * (track.hand[:, k] - track.hand[0, k]), ":", color=PALETTE[k], label=f"hand, {name}"
        )
        axes[0].plot(
            track.time, 1e3 * (track.effector[:, k] - track.effector[0, k]), color=PALETTE[k], label=f"arm, {name}"
        )
    axes[1].step(track.time, track.state, color=PALETTE[0], where="post")
    axes[1].set_yticks(
        [state.value for state in State if state < State.FAULT],
        [state.name.lower() for state in State if state < State.FAULT],
    )
    for axis in axes:
        axis.axvspan(BEGIN, BEGIN + one.job.outage, alpha=0.15, color=PALETTE[6])
    axes[0].set_ylabel("from where it began [mm]")
    axes[1].set_xlabel("time [s]")
    axes[0].legend(ncols=2)
    return fig


def _text(value: object) -> object:
    if isinstance(value, list):
        return ", ".join(str(_text(one)) for one in value)
    if isinstance(value, dict):
        return ", ".join(f"{count} {name}" for name, count in value.items()) or "none"
    return f"{value:.3g}" if isinstance(value, float) else "–" if value is None else value
