"""Between the messages of a dig and what `sim_core.excavation` computes with."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from geometry_msgs.msg import PoseStamped
from nav_msgs.msg import Path as PathMessage
from refit_interfaces.action import MoveBucket, RunExcavation
from refit_interfaces.msg import ExcavationPlan

from sim_core.excavation.expectation import expectation
from sim_core.excavation.mpc import Mpc
from sim_core.excavation.pile import Outcome
from sim_core.excavation.policies import Policy, State
from sim_core.excavation.reference_path import ReferencePath
from sim_core.excavation.trial_run import TrialRun

__all__ = ["FRAME", "outcome_of", "path_message", "plan_message", "result_of", "state_of", "told_of"]

NAN = math.nan
#: of poses of the bucket
FRAME = "pile"


def state_of(answer: MoveBucket.Result, image: np.ndarray | None = None) -> State:
    """Where a motion ended."""
    return State(np.array(answer.state.pose, float), np.array(answer.state.force, float), image)


def outcome_of(answer: MoveBucket.Result, before: State, image: np.ndarray | None = None) -> Outcome:
    """What a motion led to."""
    state = state_of(answer, image)
    jammed = answer.outcome == MoveBucket.Result.JAMMED
    return Outcome(state, jammed, answer.peak, answer.held, np.abs(state.pose - before.pose))


def path_message(path: ReferencePath, stamp) -> PathMessage:
    """The reference path, the bucket's turn about y as orientation."""
    message = PathMessage()
    message.header.frame_id, message.header.stamp = FRAME, stamp
    for x, y, z, alpha in path.poses.tolist():
        one = PoseStamped(header=message.header)
        one.pose.position.x, one.pose.position.y, one.pose.position.z = x, y, z
        one.pose.orientation.y, one.pose.orientation.w = math.sin(0.5 * alpha), math.cos(0.5 * alpha)
        message.poses.append(one)
    return message


def plan_message(name: str, step: int, motion: int, policy: Policy, time: float, stamp) -> ExcavationPlan:
    """What a policy chose just now, and expects of it.

    Args:
        time: that it took [s].
    """
    message = ExcavationPlan(policy=name, step=step, motions=[motion], time=time)
    message.header.frame_id, message.header.stamp = FRAME, stamp
    message.progress = message.tracking = message.force = message.total = NAN
    found = expectation(policy) if isinstance(policy, Mpc) else None
    if found is not None:
        message.motions = [int(one) for one in found.motions]
        message.poses, message.forces = found.poses.ravel().tolist(), found.forces.ravel().tolist()
        message.progress, message.tracking, message.force = found.progress, found.tracking, found.force
        message.total, message.simulations = found.total, found.simulations
    return message


def told_of(state: dict[str, Any]) -> dict[str, Any]:
    """A checkpoint's state without its pictures."""
    trial = {name: value for name, value in state["trial"].items() if name != "pictures"}
    return {**state, "trial": trial}


def result_of(
    run: TrialRun | None, success: bool, message: str, checkpoint: str, lifted: dict[str, Any] | None = None
) -> RunExcavation.Result:
    """What came of a trial.

    Args:
        lifted: mass [kg], None where it was not weighed, and whether the bucket was held by the pile; None: it was not lifted.
    """
    if run is None or not run.states:
        return RunExcavation.Result(
            success=success, message=message, checkpoint=checkpoint, position_error=NAN, angle_error=NAN
        )
    place, angle = run.errors()
    mass = 0.0 if lifted is None else lifted["mass"]
    return RunExcavation.Result(
        success=success,
        jammed=run.jammed or bool(lifted and lifted["jammed"]),
        finished=run.finished,
        message=message,
        checkpoint=checkpoint,
        motions=run.actions,
        mass=NAN if mass is None else mass,
        position_error=place,
        angle_error=angle,
        peak=max(run.peaks, default=0.0),
    )
