"""What the plant's robot may do, read off its nominal model: the limits that its command gate holds."""

from __future__ import annotations

import mujoco
import numpy as np

from sim_core.gate import JointLimits
from sim_core.plant.errors import PlantError
from sim_core.plant.world import World

__all__ = ["joint_limits"]

#: postures over which the inertia's least and greatest are taken
POSTURES = 64
#: half of the range of an unlimited joint from which they are drawn [rad or m]
UNLIMITED = np.pi


def joint_limits(world: World) -> JointLimits:
    """Ranges, velocity limits (numeric `velocity_limits`), motor efforts, inertias, and powers (numeric `power_limits`).

    Raises:
        PlantError: velocity_limits or power_limits has another length than the velocities.
    """
    model = world.nominal
    joints = [mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, name) for name in world.joints]
    limited = model.jnt_limited[joints].astype(bool)
    lower = np.where(limited, model.jnt_range[joints, 0], -np.inf)
    upper = np.where(limited, model.jnt_range[joints, 1], np.inf)
    effort = np.zeros(len(joints))
    effort[world.joint_of] = np.abs(world.ratio) * np.minimum(-world.u_lower, world.u_upper)
    velocity, power = _numeric(world, "velocity_limits"), _numeric(world, "power_limits")
    return JointLimits(tuple(world.joints), lower, upper, velocity, effort, _inertia(world, lower, upper), power)


def _numeric(world: World, name: str) -> np.ndarray:
    """(n,), inf where the model gives none."""
    model = world.nominal
    for i in range(model.nnumeric):
        if model.numeric(i).name == name:
            values = model.numeric(i).data
            if len(values) != model.nv:
                raise PlantError(f"{name} has {len(values)} values, expected one per velocity: {model.nv}.")
            return np.asarray(values[world.dof], dtype=float)
    return np.full(len(world.joints), np.inf)


def _inertia(world: World, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """(2, n): least with all other joints free, greatest with all other joints held, over postures of a fixed seed."""
    model, data, rng = world.nominal, mujoco.MjData(world.nominal), np.random.default_rng(0)
    home = world.nominal_home()
    low, high = np.maximum(lower, -UNLIMITED), np.minimum(upper, UNLIMITED)
    least, greatest = np.full(len(lower), np.inf), np.zeros(len(lower))
    full = np.zeros((model.nv, model.nv))
    for k in range(POSTURES):
        data.qpos[:] = home
        if k:
            data.qpos[world.qpos] = rng.uniform(low, high)
        mujoco.mj_forward(model, data)
        mujoco.mj_fullM(model, data, full)
        least = np.minimum(least, 1.0 / np.diag(np.linalg.inv(full))[world.dof])
        greatest = np.maximum(greatest, np.diag(full)[world.dof])
    return np.array([least, greatest])
