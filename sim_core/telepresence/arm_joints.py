"""The joints of an arm that does its deeds by itself: what their motors exert, how stiffly they hold, and how fast they are led.

    effort, speed = greatest_torques(model), np.asarray(model.v_limit, float)
    kp, kd = joint_springs(effort)
    told = told + unhurried(ik.step(target, told, posture) - told, speed, step_time(dt, period))

It holds for every arm of hinges that are all driven, whatever it carries: torques and speeds are those of the robot's model file, and
the springs follow from the torques. So no robot's folder repeats these numbers.
"""

from __future__ import annotations

import numpy as np

from sim_core.multibody import RobotModel

__all__ = ["greatest_torques", "joint_springs", "step_time", "turned_posture", "unhurried"]

#: of a joint, over the root of its greatest torque: 900 N m/rad and 70 N m s/rad where that is 87 N m, 330 and 26 where it is 12
STIFFNESS, DAMPING = 96.0, 7.5
#: periods that a step lasts at most: after a longer pause the arm does not hurry
LONGEST = 2.5
#: of a joint's greatest velocity that is asked of it
SHARE = 0.6
#: [m^2/rad^2, 1] by which a direction in which the arm hardly moves is left to the posture
SINGULAR = 1e-6


def greatest_torques(model: RobotModel) -> np.ndarray:
    """That each joint's motor exerts (n,) [N m].

    Raises:
        ValueError: a joint has no motor, or one without a limit.
    """
    most = np.zeros(model.nv)
    for k, actuator in enumerate(model.actuators):
        most[actuator.v_index] += abs(actuator.gain[0]) * min(-model.u_lower[k], model.u_upper[k])
    if not (np.isfinite(most).all() and (most > 0.0).all()):
        raise ValueError(f"{model.name}: expected a motor with a limited torque at every joint, found {most.tolist()}")
    return most


def joint_springs(effort: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Stiffness (n,) [N m/rad] and damping (n,) [N m s/rad] with which joints of greatest torques (n,) [N m] hold what they are told."""
    return STIFFNESS * np.sqrt(effort), DAMPING * np.sqrt(effort)


def step_time(dt: float, period: float) -> float:
    """The time [s] that a step is led for, of what has passed since the last cycle [s], where cycles have a period [s]."""
    return float(np.clip(dt, 0.0, LONGEST * period))


def unhurried(step: np.ndarray, speed: np.ndarray, dt: float) -> np.ndarray:
    """A step of the joints (n,) [rad], made shorter as a whole where one of them would be asked for too much of its speed (n,) [rad/s].

    Near the edge of its reach the elbow may want to go faster than the robot's gate lets it.

    Args:
        dt: that the step takes [s], above 0.
    """
    return step / max(1.0, float(np.max(np.abs(step) / (SHARE * speed * dt))))


def turned_posture(posture: np.ndarray, q: np.ndarray, J: np.ndarray) -> np.ndarray:
    """The posture (n,) [rad] that the inverse kinematics prefer at joint positions q (n,) [rad].

    It is the given one, wherever the arm is turned to by its first joint. What of it would move the tool is left out: a pull towards
    it kept a membrane 5 mm from where it was told to be.

    Args:
        posture: (n,) [rad]. J: of the tool (6, n) at q.
    """
    wish = posture - q
    wish[0] = 0.0
    return q + wish - J.T @ np.linalg.solve(J @ J.T + SINGULAR * np.eye(6), J @ wish)
