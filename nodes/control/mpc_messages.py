"""What the controller publishes, built from its pure parts."""

from __future__ import annotations

import numpy as np
from builtin_interfaces.msg import Duration
from geometry_msgs.msg import Point, Pose, PoseStamped
from nav_msgs.msg import Path
from refit_interfaces.msg import ControllerStatus, JointCommand
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from nodes.framework.actuation import Actuation
from sim_core.control.ampc import Command, CommandSource

__all__ = ["joint_command", "path_message", "plan_message", "STATE_OF"]

STATE_OF = {
    CommandSource.PLAN: ControllerStatus.STATE_TRACKING,
    CommandSource.PREVIOUS_PLAN: ControllerStatus.STATE_FALLBACK_PLAN,
    CommandSource.STOP: ControllerStatus.STATE_STOPPED,
}


def joint_command(
    command: Command, joint_names, actuation: Actuation, stamp, revision: int, feedback: bool, commander: str
) -> JointCommand:
    """The command as effort alone, or with its feedback law for the servo to follow between cycles."""
    message = JointCommand()
    message.header.stamp = stamp
    message.joint_names = joint_names
    message.parameters_revision = revision
    message.commander = commander
    if feedback and command.source is not CommandSource.STOP:
        n = actuation.n
        u, x_ref = actuation.within_limits(command.u, command.K, command.x_ref)
        message.mode = JointCommand.MODE_FEEDBACK
        message.effort = actuation.effort(u).tolist()
        message.position = x_ref[:n].tolist()
        message.velocity = x_ref[n:].tolist()
        message.gain = actuation.gain(command.K).ravel().tolist()
    else:
        message.mode = JointCommand.MODE_EFFORT
        message.effort = actuation.effort(command.u).tolist()
    return message


def plan_message(X: np.ndarray, U: np.ndarray, dt: float, joint_names, actuation: Actuation, stamp) -> JointTrajectory:
    """The plan: states X (H+1, 2n) and controls U (H, nu) as one trajectory."""
    n = actuation.n
    message = JointTrajectory()
    message.header.stamp = stamp
    message.joint_names = joint_names
    for k, x in enumerate(X):
        whole, rest = divmod(k * dt, 1.0)
        message.points.append(
            JointTrajectoryPoint(
                positions=x[:n].tolist(),
                velocities=x[n:].tolist(),
                effort=actuation.effort(U[k]).tolist() if k < len(U) else [],
                time_from_start=Duration(sec=int(whole), nanosec=int(rest * 1e9)),
            )
        )
    return message


def path_message(points: np.ndarray, stamp) -> Path:
    """A path of the tool's positions (N, 3) [m] in the world; what is to be turned how, it does not say."""
    message = Path()
    message.header.stamp, message.header.frame_id = stamp, "world"
    for x, y, z in points.tolist():
        message.poses.append(PoseStamped(header=message.header, pose=Pose(position=Point(x=x, y=y, z=z))))
    return message
