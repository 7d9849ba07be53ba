"""The servo group's actions: FollowJointTrajectory and GripperCommand, judged on the bus cycle, reported from a timer."""

from __future__ import annotations

import time

import numpy as np
from control_msgs.action import FollowJointTrajectory, GripperCommand
from trajectory_msgs.msg import JointTrajectory

from hardware.dynamixel.trajectory import Outcome, Tolerances, Trajectory, TrajectoryError, TrajectoryFollower
from nodes.devices.guard import clients, publishers
from nodes.framework.long_action import LongAction
from nodes.framework.messages import seconds
from nodes.framework.qos import COMMAND
from sim_core.command import CommandRefused

__all__ = ["GripperAction", "TrajectoryAction"]

FEEDBACK_PERIOD = 0.05  # [s]
TOPIC = "joint_trajectory_controller/joint_trajectory"
ACTION = "joint_trajectory_controller/follow_joint_trajectory"


class TrajectoryAction:
    """`joint_trajectory_controller`: a topic and an action. A newer trajectory takes the place of an older one.

    Args:
        node: the dynamixel node; its `device` may come and go.
        device: ServoGroup.
        joints: names of joints that can follow positions.
    """

    def __init__(self, node, device, joints) -> None:
        self._node, self._device, self._joints = node, device, list(joints)
        self._follower: TrajectoryFollower | None = None
        self._handle = None
        node.subscription(JointTrajectory, TOPIC, self._on_topic, COMMAND)
        self._action = LongAction(
            node,
            FollowJointTrajectory,
            ACTION,
            self._begin,
            refusal=self._refusal,
            cancel=self._on_cancel,
        )
        self._timer = node.create_timer(FEEDBACK_PERIOD, self._report, clock=node.steady_clock)
        self._timer.cancel()  # runs while a goal does: every wake-up of an executor costs a millisecond

    def destroy(self) -> None:
        self._end("abort", Outcome.INVALID_GOAL, "the node was shut down")
        self._node.destroy_timer(self._timer)
        self._action.destroy()

    # ---- taking ------------------------------------------------------------------------------------
    def _on_topic(self, message: JointTrajectory) -> None:
        if not message.points:  # as ros2_control: an empty trajectory stops the present one
            self._preempt("stopped by an empty trajectory")
            if self._follower is not None:
                self._device.drop(self._follower, "stopped by an empty trajectory")
            return
        try:
            follower = self._parse(message, [], [], 0.0)
            self._admit(follower, publishers(self._node, TOPIC))
            self._take(follower)
        except TrajectoryError as error:
            self._node.get_logger().warning(f"trajectory refused: {error}")
        except CommandRefused as error:
            self._node.guard.refuse(error)

    def _refusal(self, goal) -> str:
        if not self._node.is_active:
            return "the node is not active"
        try:
            follower = self._parse(
                goal.trajectory, goal.path_tolerance, goal.goal_tolerance, seconds(goal.goal_time_tolerance)
            )
            self._admit(follower, clients(self._node, ACTION))
        except TrajectoryError as error:
            return str(error)
        except CommandRefused as error:
            return self._node.guard.refuse(error)
        return ""

    def _admit(self, follower: TrajectoryFollower, senders) -> None:
        """Its points and what lies between them, from where the joints are now. Raises CommandRefused."""
        state, which, trajectory = self._device.joint_state, follower.which, follower.trajectory
        velocity = trajectory.velocities(state.q[which], state.qd[which])
        author = self._node.guard.author(senders)
        self._node.admit_motion(which, trajectory.position, np.vstack([velocity, 0.0 * velocity[:1]]), author)

    def _begin(self, handle) -> None:
        goal = handle.request
        try:
            follower = self._parse(
                goal.trajectory, goal.path_tolerance, goal.goal_tolerance, seconds(goal.goal_time_tolerance)
            )
            self._take(follower)
        except TrajectoryError as error:
            self._action.finish(handle, _result(Outcome.INVALID_GOAL, str(error)), "abort")
            return
        self._handle = handle
        self._timer.reset()

    def _take(self, follower: TrajectoryFollower) -> None:
        """Raises TrajectoryError: the servos are not free for it."""
        why = self._device.take(follower)
        if why:
            raise TrajectoryError(why)
        self._preempt("a newer trajectory took its place")
        self._follower = follower

    def _preempt(self, why: str) -> None:
        self._end("abort", Outcome.INVALID_GOAL, why)

    def _on_cancel(self, handle) -> None:
        if handle is not self._handle:
            return
        self._device.drop(self._follower, "cancelled")
        self._end("canceled", Outcome.SUCCESSFUL, "cancelled: the joints hold where they were")

    # ---- reporting -----------------------------------------------------------------------------------
    def _report(self) -> None:
        handle, follower = self._handle, self._follower
        if handle is None:
            return
        if follower.outcome is Outcome.SUCCESSFUL:
            self._end("succeed", Outcome.SUCCESSFUL, "")
        elif follower.outcome is not None:
            self._end("abort", follower.outcome, follower.sentence)
        elif self._device.source is not follower:
            self._end("abort", Outcome.INVALID_GOAL, self._device.source_ended or "another source took the servos")
        elif handle.is_active:
            handle.publish_feedback(self._feedback(follower))

    def _feedback(self, follower: TrajectoryFollower):
        message = FollowJointTrajectory.Feedback(joint_names=follower.names)
        state = self._device.joint_state
        message.header.stamp = self._node.stamp(state.t)
        message.desired.positions = follower.desired.tolist()
        message.desired.velocities = follower.desired_velocity.tolist()
        message.actual.positions = state.q[follower.which].tolist()
        message.actual.velocities = state.qd[follower.which].tolist()
        message.error.positions = follower.error.tolist()
        return message

    def _end(self, outcome: str, code: Outcome, sentence: str) -> None:
        handle, self._handle = self._handle, None
        self._timer.cancel()
        if handle is not None:
            self._action.finish(handle, _result(code, sentence), outcome)

    # ---- reading -------------------------------------------------------------------------------------
    def _parse(self, message, path, goal, goal_time: float) -> TrajectoryFollower:
        """Raises TrajectoryError."""
        names = list(message.joint_names)
        unknown = [name for name in names if name not in self._joints]
        if not names or unknown or len(set(names)) < len(names):
            raise TrajectoryError(
                f"joint names {', '.join(unknown or names) or 'missing'}: name each of some of {', '.join(self._joints)} once"
            )
        which = [self._device.names.index(name) for name in names]
        points = message.points

        def column(field):
            values = [list(getattr(point, field)) for point in points]
            if not any(values):
                return None
            if any(len(value) != len(names) for value in values):
                raise TrajectoryError(f"every point needs {len(names)} {field}, or none does")
            return values

        positions = column("positions")
        if positions is None:
            raise TrajectoryError("points need positions")
        trajectory = Trajectory(
            [seconds(point.time_from_start) for point in points],
            positions,
            column("velocities"),
            column("accelerations"),
        )
        now_ros, now = self._node.get_clock().now().nanoseconds * 1e-9, time.monotonic()
        stamp = seconds(message.header.stamp)
        start = now if stamp == 0.0 else now + stamp - now_ros
        if start + trajectory.duration < now - 1e-3 and stamp:
            raise TrajectoryError(
                f"the trajectory ended {now - start - trajectory.duration:.2f} s ago: see its header.stamp"
            )
        c = self._node.config
        tolerances = Tolerances(
            _tolerance(path, names, "position", c.path_tolerance),
            _tolerance(path, names, "velocity", 0.0),
            _tolerance(goal, names, "position", c.goal_tolerance),
            _tolerance(goal, names, "velocity", 0.0),
            goal_time if goal_time > 0.0 else c.goal_time,
        )
        return TrajectoryFollower(trajectory, tolerances, which, start, self._device.names)


def _tolerance(given, names, field: str, default: float) -> np.ndarray:
    """control_msgs/JointTolerance: 0 means the default, negative none."""
    values = np.full(len(names), default or np.inf)
    for tolerance in given:
        if tolerance.name not in names:
            raise TrajectoryError(f"tolerance for joint '{tolerance.name}', which is not in the trajectory")
        value = getattr(tolerance, field)
        if value:
            values[names.index(tolerance.name)] = value if value > 0.0 else np.inf
    return values


def _result(code: Outcome, sentence: str):
    return FollowJointTrajectory.Result(error_code=int(code), error_string=sentence)


class GripperAction:
    """`~/gripper_cmd`: opening [m] and force [N]; ends when the opening is reached or the jaws have stalled.

    Anybody may command it while the gate is open, as an operator does while a controller moves the arm.

    Args:
        node, device: as above; the device has a gripper.
    """

    def __init__(self, node, device) -> None:
        self._node, self._device, self._handle = node, device, None
        self._action = LongAction(
            node, GripperCommand, "~/gripper_cmd", self._begin, refusal=self._refusal, cancel=self._on_cancel
        )
        self._timer = node.create_timer(FEEDBACK_PERIOD, self._report, clock=node.steady_clock)
        self._timer.cancel()  # runs while a goal does: every wake-up of an executor costs a millisecond

    def destroy(self) -> None:
        self._end("abort")
        self._node.destroy_timer(self._timer)
        self._action.destroy()

    def _refusal(self, goal) -> str:
        if not np.isfinite([goal.command.position, goal.command.max_effort]).all():
            return "position and max_effort must be finite"
        if not (self._node.is_active and self._device.torque_on):
            return "torque is off: switch it on with ~/set_dxl_torque"
        jaws, opening = self._device.gripper.jaws.openings, goal.command.position
        slack = self._node.config.gripper_tolerance
        if not jaws.min() - slack <= opening <= jaws.max() + slack:
            return self._node.guard.out_of_reach(
                f"an opening of {opening:.4g} m, outside {jaws.min():.4g} to {jaws.max():.4g} m"
            )
        return self._node.guard.refusal(self._node.guard.positions(self._node.anywhere))

    def _begin(self, handle) -> None:
        self._end("abort")  # a newer goal takes the older one's place
        command = handle.request.command
        self._device.gripper.command(command.position, command.max_effort)
        self._handle = handle
        self._timer.reset()

    def _on_cancel(self, handle) -> None:
        if handle is self._handle:
            self._device.gripper.command(
                self._device.gripper.opening(self._device.joint_state), self._device.gripper.force
            )
            self._end("canceled")

    def _report(self) -> None:
        gripper = self._device.gripper
        if self._handle is None:
            return
        if gripper.goal is None or not self._device.joint_state.healthy[gripper.joint]:
            self._end("abort")
        elif gripper.reached or gripper.stalled:
            self._end("succeed")
        elif self._handle.is_active:
            self._handle.publish_feedback(self._fill(GripperCommand.Feedback()))

    def _fill(self, message):
        gripper, state = self._device.gripper, self._device.joint_state
        message.position, message.effort = gripper.opening(state), gripper.measured_force(state)
        message.stalled, message.reached_goal = gripper.stalled, gripper.reached
        return message

    def _end(self, outcome: str) -> None:
        handle, self._handle = self._handle, None
        self._timer.cancel()
        if handle is not None:
            self._action.finish(handle, self._fill(GripperCommand.Result()), outcome)
