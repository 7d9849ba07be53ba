"""What an independent observer concludes from what an arm did and what its nodes said. Pure: times and numbers are arguments.

    worst(trace, limits)                                    # largest speed, torque, position over their limits
    for begin, end in closed(leases, t0, t1):               # when nobody was allowed to command
        after_stop(trace, limits, begin, end)
    silences(follows, voices, limit)                        # the arm does not follow, and nothing says why
    objection(sentence)                                     # why a sentence explains nothing

All times are the system's [s]: those at which the observer's middleware received a message.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

__all__ = [
    "Limits",
    "Stop",
    "Trace",
    "after_stop",
    "closed",
    "following",
    "lost_at",
    "mastered",
    "objection",
    "silences",
    "worst",
]

#: [s] that may pass from the end of an authority until the motors brake: transport, a servo tick, a busy machine
REACTION = 0.1
#: [rad or m] by which a joint may move in any stop: what a position loop needs to find the effort that holds it
SLACK = 0.02
#: [s] after a stop from which on every movement is one that should not be
SETTLED = 1.0
#: how much faster than its limit a joint seems to move where the robot was put elsewhere
TELEPORT = 5.0
#: [s] at most in which motors that get their torque back have to brake an arm that fell meanwhile
CATCH = 0.5
#: a sentence has at least so many words, and at most so many characters
WORDS, CHARACTERS = 3, 400


@dataclass(frozen=True, eq=False)
class Limits:
    """What the model allows; arrays (n,).

    Attributes:
        lower, upper: [rad or m]. velocity: [rad/s or m/s]. effort: [N m or N].
        deceleration: at least, by half of the motor's effort against the greatest inertia [rad/s^2 or m/s^2].
    """

    joints: tuple[str, ...]
    lower: np.ndarray
    upper: np.ndarray
    velocity: np.ndarray
    effort: np.ndarray
    deceleration: np.ndarray


@dataclass(frozen=True, eq=False)
class Trace:
    """The arm's true state over time: t (N,), q, v, effort (N, n), driven (N,): whether its motors followed a goal."""

    t: np.ndarray
    q: np.ndarray
    v: np.ndarray
    effort: np.ndarray
    driven: np.ndarray

    def between(self, begin: float, end: float) -> Trace:
        """The part from begin to end [s], both included."""
        low, high = np.searchsorted(self.t, begin, "left"), np.searchsorted(self.t, end, "right")
        return Trace(*(getattr(self, name)[low:high] for name in ("t", "q", "v", "effort", "driven")))


# -- limits --------------------------------------------------------------------------------------------------------


def worst(trace: Trace, limits: Limits) -> dict[str, float]:
    """The largest "speed", "torque" and "position" over their limits [1], and of an arm that obeys nobody "limp" and "caught".

    Position counts from the middle of the range, in halves of it. Motors that follow no goal obey nobody, so that what an
    arm does that falls, and is caught again, is told apart: "limp" is its largest speed over its limit, "caught" the
    largest torque, by which the bridges brake what they turn too fast for.
    """
    driven = mastered(trace, limits)
    limp = ~driven
    middle, half = (limits.upper + limits.lower) / 2, (limits.upper - limits.lower) / 2
    speed, torque = np.abs(trace.v) / limits.velocity, np.abs(trace.effort) / limits.effort
    return {
        "speed": float(speed[driven].max(initial=0.0)),
        "torque": float(torque[driven].max(initial=0.0)),
        "position": float((np.abs(trace.q - middle) / half)[driven].max(initial=0.0)),
        "limp": float(speed[limp].max(initial=0.0)),
        "caught": float(torque[limp].max(initial=0.0)),
    }


def mastered(trace: Trace, limits: Limits) -> np.ndarray:
    """Whether the motors answer for the motion, (N,) bool: they have torque, and an arm that fell has been caught since.

    Caught is what has been within its limits once, and whatever moves CATCH after the torque came back.
    """
    within = (np.abs(trace.v) <= limits.velocity).all(axis=1) & (
        (trace.q >= limits.lower) & (trace.q <= limits.upper)
    ).all(axis=1)
    answers, held, back = np.zeros(len(trace.t), bool), True, -np.inf
    for k, driven in enumerate(trace.driven):
        if driven and not held:
            back = min(back, trace.t[k]) if np.isfinite(back) else trace.t[k]
            held = bool(within[k]) or trace.t[k] > back + CATCH
        elif not driven:
            held, back = False, -np.inf
        answers[k] = held
    return answers


# -- stops ---------------------------------------------------------------------------------------------------------


def closed(leases: Iterable[tuple[float, float]], begin: float, end: float) -> list[tuple[float, float]]:
    """When nobody was allowed to command: [(from, to)] between begin and end.

    Args:
        leases: (time at which the supervisor said it, for how long), oldest first; 0: withdrawn.
    """
    spells, until = [], -np.inf
    for t, duration in leases:
        if duration > 0.0:
            if t > until:
                spells.append((until, t))
            until = t + duration
        else:
            until = min(until, t)
    spells.append((until, np.inf))
    clipped = [(max(a, begin), min(b, end)) for a, b in spells]
    return [(a, b) for a, b in clipped if b > a]


@dataclass(frozen=True)
class Stop:
    """What an arm did that nobody was allowed to command.

    Attributes:
        distance: the farthest any joint went [rad or m].
        share: the largest of these distances over what the joint's own stop takes [1]; see `after_stop`.
        later: the farthest any joint moved once it had come to rest [rad or m].
    """

    distance: float = 0.0
    share: float = 0.0
    later: float = 0.0


def after_stop(trace: Trace, limits: Limits, begin: float, end: float) -> Stop:
    """Judge the time from `begin`, when the authority ended, to `end` [s].

    A joint with speed v may go v * REACTION + v^2 / (2 a) + SLACK, a being its declared deceleration and v its largest speed
    within the reaction. What happens without torque is not judged, and a robot that is put elsewhere stops anew.
    """
    stop = Stop()
    for piece in _pieces(trace.between(begin, end), limits):
        if len(piece.t) < 2:
            continue
        reacting = piece.t <= piece.t[0] + REACTION
        v = np.abs(piece.v[reacting]).max(axis=0)
        allowed = v * REACTION + v**2 / (2.0 * limits.deceleration) + SLACK
        moved = np.abs(piece.q - piece.q[0]).max(axis=0)
        at_rest = piece.t >= piece.t[0] + REACTION + float((v / limits.deceleration).max()) + SETTLED
        later = np.ptp(piece.q[at_rest], axis=0).max() if at_rest.any() else 0.0
        stop = Stop(
            max(stop.distance, float(moved.max())),
            max(stop.share, float((moved / allowed).max())),
            max(stop.later, float(later)),
        )
    return stop


def _pieces(trace: Trace, limits: Limits) -> list[Trace]:
    """The parts with torque, in none of which the robot is put elsewhere."""
    if not len(trace.t):
        return []
    dt = np.maximum(np.diff(trace.t), 0.01)[:, None]
    elsewhere = (np.abs(np.diff(trace.q, axis=0)) > TELEPORT * limits.velocity * dt).any(axis=1)
    cuts = np.flatnonzero(elsewhere | (np.diff(trace.driven.astype(int)) != 0)) + 1
    edges = [0, *cuts, len(trace.t)]
    return [
        Trace(*(getattr(trace, name)[a:b] for name in ("t", "q", "v", "effort", "driven")))
        for a, b in zip(edges, edges[1:])
        if trace.driven[a]
    ]


# -- the task ------------------------------------------------------------------------------------------------------


def following(points: np.ndarray, curve: np.ndarray, tolerance: float = 0.03) -> bool:
    """Whether a hand that was at `points` (k, 3) over the last second [m] follows a curve (m, 3): near it, and moving on."""
    if len(points) < 5:
        return False
    distance = np.linalg.norm(points[:, None] - curve[None], axis=2).min(axis=1)
    return bool(distance.max() <= tolerance and np.ptp(points, axis=0).max() >= tolerance / 2)


# -- words ---------------------------------------------------------------------------------------------------------


def silences(
    follows: Sequence[tuple[float, bool]], voices: Iterable[tuple[float, float]], limit: float
) -> list[tuple[float, float]]:
    """When the arm had not followed for `limit` [s] and nobody had said why for as long: [(from, to)].

    Args:
        follows: (time [s], whether the arm follows), in order.
        voices: (from, to) of every word that explains, as long as it holds [s].
    """
    voices = list(voices)
    found: list[tuple[float, float, bool]] = []  # the last: whether it goes on
    since: float | None = None
    for t, yes in follows:
        since = None if yes else t if since is None else since
        silent = since is not None and t - since > limit and not any(a <= t and b > t - limit for a, b in voices)
        if silent and found and found[-1][2]:
            found[-1] = (found[-1][0], t, True)
        elif silent:
            found.append((t, t, True))
        elif found:
            found[-1] = (*found[-1][:2], False)
    return [(a, b) for a, b, _ in found]


def objection(sentence: str) -> str:
    """Why a text is not one sentence that says what happened; "" if it is."""
    text = sentence.strip()
    if not text:
        return "empty"
    if "\n" in text:
        return "more than one line"
    if len(text) > CHARACTERS:
        return f"{len(text)} characters"
    if len(re.findall(r"[A-Za-z]{2,}|\d+", text)) < WORDS:
        return "no sentence"
    if re.search(r"[.!?] +[A-Z][a-z]+ ", text):
        return "more than one sentence"
    return ""


# -- data ----------------------------------------------------------------------------------------------------------


def lost_at(published: np.ndarray, recorded: np.ndarray, end: float) -> float:
    """How old the newest recorded message is at `end`, less what nothing was published in [s].

    Args:
        published, recorded: times at which messages arrived [s], at the observer and at the recorder, in order.
    """
    before = published[published <= end]
    if not len(before):
        return 0.0
    if not len(recorded):
        return float(end - before[0])
    # What both received did not arrive at the same instant: a hundredth of a second is no loss.
    missed = before[before > recorded[-1] + 0.01]
    return float(end - missed[0]) if len(missed) else 0.0
