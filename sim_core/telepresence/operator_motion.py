"""How an operator's hand moves, played by a script: smooth motions of a gripper that floats over a table.

    motion = operator_motion("A", seed=0)      # a minute, 125 poses a second
    target = motion.pose(k)

The hand goes from place to place as people's hands do, each time with the least jerk, and rests for a moment. The places of
the two kinds follow from the robot's size and from what the thesis says of them: A is tabletop work, mostly in the workspace,
and B goes further to the right, out of reach and back.

* The base is 1 m long and carries the shoulders over its middle, so a table begins 0.5 m before them; hands go to what lies
  within 0.35 m of its edge. The table is 0.75 m high, and hands are 5 to 35 cm above it.
* A reaches from 0.6 m on the hand's own side to 0.15 m on the other.
* B goes in turns to a place of A and to one that is 0.75 to 1.3 m to the side, beside or before the robot; the outer half of
  these is farther from the shoulder than the arm is long.
* The hand looks forward and down, and to the side where it reaches to the side: half as much as the line from the shoulder.
* It moves 0.1 to 0.25 m/s and turns 0.4 to 0.9 rad/s on average over each way: the robot's own hands do 0.2 m/s.
* It begins at a place in the middle half of the tabletop, where an arm waits that is at home.

How the arm follows was looked at while this was written, with seeds from 2000 on; experiments take others.

Axes: x forward, y left, z up, from the floor below the shoulders. The hand's z axis points to what is grasped, its x axis up.

Source: Zhu, PhD thesis, University of Illinois (2023), section 8.4.1, describes recorded trajectories of the same names in
words; Flash and Hogan, The Coordination of Arm Movements (1985), for the least jerk.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.spatial.transform import Rotation

from sim_core.telepresence.arm_ik import PERIOD
from sim_core.telepresence.clutch import Pose

__all__ = ["Kind", "OperatorMotion", "operator_motion", "operator_targets"]

Kind = Literal["A", "B"]

#: corners of the boxes in which the places of the right hand are [m]: tabletop work, beyond it, and where a hand begins
TABLETOP = ((0.50, -0.60, 0.80), (0.85, 0.15, 1.10))
BEYOND = ((0.20, -1.30, 0.78), (0.80, -0.75, 1.25))
START = ((0.5875, -0.4125, 0.875), (0.7625, -0.0375, 1.025))
#: the shoulder from which the line to a place is seen [m]
SHOULDER = (0.0, -0.2)
#: of the hand to the side, over that of the line from the shoulder
FOLLOWED = 0.5
#: mean and deviation of the angles to the side (beside what is followed), down and about the way it looks [rad]
TURNS = ((0.0, 0.3), (0.4, 0.25), (0.0, 0.25))
#: least and largest angle down [rad]
DOWN = (-0.2, 1.0)
#: mean speeds of a way [m/s], [rad/s], time of the shortest way and of the longest rest [s]
SPEED, TURNING, SHORTEST, REST = (0.1, 0.25), (0.4, 0.9), 0.4, 0.6
#: x up and z forward, for a hand that looks straight ahead
AHEAD = Rotation.from_matrix([[0.0, 0.0, 1.0], [0.0, -1.0, 0.0], [1.0, 0.0, 0.0]])


@dataclass(frozen=True, eq=False)
class OperatorMotion:
    """N poses of a hand, one for each period.

    Attributes:
        kind: "A" or "B".
        period: [s].
        positions: (N, 3) [m]. rotations: (N, 3, 3).
    """

    kind: Kind
    period: float
    positions: np.ndarray
    rotations: np.ndarray

    def __len__(self) -> int:
        return len(self.positions)

    def pose(self, k: int) -> Pose:
        """The k-th."""
        return Pose(self.positions[k], self.rotations[k])


def operator_motion(
    kind: Kind, seed: int, duration: float = 60.0, period: float = PERIOD, side: Literal["right", "left"] = "right"
) -> OperatorMotion:
    """A motion of one hand; that of the left hand is the mirror image of that of the right.

    Args:
        kind: "A": tabletop work. "B": further to the side, out of reach and back.
        seed: of the places, turns, speeds and rests.
        duration, period: [s].

    Raises:
        ValueError: another kind or side, or duration or period are not positive.
    """
    if kind not in ("A", "B") or side not in ("right", "left"):
        raise ValueError(f"expected a motion 'A' or 'B' of a hand 'right' or 'left', found '{kind}' and '{side}'")
    if not (np.isfinite(duration) and 0.0 < period <= duration):
        raise ValueError(f"expected a period and a longer duration [s], found {period} and {duration}")
    rng, steps = np.random.default_rng([seed, ord(kind)]), round(duration / period)
    place = rng.uniform(*START)
    turn = _look(place, tuple(mean for mean, _ in TURNS))
    positions, rotations = [place[None]], [turn.as_matrix()[None]]
    made, number = 1, 1
    while made < steps:
        number += 1
        box = TABLETOP if kind == "A" or number % 2 else BEYOND
        following, following_turn = _drawn(rng, box)
        between = (following_turn * turn.inv()).as_rotvec()
        far, wide = float(np.linalg.norm(following - place)), float(np.linalg.norm(between))
        time = max(far / rng.uniform(*SPEED), wide / rng.uniform(*TURNING), SHORTEST)
        count, rest = max(round(time / period), 1), round(rng.uniform(0.0, REST) / period)
        share = np.concatenate([_least_jerk(np.arange(1, count + 1) / count), np.ones(rest)])[:, None]
        positions.append(place + share * (following - place))
        rotations.append((Rotation.from_rotvec(share * between) * turn).as_matrix())
        place, turn, made = following, following_turn, made + count + rest
    p, R = np.concatenate(positions)[:steps], np.concatenate(rotations)[:steps]
    if side == "left":
        mirror = np.diag([1.0, -1.0, 1.0])
        p, R = p @ mirror, mirror @ R @ mirror  # the hand's own y axis is mirrored as well, so that it stays a rotation
    return OperatorMotion(kind, period, p, R)


def _least_jerk(share: np.ndarray) -> np.ndarray:
    """Share of the way after a share of the time, at rest at both ends."""
    return share**3 * (10.0 - 15.0 * share + 6.0 * share**2)


def _drawn(rng: np.random.Generator, box: tuple[tuple[float, ...], tuple[float, ...]]) -> tuple[np.ndarray, Rotation]:
    """A place (3,) [m] in a box, and how the hand is turned there."""
    place = rng.uniform(*box)
    return place, _look(place, tuple(rng.normal(*spread) for spread in TURNS))


def _look(place: np.ndarray, turns: tuple[float, ...]) -> Rotation:
    """Of a hand there: to the side (beside what is followed), down, and about the way it looks [rad]."""
    aside = FOLLOWED * np.arctan2(place[1] - SHOULDER[1], place[0] - SHOULDER[0]) + turns[0]
    return Rotation.from_euler("ZYX", [aside, np.clip(turns[1], *DOWN), turns[2]]) * AHEAD


def operator_targets(count: int, seed: int) -> list[Pose]:
    """Single poses of the right hand: one half of them where A goes, the other where B goes beyond."""
    rng = np.random.default_rng(seed)
    drawn = [_drawn(rng, (TABLETOP, BEYOND)[k % 2]) for k in range(count)]
    return [Pose(place, turn.as_matrix()) for place, turn in drawn]
