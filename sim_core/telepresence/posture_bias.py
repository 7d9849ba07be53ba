"""Which posture an arm prefers where its target leaves a choice: the middle of its joints' ranges, or one that keeps the elbow
on its own side.

    bias = fit_shoulder_bias(kinematics, poses, "joint3")
    q = ik.step(target, q, bias(target))

An arm with seven joints can swing its elbow about the line from shoulder to hand. Drawn to the middle of every range, it may
swing it to the wrong side, from where it does not come back while the hand is followed. The shoulder bias is drawn there
instead by one joint of the shoulder, by an angle that is linear in how far the target is to the side and in how far the hand
looks to the side, and never beyond the outer side.

Source: Zhu, PhD thesis, University of Illinois (2023), section 8.4.2, which describes the two in words and gives no formula.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sim_core.telepresence.arm_ik import QpIk
from sim_core.telepresence.arm_kinematics import ArmKinematics, pose_error
from sim_core.telepresence.clutch import Pose

__all__ = ["NeutralBias", "PostureBias", "ShoulderBias", "fit_shoulder_bias", "good_angles"]

#: from a target to the posture that is preferred there (n,) [rad]
PostureBias = Callable[[Pose], np.ndarray]

#: steps in which a target is come to, and what counts as there [m], [rad]
STEPS, NEAR = 80, (0.01, 0.05)


@dataclass(frozen=True, eq=False)
class NeutralBias:
    """The same posture everywhere.

    Attributes:
        posture: (n,) [rad].
    """

    posture: np.ndarray

    def __call__(self, target: Pose) -> np.ndarray:
        """(n,) [rad]."""
        return self.posture


@dataclass(frozen=True, eq=False)
class ShoulderBias:
    """One joint's angle is angle + per_metre * aside + per_radian * yaw, at least `least` and at most `most`.

    `aside` is how far the target is to the left [m], `yaw` how far the hand's z axis looks to the left [rad], both in the
    target's own axes (x forward, y left, z up). A hand that looks up or down has no yaw, so the yaw counts by the share of the
    axis that is level.

    Attributes:
        posture: of all joints (n,) [rad].
        joint: place of the one that changes.
        angle, per_metre, per_radian: [rad], [rad/m], [1].
        least, most: [rad].
    """

    posture: np.ndarray
    joint: int
    angle: float
    per_metre: float
    per_radian: float
    least: float
    most: float

    def __call__(self, target: Pose) -> np.ndarray:
        """(n,) [rad]."""
        aside, yaw = _aside(target)
        posture = self.posture.copy()
        angle = self.angle + self.per_metre * aside + self.per_radian * yaw
        posture[self.joint] = min(max(angle, self.least), self.most)
        return posture

    def mirrored(self, posture: np.ndarray) -> ShoulderBias:
        """That of the other arm, which is mounted as the mirror image of this one and whose joint turns the other way.

        Args:
            posture: of all its joints (n,) [rad].
        """
        return replace(self, posture=posture, angle=-self.angle, least=-self.most, most=-self.least)


def _aside(target: Pose) -> tuple[float, float]:
    forward, left = float(target.rotation[0, 2]), float(target.rotation[1, 2])
    return float(target.position[1]), math.hypot(forward, left) * math.atan2(left, forward)


def fit_shoulder_bias(
    kinematics: ArmKinematics, targets: Sequence[Pose], joint: str, angles: Sequence[float]
) -> ShoulderBias:
    """The shoulder bias of an arm, by least squares over the angles that `good_angles` finds.

    Args:
        kinematics: of the arm, in axes with x forward, y left, z up.
        targets: as the arm will meet them; some may be out of reach.
        joint: name of the one of the shoulder that swings the elbow.
        angles: of it, all on the outer side of 0 [rad]; the bias stays between the outermost ones.

    Raises:
        ValueError: the joint is not one of the arm's, the angles are not all on one side of 0, or fewer than ten targets can
            be reached with the joint on its side.
    """
    if joint not in kinematics.joints:
        raise ValueError(f"expected one of the arm's joints {', '.join(kinematics.joints)}, found '{joint}'")
    least, most = float(min(angles)), float(max(angles))
    if not least * most > 0.0:
        raise ValueError(f"expected angles on one side of 0, which is the outer one, found {least} to {most} rad")
    k = kinematics.joints.index(joint)
    good = good_angles(kinematics, targets, k, angles)
    found = np.isfinite(good)
    if found.sum() < 10:
        raise ValueError(
            f"only {found.sum()} of {len(targets)} targets can be reached with '{joint}' between {least} and {most} rad; "
            f"give others"
        )
    rows = np.array([(1.0, *_aside(target)) for target in targets])[found]
    angle, per_metre, per_radian = np.linalg.lstsq(rows, good[found], rcond=None)[0].tolist()
    return ShoulderBias(kinematics.neutral, k, angle, per_metre, per_radian, least, most)


def good_angles(kinematics: ArmKinematics, targets: Sequence[Pose], joint: int, angles: Sequence[float]) -> np.ndarray:
    """Of one joint at each target (N,) [rad], NaN where the arm does not come there with the joint on its outer side.

    At each target the arm starts from every angle, its other joints in the middle of their ranges. Of the postures in which
    it arrives, the one counts that has the largest product of manipulability and distance from the nearest limit, over half
    of that joint's range.
    """
    ik, half = QpIk(kinematics, period=np.inf), 0.5 * (kinematics.upper - kinematics.lower)
    good = np.full(len(targets), np.nan)
    for place, target in enumerate(targets):
        most = 0.0
        for angle in angles:
            q = bias = _with(kinematics.neutral, joint, angle)
            for _ in range(STEPS):
                q = ik.step(target, q, bias)
            now = kinematics.at(q)
            error = pose_error(target, now.pose)
            there = np.linalg.norm(error[:3]) < NEAR[0] and np.linalg.norm(error[3:]) < NEAR[1]
            room = float((np.minimum(q - kinematics.lower, kinematics.upper - q) / half).min())
            if there and q[joint] * angle > 0.0 and now.manipulability * room > most:
                most, good[place] = now.manipulability * room, q[joint]
    return good


def _with(posture: np.ndarray, joint: int, angle: float) -> np.ndarray:
    changed = posture.copy()
    changed[joint] = angle
    return changed
