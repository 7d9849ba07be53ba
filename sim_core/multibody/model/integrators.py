"""One step of time: x' = step(x, u) for x = [q, v], with u held over the step.

semi_implicit_euler  v' = v + h a(q, v), q' = q + h v'                                    order 1
heun                 explicit trapezoid (also called RK2)                                 order 2
midpoint             explicit midpoint                                                    order 2
rk4                  classical Runge-Kutta; the same as MuJoCo's RK4                      order 4
mujoco_euler         semi-implicit, joint damping (and smooth friction) implicit          order 1
implicitfast         mujoco_euler with actuators' velocity feedback implicit as well      order 1

The last two solve (M + h K) (v' - v) / h = tau(q, v) - b(q, v) with K = -d tau / d v, which is diagonal for joint
forces: h K is added to the armature, and the same articulated-body recursion solves it. Only `implicitfast` in a fluid has
a full K, and solves with M + h K itself. Constrained friction joins tau with the force it has in M a = tau - b.
`mujoco_euler` is MuJoCo's Euler (its flag eulerdamp) and `implicitfast` its implicitfast integrator. Contact impulses
act at the end of the velocity's step, so they need a scheme of one stage.

Balls turn by the exponential of a displacement. `rk4` integrates the displacement itself (Munthe-Kaas), because rates
in the body's axes at different orientations do not add up beyond order two.
"""

from __future__ import annotations

from collections.abc import Callable

import casadi as ca

from sim_core.multibody.contact.impulse import after_impulses
from sim_core.multibody.equations.configuration import displacement_rate, integrate_position
from sim_core.multibody.equations.friction import forward_dynamics
from sim_core.multibody.equations.taps import Taps
from sim_core.multibody.model.forces import joint_force, resisting_force
from sim_core.multibody.model.model import RobotModel

__all__ = ["INTEGRATORS", "ONE_STAGE", "acceleration", "integrate_step"]

#: q (nq,), v (nv,) after a step of h [s] under the controls u (nu,).
Integrator = Callable[[RobotModel, ca.SX, ca.SX, ca.SX, ca.SX, float], tuple[ca.SX, ca.SX]]

ONE_STAGE = ("semi_implicit_euler", "mujoco_euler", "implicitfast")


def acceleration(
    model: RobotModel, q: ca.SX, v: ca.SX, u: ca.SX, p: ca.SX, h: float, taps: Taps | None = None
) -> ca.SX:
    """Forward dynamics with actuators, passive forces and friction in steps of h [s], (nv,)."""
    return forward_dynamics(model, q, v, joint_force(model, q, v, u, p, taps), p, h)


def semi_implicit_euler(model: RobotModel, q: ca.SX, v: ca.SX, u: ca.SX, p: ca.SX, h: float) -> tuple[ca.SX, ca.SX]:
    """v' = v + h a(q, v), q' = q + h v'."""
    taps = Taps(model, p)
    return _advance(model, q, v, v + h * acceleration(model, q, v, u, p, h, taps), p, h, taps)


def _implicit(
    model: RobotModel, q: ca.SX, v: ca.SX, u: ca.SX, p: ca.SX, h: float, with_actuators: bool
) -> tuple[ca.SX, ca.SX]:
    taps = Taps(model, p)
    tau, K = resisting_force(model, q, v, u, p, with_actuators, taps)
    return _advance(model, q, v, v + h * forward_dynamics(model, q, v, tau, p, h, h * K), p, h, taps)


def _advance(
    model: RobotModel, q: ca.SX, v: ca.SX, v_next: ca.SX, p: ca.SX, h: float, taps: Taps
) -> tuple[ca.SX, ca.SX]:
    """Contact impulses on the new velocity, then the position with it."""
    mean = v_next
    if model.contacts and model.options.contact == "impulse":
        v_next, mean = after_impulses(model, q, v, v_next, p, h, taps)
    return integrate_position(model, q, mean, h), v_next


def mujoco_euler(model: RobotModel, q: ca.SX, v: ca.SX, u: ca.SX, p: ca.SX, h: float) -> tuple[ca.SX, ca.SX]:
    """Joint damping and smooth friction act implicitly, as in MuJoCo's Euler."""
    return _implicit(model, q, v, u, p, h, with_actuators=False)


def implicitfast(model: RobotModel, q: ca.SX, v: ca.SX, u: ca.SX, p: ca.SX, h: float) -> tuple[ca.SX, ca.SX]:
    """All of `mujoco_euler`, and the actuators' velocity feedback and a fluid's drag act implicitly."""
    return _implicit(model, q, v, u, p, h, with_actuators=True)


def heun(model: RobotModel, q: ca.SX, v: ca.SX, u: ca.SX, p: ca.SX, h: float) -> tuple[ca.SX, ca.SX]:
    """Explicit trapezoid: the mean of the accelerations at both ends."""
    a1 = acceleration(model, q, v, u, p, h)
    v2 = v + h * a1
    a2 = acceleration(model, integrate_position(model, q, v, h), v2, u, p, h)
    return integrate_position(model, q, (v + v2) / 2, h), v + h * (a1 + a2) / 2


def midpoint(model: RobotModel, q: ca.SX, v: ca.SX, u: ca.SX, p: ca.SX, h: float) -> tuple[ca.SX, ca.SX]:
    """Explicit midpoint: the acceleration in the middle of the step."""
    a1 = acceleration(model, q, v, u, p, h)
    v_mid = v + h / 2 * a1
    a_mid = acceleration(model, integrate_position(model, q, v, h / 2), v_mid, u, p, h)
    return integrate_position(model, q, v_mid, h), v + h * a_mid


def rk4(model: RobotModel, q: ca.SX, v: ca.SX, u: ca.SX, p: ca.SX, h: float) -> tuple[ca.SX, ca.SX]:
    """Classical Runge-Kutta in displacements from q (Munthe-Kaas)."""
    a1 = acceleration(model, q, v, u, p, h)
    v2 = v + h / 2 * a1
    a2 = acceleration(model, integrate_position(model, q, v, h / 2), v2, u, p, h)
    d2 = displacement_rate(model, h / 2 * v, v2)
    v3 = v + h / 2 * a2
    a3 = acceleration(model, integrate_position(model, q, d2, h / 2), v3, u, p, h)
    d3 = displacement_rate(model, h / 2 * d2, v3)
    v4 = v + h * a3
    a4 = acceleration(model, integrate_position(model, q, d3, h), v4, u, p, h)
    d4 = displacement_rate(model, h * d3, v4)
    q = integrate_position(model, q, (v + 2 * d2 + 2 * d3 + d4) / 6, h)
    return q, v + h * (a1 + 2 * a2 + 2 * a3 + a4) / 6


#: Name -> function of (model, q, v, u, p, h) that returns the next (q, v).
INTEGRATORS: dict[str, Integrator] = {
    "semi_implicit_euler": semi_implicit_euler,
    "heun": heun,
    "rk2": heun,
    "midpoint": midpoint,
    "rk4": rk4,
    "mujoco_euler": mujoco_euler,
    "implicitfast": implicitfast,
}


def integrate_step(
    model: RobotModel, x: ca.SX, u: ca.SX, p: ca.SX, dt: float, integrator: str | None = None, substeps: int = 1
) -> ca.SX:
    """x' (nx,) after dt [s] in `substeps` equal steps; integrator None means the model's own.

    Raises:
        ValueError: unknown integrator, or one of several stages with contact impulses; dt <= 0 or substeps < 1.
    """
    integrator = integrator or model.integrator
    if integrator not in INTEGRATORS:
        raise ValueError(f"No integrator '{integrator}'. Known: {', '.join(INTEGRATORS)}.")
    if model.options.contact == "impulse" and integrator not in ONE_STAGE:
        raise ValueError(
            f"Contact impulses need an integrator of one stage, found '{integrator}': choose one of "
            f'{", ".join(ONE_STAGE)}, or contact="force".'
        )
    if not dt > 0 or substeps < 1 or int(substeps) != substeps:
        raise ValueError(f"Expected dt > 0 and a whole number of substeps >= 1, found dt={dt}, substeps={substeps}.")
    q, v = x[: model.nq], x[model.nq :]
    for _ in range(int(substeps)):
        q, v = INTEGRATORS[integrator](model, q, v, u, p, dt / substeps)
    return ca.vertcat(q, v)
