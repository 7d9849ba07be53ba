"""Joint forces that are not rigid-body dynamics: actuators, damping, springs, smoothed friction, limits."""

from __future__ import annotations

import casadi as ca
import numpy as np

from sim_core.multibody.contact.force import contact_force
from sim_core.multibody.equations.body_taps import body_force, record_velocities
from sim_core.multibody.equations.configuration import difference
from sim_core.multibody.equations.fluid import fluid_force
from sim_core.multibody.equations.physical import Physical
from sim_core.multibody.equations.taps import Taps
from sim_core.multibody.model.model import RobotModel

__all__ = ["actuator_force", "applied_forces", "joint_force", "resisting_force"]


def record_state(model: RobotModel, q: ca.SX, v: ca.SX, u: ca.SX, p: ca.SX, taps: Taps) -> None:
    """Record positions, velocities and controls, and the velocities of bodies where a network reads or corrects such."""
    for i, name in enumerate(model.q_names):
        taps.record(f"{name}.position", q[i])
    for i, name in enumerate(model.v_names):
        taps.record(f"{name}.velocity", v[i])
    for i, actuator in enumerate(model.actuators):
        taps.record(f"{actuator.name}.control", u[i])
    if taps.mentions("body."):
        record_velocities(model, q, v, p, taps)


def actuator_force(model: RobotModel, q: ca.SX, v: ca.SX, u: ca.SX, p: ca.SX, taps: Taps) -> ca.SX:
    """Force of all actuators on each joint, (nv,) [N m or N].

    gear * (gain * u + bias) with gain and bias affine in the actuator's length gear * q and velocity gear * v.
    Clamped to the force range where the control's bounds do not already imply it; the clamp is exact, so its
    gradient is zero beyond it. Controls themselves are not clamped: they are expected within [u_lower, u_upper].
    """
    physical = Physical(model, p)
    tau = ca.SX.zeros(model.nv)
    for i, actuator in enumerate(model.actuators):
        gear = physical.gear(actuator.name)
        length, velocity = gear * q[actuator.q_index], gear * v[actuator.v_index]
        gain = actuator.gain[0] + actuator.gain[1] * length + actuator.gain[2] * velocity
        bias = actuator.bias[0] + actuator.bias[1] * length + actuator.bias[2] * velocity
        force = gain * u[i] + bias
        if actuator.force_range is not None:
            force = ca.fmin(ca.fmax(force, actuator.force_range[0]), actuator.force_range[1])
        tau[actuator.v_index] += gear * force
    for j, (lower, upper) in model.joint_force_range.items():
        tau[j] = ca.fmin(ca.fmax(tau[j], lower), upper)
    return tapped(model, "actuator_torque", tau, taps)


def passive_force(model: RobotModel, q: ca.SX, v: ca.SX, p: ca.SX, taps: Taps) -> ca.SX:
    """Damping, springs, smoothed friction and, if switched on, joint limits, (nv,) [N m or N]."""
    physical = Physical(model, p)
    tau = -physical.damping * v
    tau -= physical.stiffness * difference(model, q, model.spring_reference)
    if model.options.friction_law == "smooth":
        # tanh(v / v_eps), not sign(v): sign jumps at rest, so gradients through stick-slip would be wrong. The price
        # is creep at rest, see ModelOptions.friction_velocity and docs/gradients.md.
        tau -= physical.frictionloss * ca.tanh(v / model.options.friction_velocity)
    if model.options.joint_limits:
        tau += limit_force(model, q, v)
    return tapped(model, "passive_torque", tau, taps)


def tapped(model: RobotModel, kind: str, tau: ca.SX, taps: Taps) -> ca.SX:
    """tau (nv,) with each entry handed through the taps as NAME.kind, where NAME is that of the velocity."""
    for i, name in enumerate(model.v_names):
        tau[i] = taps(f"{name}.{kind}", tau[i])
    return tau


def limit_force(model: RobotModel, q: ca.SX, v: ca.SX) -> ca.SX:
    """One-sided spring-damper at each joint limit, smooth in q.

    With penetration d = w log(1 + exp((q_lower - q) / w)) the lower limit pushes k d - b v s, s = dd/d(-q) in (0, 1):
    the damper fades in with the spring. Far inside the range d underflows to zero.
    """
    o = model.options
    tau = ca.SX.zeros(model.nv)
    for link in model.links:
        if link.follows:  # its limits are among those of what it follows
            continue
        i, j = link.q_index, link.v_index
        for limit, side in ((model.q_lower[i], 1.0), (model.q_upper[i], -1.0)):
            if np.isfinite(limit):
                z = side * (limit - q[i]) / o.limit_width
                # Written with exp(-|z|), which cannot overflow.
                t = ca.exp(-ca.fabs(z))
                depth = o.limit_width * (ca.fmax(z, 0) + ca.log1p(t))
                onset = ca.if_else(z > 0, 1, t) / (1 + t)
                tau[j] += side * o.limit_stiffness * depth - o.limit_damping * onset * v[j]
    return tau


def applied_forces(
    model: RobotModel, q: ca.SX, v: ca.SX, u: ca.SX, p: ca.SX, taps: Taps
) -> tuple[ca.SX, ca.SX, ca.SX, ca.SX]:
    """Passive and actuator forces, drag of a fluid, other forces on bodies (contact, networks), (nv,) each."""
    record_state(model, q, v, u, p, taps)
    driven = actuator_force(model, q, v, u, p, taps)
    passive = passive_force(model, q, v, p, taps)
    dragging = fluid_force(model, q, v, p) if model.fluid_boxes else ca.SX.zeros(model.nv)
    pushing = contact_force(model, q, v, p, taps) if model.options.contact == "force" else ca.SX.zeros(model.nv)
    if taps.mentions("body."):
        pushing += body_force(model, q, v, p, taps)
    return passive, driven, dragging, pushing


def joint_force(model: RobotModel, q: ca.SX, v: ca.SX, u: ca.SX, p: ca.SX, taps: Taps | None = None) -> ca.SX:
    """All joint forces (nv,) that drive the rigid-body equations, except constrained friction, which depends on accelerations."""
    passive, driven, dragging, pushing = applied_forces(model, q, v, u, p, taps or Taps(model, p))
    return driven + passive + dragging + pushing


def resisting_force(
    model: RobotModel, q: ca.SX, v: ca.SX, u: ca.SX, p: ca.SX, with_actuators: bool, taps: Taps | None = None
) -> tuple[ca.SX, ca.SX]:
    """`joint_force`, and K (nv, nv): how strongly forces resist velocities.

    K_ii = -d force_i / d v_i of passive forces, to which `with_actuators` adds the actuators' and the whole, symmetric,
    matrix of a fluid's drag. K is that of the equations alone: networks and contacts act explicitly. Their derivative
    would enter every step, and the derivative of that would enter every gradient. The scheme keeps its order without
    it.
    """
    passive, driven, dragging, pushing = applied_forces(model, q, v, u, p, taps or Taps(model, p))
    tau = passive + driven + dragging + pushing
    if model.augmentation:
        passive, driven, dragging, _ = applied_forces(model, q, v, u, p, Taps(model, p, silent=True))
    resisting = passive + driven if with_actuators else passive
    K = ca.diag(ca.vertcat(*(-ca.jacobian(resisting[i], v[i]) for i in range(model.nv))))
    if with_actuators and model.fluid_boxes:
        K -= ca.jacobian(dragging, v)
    return tau, K
