"""A double pendulum of two point masses, swinging freely: the synthetic mechanism of the inference experiments."""

from __future__ import annotations

import numpy as np

from sim_core.inference.data.trajectories import Trajectories
from sim_core.inference.shooting.limited_parameters import LimitedParameters
from sim_core.multibody import Dynamics, load_model

__all__ = ["DT", "LIMITS", "START", "dynamics", "lengths", "simulated"]

DT = 0.01  # [s]: 300 steps are 3 s in the source's Fig. A.1
START = np.array([np.pi / 2, 0.0, 0.0, 0.0])  # at rest, (90, 0) degrees from hanging down
LIMITS = (0.5, 5.0)  # of both lengths [m]

# 1 kg at the end of each massless link; hinges about y, angles from hanging down, the second relative to the first.
# Semi-implicit Euler as in the source. The inertia about the COM is that of a 1 cm ball, because a model needs some.
MJCF = f"""
<mujoco model="double_pendulum">
  <compiler angle="radian"/>
  <option timestep="{DT}" integrator="Euler"><flag contact="disable" eulerdamp="disable"/></option>
  <custom><text name="refit_geometry" data="link2"/></custom>
  <worldbody>
    <body name="link1">
      <joint name="joint1" type="hinge" axis="0 1 0"/>
      <inertial pos="0 0 -1.5" mass="1" diaginertia="4e-5 4e-5 4e-5"/>
      <body name="link2" pos="0 0 -1.5">
        <joint name="joint2" type="hinge" axis="0 1 0"/>
        <inertial pos="0 0 -2" mass="1" diaginertia="4e-5 4e-5 4e-5"/>
      </body>
    </body>
  </worldbody>
</mujoco>
"""


def dynamics(**options) -> Dynamics:
    return Dynamics(load_model(MJCF), **options)


def lengths(model, limits=LIMITS) -> LimitedParameters:
    """The two link lengths [m]: the first moves its own mass and the second hinge, the second its own mass."""
    return LimitedParameters(
        model,
        {"length1": limits, "length2": limits},
        ties={"length1": {"link1.com.z": -1.0, "link2.pos.z": -1.0}, "length2": {"link2.com.z": -1.0}},
    )


def simulated(dynamics: Dynamics, parameters, theta, x0=START, steps: int = 400) -> Trajectories:
    """One trajectory for each row of theta (R, 2), from x0 (nx,) or (R, nx)."""
    theta = np.atleast_2d(theta)
    U = np.zeros((steps, dynamics.nu))
    X = dynamics.rollout(np.broadcast_to(x0, (len(theta), dynamics.nx)), U, parameters.to_physical(theta))
    return Trajectories(dynamics.dt, X, np.zeros((len(theta), steps, dynamics.nu)))
