"""The trunk's motion from an IMU and the legs: orientation as the IMU says, velocity by a Kalman filter.

Nothing comes from ground truth. A standing foot does not move, so its motion relative to the trunk gives the trunk's
velocity, v = -(omega x r + J qd) plus what the round foot rolls. While no foot stands firmly, the velocity follows from
integrating the accelerometer.

Source: Bloesch et al., State Estimation for Legged Robots, RSS 2012, reduced to the velocity.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim_core.motion.quadruped.robot import QuadrupedRobot, rotation_from_quaternion, rotation_rpy

__all__ = ["BaseEstimate", "BaseEstimator", "ImuSample"]

_SPIKE = 10.0  # [m/s^2]


@dataclass(frozen=True)
class ImuSample:
    """One reading of the IMU on the trunk.

    Attributes:
        quaternion: orientation of the trunk in the world, wxyz (4,).
        angular_velocity: in the trunk's axes, (3,) [rad/s].
        linear_acceleration: in the trunk's axes, gravity included, so +9.81 along z at rest; (3,) [m/s^2].
    """

    quaternion: np.ndarray
    angular_velocity: np.ndarray
    linear_acceleration: np.ndarray


@dataclass(frozen=True)
class BaseEstimate:
    """Estimated motion of the trunk. The heading frame has the trunk's origin and yaw, and its z axis points up.

    Attributes:
        rpy: roll, pitch and yaw (3,) [rad].
        R_HB: rotation from the trunk's frame to the heading frame, (3, 3).
        velocity: of the trunk's origin, in the heading frame, (3,) [m/s].
        angular_velocity: of the trunk, in the heading frame, (3,) [rad/s].
        height: of the trunk's origin above the ground under the standing feet [m].
    """

    rpy: np.ndarray
    R_HB: np.ndarray
    velocity: np.ndarray
    angular_velocity: np.ndarray
    height: float


class BaseEstimator:
    """Filter of one robot.

    Args:
        robot: QuadrupedRobot.
        acceleration_std: of the integrated specific force, per square root of a second [m/s^1.5].
        velocity_std: of the velocity told by one standing foot [m/s].
        settling: a foot is believed to stand still this long after touch-down [s].
    """

    def __init__(
        self, robot: QuadrupedRobot, acceleration_std: float = 0.3, velocity_std: float = 0.1, settling: float = 0.03
    ) -> None:
        self.robot, self._settling = robot, settling
        self._process, self._measurement = acceleration_std**2, velocity_std**2
        self.reset()

    def reset(self) -> None:
        """Forget the past: the robot stands still."""
        self._v_W = np.zeros(3)
        self._variance = 0.0
        self._height = np.nan
        self._stood = np.full(4, np.inf)  # how long each foot has been on the ground [s]

    def update(
        self,
        dt: float,
        imu: ImuSample,
        q: np.ndarray,
        qd: np.ndarray,
        feet: np.ndarray,
        J: np.ndarray,
        standing: np.ndarray,
    ) -> BaseEstimate:
        """The estimate after measurements that came `dt` [s] after the last ones.

        Args:
            imu: reading of the IMU.
            q, qd: joint angles and velocities (4, 3) [rad], [rad/s].
            feet, J: positions (4, 3) [m] and Jacobians (4, 3, 3) of the feet at q, see `QuadrupedRobot`.
            standing: legs whose feet rest on the ground, (4,) bool.
        """
        R_WB = rotation_from_quaternion(imu.quaternion)
        rpy = np.array(
            [
                np.arctan2(R_WB[2, 1], R_WB[2, 2]),
                np.arcsin(np.clip(-R_WB[2, 0], -1, 1)),
                np.arctan2(R_WB[1, 0], R_WB[0, 0]),
            ]
        )
        # A touch-down is a spike of a millisecond: sampled and held for a cycle it would count for six times what it was.
        acceleration_W = np.clip(R_WB @ imu.linear_acceleration - (0.0, 0.0, self.robot.gravity), -_SPIKE, _SPIKE)
        self._v_W = self._v_W + dt * acceleration_W
        self._variance += dt * self._process
        self._stood = np.where(standing, self._stood + dt, 0.0)
        firm = self._stood > self._settling
        if firm.any():
            up = R_WB[2]
            rolled = self.robot.rolling(q, up)
            moved = np.cross(imu.angular_velocity, feet - self.robot.foot_radius * up) + np.einsum(
                "lij,lj->li", J - rolled, qd
            )
            told = -R_WB @ moved[firm].mean(0)
            gain = self._variance / (self._variance + self._measurement / firm.sum())
            self._v_W = self._v_W + gain * (told - self._v_W)
            self._variance *= 1.0 - gain
        R_HB = rotation_rpy(rpy[0], rpy[1])
        if standing.any() or np.isnan(self._height):
            lowest = (feet @ R_HB[2])[standing].mean() if standing.any() else (feet @ R_HB[2]).min()
            self._height = self.robot.foot_radius - lowest
        c, s = np.cos(rpy[2]), np.sin(rpy[2])
        v_H = np.array([c * self._v_W[0] + s * self._v_W[1], c * self._v_W[1] - s * self._v_W[0], self._v_W[2]])
        return BaseEstimate(rpy, R_HB, v_H, R_HB @ imu.angular_velocity, self._height)
