"""Pokes out of a bag: displacement and force of each, as the arm's controller told them, from joints, wrench and what a poke was.

    pokes, notes = read_poke_bag("runs/poking-.../bag")
    pokes[0].log.displacement, pokes[0].log.force

The same functions that the controller uses (`sim_core/elastic`) are asked about the same numbers, so that nothing differs, where no wrench was
lost on the way to one of the two. Of displacement and force nothing is taken from the controller's own samples.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from identification.bag_data import read_description
from identification.errors import UnusableInput, unusable_input
from recording import BagError, BagReader
from sim_core.elastic.poke_motion import TARE, PokeLog, PokeSettings, air_force
from sim_core.elastic.probe_reading import ProbeReading, ProbeReadings

__all__ = ["RecordedPoke", "read_poke_bag"]

#: of refit_interfaces/PokeMeta
APPROACH, PRESS, RETRACT, ENDED = range(4)
#: reception of what belongs to a poke, before its first phase was told and after its last [s]
AROUND = 1.0
#: from the stand-off at which the probe stands in the air again [m]
STILL = 5e-4


@dataclass(eq=False)
class RecordedPoke:
    """Attributes:
    number, object, probe: as it was told. point, normal: on the surface and out of it (3,) [m], in the world.
    roll: of the probe [rad]. speed: [m/s]. force_limit: [N]. log: what was felt while it pressed, and by how much the sensor drifted.
    """

    number: int
    object: str
    probe: str
    point: np.ndarray
    normal: np.ndarray
    roll: float
    speed: float
    force_limit: float
    log: PokeLog = field(default_factory=PokeLog)

    @property
    def complaint(self) -> str:
        """What speaks against learning from it, in a sentence; "": nothing."""
        most = PokeSettings().drift
        if abs(self.log.drift) > most:
            return f"the force in the air drifted by {self.log.drift:.2f} N, at most {most:g} N may be"
        return "" if len(self.log.stamp) > 1 else "it holds no two readings"


def read_poke_bag(
    path: str | os.PathLike[str], frame: str = "probe_tip", wrist: str = "wrist"
) -> tuple[list[RecordedPoke], list[str]]:
    """All pokes of a bag that came to press, in order, and sentences about those that are left out.

    Args:
        path: of the bag. frame, wrist: sites of the probe's tip and of the force-torque sensor in the robot's model, which the bag holds.

    Raises:
        UnusableInput: there is no such bag, it lacks a topic or the robot's model, or no poke in it can be used.
    """
    with unusable_input(BagError, KeyError):
        bag = BagReader(path)
        bag.require("joint_states", "wrench", "poke_arm/meta")
        model, _ = read_description(bag)
        readings = ProbeReadings(model, frame, wrist)
        phases = _phases(bag)
        joints = bag.joint_states(joints=model.joint_names)
        words = _words(bag, wrist)
    pokes, notes = [], []
    for told in phases:
        try:
            pokes.append(_poke(told, readings, joints, words))
        except ValueError as error:
            notes.append(f"poke {next(iter(told.values()))[1].poke} is left out: {error}")
    if not pokes:
        raise UnusableInput(f"no poke in '{path}' can be used: " + ("; ".join(notes) or "none was begun"))
    return pokes, notes


def _phases(bag: BagReader) -> list[dict[int, tuple[float, Any]]]:
    """Of each poke that was begun: phase -> time of reception [s], message."""
    found: list[dict[int, tuple[float, Any]]] = []
    for received, message in bag.messages("poke_arm/meta"):
        if message.phase == APPROACH or not found or found[-1][max(found[-1])][1].poke != message.poke:
            found.append({})
        found[-1].setdefault(int(message.phase), (1e-9 * received, message))
    return found


@dataclass(frozen=True, eq=False)
class _Words:
    """What the sensor said: stamps and times of reception (m,) [s], and wrenches (m, 6)."""

    stamp: np.ndarray
    received: np.ndarray
    wrench: np.ndarray


def _words(bag: BagReader, wrist: str) -> _Words:
    stamps, received, rows = [], [], []
    for at, message in bag.messages("wrench"):
        if not message.header.frame_id.endswith(wrist):
            continue
        force, torque = message.wrench.force, message.wrench.torque
        stamps.append(_seconds(message.header.stamp))
        received.append(1e-9 * at)
        rows.append((force.x, force.y, force.z, torque.x, torque.y, torque.z))
    if not rows:
        raise UnusableInput(
            f"no wrench in '{bag.path}' is in the frame of the site '{wrist}'; record that of the probe's wrist"
        )
    return _Words(np.array(stamps), np.array(received), np.array(rows, float))


def _poke(told: dict[int, tuple[float, Any]], readings: ProbeReadings, joints: Any, words: _Words) -> RecordedPoke:
    """One of them. Raises ValueError: it has no log, in words."""
    if PRESS not in told:
        raise ValueError("it did not come to press")
    if RETRACT not in told:
        raise ValueError("the recording ends while it presses")
    first, last = min(t for t, _ in told.values()) - AROUND, max(t for t, _ in told.values()) + AROUND
    message = told[PRESS][1]
    place, out = message.point, message.normal
    poke = RecordedPoke(
        int(message.poke),
        str(message.object),
        str(message.probe),
        np.array([place.x, place.y, place.z]),
        np.array([out.x, out.y, out.z]),
        float(message.roll),
        float(message.speed),
        float(message.force_limit),
    )
    begun, ended = (_seconds(told[phase][1].header.stamp) for phase in (PRESS, RETRACT))
    there = (joints.received >= first) & (joints.received <= last)
    t, rows = np.unique(joints.t[there], return_index=True)  # what a plant says again counts once
    q = joints.q[there][rows]
    heard = (words.received >= first) & (words.received <= last) & np.isfinite(words.wrench).all(axis=1)
    stamps, rows = np.unique(words.stamp[heard], return_index=True)
    wrenches = words.wrench[heard][rows]

    def between(low: float, high: float) -> list[ProbeReading]:
        """Readings whose stamps are later than the one and not later than the other [s]."""
        found = []
        for k in np.flatnonzero((stamps > low) & (stamps <= high)):
            where = _joints_at(t, q, float(stamps[k]))
            if where is not None:
                found.append(readings.at(float(stamps[k]), where, wrenches[k]))
        return found

    air = between(begun - TARE, begun)
    if not air:
        raise ValueError(
            f"no wrench was recorded in the {TARE:g} s before it pressed, which say what the sensor says in the air"
        )
    log = poke.log
    log.air, log.begun, log.ended = air_force(air, begun), begun, ended
    for reading in between(begun, ended):
        log.add(reading, poke.point, poke.normal)
    if not log.stamp:
        raise ValueError("no wrench was recorded while it pressed")
    end = _seconds(told[ENDED][1].header.stamp) if ENDED in told else float(stamps[-1])
    back = [
        r for r in between(ended, end) if abs(r.displacement(poke.point, poke.normal) - log.displacement[0]) < STILL
    ]
    if back and (still := [r for r in back if r.stamp > back[0].stamp + 0.5 * PokeSettings().calm]):
        log.drift = float(np.mean([r.along(poke.normal) for r in still])) - float(log.air[:3] @ poke.normal)
    return poke


def _joints_at(t: np.ndarray, q: np.ndarray, stamp: float) -> np.ndarray | None:
    """Positions (n,) at a stamp [s], as measured then or between the two nearest of t (m,), q (m, n); None: it is outside of them."""
    k = int(np.searchsorted(t, stamp))
    if k == len(t) or (k == 0 and t[0] != stamp):
        return None
    if t[k] == stamp:
        return q[k]
    share = (stamp - t[k - 1]) / (t[k] - t[k - 1])
    return q[k - 1] + share * (q[k] - q[k - 1])


def _seconds(stamp: Any) -> float:
    return stamp.sec + 1e-9 * stamp.nanosec
