"""How well an arm follows an operator's hand: the arm loop, step by step along a motion, and its tracking loss.

    tracking = track(ik, bias, operator_motion("A", seed=0))
    tracking.loss                              # share of steps in which the hand was not followed

Joints do what they are told, as the loss is about inverse kinematics alone.

Source: Zhu, PhD thesis, University of Illinois (2023), eq. (8.1): a count, because small errors go unnoticed while a hand that
is not followed any more frustrates.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from sim_core.telepresence.arm_ik import ArmIk, QpIk
from sim_core.telepresence.arm_kinematics import ArmKinematics, pose_error
from sim_core.telepresence.clutch import Pose
from sim_core.telepresence.operator_motion import OperatorMotion
from sim_core.telepresence.posture_bias import PostureBias

__all__ = ["ANGLE", "DISTANCE", "Tracking", "settle", "track"]

#: beyond which a hand counts as not followed [m], [rad]
DISTANCE, ANGLE = 0.05, 0.3
#: steps in which an arm settles
SETTLING = 200


@dataclass(frozen=True, eq=False)
class Tracking:
    """N steps of an arm loop.

    Attributes:
        q: joint positions (N, n) [rad].
        distance, angle: between target and frame after each step (N,) [m], [rad].
        manipulability: after each step (N,).
        seconds: that each step took the processor, bias included (N,) [s].
        start: joint positions before the first step (n,) [rad].
    """

    q: np.ndarray
    distance: np.ndarray
    angle: np.ndarray
    manipulability: np.ndarray
    seconds: np.ndarray
    start: np.ndarray

    @property
    def lost(self) -> np.ndarray:
        """In which steps the hand was not followed (N,)."""
        return (self.distance > DISTANCE) | (self.angle > ANGLE)

    @property
    def loss(self) -> float:
        """Share of those steps: the thesis' M_t."""
        return float(self.lost.mean())


def settle(
    kinematics: ArmKinematics, target: Pose, bias: PostureBias, least: float = 0.0, starts: int = 16, seed: int = 0
) -> np.ndarray:
    """Joint positions (n,) [rad] with which an arm waits at a target: of all that it finds, the ones nearest to the bias.

    Where it finds none, the ones nearest to the target.

    Args:
        kinematics: of the arm.
        target: where its frame is.
        bias: the posture that is preferred.
        least: manipulability that the joint positions have; where none have it, those with the most are taken.
        starts: how many random joint positions of this seed the search begins from, beside the bias' own.
    """
    ik, preferred, rng = QpIk(kinematics, period=np.inf), bias(target), np.random.default_rng(seed)
    found = []
    for q in (preferred, *rng.uniform(kinematics.lower, kinematics.upper, (starts, len(preferred)))):
        for _ in range(SETTLING):
            q = ik.step(target, q, preferred)
        now = kinematics.at(q)
        error = pose_error(target, now.pose)
        far = max(float(np.linalg.norm(error[:3])) / DISTANCE, float(np.linalg.norm(error[3:])) / ANGLE)
        lacking = max(least - now.manipulability, 0.0)
        found.append((far if far > 1.0 else 0.0, lacking, float(np.sum((q - preferred) ** 2)), q))
    return min(found, key=lambda one: one[:3])[3]


def track(ik: ArmIk, bias: PostureBias, motion: OperatorMotion, start: np.ndarray | None = None) -> Tracking:
    """Follow a motion.

    Args:
        ik: of the arm, in the motion's axes.
        bias: the posture that is preferred at each target.
        motion: of the hand.
        start: joint positions (n,) [rad]; None: those of `settle` at the first pose.
    """
    arm, steps = ik.kinematics, len(motion)
    targets = [motion.pose(k) for k in range(steps)]
    q = start = settle(arm, targets[0], bias) if start is None else np.array(start, float)
    told, seconds = np.empty((steps, len(q))), np.empty(steps)
    for k, target in enumerate(targets):
        begin = time.thread_time()
        q = ik.step(target, q, bias(target))
        seconds[k], told[k] = time.thread_time() - begin, q
    postures = [arm.at(row) for row in told]
    between = np.array([now.position for now in postures]) - motion.positions
    turn = np.einsum("kij,kij->k", np.array([now.rotation for now in postures]), motion.rotations)
    angle = np.arccos(np.clip(0.5 * (turn - 1.0), -1.0, 1.0))
    measure = np.array([now.manipulability for now in postures])
    return Tracking(told, np.linalg.norm(between, axis=1), angle, measure, seconds, start)
