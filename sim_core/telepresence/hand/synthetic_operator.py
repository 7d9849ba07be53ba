"""A hand that is not there: what a glove reads while somebody imitates a pose of the robot's hand.

    operator = SyntheticOperator(seed=1)
    readings = operator.readings(pose.angles, samples=60, attempt=0)         # (60, 20) [rad]

The hand has 21 degrees of freedom: flexion of knuckle, middle and end joint and splay of each of four fingers; flexion, abduction
and turning of the thumb's root, and flexion of its two other joints. The glove reads all but the thumb's turning. Both the
operator and the glove err: he imitates with habits of his own and never twice alike, fingers drag their neighbours along, and
each of the glove's channels has a scale, an offset, something of its neighbours and noise. How much of each is ours: a joint
scatters by 6 degrees from one attempt at a pose to the next.

Angles are those of `poses.REACH`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim_core.telepresence.hand.poses import REACH

__all__ = ["CHANNELS", "JOINTS", "SyntheticOperator", "Variation"]

_FINGER = ("knuckle", "middle joint", "end joint", "splay")
_FOUR = ("index", "middle", "ring", "pinky")
#: of the hand, 21
JOINTS = (
    *(f"{finger} {joint}" for finger in _FOUR for joint in _FINGER),
    *(f"thumb {joint}" for joint in ("root flexion", "root abduction", "root turning", "knuckle", "end joint")),
)
#: of the glove, 20: what of the hand each reads
CHANNELS = tuple(joint for joint in JOINTS if joint != "thumb root turning")
#: by which a finger bends in all for each radian of the robot's, and how knuckle, middle and end joint share it
BEND, SHARES = 2.4, np.array([0.38, 0.39, 0.23])
#: [rad] of the splay of the open hand
SPREAD = np.array([0.22, 0.10, -0.12, -0.26])
#: share of the difference to its neighbours by which a finger is dragged along
DRAG = 0.10


@dataclass(frozen=True)
class Variation:
    """Standard deviations.

    Attributes:
        scale: of a channel's scale [1]. offset: of a channel [rad]. crosstalk: of a channel on its neighbour [1].
        noise: of a reading [rad].
        habit: by which an operator always does a pose differently, in the robot's angles [rad], and shares a finger's bend
            differently between its joints [1].
        attempt: by which one attempt at a pose differs from another, of all fingers' bend [1] and of each joint [rad].
        slip: of the glove between calibration and use, of each channel [rad].
    """

    scale: float = 0.12
    offset: float = 0.10
    crosstalk: float = 0.05
    noise: float = 0.012
    habit: tuple[float, float] = (0.12, 0.15)
    attempt: tuple[float, float] = (0.08, 0.10)
    slip: float = 0.03


class SyntheticOperator:
    """See the module's docstring.

    Args:
        seed: of the person and of everything that he does.
    """

    def __init__(self, seed: int, variation: Variation = Variation()) -> None:
        self.seed, self.variation = seed, variation
        rng, n = np.random.default_rng([seed, 0]), len(CHANNELS)
        self.scale = 1.0 + variation.scale * rng.standard_normal(n)
        self.offset = variation.offset * rng.standard_normal(n)
        self.crosstalk = np.zeros((n, n))
        for k in range(n):
            for neighbour in (k - 1, k + 1):
                if 0 <= neighbour < n:
                    self.crosstalk[k, neighbour] = variation.crosstalk * rng.standard_normal()
        self.slip = variation.slip * rng.standard_normal(n)
        self._shares = SHARES * (1.0 + variation.habit[1] * rng.standard_normal((4, 3)))

    def hand(self, angles: np.ndarray, attempt: int) -> np.ndarray:
        """The person's joints (21,) [rad] when he imitates motor angles (6,) [rad] of the robot.

        Args:
            attempt: the same number is the same attempt; the same angles have the same habit.
        """
        v, angles = self.variation, np.asarray(angles, float)
        key = [int(1e3 * angle) for angle in angles]
        habit = v.habit[0] * np.random.default_rng([self.seed, 1, *key]).standard_normal(6)
        rng = np.random.default_rng([self.seed, 2, attempt, *key])
        wanted = (angles + habit) * (1.0 + v.attempt[0] * rng.standard_normal())
        return joints_of(wanted, self._shares) + v.attempt[1] * rng.standard_normal(len(JOINTS))

    def glove(self, joints: np.ndarray, samples: int, attempt: int, slipped: bool = False) -> np.ndarray:
        """What the glove reads of a hand that rests at `joints` (21,) [rad]: (samples, 20) [rad].

        Args:
            slipped: the glove sits as it does after the calibration.
        """
        seen = np.delete(joints, JOINTS.index("thumb root turning"))
        reading = self.offset + self.scale * seen + self.crosstalk @ seen + (self.slip if slipped else 0.0)
        rng = np.random.default_rng([self.seed, 3, attempt, samples])
        return reading + self.variation.noise * rng.standard_normal((samples, len(CHANNELS)))

    def readings(self, angles: np.ndarray, samples: int, attempt: int, slipped: bool = False) -> np.ndarray:
        """What the glove reads (samples, 20) [rad] while motor angles (6,) [rad] are imitated."""
        return self.glove(self.hand(angles, attempt), samples, attempt, slipped)


def joints_of(angles: np.ndarray, shares: np.ndarray = np.tile(SHARES, (4, 1))) -> np.ndarray:
    """Joints of a person's hand (21,) [rad] that looks like the robot's at motor angles (6,) [rad].

    A bent finger is spread less; a thumb that opposes the fingers abducts before it turns.

    Args:
        shares: of knuckle, middle and end joint in each finger's bend (4, 3) [1].
    """
    bent = np.asarray(angles[:4], float)
    neighbours = np.array([bent[1], 0.5 * (bent[0] + bent[2]), 0.5 * (bent[1] + bent[3]), bent[2]])
    bent = bent + DRAG * (neighbours - bent)
    flexion = BEND * bent[:, None] * shares
    # The end joint follows the middle one late.
    flexion[:, 2] *= np.clip(0.6 + 0.4 * bent / REACH[:4], 0.0, 1.2)
    splay = SPREAD * (1.0 - 0.8 * np.clip(bent / REACH[:4], 0.0, 1.0))
    bend, across = angles[4] / REACH[4], angles[5] / REACH[5]
    thumb = [
        0.35 * across + 0.35 * bend,
        0.9 * np.sin(0.5 * np.pi * np.clip(across, -0.2, 1.2)) - 0.2 * bend,
        1.0 * across**2,
        0.25 + 0.8 * bend - 0.1 * across,
        0.1 + 1.0 * bend * (0.7 + 0.3 * bend),
    ]
    return np.concatenate([np.column_stack([flexion, splay]).ravel(), thumb])
