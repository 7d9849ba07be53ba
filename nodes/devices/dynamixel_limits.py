"""What the joints of a servo group may do, from their settings and the servos' data sheets."""

from __future__ import annotations

import numpy as np

from hardware.dynamixel.device import ServoGroup
from hardware.dynamixel.tables import RPM
from sim_core.gate import JointLimits

__all__ = ["joint_limits"]

#: [s] mechanical time constant J R / (k_t k_e) of a servo without a load, as its coreless motor has; no maker tells it
MECHANICAL_TIME = 0.012
#: inertia that a servo moves at most, as a multiple of its own, where nobody says
LOADED = 10.0


def joint_limits(group: ServoGroup, driven: np.ndarray, least, most) -> JointLimits:
    """Limits of all n joints; those not `driven` are a gripper's, which has limits of its own and is passive here.

    Args:
        driven: mask, shape (n,).
        least, most: inertia that each servo moves, shape (n,) [kg m^2]; 0: the servo's own, and ten times that.
    """
    motors = [joint.model.motor for joint in group.joints]
    gear = np.array([joint.gear_ratio for joint in group.joints])
    own = gear**2 * [MECHANICAL_TIME * m.torque_constant * m.back_emf / m.resistance for m in motors]
    least = np.where(np.asarray(least) > 0.0, least, own)
    most = np.where(np.asarray(most) > 0.0, most, LOADED * least)
    fastest = np.array([m.no_load * RPM for m in motors]) / gear
    velocity = np.where(np.isfinite(group.limits.max_velocity), group.limits.max_velocity, fastest)
    return JointLimits(
        group.names,
        np.where(driven, group.arrays.min, -np.inf),
        np.where(driven, group.arrays.max, np.inf),
        np.where(driven, velocity, np.inf),
        np.where(driven, group.limits.max_effort, 0.0),
        np.array([least, np.maximum(least, most)]),
    )
