"""CasADi functions of a model, ready to evaluate, differentiate or compile.

All inputs and outputs are dense columns: q (nq,), v (nv,), u (nu,), p (np_,), x = [q, v] (nx,).
"""

from __future__ import annotations

from collections.abc import Sequence

import casadi as ca

from sim_core.multibody.equations import dynamics, kinematics
from sim_core.multibody.model import forces, integrators
from sim_core.multibody.model.model import RobotModel

__all__ = [
    "accel",
    "energy",
    "frame_pose",
    "frame_position",
    "frame_velocity",
    "inverse_dynamics",
    "mass_matrix",
    "step",
]


def _symbols(model: RobotModel) -> tuple[ca.SX, ca.SX, ca.SX, ca.SX]:
    return ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv), ca.SX.sym("u", model.nu), ca.SX.sym("p", model.np_)


def _function(
    name: str, inputs: Sequence[ca.SX], outputs: Sequence[ca.SX], in_names: Sequence[str], out_names: Sequence[str]
) -> ca.Function:
    outputs = ca.cse([ca.densify(ca.SX(out)) for out in outputs])
    return ca.Function(name, inputs, outputs, in_names, out_names)


def accel(model: RobotModel) -> ca.Function:
    """f(q, v, u, p) -> a (nv,): forward dynamics with actuators, passive forces and friction."""
    q, v, u, p = _symbols(model)
    a = integrators.acceleration(model, q, v, u, p, model.timestep)
    return _function("accel", [q, v, u, p], [a], ["q", "v", "u", "p"], ["a"])


def forward_dynamics(model: RobotModel) -> ca.Function:
    """f(q, v, tau, p) -> a (nv,): rigid-body equations alone, tau the total joint force."""
    q, v, _, p = _symbols(model)
    tau = ca.SX.sym("tau", model.nv)
    a = dynamics.unconstrained_acceleration(model, q, v, tau, p)
    return _function("forward_dynamics", [q, v, tau, p], [a], ["q", "v", "tau", "p"], ["a"])


def inverse_dynamics(model: RobotModel) -> ca.Function:
    """f(q, v, a, p) -> tau (nv,): total joint force; subtract `joint_force` of u = 0 for the actuators' share."""
    q, v, _, p = _symbols(model)
    a = ca.SX.sym("a", model.nv)
    tau = dynamics.rnea(model, q, v, a, p)
    return _function("inverse_dynamics", [q, v, a, p], [tau], ["q", "v", "a", "p"], ["tau"])


def joint_force(model: RobotModel) -> ca.Function:
    """f(q, v, u, p) -> tau (nv,): actuators, damping, springs, smooth friction, limits."""
    q, v, u, p = _symbols(model)
    tau = forces.joint_force(model, q, v, u, p)
    return _function("joint_force", [q, v, u, p], [tau], ["q", "v", "u", "p"], ["tau"])


def mass_matrix(model: RobotModel) -> ca.Function:
    """f(q, p) -> M (nv, nv), armature included."""
    q, _, _, p = _symbols(model)
    return _function("mass_matrix", [q, p], [dynamics.crba(model, q, p)], ["q", "p"], ["M"])


def energy(model: RobotModel) -> ca.Function:
    """f(q, v, p) -> kinetic, potential [J]."""
    q, v, _, p = _symbols(model)
    kinetic, potential = dynamics.energy(model, q, v, p)
    return _function("energy", [q, v, p], [kinetic, potential], ["q", "v", "p"], ["kinetic", "potential"])


def step(model: RobotModel, dt: float, integrator: str | None = None, substeps: int = 1) -> ca.Function:
    """f(x, u, p) -> x_next (nx,) after dt [s]; integrator None means the one of the model's plant."""
    x, u, p = ca.SX.sym("x", model.nx), ca.SX.sym("u", model.nu), ca.SX.sym("p", model.np_)
    x_next = integrators.integrate_step(model, x, u, p, dt, integrator, substeps)
    return _function("step", [x, u, p], [x_next], ["x", "u", "p"], ["x_next"])


def frame_position(model: RobotModel, frame: str) -> ca.Function:
    """f(q, p) -> position (3,) [m] in the world of a site or body."""
    q, _, _, p = _symbols(model)
    r, _ = kinematics.frame_pose(model, frame, q, p)
    return _function("frame_position", [q, p], [r], ["q", "p"], ["r"])


def frame_pose(model: RobotModel, frame: str) -> ca.Function:
    """f(q, p) -> position (3,) [m] and orientation (3, 3) in the world of a site or body."""
    q, _, _, p = _symbols(model)
    r, R = kinematics.frame_pose(model, frame, q, p)
    return _function("frame_pose", [q, p], [r, R], ["q", "p"], ["r", "R"])


def frame_velocity(model: RobotModel, frame: str) -> ca.Function:
    """f(q, v, p) -> angular [rad/s] and linear [m/s] velocity (3,) each of a site or body, in world axes."""
    q, v, _, p = _symbols(model)
    w, lin = kinematics.frame_velocity(model, frame, q, v, p)
    return _function("frame_velocity", [q, v, p], [w, lin], ["q", "v", "p"], ["w", "v_lin"])
