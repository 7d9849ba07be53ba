"""Between the messages of a bucket and what `sim_core.excavation` computes with."""

from __future__ import annotations

import math

import numpy as np
from refit_interfaces.action import MoveBucket
from refit_interfaces.msg import BucketJam, BucketState

from sim_core.excavation.bucket_arm import Move
from sim_core.excavation.bucket_motion import BucketMotion, Jam, MotionOutcome

__all__ = ["FRAME", "GRAVITY", "jam_message", "order_of", "result_of", "state_message"]

#: of the bucket's poses
FRAME = "pile"
GRAVITY = 9.81  # [m/s^2], by which a load is weighed


def order_of(goal: MoveBucket.Goal) -> tuple[Move, tuple[float, ...]]:
    """What a goal asks for.

    Raises:
        ValueError: there is no such motion, or PLACE has no pose; the sentence says what was expected and what was found.
    """
    if goal.motion not in set(Move):
        raise ValueError(
            f"motion: expected one of {', '.join(f'{int(move)} ({move.name})' for move in Move)}, found {goal.motion}"
        )
    move, pose = Move(goal.motion), tuple(float(number) for number in goal.pose)
    if move is Move.PLACE and not np.isfinite(pose).all():
        raise ValueError(f"pose: expected four finite numbers x, y, z, alpha, found {pose}")
    return move, pose


def state_message(pose: np.ndarray, commanded: np.ndarray, force: np.ndarray, stamp) -> BucketState:
    """Where the bucket is (4,), what it was told (4,) and what it feels (3,)."""
    message = BucketState(pose=pose.tolist(), commanded=commanded.tolist(), force=force.tolist())
    message.header.stamp, message.header.frame_id = stamp, FRAME
    return message


def jam_message(move: Move, jam: Jam, why: str, stamp) -> BucketJam:
    """What stopped the arm."""
    message = BucketJam(
        motion=int(move), force=jam.force.tolist(), torque=jam.torques.tolist(), message=f"Jammed: {why}."
    )
    message.header.stamp, message.header.frame_id = stamp, FRAME
    return message


def result_of(outcome: MotionOutcome, why: str, motion: BucketMotion | None, state: BucketState) -> MoveBucket.Result:
    """The result of a goal; `motion` is None where nothing moved."""
    load = math.nan if motion is None else -motion.load / GRAVITY
    return MoveBucket.Result(
        outcome=getattr(MoveBucket.Result, outcome.name),
        message=f"{outcome.value.capitalize()}: {why.rstrip('.')}.",
        state=state,
        peak=0.0 if motion is None else float(motion.peak),
        held=0.0 if motion is None else float(motion.held),
        load=load if outcome is MotionOutcome.DONE else math.nan,
    )
