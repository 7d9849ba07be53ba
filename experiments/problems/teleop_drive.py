"""An operator who waves through a bad link: one drive of the avatar in simulation, and what it has shown.

outcome = driven(Drive(delay=0.1, loss=0.02, jitter=0.005, seed=0, seconds=7.0))
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from experiments.problems.teleoperation import Seen, Teleoperation, Track
from sim_core.multibody import RobotModel, load_model
from sim_core.telepresence.clutch import OPENXR, Pose
from sim_core.telepresence.link_ends import Devices
from sim_core.telepresence.motion_latency import motion_latency
from sim_core.telepresence.operator_link import LinkConditions
from sim_core.telepresence.session import State

__all__ = ["BEGIN", "CYCLE", "REST", "Drive", "Outcome", "Waver", "driven", "model", "overshoot"]

#: when an outage begins [s]
BEGIN = 3.0
#: share of the messages that come twice
TWICE = 0.02
#: of the operator: when he presses [s], after what he reads, and how long the hand rests in the end [s]
PRESS, REACTION, REST = 1.0, 0.3, 1.5
#: of the hand's motion: amplitudes (3,) [m], frequencies [Hz] of either part
WIDE, FAST = (np.array([0.0, 0.04, 0.05]), 0.25), (np.array([0.0, 0.02, 0.015]), 0.6)
#: [s] of a control cycle
CYCLE = 0.008


@dataclass(frozen=True)
class Drive:
    """One run."""

    delay: float
    loss: float
    jitter: float
    seed: int
    seconds: float
    outage: float = 0.0
    ahead: float = 0.0
    drift: float = 0.0

    def conditions(self, channel: int) -> LinkConditions:
        out = ((BEGIN, BEGIN + self.outage),) if self.outage else ()
        return LinkConditions(self.delay, self.jitter, self.loss, TWICE if self.jitter else 0.0, out)


class Waver:
    """An operator whose right hand draws a figure from some moment on, and who opens it when the robot asks for that.

    Args:
        until: when the hand comes to rest [s].
    """

    def __init__(self, until: float) -> None:
        self._until = until
        self._opens_at = self._closes_at = np.inf
        self._closed = False

    def hand(self, now: float) -> np.ndarray:
        """In the robot's axes (3,) [m]; it begins and ends at rest."""
        t = np.clip(now - PRESS - 0.5, 0.0, self._until - PRESS - 0.5)
        # Over the first second the figure grows from nothing; at its end the hand stays where it is.
        grown = min(1.0, t)
        way = sum(a * np.sin(2.0 * np.pi * f * t) for a, f in (WIDE, FAST))
        return np.array([0.0, -0.2, 1.0]) + grown * way

    def act(self, now: float, seen: Seen | None) -> tuple[Devices, tuple[str, ...]]:
        if not self._closed and now >= PRESS and not np.isfinite(self._closes_at):
            self._closes_at = now
        if self._closed and seen is not None and seen.state is State.HANDSHAKE and not np.isfinite(self._opens_at):
            self._opens_at = now + REACTION
        if now >= self._opens_at:
            self._closed, self._opens_at, self._closes_at = False, np.inf, now + REACTION
        if now >= self._closes_at:
            self._closed, self._closes_at = True, np.inf
        level = Pose(np.zeros(3), np.eye(3))
        hands = (Pose(OPENXR.T @ self.hand(now), np.eye(3)), Pose(OPENXR.T @ [0.0, 0.2, 1.0], np.eye(3)))
        return Devices(level, hands, (self._closed, False)), ()


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a run has shown; lengths in metres, times in seconds.

    Attributes:
        latencies: of the end effector behind the hand. ages: of the samples taken, by the aligned clocks; true_ages: as they were.
        overshoot: by which the end effector passed what was asked. moved: its greatest distance from where it began.
        speed_after: its greatest speed in the last half second, with the hand at rest for a second.
        energy: kinetic, its greatest while the hand moved and in the last half second [J].
        rtt, jitter, loss: as the robot measured them. refused: samples, by reason. counts: of both channels.
        hold_after: from the last sample taken before the outage to the hold. rejoined, followed: from the link's return to a
            session that is ready, and to an arm that follows again. drift: of the arm in the outage, from the hold to the return.
        sentence: that the operator read last. states: that the session had.
    """

    job: Drive
    track: Track
    latencies: np.ndarray
    ages: np.ndarray
    true_ages: np.ndarray
    overshoot: float
    moved: float
    speed_after: float
    energy: tuple[float, float]
    rtt: float
    jitter: float
    loss: float
    refused: dict[str, int]
    counts: tuple[dict[str, int], dict[str, int]]
    gate_refused: int
    hold_after: float
    rejoined: float
    followed: float
    drift: float
    sentence: str
    states: tuple[int, ...]


@functools.cache
def model() -> RobotModel:
    """The avatar, read once."""
    return load_model("avatar")


def driven(job: Drive) -> Outcome:
    """One run from its beginning to its end."""
    operator = Waver(job.seconds - REST)
    run = Teleoperation(
        operator, job.conditions(1), job.conditions(2), job.seed, job.ahead, job.drift, model=model()
    ).until(job.seconds)
    track = run.track.arrays()
    speed = np.linalg.norm(np.diff(track.effector, axis=0), axis=1) / CYCLE
    moving = (track.time > PRESS + 1.5) & (track.time < job.seconds - REST)
    resting = track.time > job.seconds - 0.5
    energy = float(track.energy[moving].max()), float(track.energy[resting].max())
    quality = run.robot_end.transit.quality(run.robot_end.clock.rtt)
    return Outcome(
        job,
        track,
        _latencies(track),
        np.array(run.robot_end.ages),
        np.array(run.robot_end.true_ages),
        overshoot(track),
        float(np.linalg.norm(track.effector - track.effector[0], axis=1).max()),
        float(speed[resting[1:]].max()),
        energy,
        quality.rtt,
        quality.jitter,
        quality.loss,
        {reason.name.lower(): count for reason, count in run.robot_end.gate.refused.items()},
        (dict(run.there.counts), dict(run.back.counts)),
        run.refused,
        *_outage(job, track),
        run.look().message,
        tuple(sorted(set(track.state.tolist()))),
    )


def _latencies(track: Track) -> np.ndarray:
    """Where the arm follows without a break; a hold ties hand and arm together anew."""
    effector = track.effector.copy()
    effector[~track.follows] = np.nan
    begun = np.flatnonzero(np.diff(track.follows.astype(int)) == 1) + 1
    effector[begun] = np.nan  # so that no window reaches over such a moment
    return motion_latency(track.time, track.hand, effector, longest=0.6)


def overshoot(track: Track) -> float:
    """[m] by which the end effector left the box of what had been asked of it since its clutch was pressed last, worst axis."""
    worst, begin = 0.0, None
    for k, follows in enumerate(track.follows):
        if not follows:
            begin = None
            continue
        if begin is None:
            begin, low, high = k, np.zeros(3), np.zeros(3)
        asked = track.asked[k] - track.asked[begin]
        low, high = np.minimum(low, asked), np.maximum(high, asked)
        done = track.effector[k] - track.effector[begin]
        worst = max(worst, float((done - high).max()), float((low - done).max()))
    return worst


def _outage(job: Drive, track: Track) -> tuple[float, float, float, float]:
    """(hold after, rejoined, followed, drift) of an outage; NaN where there is none of it."""
    if not job.outage:
        return np.nan, np.nan, np.nan, np.nan
    end = BEGIN + job.outage
    ready = np.isin(track.state, (State.IDLE, State.TELEOP))
    held = np.flatnonzero((track.time > BEGIN) & ~ready)
    back = np.flatnonzero((track.time >= end) & ready)
    following = np.flatnonzero((track.time >= end) & track.follows)
    rejoined = track.time[back[0]] - end if len(back) else np.inf
    followed = track.time[following[0]] - end if len(following) else np.inf
    if not len(held):
        return np.nan, rejoined, followed, 0.0
    first = held[0]
    # The arm is given half a second to come to rest where it was led to.
    rest = (track.time > track.time[first] + 0.5) & (track.time < end)
    drift = np.linalg.norm(np.ptp(track.effector[rest], axis=0)) if rest.any() else 0.0
    return track.time[first] - BEGIN - job.delay, rejoined, followed, float(drift)
