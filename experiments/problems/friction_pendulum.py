"""A double pendulum in MuJoCo whose joints rub, and the same in the engine without: ground truth of the friction studies."""

from __future__ import annotations

import mujoco
import numpy as np

from sim_core.inference.data.trajectories import Trajectories
from sim_core.multibody import load_model

__all__ = ["JOINTS", "PERIOD", "SUBSTEPS", "frictionless", "recorded"]

JOINTS = ("joint1", "joint2")
STEP = 0.002  # [s] of the plant
SUBSTEPS = 5
PERIOD = STEP * SUBSTEPS  # [s] of what is recorded

MJCF = f"""
<mujoco model="double_pendulum">
  <option timestep="{STEP}" integrator="Euler"><flag eulerdamp="disable" contact="disable"/></option>
  <worldbody>
    <body name="link1">
      <joint name="joint1" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0 0 -0.5" size="0.02" mass="1"/>
      <body name="link2" pos="0 0 -0.5">
        <joint name="joint2" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0 0 -0.5" size="0.02" mass="1"/>
      </body>
    </body>
  </worldbody>
</mujoco>
"""


def frictionless():
    """The engine's model."""
    return load_model(MJCF)


def recorded(x0, steps, friction, every=SUBSTEPS) -> Trajectories:
    """Free swings in MuJoCo from x0 (R, 4).

    Args:
        steps: recorded ones.
        friction: v (2,) [rad/s] -> joint torques (2,) [N m], evaluated at each of the plant's steps.
        every: the plant's steps from one sample to the next.
    """
    m = mujoco.MjModel.from_xml_string(MJCF)
    X = np.empty((len(x0), steps + 1, 4))
    for r, start in enumerate(x0):
        data = mujoco.MjData(m)
        data.qpos, data.qvel = start[:2], start[2:]
        X[r, 0] = start
        for k in range(steps):
            for _ in range(every):
                data.qfrc_applied = friction(data.qvel)
                mujoco.mj_step(m, data)
            X[r, k + 1, :2], X[r, k + 1, 2:] = data.qpos, data.qvel
    return Trajectories(STEP * every, X, np.zeros((len(x0), steps, 0)))
