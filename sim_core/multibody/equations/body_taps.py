"""Velocities of bodies, and forces on them from outside, as named quantities.

"body.head.velocity.wx" .. ".wz", ".vx" .. ".vz": angular and linear velocity of the body's frame, in its own axes.
"body.head.wrench.tx" .. ".tz", ".fx" .. ".fz": moment about the frame's origin and force, in the same axes; zero in the
equations, there to be corrected.

In these terms a force that moves with the body is one function of how the body moves, wherever it is and however it is
turned; in the coordinates of the joints that lead to it, it is not.
"""

import casadi as ca

from sim_core.multibody.equations.dynamics import generalised_force, joint_transforms, link_velocities
from sim_core.multibody.equations.physical import Physical
from sim_core.multibody.equations.spatial import cross

__all__ = ["body_force", "record_velocities"]

PREFIX = "body."
MOTION, WRENCH = ("wx", "wy", "wz", "vx", "vy", "vz"), ("tx", "ty", "tz", "fx", "fy", "fz")


def record_velocities(model, q, v, p, taps):
    """Make the velocity of every moving body known."""
    twists, physical = link_velocities(model, q, v, p), Physical(model, p)
    for body in _moving(model):
        w, lin = twists[body.link]
        twist = ca.vertcat(body.R.T @ w, body.R.T @ (lin + cross(w, physical.offset(body.r))))
        for k, field in enumerate(MOTION):
            taps.record(f"{PREFIX}{body.name}.velocity.{field}", twist[k])


def body_force(model, q, v, p, taps):
    """Joint forces (nv,) of the wrenches that networks put on bodies."""
    physical, total = Physical(model, p), {}
    for body in _moving(model):
        wrench = [taps(f"{PREFIX}{body.name}.wrench.{field}", ca.SX(0)) for field in WRENCH]
        n, f = (body.R @ ca.vertcat(*part) for part in (wrench[:3], wrench[3:]))
        moment, force = total.get(body.link, (0, 0))
        total[body.link] = moment + n + cross(physical.offset(body.r), f), force + f
    return generalised_force(model, joint_transforms(model, q, p), [total.get(i) for i in range(len(model.links))])


def _moving(model):
    return [body for body in model.bodies if body.link >= 0]
