"""Sensors of a robot that stands on the ground: an IMU on its trunk, and the force under its feet.

The MJCF declares them: a framequat, a gyro and an accelerometer called imu_orientation, imu_angular_velocity and
imu_linear_acceleration, and touch sensors named after the feet.
"""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np

from sim_core.plant.errors import PlantError

__all__ = ["BaseSensors", "BaseState", "Imu"]

_IMU = ("imu_orientation", "imu_angular_velocity", "imu_linear_acceleration")


@dataclass(frozen=True)
class Imu:
    """One reading of the IMU.

    Attributes:
        quaternion: orientation of the trunk in the world, wxyz (4,).
        angular_velocity: in the IMU's axes, (3,) [rad/s].
        linear_acceleration: in the IMU's axes, gravity included, so +9.81 upwards at rest; (3,) [m/s^2].
    """

    quaternion: np.ndarray
    angular_velocity: np.ndarray
    linear_acceleration: np.ndarray


@dataclass(frozen=True)
class BaseState:
    """True motion of the trunk.

    Attributes:
        position, linear_velocity: of the trunk's origin in the world, (3,) each [m], [m/s].
        quaternion: orientation in the world, wxyz (4,).
        angular_velocity: in the trunk's own axes, (3,) [rad/s].
    """

    position: np.ndarray
    quaternion: np.ndarray
    linear_velocity: np.ndarray
    angular_velocity: np.ndarray


class BaseSensors:
    """Reads the sensors of one model and adds noise to them.

    Args:
        model: the nominal MuJoCo model.
        orientation_noise, gyro_noise, accelerometer_noise: standard deviations [rad], [rad/s], [m/s^2].

    Attributes:
        has_imu: whether the model has an IMU. feet: names of its feet, those with a touch sensor.
    """

    def __init__(
        self, model: mujoco.MjModel, orientation_noise: float, gyro_noise: float, accelerometer_noise: float
    ) -> None:
        names = [model.sensor(i).name for i in range(model.nsensor)]
        self.has_imu = all(name in names for name in _IMU)
        self._floats = model.njnt > 0 and model.jnt_type[0] == mujoco.mjtJoint.mjJNT_FREE
        self.feet = [
            model.sensor(i).name for i in range(model.nsensor) if model.sensor_type[i] == mujoco.mjtSensor.mjSENS_TOUCH
        ]
        self._noise = (orientation_noise, gyro_noise, accelerometer_noise)

    def base_state(self, data: mujoco.MjData) -> BaseState:
        """The trunk's true state.

        Raises:
            PlantError: the robot's first joint is not free.
        """
        if not self._floats:
            raise PlantError("The robot's base is fixed: its first joint is not free, so it has no base state.")
        return BaseState(data.qpos[:3].copy(), data.qpos[3:7].copy(), data.qvel[:3].copy(), data.qvel[3:6].copy())

    def imu(self, probe: mujoco.MjData, rng: np.random.Generator) -> Imu:
        """The IMU's reading in a state whose sensors have been computed.

        Raises:
            PlantError: the robot has none.
        """
        if not self.has_imu:
            raise PlantError(f"The robot has no IMU: its MJCF needs the sensors {', '.join(_IMU)}.")
        q, gyro, acceleration = (probe.sensor(name).data.copy() for name in _IMU)
        tilt, rate, force = self._noise
        if tilt > 0.0:
            mujoco.mju_quatIntegrate(q, tilt * rng.standard_normal(3), 1.0)
        if rate > 0.0:
            gyro += rate * rng.standard_normal(3)
        if force > 0.0:
            acceleration += force * rng.standard_normal(3)
        return Imu(q, gyro, acceleration)

    def foot_forces(self, probe: mujoco.MjData) -> np.ndarray:
        """Normal force under every foot (len(feet),) [N]."""
        return np.array([probe.sensor(name).data[0] for name in self.feet])
