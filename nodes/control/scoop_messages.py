"""Between the messages of a scoop and what `sim_core.scooping` computes with."""

from __future__ import annotations

import numpy as np
from refit_interfaces.action import ExecuteScoop

from nodes.control.arm_messages import in_world, pose_message
from sim_core.scooping.arm.execution import Outcome, ScoopExecution
from sim_core.scooping.arm.primitive import ScoopAction
from sim_core.scooping.arm.scoop_arm import ScoopArm
from sim_core.telepresence.arm_kinematics import pose_error
from sim_core.telepresence.clutch import Pose

__all__ = ["action_of", "place_in_words", "result_of"]

#: by which a blade may miss a place and still be there [m], [rad]
THERE = (0.02, 0.1)


def action_of(goal: ExecuteScoop.Goal) -> ScoopAction:
    """What a goal asks for.

    Raises:
        ValueError: it cannot be done; the sentence says what was expected and what was found.
    """
    in_world(goal.header.frame_id)
    point = np.array([goal.point.x, goal.point.y, goal.point.z])
    return ScoopAction(point, goal.yaw, goal.depth, "hard" if goal.hard else "soft")


def result_of(
    outcome: Outcome, why: str, execution: ScoopExecution | None, blade: Pose, period: float
) -> ExecuteScoop.Result:
    """The result of a goal.

    Args:
        execution: None where nothing moved. blade: where it is now. period: between two steps [s].
    """
    if outcome is Outcome.SCOOPED and execution is not None and not execution.ended:
        outcome = Outcome.ARM_STOPPED  # on its way to the measuring pose
    return ExecuteScoop.Result(
        outcome=getattr(ExecuteScoop.Result, outcome.name),
        message=f"{outcome.value.capitalize()}: {why.rstrip('.')}.",
        blade=pose_message(blade),
        peak=0.0 if execution is None else float(execution.peak),
        force=[] if execution is None else [float(force) for _, force in execution.trace],
        period=period,
    )


def place_in_words(arm: ScoopArm, blade: Pose) -> str:
    """Which of its places the blade rests at."""
    places = {
        "at home": arm.kinematics.at(arm.kinematics.home).pose,
        "at the measuring pose": arm.config.measuring.pose,
    }
    for name, place in places.items():
        error = pose_error(place, blade)
        if np.linalg.norm(error[:3]) < THERE[0] and np.linalg.norm(error[3:]) < THERE[1]:
            return name
    return "at rest"
