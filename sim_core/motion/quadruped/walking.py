"""A plant and a controller in one loop, and what is measured of the walk.

The loop is the node's without ROS: the plant's servos run the law of the last command at every tick, a new command
comes at the control rate. The controller sees sensors only; the trace keeps the truth beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from sim_core.command import Command, Mode
from sim_core.motion.quadruped.controller import LegCommand, TrotController
from sim_core.motion.quadruped.estimator import ImuSample
from sim_core.motion.quadruped.gait import CONTACT_FORCE
from sim_core.motion.quadruped.robot import rotation_from_quaternion

__all__ = ["LeggedPlant", "Target", "Walk", "feedback_gain", "walk"]

FALLEN = 0.7  # [rad] of roll or pitch, from which no trot returns


class ImuReading(Protocol):
    """What an IMU reads.

    Attributes:
        quaternion: orientation in the world, wxyz (4,).
        angular_velocity, linear_acceleration: in the IMU's axes, (3,) each [rad/s], [m/s^2].
    """

    quaternion: np.ndarray
    angular_velocity: np.ndarray
    linear_acceleration: np.ndarray


class BaseState(Protocol):
    """Truth about the trunk.

    Attributes:
        position, linear_velocity: of its origin in the world, (3,) each [m], [m/s].
        quaternion: orientation in the world, wxyz (4,).
        angular_velocity: in its own axes, (3,) [rad/s].
    """

    position: np.ndarray
    quaternion: np.ndarray
    linear_velocity: np.ndarray
    angular_velocity: np.ndarray


class LeggedPlant(Protocol):
    """What a walk needs of whatever stands in for the robot; `sim_core.plant.MujocoPlant` is one.

    Attributes:
        t: time [s].
        joints: names of the joints.
        q, v: measured joint angles and rates, (12,) [rad], [rad/s].
    """

    t: float
    joints: Sequence[str]
    q: np.ndarray
    v: np.ndarray

    def reset(self) -> None: ...

    def tick(self) -> None: ...

    def command(self, command: Command) -> None: ...

    def imu(self) -> ImuReading: ...

    def foot_forces(self) -> np.ndarray: ...

    def base_state(self) -> BaseState: ...


@dataclass(frozen=True)
class Target:
    """What the robot is asked to do.

    Attributes:
        velocity: forward and to the left, (2,) [m/s].
        yaw_rate: [rad/s].
    """

    velocity: tuple[float, float] = (0.0, 0.0)
    yaw_rate: float = 0.0


@dataclass
class Walk:
    """Trace of a walk; each list has one entry per control cycle.

    Attributes:
        t: time [s].
        velocity: true velocity of the trunk in the heading frame, (3,) [m/s].
        yaw_rate: true [rad/s].
        height: true height of the trunk's origin [m].
        tilt: true roll and pitch (2,) [rad].
        estimate: velocity that the estimator reports, (3,) [m/s].
        target: velocity (2,) [m/s] and yaw rate [rad/s] that were asked for.
        standing: legs that the controller lets carry, (4,) bool.
        touching: feet that touch the ground, (4,) bool.
        observation, torques: input (41,) and answer (12,) [N m] of the stance solver.
        time, solver: how long the solver took [s], and which one it was.
        fallen: when the robot fell [s]; NaN where it did not.
    """

    t: list[float] = field(default_factory=list)
    velocity: list[tuple[float, float, float]] = field(default_factory=list)
    yaw_rate: list[float] = field(default_factory=list)
    height: list[float] = field(default_factory=list)
    tilt: list[tuple[float, float]] = field(default_factory=list)
    estimate: list[np.ndarray] = field(default_factory=list)
    target: list[tuple[float, float, float]] = field(default_factory=list)
    standing: list[np.ndarray] = field(default_factory=list)
    touching: list[np.ndarray] = field(default_factory=list)
    observation: list[np.ndarray] = field(default_factory=list)
    torques: list[np.ndarray] = field(default_factory=list)
    time: list[float] = field(default_factory=list)
    solver: list[str] = field(default_factory=list)
    fallen: float = np.nan

    def array(self, name: str) -> np.ndarray:
        """One of the lists as an array, time first."""
        return np.array(getattr(self, name))

    def after(self, t: float) -> np.ndarray:
        """Mask of the cycles from t [s] on."""
        return self.array("t") >= t

    def velocity_error(self, settle: float) -> float:
        """RMS of true minus desired horizontal velocity from `settle` [s] on [m/s]; NaN after a fall."""
        if np.isfinite(self.fallen):
            return np.nan
        error = (self.array("velocity")[:, :2] - self.array("target")[:, :2])[self.after(settle)]
        return float(np.sqrt((error**2).sum(1).mean()))

    def mean_velocity_error(self, settle: float) -> float:
        """|mean of true minus desired horizontal velocity| from `settle` [s] on: what is left of the target in the long run."""
        if np.isfinite(self.fallen):
            return np.nan
        error = (self.array("velocity")[:, :2] - self.array("target")[:, :2])[self.after(settle)]
        return float(np.linalg.norm(error.mean(0)))

    def mean_height(self, settle: float) -> float:
        """Mean height of the trunk's origin from `settle` [s] on [m]; NaN after a fall."""
        return np.nan if np.isfinite(self.fallen) else float(self.array("height")[self.after(settle)].mean())


def feedback_gain(command: LegCommand) -> np.ndarray:
    """The law effort + gain [position - q; velocity - qd] of a command, (12, 24)."""
    return np.hstack([np.diag(command.kp), np.diag(command.kd)])


def walk(
    plant: LeggedPlant,
    controller: TrotController,
    target: Callable[[float], Target],
    duration: float,
    period: float,
    disturb: Callable[[float, np.ndarray], np.ndarray] | None = None,
) -> Walk:
    """Let a robot walk from its home posture.

    Args:
        target: of a time since the start [s].
        period: between commands [s]; they come at the first servo tick at which one is due.
        disturb: (t, torques (12,)) -> torques applied in their place; what the trace keeps is the solver's.

    Returns:
        Walk; it ends early where the robot falls.
    """
    plant.reset()
    controller.reset()
    trace, due = Walk(), 0.0
    while plant.t < duration - 1e-9:
        if plant.t >= due - 1e-9:
            due += period
            goal = target(plant.t)
            imu = plant.imu()
            touching = plant.foot_forces() > CONTACT_FORCE
            command = controller.command(
                plant.t,
                ImuSample(imu.quaternion, imu.angular_velocity, imu.linear_acceleration),
                plant.q,
                plant.v,
                touching,
                goal.velocity,
                goal.yaw_rate,
            )
            effort = command.effort if disturb is None else disturb(plant.t, command.effort)
            plant.command(
                Command(
                    Mode.FEEDBACK,
                    plant.t,
                    plant.joints,
                    effort,
                    command.position,
                    command.velocity,
                    feedback_gain(command).ravel(),
                )
            )
            if not _note(trace, plant, command, goal, touching):
                trace.fallen = plant.t
                break
        plant.tick()
    return trace


def _note(trace: Walk, plant: LeggedPlant, command: LegCommand, goal: Target, touching: np.ndarray) -> bool:
    """Add a cycle; False if the robot has fallen."""
    base = plant.base_state()
    R = rotation_from_quaternion(base.quaternion)
    roll, pitch, yaw = np.arctan2(R[2, 1], R[2, 2]), np.arcsin(np.clip(-R[2, 0], -1, 1)), np.arctan2(R[1, 0], R[0, 0])
    c, s = np.cos(yaw), np.sin(yaw)
    vx, vy, vz = base.linear_velocity
    trace.t.append(plant.t)
    trace.velocity.append((c * vx + s * vy, c * vy - s * vx, vz))
    trace.yaw_rate.append(float(R[2] @ base.angular_velocity))
    trace.height.append(float(base.position[2]))
    trace.tilt.append((roll, pitch))
    trace.estimate.append(command.base.velocity)
    trace.target.append((*goal.velocity, goal.yaw_rate))
    trace.standing.append(command.standing)
    trace.touching.append(touching)
    trace.observation.append(command.observation.vector)
    trace.torques.append(command.stance.torques.ravel())
    trace.time.append(command.stance.time)
    trace.solver.append(command.stance.solver)
    return max(abs(roll), abs(pitch)) < FALLEN
