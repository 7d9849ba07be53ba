"""The clutched mapping of an operator's hand to a target of the end effector.

    clutch = Clutch(OPENXR)
    clutch.press(effector, hand, headset_yaw)     # nothing jumps, wherever hand and effector are
    target = clutch.target(hand, effector)        # 125 times a second
    target = clutch.release(effector)             # the effector stays where it is

While the clutch is pressed the target moves from where the effector was as the hand moves from where it was, seen by
the operator: forward for the operator is forward for the robot, however the operator is turned.

Source: Zhu, PhD thesis, University of Illinois (2023), section 8.4; the two compositions of rotations are those of this
thesis ("world") and of its predecessor ("body").
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.spatial.transform import Rotation

from sim_core.telepresence.turns import rotation_matrix, rotation_vector

__all__ = ["OPENXR", "UNITY", "Clutch", "Pose"]

#: axes of the operator's world to the robot's (x forward, y left, z up): OpenXR has x right, y up, z backward; Unity, which
#: is left-handed, has z forward
OPENXR = np.array([[0.0, 0.0, -1.0], [-1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
UNITY = np.array([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])


@dataclass(frozen=True, eq=False)
class Pose:
    """Where something is: position (3,) [m] and orientation, in one world's axes.

    The orientation is a matrix (3, 3), as a left-handed world has rotations that no quaternion of the robot's describes.

    Raises:
        ValueError: wrong shapes, not finite, or no rotation.
    """

    position: np.ndarray
    rotation: np.ndarray

    def __post_init__(self) -> None:
        p, R = np.asarray(self.position, float), np.asarray(self.rotation, float)
        if p.shape != (3,) or R.shape != (3, 3):
            raise ValueError(f"expected a position (3,) and a rotation (3, 3), found {p.shape} and {R.shape}")
        # Controllers make several poses a cycle: what is a rotation beyond doubt is seen in plain numbers, in a fifth of the time.
        if not (_is_clearly_a_rotation(R.tolist()) and all(map(math.isfinite, p.tolist()))):
            if not np.isfinite(p).all() or not np.isfinite(R).all():
                raise ValueError("expected finite numbers in a pose")
            if np.abs(R @ R.T - np.eye(3)).max() > 1e-6 or np.linalg.det(R) < 0.0:
                raise ValueError("expected a rotation, found a matrix that stretches or mirrors")
        object.__setattr__(self, "position", p)
        object.__setattr__(self, "rotation", R)


def _is_clearly_a_rotation(R: list[list[float]]) -> bool:
    """Whether rows are of length one and at right angles within half of what is borne, and the last is the others' product."""
    (a, b, c), (d, e, f), (g, h, i) = R
    return (
        abs(a * a + b * b + c * c - 1.0) < 5e-7
        and abs(d * d + e * e + f * f - 1.0) < 5e-7
        and abs(g * g + h * h + i * i - 1.0) < 5e-7
        and abs(a * d + b * e + c * f) < 5e-7
        and abs(a * g + b * h + c * i) < 5e-7
        and abs(d * g + e * h + f * i) < 5e-7
        and a * (e * i - f * h) + b * (f * g - d * i) + c * (d * h - e * g) > 0.5
    )


@dataclass(frozen=True, eq=False)
class _Anchor:
    """Both poses when they were tied together, and the map A (3, 3) from the operator's axes to the robot's."""

    effector: Pose
    hand: Pose
    A: np.ndarray


class Clutch:
    """Ties an end effector's target to a hand while it is pressed.

    Args:
        axes: of the operator's world, OPENXR or UNITY.
        composition: of rotations. "world": the target turns about the axes of the room about which the hand turns. "body":
            it turns about its own axes as the hand does about its own.
        sensitivity: of target over hand, for distances and angles alike; 0.25 is a precision mode.
        leash: [m] that the target may be from the effector at most, so that a hand that is too fast is not made up for later.

    Raises:
        ValueError: sensitivity or leash are not positive.
    """

    def __init__(
        self,
        axes: np.ndarray = OPENXR,
        composition: Literal["world", "body"] = "world",
        sensitivity: float = 1.0,
        leash: float = 0.125,
    ) -> None:
        if composition not in ("world", "body"):
            raise ValueError(f"composition is 'world' or 'body', found '{composition}'")
        if not (np.isfinite(leash) and leash > 0.0):
            raise ValueError(f"the leash is a positive distance [m], found {leash}")
        self.axes, self.composition, self.leash = axes, composition, leash
        self._anchor: _Anchor | None = None
        self._latest: tuple[Pose, Pose] | None = None  # target and hand
        self._sensitivity = 1.0
        self.sensitivity = sensitivity

    @property
    def pressed(self) -> bool:
        return self._anchor is not None

    @property
    def sensitivity(self) -> float:
        return self._sensitivity

    @sensitivity.setter
    def sensitivity(self, value: float) -> None:
        """May change while the clutch is pressed: from then on, and without a jump."""
        if not (np.isfinite(value) and value > 0.0):
            raise ValueError(f"the sensitivity is a positive number, found {value}")
        if self._anchor is not None and self._latest is not None:
            self._anchor = _Anchor(*self._latest, self._anchor.A)
        self._sensitivity = float(value)

    def press(self, effector: Pose, hand: Pose, headset_yaw: float = 0.0) -> None:
        """Tie them together from here on.

        Args:
            effector: as sensed, in the robot's axes. hand: in the operator's.
            headset_yaw: which way the operator looks [rad], about the vertical and anticlockwise seen from above.
        """
        if not np.isfinite(headset_yaw):
            raise ValueError("expected a finite yaw of the headset")
        turn = Rotation.from_euler("z", -headset_yaw).as_matrix()
        self._anchor = _Anchor(effector, hand, turn @ self.axes)
        self._latest = (effector, hand)

    def target(self, hand: Pose, effector: Pose) -> Pose:
        """Where the effector shall be now: p* = p_e0 + s A (p_h - p_h0), and likewise turned.

        Raises:
            ValueError: the clutch is not pressed.
        """
        if self._anchor is None:
            raise ValueError("the clutch is not pressed: there is nothing to follow")
        tied, A, s = self._anchor, self._anchor.A, self._sensitivity
        position = tied.effector.position + s * A @ (hand.position - tied.hand.position)
        if self.composition == "world":
            turn = A @ hand.rotation @ tied.hand.rotation.T @ A.T
            rotation = _share(turn, s) @ tied.effector.rotation
        else:
            turn = A @ tied.hand.rotation.T @ hand.rotation @ A.T
            rotation = tied.effector.rotation @ _share(turn, s)
        away = position - effector.position
        far = float(np.linalg.norm(away))
        if far > self.leash:
            position = effector.position + away * (self.leash / far)
        target = Pose(position, rotation)
        self._latest = (target, hand)
        return target

    def release(self, effector: Pose) -> Pose:
        """Let go: the target is where the effector is."""
        self._anchor = self._latest = None
        return effector


def _share(rotation: np.ndarray, share: float) -> np.ndarray:
    """exp(s log R)."""
    return rotation_matrix(share * rotation_vector(rotation))
