"""A walking controller: gait, estimate, stance solver and swing legs, one command per call.

    controller = TrotController(robot, QpStance(robot))
    command = controller.command(t, imu, q, qd, contacts, velocity=(0.3, 0.0), yaw_rate=0.0)
    # a servo's law until the next one: effort + kp (position - q) + kd (velocity - qd)

Standing legs get torques of the stance solver, swinging legs a joint reference; all of them what holds their own links
(without it the ground carries the standing legs and the forces lift a trunk that is lighter than the model's: 2 cm).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from sim_core.motion.quadruped.estimator import BaseEstimate, BaseEstimator, ImuSample
from sim_core.motion.quadruped.gait import TROT, Gait
from sim_core.motion.quadruped.observation import Observation
from sim_core.motion.quadruped.offset_free import OffsetFree, OffsetFreeConfig
from sim_core.motion.quadruped.robot import QuadrupedRobot
from sim_core.motion.quadruped.stance import Stance, StanceSolver
from sim_core.motion.quadruped.swing import SwingConfig, SwingLegs

__all__ = ["LegCommand", "TrotConfig", "TrotController"]


@dataclass(frozen=True)
class TrotConfig:
    """Settings of the controller.

    Attributes:
        gait: when each foot stands and when it swings.
        height: of the centre of mass above the ground [m].
        friction: coefficient that is assumed at every foot.
        early_contact: share of the swing after which a foot that touches the ground counts as standing.
        swing: of the swinging legs.
        offset_free: of the correction of the references.
    """

    gait: Gait = TROT
    height: float = 0.27
    friction: float = 0.45
    early_contact: float = 0.5
    swing: SwingConfig = field(default_factory=SwingConfig)
    offset_free: OffsetFreeConfig = field(default_factory=OffsetFreeConfig)


@dataclass(frozen=True)
class LegCommand:
    """What the legs' servos shall do until the next command; joints are ordered leg by leg.

    Attributes:
        effort: feed-forward torques (12,) [N m].
        position, velocity: references (12,) [rad], [rad/s].
        kp, kd: gains of the servos (12,) [N m/rad], [N m s/rad].
        stance: the answer of the stance solver.
        observation: what the solver was asked.
        base: the estimated motion of the trunk.
        standing: legs that carry the robot, (4,) bool.
    """

    effort: np.ndarray
    position: np.ndarray
    velocity: np.ndarray
    kp: np.ndarray
    kd: np.ndarray
    stance: Stance
    observation: Observation
    base: BaseEstimate
    standing: np.ndarray


class TrotController:
    """The controller of one robot; the module's docstring shows its use.

    Args:
        robot: constants of the robot.
        solver: finds the torques of the legs that stand.
        config: settings.
    """

    def __init__(self, robot: QuadrupedRobot, solver: StanceSolver, config: TrotConfig = TrotConfig()) -> None:
        self.robot, self.solver, self.config = robot, solver, config
        self.estimator = BaseEstimator(robot)
        self.swing = SwingLegs(robot, config.gait.stance, config.gait.swing, config.swing)
        self.offset_free = OffsetFree(config.offset_free)
        self.reset()

    def reset(self) -> None:
        """Start anew: the robot stands at the time of the next command, and the gait begins there."""
        self.estimator.reset()
        self.solver.reset()
        self.swing.reset()
        self.offset_free.reset()
        self._begin: float | None = None
        self._before = 0.0
        self._swinging = np.zeros(4, bool)

    def command(
        self,
        t: float,
        imu: ImuSample,
        q: np.ndarray,
        qd: np.ndarray,
        contacts: np.ndarray,
        velocity: Sequence[float] = (0.0, 0.0),
        yaw_rate: float = 0.0,
    ) -> LegCommand:
        """The legs' command for measurements of time t [s].

        Args:
            imu: ImuSample. q, qd: (12,) [rad, rad/s]. contacts: feet that touch the ground, (4,) bool.
            velocity: asked for, forward and to the left (2,) [m/s]. yaw_rate: asked for [rad/s].

        Raises:
            ValueError: measurements are not finite.
        """
        q, qd = np.reshape(q, (4, 3)), np.reshape(qd, (4, 3))
        if self._begin is None:
            self._begin = self._before = t
        phase = self.config.gait.swing_phase(t - self._begin)
        early = (phase > self.config.early_contact) & contacts
        standing = np.isnan(phase) | early
        feet, J = self.robot.feet(q), self.robot.jacobians(q)
        dt, self._before = t - self._before, t
        base = self.estimator.update(dt, imu, q, qd, feet, J, standing & contacts)
        height = base.height + base.R_HB[2] @ self.robot.com
        *along, yaw_rate, height = self.offset_free.reference(
            dt,
            np.array([*velocity, yaw_rate, self.config.height]),
            np.array([*base.velocity[:2], base.angular_velocity[2], height]),
        )
        desired = np.array([*along, 0.0])
        observation = self.observe(base, feet, standing, desired, yaw_rate, height)
        stance = self.solver.solve(observation)
        self.swing.lift(~standing & ~self._swinging, feet @ base.R_HB.T)
        self._swinging = ~standing
        q_swing, qd_swing, qdd_swing = self.swing.joints(phase, base, desired, yaw_rate)
        swings = ~standing[:, None]
        own = self.robot.leg_torques(q, np.where(swings, qd_swing, 0.0), np.where(swings, qdd_swing, 0.0), base.R_HB[2])
        gains = self.config.swing
        return LegCommand(
            effort=(stance.torques + own).ravel(),
            position=np.where(swings, q_swing, q).ravel(),
            velocity=np.where(swings, qd_swing, 0.0).ravel(),
            kp=np.repeat(np.where(standing, 0.0, gains.kp), 3),
            kd=np.repeat(np.where(standing, 0.0, gains.kd), 3),
            stance=stance,
            observation=observation,
            base=base,
            standing=standing,
        )

    def observe(
        self,
        base: BaseEstimate,
        feet: np.ndarray,
        standing: np.ndarray,
        desired_velocity: np.ndarray,
        yaw_rate: float,
        height: float,
    ) -> Observation:
        """The 41 inputs of the stance solver.

        Args:
            base: estimated motion of the trunk.
            feet: in the trunk's frame, (4, 3) [m].
            standing: legs that carry the robot, (4,) bool.
            desired_velocity: in the heading frame, (3,) [m/s]. yaw_rate: desired [rad/s].
            height: desired, of the centre of mass above the ground [m].
        """
        o = Observation()
        o.velocity[:] = base.velocity + np.cross(base.angular_velocity, base.R_HB @ self.robot.com)
        o.orientation[:2] = base.rpy[:2]
        o.angular_velocity[:] = base.angular_velocity
        o.contacts[:] = standing
        o.feet[:] = feet
        o.friction[:] = self.config.friction
        o.desired_position[2] = height
        o.desired_velocity[:] = desired_velocity
        o.desired_angular_velocity[2] = yaw_rate
        return o
