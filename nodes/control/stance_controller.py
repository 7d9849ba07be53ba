"""The walking controller of a quadruped as a lifecycle node.

A joint state arrives; with the IMU's and the feet's newest readings it becomes one command for the legs, and the command
leaves. The algorithms are `sim_core/motion/quadruped`; the stance legs' torques come from a quadratic programme or from a
network that imitates it, and the network falls back to the programme within the cycle.

Page: docs/nodes/stance_controller.md.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from geometry_msgs.msg import Twist
from rclpy.serialization import deserialize_message
from refit_interfaces.msg import ControllerStatus, FootContacts, JointCommand
from sensor_msgs.msg import Imu, JointState
from std_msgs.msg import Float64

from config.description import RobotError, Trot
from config.robot import load_robot
from nodes.framework.config import setting
from nodes.framework.control_beat import ControlBeat
from nodes.framework.joint_state_gate import JointStateGate, peek_stamp, seconds
from nodes.framework.lifecycle import RefitNode, spin_main
from nodes.framework.permission import Permission
from nodes.framework.polled import create_polled_subscription, take
from nodes.framework.qos import COMMAND, STATE
from sim_core.motion.quadruped.controller import LegCommand, TrotConfig, TrotController
from sim_core.motion.quadruped.estimator import ImuSample
from sim_core.motion.quadruped.robot import LEGS, QuadrupedRobot
from sim_core.motion.quadruped.stance import GuardedNetStance, QpStance, StanceSolver
from sim_core.motion.quadruped.stance_net import StanceNet
from sim_core.motion.quadruped.walking import FALLEN, feedback_gain

__all__ = ["StanceController", "StanceControllerConfig", "main"]


@dataclass(frozen=True)
class StanceControllerConfig:
    """Parameters of `stance_controller`."""

    robot: str = setting("quadruped", description="model in config/robots", read_only=True)
    solver: str = setting(
        "osqp",
        choices=("osqp", "neural"),
        description="of the stance legs: the quadratic programme, or the "
        "network that imitates it with the programme behind it; live",
    )
    network: str = setting("", description="file of the network; empty: the one that robot.yaml names")
    lockstep: bool = setting(
        False, description="the plant waits for every command; ages are not checked", read_only=True
    )
    control_period: float = setting(0.006, "s", (0.001, 0.05), "time between commands", read_only=True)
    state_age_limit: float = setting(
        0.05,
        "s",
        (0.005, 5.0),
        "joint states older than this are refused; silence beyond it, "
        "or IMU and contacts that lie further back, stop control",
        read_only=True,
    )
    future_limit: float = setting(0.5, "s", (0.0, 10.0), "stamps further ahead than this are refused", read_only=True)
    command_age_limit: float = setting(
        0.5, "s", (0.05, 60.0), "a cmd_vel is followed for so long, then the robot trots in place"
    )
    forward_limit: float = setting(0.5, "m/s", (0.0, 2.0), "largest forward target")
    backward_limit: float = setting(0.3, "m/s", (0.0, 2.0), "largest backward target")
    sideways_limit: float = setting(0.2, "m/s", (0.0, 2.0), "largest sideways target")
    turning_limit: float = setting(0.6, "rad/s", (0.0, 3.0), "largest turning target")
    acceleration_limit: float = setting(0.5, "1/s^2", (0.01, 100.0), "how fast targets change, in m or rad")
    height: float = setting(0.27, "m", (0.15, 0.4), "of the centre of mass", read_only=True)
    friction: float = setting(0.45, "", (0.05, 2.0), "assumed at the feet", read_only=True)


class StanceController(RefitNode):
    """See the module's docstring."""

    name = "stance_controller"
    Config = StanceControllerConfig
    live_parameters = True
    controller: TrotController | None = None
    halt_reason = property(lambda self: self.permission.denied)

    # -- lifecycle ---------------------------------------------------------------------------------

    def configure(self) -> None:
        config = self.config
        self.robot = QuadrupedRobot.load(config.robot)
        self.gate = JointStateGate(
            self.robot.joints, *((np.inf, np.inf) if config.lockstep else (config.state_age_limit, config.future_limit))
        )
        trot = TrotConfig(height=config.height, friction=config.friction)
        self.controller = TrotController(self.robot, self._solver(config), trot)
        self.cycles = self.misses = self.fallbacks = 0
        self._solves, self._latencies = deque(maxlen=500), deque(maxlen=500)
        self._start_over()
        self.commands = self.create_lifecycle_publisher(JointCommand, "joint_command", COMMAND)
        self.status = self.create_lifecycle_publisher(ControllerStatus, "controller/status", STATE)
        self.solve_time = self.create_lifecycle_publisher(Float64, "~/solve_time_ms", STATE)
        # Only the newest of each is of use. IMU and contacts come before the joint states of their tick and are read with
        # them, so that they wake nobody.
        self._imu = create_polled_subscription(self, Imu, "imu", COMMAND)
        self._contacts = create_polled_subscription(self, FootContacts, "foot_contacts", COMMAND)
        self.permission = Permission(self, self._on_permission)
        self._made = [
            self._imu,
            self._contacts,
            self.create_subscription(JointState, "joint_states", self._on_joint_state, COMMAND, raw=True),
            self.create_subscription(Twist, "cmd_vel", self._on_cmd_vel, COMMAND),
            self.create_timer(0.05, self._watch, clock=self.steady_clock),
        ]

    def _solver(self, config: StanceControllerConfig) -> StanceSolver:
        """The stance solver a configuration asks for, warmed up: the first programme is set up before it counts."""
        solver = QpStance(self.robot)
        if config.solver == "neural":
            path = config.network or _network(config.robot)
            solver = GuardedNetStance(self.robot, StanceNet.load(Path(path).expanduser()))
        return solver

    def activate(self) -> None:
        self._start_over()
        take(self._imu), take(self._contacts)  # what was before does not count

    def stop(self) -> None:
        # The declared stop state is the receiver's: it enters it when commands cease.
        pass

    def cleanup(self) -> None:
        for entity in [
            *getattr(self, "_made", []),
            *(getattr(self, n, None) for n in ("commands", "status", "solve_time")),
        ]:
            if entity is not None:
                for destroy in (self.destroy_subscription, self.destroy_timer, self.destroy_publisher):
                    if destroy(entity):
                        break
        if hasattr(self, "permission"):
            self.permission.destroy()
        self._made, self.controller = [], None

    def config_changed(self, old, new) -> None:
        """A new solver or network takes over at the next cycle; gait and estimate go on."""
        if self.controller is not None and (old.solver, old.network) != (new.solver, new.network):
            self.controller.solver = self._solver(new)

    def time_jumped_back(self) -> None:
        if self.controller is not None:
            self._start_over()

    def _start_over(self) -> None:
        self.controller.reset()
        self.beat = ControlBeat(self.config.control_period, self.config.lockstep)
        self._sent: JointCommand | None = None
        self._target = np.zeros(3)  # forward, sideways, turning, as followed
        self._wanted = np.zeros(3)  # as asked for
        self._wanted_until = -np.inf
        self._imu_sample = self._touching = None
        self._imu_stamp = self._contacts_stamp = -np.inf
        self._fallen = self.refusal = ""
        self._state_time = time.monotonic()

    # -- inputs ------------------------------------------------------------------------------------

    def _on_cmd_vel(self, message: Twist) -> None:
        wanted = np.array([message.linear.x, message.linear.y, message.angular.z])
        if not np.isfinite(wanted).all():
            self.diagnostics.tick("cmd_vel_refused")
            self.diagnostics.warn("cmd_vel is not finite; the target before stays in force until its age limit")
            return
        config = self.config
        limit = np.array([config.forward_limit, config.sideways_limit, config.turning_limit])
        self._wanted = np.clip(wanted, (-config.backward_limit, -limit[1], -limit[2]), limit)
        self._wanted_until = self._now() + config.command_age_limit

    def _on_permission(self) -> None:
        if not self.halt_reason:
            self._start_over()

    def _read_base(self) -> str:
        """Take the newest IMU and contact readings; the sentence why they cannot be used, or ""."""
        for message, _ in take(self._imu):
            q, w, a = message.orientation, message.angular_velocity, message.linear_acceleration
            sample = ImuSample(np.array([q.w, q.x, q.y, q.z]), np.array([w.x, w.y, w.z]), np.array([a.x, a.y, a.z]))
            if not np.isfinite(
                np.concatenate([sample.quaternion, sample.angular_velocity, sample.linear_acceleration])
            ).all():
                self.diagnostics.tick("imu_refused")
                return "the IMU's reading is not finite"
            if abs(np.linalg.norm(sample.quaternion) - 1.0) > 0.01:
                self.diagnostics.tick("imu_refused")
                return f"the IMU's orientation is no unit quaternion (norm {np.linalg.norm(sample.quaternion):.3g})"
            self._imu_sample, self._imu_stamp = sample, seconds(message.header.stamp)
        for message, _ in take(self._contacts):
            touching = dict(zip(message.names, message.contact))
            names = [f"{leg}_foot" for leg in LEGS]
            if not touching.keys() >= set(names):
                self.diagnostics.tick("contacts_refused")
                return f"foot_contacts names {', '.join(touching) or 'no foot'}, expected {', '.join(names)}"
            self._touching = np.array([touching[name] for name in names], bool)
            self._contacts_stamp = seconds(message.header.stamp)
        return ""

    # -- the control cycle -------------------------------------------------------------------------

    def _on_joint_state(self, data: bytes) -> None:
        """A joint state, still serialised: only those that are due are worth reading."""
        arrival = time.perf_counter()
        stamp = peek_stamp(data)
        if not self.is_active or self.halt_reason or self._fallen:
            return
        if self.beat.is_repeated(stamp, self._sent):
            self.commands.publish(self._sent)  # the plant says again what it has heard no answer to
            return
        if not self.beat.is_due(stamp):
            return
        message = deserialize_message(data, JointState)
        sample, self.refusal = self.gate.read(message, np.nan if self.config.lockstep else self._now())
        if sample is not None and self.beat.went_back(sample.stamp):
            self._start_over()
        self.refusal = self.refusal or self._read_base() or self._stale(stamp)
        if self.refusal:
            self.diagnostics.tick("states_refused")
            self.diagnostics.warn(self.refusal)
            return
        self._state_time = time.monotonic()
        since = self.beat.begin(sample.stamp)
        self._follow(since if np.isfinite(since) else 0.0)
        try:
            command = self.controller.command(
                stamp,
                self._imu_sample,
                sample.position,
                sample.velocity,
                self._touching,
                self._target[:2],
                self._target[2],
            )
        except (ValueError, RuntimeError) as error:  # neither network nor programme has an answer: no command is safer
            self.refusal = str(error)
            self.diagnostics.error(self.refusal)
            return
        roll, pitch, _ = command.base.rpy
        if max(abs(roll), abs(pitch)) > FALLEN:
            self._fallen = (
                f"fallen: roll {roll:.2f}, pitch {pitch:.2f} rad; put the robot on its feet and activate again"
            )
            return
        self._send(command, message.header.stamp, arrival)

    def _stale(self, stamp: float) -> str:
        # In lock-step time waits until all of this tick is there, so that results do not depend on who was faster.
        limit = 1e-6 if self.config.lockstep else self.config.state_age_limit
        for name, other in (("imu", self._imu_stamp), ("foot_contacts", self._contacts_stamp)):
            if not np.isfinite(other):
                return f"no {name} yet"
            if stamp - other > limit:
                return f"the newest {name} is {stamp - other:.3f} s older than the joint state, limit {limit:g} s"
        return ""

    def _follow(self, dt: float) -> None:
        """Move the target towards what was asked for, or to rest when that is too old."""
        wanted = self._wanted if self._now() <= self._wanted_until else np.zeros(3)
        step = self.config.acceleration_limit * dt
        self._target = self._target + np.clip(wanted - self._target, -step, step)

    def _send(self, command: LegCommand, stamp, arrival: float) -> None:
        message = JointCommand(
            mode=JointCommand.MODE_FEEDBACK,
            joint_names=list(self.robot.joints),
            effort=command.effort.tolist(),
            position=command.position.tolist(),
            velocity=command.velocity.tolist(),
            gain=feedback_gain(command).ravel().tolist(),
            commander=self.get_name(),
        )
        message.header.stamp = stamp
        self.commands.publish(message)
        self._sent = message
        latency, stance = time.perf_counter() - arrival, command.stance
        self.cycles += 1
        self.misses += latency > self.config.control_period
        self._solves.append(stance.time)
        self._latencies.append(latency)
        self.solve_time.publish(Float64(data=1e3 * stance.time))
        if stance.reason:
            self.fallbacks += 1
            self.diagnostics.warn(f"the programme answered for the network: {stance.reason}")
            self.get_logger().warning(f"fallback to osqp: {stance.reason}", throttle_duration_sec=2.0)
        error = np.hypot(*(command.observation.velocity[:2] - self._target[:2]))
        self._publish_status(
            ControllerStatus.STATE_TRACKING,
            stance.reason,
            solve_time=stance.time,
            tracking_error=float(error),
            stamp=stamp,
        )

    def _publish_status(self, state: int, message: str, stamp=None, **values) -> None:
        status = ControllerStatus(
            state=state,
            period=self.config.control_period,
            cycles=self.cycles,
            deadline_misses=self.misses,
            message=message,
            **values,
        )
        status.header.stamp = stamp or self.stamp_now()
        self.status.publish(status)

    def _watch(self) -> None:
        """On the wall clock: why there are no commands, where there are none."""
        self.permission.attend()
        if not self.is_active:
            return
        stopped = self.halt_reason or self._fallen
        silence = time.monotonic() - self._state_time
        if not stopped and not self.config.lockstep and silence > self.config.state_age_limit:
            stopped = self.refusal or f"no joint states for {silence:.2f} s"
        if stopped:
            self.diagnostics.error(stopped) if self._fallen else self.diagnostics.warn(stopped)
            self._publish_status(ControllerStatus.STATE_STOPPED, stopped)

    def diagnose(self) -> None:
        if self.controller is None:
            return
        say = self.diagnostics.set
        self.diagnostics.set_percentiles("solve_time", self._solves)
        self.diagnostics.set_percentiles("latency", self._latencies)
        say("solver", self.config.solver)
        say("cycles", self.cycles)
        say("deadline_misses", self.misses)
        say("fallbacks", self.fallbacks)
        say("target", " ".join(f"{x:.3f}" for x in self._target))

    def _now(self) -> float:
        return 1e-9 * self.get_clock().now().nanoseconds


def _network(name: str) -> Path:
    """File of the network that a robot's folder holds."""
    robot = load_robot(name)
    network = robot.task_as(Trot).network
    if not network:
        raise RobotError(f"{robot.file}: task.network is missing; solver:=neural needs it, or the parameter network")
    return robot.folder / network


def main(args=None) -> int:
    return spin_main(StanceController, args)
