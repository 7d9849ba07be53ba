"""Joint forces that are not rigid-body dynamics: actuators, damping, springs, smoothed friction, limits."""

import casadi as ca
import numpy as np

from .physical import Physical

__all__ = ["actuator_force", "joint_force", "velocity_feedback"]


def actuator_force(model, q, v, u, p):
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
    return tau


def passive_force(model, q, v, p):
    """Damping, springs, smoothed friction and, if switched on, joint limits, (nv,)."""
    physical = Physical(model, p)
    tau = -physical.damping * v
    tau -= physical.stiffness * (q - ca.SX(model.spring_reference))
    if model.options.friction_law == "smooth":
        # tanh(v / v_eps), not sign(v): sign jumps at rest, so gradients through stick-slip would be wrong. The price
        # is creep at rest, see ModelOptions.friction_velocity and docs/gradients.md.
        tau -= physical.frictionloss * ca.tanh(v / model.options.friction_velocity)
    if model.options.joint_limits:
        tau += limit_force(model, q, v)
    return tau


def limit_force(model, q, v):
    """One-sided spring-damper at each joint limit, smooth in q.

    With penetration d = w log(1 + exp((q_lower - q) / w)) the lower limit pushes k d - b v s, s = dd/d(-q) in (0, 1):
    the damper fades in with the spring. Far inside the range d underflows to zero.
    """
    o = model.options
    tau = ca.SX.zeros(model.nv)
    for link in model.links:
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


def joint_force(model, q, v, u, p):
    """Everything that drives the rigid-body equations, (nv,), but constrained friction: that depends on accelerations."""
    return actuator_force(model, q, v, u, p) + passive_force(model, q, v, p)


def velocity_feedback(force, v):
    """-d force_i / d v_i for each joint, (nv,): how strongly a force resists its own joint's velocity."""
    return ca.vertcat(*(-ca.jacobian(force[i], v[i]) for i in range(v.numel())))
