"""Every device at once for ten minutes, a random fault each second: all reported, all back, nothing leaks.

Emulators speak the wire protocols, the driver nodes are the ones that run on hardware. A fault counts as reported
when the node's diagnostics leave OK or one of its error counters grows between the fault's beginning and three
seconds after its end. Times are those that device and driver had: what they waited for a core of a busy machine does not
count, up to three seconds, and a fault lasts longer by it, up to one. Memory, threads and descriptors of every driver are compared between the first
quarter and the end, all devices well.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

import numpy as np

from experiments.problems.device_bench import DeviceBench, Played, Usage
from experiments.problems.devices import DEVICES
from reporting import PALETTE, Report, Result, SilentProgress, figure

SOURCE = "own target"
SIZES = {"quick": 60.0, "full": 600.0}  # [s] of faults
SPACING = 1.0  # [s] between faults
AFTERMATH = 3.0  # [s] after a fault's end in which it may still be reported
RECOVERY = 5.0  # [s] after a fault's end by which data must flow
GROWTH = 5e6  # [bytes] of memory
WITHHELD = 3.0  # [s] at most that a busy machine may add to any of these times: the waits of threads add up
LONGER = 1.0  # [s] at most that a fault lasts longer for it: drivers wait longer between attempts the longer it lasts
PATIENCE = 60.0  # [s] of wall time for the faults under way at the end
WARM_UP = 0.25  # of the study


@dataclass
class Fault:
    """One injection and what became of it.

    Attributes:
        t, end: from the study's start [s]; end is infinite while it lasts.
        lasts: how long [s].
        errors: the device's error count before it.
        withheld: what device and driver had waited for a core before it; from its end on, before that [s].
        worst: highest level heard.
        reported: [s] after the beginning; NaN: never.
        back: [s] after the end until the device was well; NaN: never.
    """

    node: str
    name: str
    t: float
    lasts: float
    errors: int
    withheld: float
    end: float = float("inf")
    worst: int = 0
    reported: float = float("nan")
    back: float = float("nan")


def run(size: str = "full", seed: int = 0, progress=SilentProgress(), run_directory=None) -> Result:
    """Let everything fail for a while."""
    result = Result("device_faults", seed=seed, size=size)
    folder = Path(run_directory or "runs/device_faults") / "bench"
    duration, rng = SIZES[size], random.Random(seed)
    with DeviceBench(folder, DEVICES, domain=1 + seed % 100, seed=seed) as bench:
        with progress.stage("starting emulators and drivers", None):
            start = bench.up()
        result.check("all devices well after the last activation", start, 10.0, "<=", "s", SOURCE)
        faults, usage = _fail(bench, duration, rng, progress)
        with progress.stage("all faults over", None):
            for emulator in bench.emulators.values():
                emulator.clear()
            back = bench.well_since(time.monotonic(), PATIENCE)
            bench.listen(AFTERMATH)
        alive = sum(process.poll() is None for process in bench.processes.values())
        ill = [f"{d.node}: {bench.said(d.node)}" for d in DEVICES if d.node not in back]
        usage.append((duration, bench.usage()))
        levels = {d.node: [(h.t, h.level) for h in bench.health[d.node]] for d in DEVICES}
        codes = bench.close()
    result.check("drivers that still run", alive, len(DEVICES), "==", "", SOURCE)
    result.check("devices back at the end", len(DEVICES) - len(ill), len(DEVICES), "==", "", SOURCE)
    _judge(result, faults)
    _leaks(result, usage, WARM_UP * duration)
    result.check(
        "drivers that ended with code 0", sum(code == 0 for code in codes.values()), len(DEVICES), "==", "", SOURCE
    )
    result.detail("not back", ill)
    result.detail("exit codes", codes)
    result.detail("faults", [vars(f) for f in faults])
    if run_directory is not None:
        _report(result, faults, usage, levels).write(Path(run_directory) / "report.html")
    return result


def _fail(bench: DeviceBench, duration: float, rng: random.Random, progress) -> tuple[list[Fault], list]:
    """Faults for `duration` [s], each on a device that has none; returns them and the processes' usage over time."""
    faults: list[Fault] = []
    usage: list[tuple[float, dict[str, Usage]]] = []
    begin = time.monotonic()
    busy: dict[str, Fault] = {}
    with progress.stage("faults", duration) as stage:
        done, due, usage_due = 0.0, SPACING, 0.0
        while (now := time.monotonic() - begin) < duration:
            _watch(bench, busy, begin, now)
            if now >= usage_due:
                usage.append((now, bench.usage()))
                usage_due += max(2.0, duration / 100)
            free = [d for d in bench.devices if d.node not in busy and bench.well(d.node)]
            if now >= due and now < duration - AFTERMATH and free:
                due += SPACING
                fault = _begin(bench, rng, rng.choice(free), now)
                faults.append(fault)
                busy[fault.node] = fault
                stage.say(f"{len(faults)} faults, last: {fault.node} {fault.name}")
            bench.listen(0.05)
            stage.advance(min(now, duration) - done)
            done = min(now, duration)
        end = time.monotonic() + PATIENCE
        while busy and time.monotonic() < end:
            bench.listen(0.05)
            _watch(bench, busy, begin, time.monotonic() - begin)
    return faults, usage


def _begin(bench: DeviceBench, rng: random.Random, device: Played, now: float) -> Fault:
    name = rng.choice(sorted(device.faults))
    parameters = dict(device.faults[name])
    low, high = parameters.pop("seconds", (0.5, 2.0))
    errors = bench.health[device.node][-1].errors()
    fault = Fault(device.node, name, now, rng.uniform(low, high), errors, bench.withheld(device.node))
    bench.inject(device.node, name, PATIENCE, **parameters)
    return fault


def _watch(bench: DeviceBench, busy: dict[str, Fault], begin: float, now: float) -> None:
    """End faults that have lasted long enough, note what the diagnostics say of them; let go whose aftermath is over."""
    for node, fault in list(busy.items()):
        total = bench.withheld(node)
        late = min(total - fault.withheld, WITHHELD)  # since the beginning, or since the end
        if now > fault.t + fault.lasts + min(late, LONGER) and np.isinf(fault.end):
            bench.clear(node, fault.name)
            fault.end, fault.withheld, late = time.monotonic() - begin, total, 0.0
        said = list(takewhile(lambda health: health.t - begin >= fault.t, reversed(bench.health[node])))
        fault.worst = max([fault.worst, *(health.level for health in said if health.level < 3)])
        telling = [health for health in said if health.level in (1, 2) or health.errors() > fault.errors]
        if np.isnan(fault.reported) and telling:
            fault.reported = max(0.0, telling[-1].t - begin - fault.t - late)
        newest = bench.health[node][-1]
        if np.isnan(fault.back) and newest.t - begin > fault.end and newest.flows:
            fault.back = max(0.0, newest.t - begin - fault.end - late)
        if now > fault.end + AFTERMATH + late and (
            not np.isnan(fault.back) or now > fault.end + RECOVERY + AFTERMATH + late
        ):
            del busy[node]


def _judge(result: Result, faults: list[Fault]) -> None:
    reported = [f for f in faults if not np.isnan(f.reported)]
    back = np.array([f.back for f in faults])
    result.check("faults reported", len(reported), len(faults), "==", "", SOURCE)
    result.check(
        "faults after whose end data flowed again", int(np.sum(~np.isnan(back))), len(faults), "==", "", SOURCE
    )
    result.check("longest until data flowed again", float(np.nanmax(back)), RECOVERY, "<=", "s", SOURCE)
    gone = [f for f in faults if f.name == "unplug"]
    if gone:
        result.check(
            "unplugged: longest until reported", float(np.max([f.reported for f in gone])), 1.0, "<=", "s", SOURCE
        )
    result.detail(
        "by device",
        [
            {
                "device": node,
                "faults": len(mine),
                "reported": sum(not np.isnan(f.reported) for f in mine),
                "until reported, median s": round(float(np.nanmedian([f.reported for f in mine])), 2),
                "until back, median s": round(float(np.nanmedian([f.back for f in mine])), 2),
                "longest s": round(float(np.nanmax([f.back for f in mine])), 2),
            }
            for node in sorted({f.node for f in faults})
            for mine in [[f for f in faults if f.node == node]]
        ],
    )
    result.detail(
        "silent", [f"{f.node}: {f.name} at {f.t:.1f} s for {f.end - f.t:.1f} s" for f in faults if np.isnan(f.reported)]
    )


def _leaks(result: Result, usage: list, warm: float) -> None:
    """Growth from the warm-up to the end, the worst of all drivers.

    Threads and descriptors come and go with faults: their most in the warm-up counts, in which every state occurs.
    """
    early = [use for t, use in usage if t <= warm] or [usage[0][1]]
    first = {
        node: Usage(
            early[-1][node].memory,
            *(max(getattr(use[node], what) for use in early if node in use) for what in ("threads", "descriptors")),
        )
        for node in early[-1]
    }
    last = usage[-1][1]
    rows = [
        {
            "device": node,
            "memory MB": round(first[node].memory / 1e6, 1),
            "grown MB": round((last[node].memory - first[node].memory) / 1e6, 2),
            "threads": last[node].threads,
            "threads grown": last[node].threads - first[node].threads,
            "descriptors": last[node].descriptors,
            "descriptors grown": last[node].descriptors - first[node].descriptors,
        }
        for node in first
        if node in last
    ]
    result.check(
        "memory grown, worst driver",
        max(row["grown MB"] for row in rows),
        GROWTH / 1e6,
        "<=",
        "MB",
        SOURCE,
    )
    result.check("threads grown, worst driver", max(row["threads grown"] for row in rows), 0, "<=", "", SOURCE)
    result.check("descriptors grown, worst driver", max(row["descriptors grown"] for row in rows), 0, "<=", "", SOURCE)
    result.detail("processes", rows)


def _report(result: Result, faults: list[Fault], usage: list, levels: dict) -> Report:
    report = Report("Devices that fail", f"{result.size}, seed {result.seed}")
    report.numbers(
        {
            "faults": len(faults),
            "reported": sum(not np.isnan(f.reported) for f in faults),
            "longest until back": f"{np.nanmax([f.back for f in faults]):.2f} s",
        }
    )
    report.section("Targets").checks(result)
    report.section("Faults", "Each bar is a fault; dots are when the driver's diagnostics first told of it.")
    nodes = sorted({f.node for f in faults})
    fig, axes = figure(size=(8.4, 0.35 * len(nodes) + 1.0))
    for f in faults:
        y = nodes.index(f.node)
        axes.plot([f.t, f.end], [y, y], color=PALETTE[1], linewidth=5, solid_capstyle="butt")
        axes.plot(f.t + f.reported, y, ".", color=PALETTE[0])
    axes.set_yticks(range(len(nodes)), nodes)
    axes.set_xlabel("time [s]")
    report.figure(fig, "Faults over the run.")
    rows = result.details["by device"]
    report.table(list(rows[0]), [list(row.values()) for row in rows])
    report.section("Processes", "Resident memory of every driver.")
    fig, axes = figure()
    for k, node in enumerate(nodes):
        axes.plot(
            [t for t, use in usage if node in use],
            [use[node].memory / 1e6 for _, use in usage if node in use],
            label=node,
            color=PALETTE[k % len(PALETTE)],
        )
    axes.set_xlabel("time [s]")
    axes.set_ylabel("memory [MB]")
    axes.legend()
    report.figure(fig, "Memory of the drivers.")
    rows = result.details["processes"]
    report.table(list(rows[0]), [list(row.values()) for row in rows])
    return report
