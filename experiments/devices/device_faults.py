"""Every device at once for an hour, and all of it fails, one by one and all together: all reported, all back, nothing leaks.

Emulators speak the wire protocols, the driver nodes are the ones that run on hardware. Three phases follow each other:
a fault each second on a device that has none; one on every device at the same moment, again and again; and the end of every
emulator's process, which another one replaces. A fault counts as reported when the driver shows the sign that the
level-and-counter matrix (experiments/problems/devices.py) has for it, between its beginning and three seconds after its
end: what was left over from the fault before is none. Times are those that device and driver had: what they waited for a
core of a busy machine does not count, up to three seconds, and a fault lasts longer by it, up to one. Memory, threads and
descriptors of every driver are compared between the first quarter and the end, all devices well.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

import numpy as np

from experiments.problems.device_bench import KILLED, DeviceBench, Injection, Played, Usage
from experiments.problems.device_faults_report import write_report
from experiments.problems.device_signs import OK, STALE, Health, Telling
from experiments.problems.devices import DEVICES
from reporting import Result, SilentProgress
from scripting.own_domain import own_domain

SOURCE = "own target"
#: phase -> [s] of faults
SIZES = {
    "quick": {"one by one": 30.0, "all at once": 22.0, "killed": 14.0},
    "full": {"one by one": 2520.0, "all at once": 720.0, "killed": 360.0},
}
SPACING = 1.0  # [s] between faults that come one by one
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
        phase: in which it was played.
        t, end: from the study's start [s]; end is infinite while it lasts.
        lasts: how long [s]. injection: what was played. before: newest message before it.
        withheld: what device and driver had waited for a core before it; from its end on, before that [s].
        mended: its end is over too: `end` is when. late: what was withheld since then [s].
        worst: highest level heard.
        telling: what of its sign was heard, on the bench's clock.
        reported: [s] after the beginning until the sign's level was heard; NaN: never.
        back: [s] after the end until the device was well; NaN: never.
        said: levels and sentences heard, each once.
    """

    node: str
    name: str
    phase: str
    t: float
    lasts: float
    injection: Injection
    before: Health
    withheld: float
    end: float = math.inf
    mended: bool = False
    late: float = 0.0
    worst: int = OK
    telling: Telling = Telling()
    reported: float = math.nan
    back: float = math.nan
    said: list[str] = field(default_factory=list)


def run(size: str = "full", seed: int = 0, progress=SilentProgress(), run_directory=None) -> Result:
    """Let everything fail for a while."""
    result = Result("device_faults", seed=seed, size=size)
    folder = Path(run_directory or "runs/device_faults") / "bench"
    with own_domain() as domain, DeviceBench(folder, DEVICES, domain, seed=seed) as bench:
        with progress.stage("starting emulators and drivers", None):
            start = bench.up()
        result.check("all devices well after the last activation", start, 10.0, "<=", "s", SOURCE)
        study = Study(bench, random.Random(seed), progress)
        for phase, seconds in SIZES[size].items():
            study.play(phase, seconds)
        with progress.stage("all faults over", None):
            for emulator in bench.emulators.values():
                emulator.clear()
            back = bench.well_since(time.monotonic(), PATIENCE)
            bench.listen(AFTERMATH)
        alive = sum(process.poll() is None for process in bench.processes.values())
        ill = [f"{d.node}: {bench.said(d.node)}" for d in DEVICES if d.node not in back]
        duration = time.monotonic() - study.begin
        study.usage.append((duration, bench.usage()))
        codes = bench.close()
    result.check("drivers that still run", alive, len(DEVICES), "==", "", SOURCE)
    result.check("devices back at the end", len(DEVICES) - len(ill), len(DEVICES), "==", "", SOURCE)
    _judge(result, study.faults, size)
    _leaks(result, study.usage, WARM_UP * duration)
    result.check(
        "drivers that ended with code 0", sum(code == 0 for code in codes.values()), len(DEVICES), "==", "", SOURCE
    )
    result.detail("not back", ill)
    result.detail("exit codes", codes)
    result.detail("faults", [_row(f) for f in study.faults])
    if run_directory is not None:
        write_report(result, study.faults, study.usage, Path(run_directory) / "report.html")
    return result


class Deck:
    """The faults of one device in random order, each once before any comes again.

    Args:
        device: whose. rng: that shuffles.
    """

    def __init__(self, device: Played, rng: random.Random) -> None:
        self._cards = self._deal(sorted(device.faults), rng)

    def draw(self) -> str:
        """The next fault."""
        return next(self._cards)

    @staticmethod
    def _deal(names: list[str], rng: random.Random) -> Iterator[str]:
        while True:
            yield from rng.sample(names, len(names))


class Study:
    """Faults that are played, watched and noted.

    Args:
        bench: all well. rng: of faults and how long they last. progress: of stages.

    Attributes:
        begin: when the study began, on the bench's clock [s]. faults, usage: what was played; (time [s], of all drivers).
    """

    def __init__(self, bench: DeviceBench, rng: random.Random, progress) -> None:
        self.bench, self._rng, self._progress = bench, rng, progress
        self.begin = time.monotonic()
        self.faults: list[Fault] = []
        self.usage: list[tuple[float, dict[str, Usage]]] = []
        self._busy: dict[str, Fault] = {}
        self._decks = {device.node: Deck(device, rng) for device in bench.devices}
        self._usage_due = 0.0

    @property
    def now(self) -> float:
        """Time since the study began [s]."""
        return time.monotonic() - self.begin

    def play(self, phase: str, seconds: float) -> None:
        """A phase of `seconds`, and until its last fault's aftermath is over."""
        due: Callable[[float], list[tuple[Played, str]]] = {
            "one by one": self._one_by_one,
            "all at once": self._all_at_once,
            "killed": self._killed,
        }[phase]
        self._due, self._queue = self.now, [device.node for device in self.bench.devices]
        start, end, played = self.now, self.now + seconds, len(self.faults)
        least = len(self._queue) if phase == "killed" else 0  # every emulator, however slowly they come back
        with self._progress.stage(phase, seconds) as stage:
            done = 0.0
            while self.now < end - AFTERMATH or (len(self.faults) < played + least and self.now < end + PATIENCE):
                for device, name in due(self.now):
                    self._inject(device, name, phase)
                    stage.say(f"{len(self.faults)} faults, last: {device.node} {name}")
                self._turn()
                stage.advance(min(self.now - start, seconds) - done)
                done = min(self.now - start, seconds)
            patience = self.now + PATIENCE
            while self._busy and self.now < patience:
                self._turn()
            self._busy.clear()

    # -- what comes next -----------------------------------------------------------------------------
    def _free(self) -> list[Played]:
        """Devices without a fault; those without a leftover warning, if there are any: there a level has to rise."""
        free = [d for d in self.bench.devices if d.node not in self._busy and self.bench.well(d.node)]
        return [d for d in free if self.bench.health[d.node][-1].level == OK] or free

    def _one_by_one(self, now: float) -> list[tuple[Played, str]]:
        free = self._free()
        if now < self._due or not free:
            return []
        self._due += SPACING
        device = self._rng.choice(free)
        return [(device, self._decks[device.node].draw())]

    def _all_at_once(self, now: float) -> list[tuple[Played, str]]:
        """A round begins when all devices are well; their ends are not at once."""
        if self._busy or not all(self.bench.well(d.node) for d in self.bench.devices):
            return []
        return [(device, self._decks[device.node].draw()) for device in self.bench.devices]

    def _killed(self, now: float) -> list[tuple[Played, str]]:
        """One emulator each second, in turn, and a new turn when all have had theirs."""
        if now < self._due:
            return []
        self._queue = self._queue or [device.node for device in self.bench.devices]
        device = next((d for d in self.bench.devices if d.node == self._queue[0]), None)
        if device is None or device.node in self._busy or not self.bench.well(device.node):
            return []
        self._queue.pop(0)
        self._due = now + SPACING
        return [(device, KILLED)]

    # -- faults ------------------------------------------------------------------------------------
    def _inject(self, device: Played, name: str, phase: str) -> None:
        injection = device.faults[name]
        before = self.bench.health[device.node][-1]
        fault = Fault(
            device.node,
            name,
            phase,
            self.now,
            self._rng.uniform(*injection.seconds),
            injection,
            before,
            self.bench.withheld(device.node),
        )
        self.bench.inject(device.node, name, PATIENCE, **injection.parameters)
        self.faults.append(fault)
        self._busy[device.node] = fault

    def _turn(self) -> None:
        self.bench.listen(0.05)
        now = self.now
        if now >= self._usage_due:
            self.usage.append((now, self.bench.usage()))
            self._usage_due = now + max(2.0, now / 100)
        for node, fault in list(self._busy.items()):
            self._watch(fault, now)
            if self._done(fault, now):
                del self._busy[node]

    def _watch(self, fault: Fault, now: float) -> None:
        """End a fault that has lasted long enough, note what the diagnostics say of it."""
        bench, node = self.bench, fault.node
        fault.late = min(max(0.0, bench.withheld(node) - fault.withheld), WITHHELD)
        if math.isinf(fault.end):
            if now > fault.t + fault.lasts + min(fault.late, LONGER):
                bench.clear(node, fault.name, fault.injection.cure)
                fault.end = now
        if not fault.mended and not math.isinf(fault.end) and bench.mended(node):
            fault.mended, fault.end = True, self.now
            fault.withheld, fault.late = bench.withheld(node), 0.0
        heard = [*takewhile(lambda health: health.t - self.begin >= fault.t, reversed(bench.health[node]))][::-1]
        note(fault, heard, self.begin)

    def _done(self, fault: Fault, now: float) -> bool:
        """Whether its aftermath is over."""
        if not fault.mended:
            return now > fault.t + PATIENCE
        waited = now - fault.end - fault.late
        told = fault.telling.complete and waited > 0.5 * AFTERMATH
        return (waited > AFTERMATH or told) and (not math.isnan(fault.back) or waited > RECOVERY + AFTERMATH)


def note(fault: Fault, heard: list[Health], begin: float) -> None:
    """What the messages since a fault's beginning tell of it.

    Args:
        heard: since its beginning, oldest first. begin: of the study, on their clock [s].
    """
    fault.worst = max([fault.worst, *(health.level for health in heard if health.level < STALE)])
    fault.said = list(dict.fromkeys(f"{health.level} {health.sentence}" for health in heard))
    fault.telling = fault.injection.sign.told(fault.before, heard)
    if math.isnan(fault.reported) and not math.isnan(fault.telling.level):
        withheld = fault.late if math.isinf(fault.end) else 0.0
        fault.reported = max(0.0, fault.telling.level - begin - fault.t - withheld)
    if math.isnan(fault.back) and fault.mended and heard and heard[-1].t - begin > fault.end and heard[-1].flows:
        fault.back = max(0.0, heard[-1].t - begin - fault.end - fault.late)


def _row(fault: Fault) -> dict:
    """A fault as the result's details have it; what was said only where the sign is missing."""
    sign = fault.injection.sign
    return {
        "node": fault.node,
        "name": fault.name,
        "phase": fault.phase,
        "t": round(fault.t, 3),
        "end": round(fault.end, 3),
        "level before": fault.before.level,
        "worst": fault.worst,
        "sign": f"level {sign.level}, counter {' or '.join(sign.counters) or 'none'}, says '{sign.says}'",
        "counter": fault.telling.grown,
        "reported": fault.reported,
        "back": fault.back,
        **({} if fault.telling.complete and not math.isnan(fault.back) else {"said": fault.said}),
    }


def _judge(result: Result, faults: list[Fault], size: str) -> None:
    back = np.array([f.back for f in faults])
    result.check(
        "faults whose own sign was shown (level, counter, words)",
        sum(f.telling.complete for f in faults),
        len(faults),
        "==",
        "",
        SOURCE,
    )
    for phase in SIZES[size]:
        mine = [f for f in faults if f.phase == phase]
        result.check(
            f"{phase}: reported and back",
            sum(f.telling.complete and not math.isnan(f.back) for f in mine),
            len(mine),
            "==",
            "",
            SOURCE,
        )
    result.check("longest until data flowed again", float(np.nanmax(back)), RECOVERY, "<=", "s", SOURCE)
    for what, names, limit in (("unplugged", ("unplug", "disconnect"), 1.0), ("killed", (KILLED,), 2.0)):
        if gone := [f.reported for f in faults if f.name in names]:
            result.check(f"{what}: longest until reported", float(np.nanmax(gone)), limit, "<=", "s", SOURCE)
    cells = {(device.node, name) for device in DEVICES for name in device.faults}
    played = {(f.node, f.name) for f in faults}
    least = len(cells) if size == "full" else len(DEVICES) * 4
    result.check(f"cells of the matrix that were played, of {len(cells)}", len(played & cells), least, ">=", "", SOURCE)
    result.check(
        "emulators killed and replaced",
        len({f.node for f in faults if f.name == KILLED}),
        len(DEVICES),
        "==",
        "",
        SOURCE,
    )
    result.detail(
        "by device",
        [
            {
                "device": node,
                "faults": len(mine),
                "kinds": len({f.name for f in mine}),
                "reported": sum(f.telling.complete for f in mine),
                "until reported, median s": round(float(np.nanmedian([f.reported for f in mine])), 2),
                "until back, median s": round(float(np.nanmedian([f.back for f in mine])), 2),
                "longest s": round(float(np.nanmax([f.back for f in mine])), 2),
            }
            for node in sorted({f.node for f in faults})
            for mine in [[f for f in faults if f.node == node]]
        ],
    )
    result.detail(
        "matrix",
        [
            {
                "device": device.node,
                "fault": name,
                "level": ("", "WARN", "ERROR")[injection.sign.level],
                "counters": ", ".join(injection.sign.counters),
                "says": injection.sign.says,
                "played": len(mine),
                "shown": sum(f.telling.complete for f in mine),
            }
            for device in DEVICES
            for name, injection in device.faults.items()
            for mine in [[f for f in faults if (f.node, f.name) == (device.node, name)]]
        ],
    )
    result.detail(
        "silent",
        [f"{f.node}: {f.name} at {f.t:.1f} s for {f.end - f.t:.1f} s" for f in faults if not f.telling.complete],
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
