"""Rigid-body dynamics as a layer of a torch program: states and free quantities in, a trajectory out.

Source: Heiden, Millard, Zhang, Sukhatme, Interactive Differentiable Simulation, arXiv 1905.10706 (2019). It needs torch;
callers ask `config.tiers.require` first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from sim_core.inference.shooting.limited_parameters import LimitedParameters
from sim_core.multibody import Dynamics, load_model

__all__ = ["Layer", "chain", "chain_layer"]


class _Physical(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, parameters: LimitedParameters, theta: torch.Tensor) -> torch.Tensor:
        ctx.parameters = parameters
        ctx.save_for_backward(theta)
        return torch.from_numpy(parameters.to_physical(theta.detach().numpy()))

    @staticmethod
    def backward(ctx: Any, *bars: torch.Tensor) -> tuple[None, torch.Tensor]:
        (theta,) = ctx.saved_tensors
        return None, torch.from_numpy(ctx.parameters.pullback(theta.detach().numpy(), bars[0].contiguous().numpy()))


@dataclass(frozen=True)
class Layer:
    """A mechanism without motors whose quantities theta (n,), named by `parameters`, are free."""

    dynamics: Dynamics
    parameters: LimitedParameters

    def __call__(self, x0: torch.Tensor, theta: torch.Tensor, steps: int) -> torch.Tensor:
        """States X (N, steps + 1, nx) from x0 (N, nx) with theta (n,) or (N, n), all torch.float64; differentiable in both."""
        p = _Physical.apply(self.parameters, theta)
        return self.dynamics.torch_rollout(x0, torch.zeros(steps, self.dynamics.nu, dtype=x0.dtype), p)

    def within(self, theta: torch.Tensor) -> torch.Tensor:
        """theta (..., n) moved to the limits of its quantities where it is beyond; the gradient there is zero."""
        lower, upper = (torch.as_tensor(limit) for limit in (self.parameters.lower, self.parameters.upper))
        return torch.minimum(torch.maximum(theta, lower), upper)


def chain(lengths: Sequence[float], joint: str = "hinge", damping: float = 0.0, thickness: float = 0.1) -> str:
    """MJCF of a hanging chain of massless links, each with a ball of 1 kg and 10 cm radius at its end.

    Args:
        lengths: of the links [m]. joint: "hinge" (all about y) or "ball". damping: of each joint [N m s].
        thickness: radius at which a link is drawn [m].
    """
    inside = ""
    for k in reversed(range(len(lengths))):
        place = "" if k == 0 else f' pos="0 0 {-lengths[k - 1]}"'
        inside = f"""<body name="link{k + 1}"{place}>
          <joint name="joint{k + 1}" type="{joint}" axis="0 1 0" damping="{damping}"/>
          <inertial pos="0 0 {-lengths[k]}" mass="1" diaginertia="4e-3 4e-3 4e-3"/>
          <geom type="capsule" fromto="0 0 0 0 0 {-lengths[k]}" size="{thickness}" contype="0" conaffinity="0"/>{inside}</body>"""
    moved = " ".join(f"link{k + 1}" for k in range(1, len(lengths)))
    return f"""<mujoco model="chain">
      <option timestep="0.005" integrator="RK4"><flag contact="disable"/></option>
      <custom><text name="refit_geometry" data="{moved}"/></custom>
      <worldbody>{inside}</worldbody></mujoco>"""


def chain_layer(
    links: int,
    dt: float,
    limits: tuple[float, float],
    joint: str = "hinge",
    damping: float | None = None,
    substeps: int = 4,
) -> Layer:
    """A chain whose lengths are free, and with them one damping of all joints where a largest one is given.

    Args:
        dt: period [s]. limits: of the lengths [m]. damping: upper limit of the joints' damping [N m s].
    """
    model = load_model(chain([1.0] * links, joint, 0.0 if damping is None else 0.01))
    ties = {f"length{k}": {f"link{k}.com.z": -1.0} for k in range(1, links + 1)}
    for k in range(1, links):
        ties[f"length{k}"][f"link{k + 1}.pos.z"] = -1.0
    free = dict.fromkeys(ties, limits)
    if damping is not None:
        free["damping"] = (0.0, damping)
        ties["damping"] = {f"joint{k}.damping": 1.0 for k in range(1, links + 1)}
    return Layer(Dynamics(model, dt, integrator="rk4", substeps=substeps), LimitedParameters(model, free, ties))
