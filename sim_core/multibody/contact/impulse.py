"""Contact at impulse level: non-penetration and Coulomb friction of all touching points at once, in every step.

With the contact Jacobian J (rows normal, tangent, tangent of every point) and the velocity v that the other forces
alone would give by the end of the step, impulses p solve

    A p = b  with  p_n >= 0,  |p_t| <= mu p_n;      A = J M^-1 J' + R,  b_t = -v_t;   p = 0 where nothing touches,

by projected Gauss-Seidel (codegen/cone.py), and v' = v + M^-1 J' p. What touches when is ModelOptions.impact_time:

"step"        d < 0 at the start of the step:  b_n = -(1 + e) v_n - beta d / h.
"continuous"  d < 0 by the end of the step, from the time t = d / -v_n on:  b_n = max(0, -e (v_n + a) - a) - v_n, a =
              (t / h - 1/2) times what the other forces add to v_n over the step: it bounces with the velocity at which
              it touches, and is subject to them for the rest. Each impulse moves positions for h - t only. Velocity and
              time of an impact then depend on where and how fast the step began, and gradients contain this dependence,
              which "step" leaves out.

Source: Heiden et al., NeuralSim, ICRA 2021 (contact model NCP); Stewart, Trinkle, An Implicit Time-Stepping Scheme for
Rigid Body Dynamics with Inelastic Collisions and Coulomb Friction, IJNME 39, 1996. Time of impact in gradients: Hu et
al., DiffTaichi: Differentiable Programming for Physical Simulation, ICLR 2020, section 4 (positions); velocities as the
saltation matrix of the event has them, Kong et al., Saltation Matrices, Proc. IEEE 112(6), 2024.
"""

from __future__ import annotations

from collections.abc import Sequence

import casadi as ca

from sim_core.codegen.cone import ConeBlock
from sim_core.multibody.contact.pairs import ContactTree
from sim_core.multibody.contact.points import ContactPoint, contact_points
from sim_core.multibody.equations.dynamics import crba
from sim_core.multibody.equations.symmetric import solve_symmetric
from sim_core.multibody.equations.taps import Taps

__all__ = ["ITERATIONS", "after_impulses"]

ITERATIONS = 50


def after_impulses(
    model: ContactTree, q: ca.SX, v_start: ca.SX, v: ca.SX, p: ca.SX, h: float, taps: Taps
) -> tuple[ca.SX, ca.SX]:
    """Velocities after contact impulses in a step of h [s].

    Args:
        q, v_start: state (nq,), (nv,) at its start.
        v: velocity (nv,) that all other forces bring about by its end.
        taps: each point hands its quantities through, first .point.x .y .z (in the world), .penetration, .normal_velocity
            (approaching: negative), .relative_velocity.x .y (all three without the impulses), .friction_coefficient and
            .restitution of all points, then .normal_force and .tangential_force.x .y of all: impulses over h, on the
            second geom. Networks can read all of them, and can correct all but the points. Corrected forces act as they
            are, even where they lie outside the friction cone.

    Returns:
        Velocity (nv,) at the end, and the mean one (nv,) that takes the positions there.
    """
    # Symbols of their own: the velocity at the points is linear in them, and J its matrix.
    vs = ca.SX.sym("v", model.nv)
    points = contact_points(model, q, vs, p)
    J = ca.jacobian(ca.vertcat(*(point.velocity for point in points)), vs)
    spread = solve_symmetric(crba(model, q, p), J.T)
    b: list[ca.SX] = []
    mu: list[ca.SX] = []
    cfm: list[ca.SX] = []
    touching: list[ca.SX] = []
    acting: list[ca.SX | int] = []
    ending, starting = J @ v, J @ v_start
    for k, point in enumerate(points):
        parameter = {
            name: p[model.parameters.index(f"{point.pair.group}.{name}")]
            for name in ("mu", "restitution", "baumgarte", "cfm")
        }
        distance, velocity, mu_k, e = _tapped(point, ending[3 * k : 3 * k + 3], parameter, taps)
        impact = _continuous if model.options.impact_time == "continuous" else _at_the_start
        gained = ending[3 * k] - starting[3 * k]
        b_n, touching_k, acting_k = impact(distance, velocity[0], gained, e, parameter["baumgarte"], h)
        b += [b_n, -velocity[1], -velocity[2]]
        mu.append(mu_k)
        cfm.append(parameter["cfm"])
        touching.append(touching_k)
        acting += 3 * [acting_k]
    solve = ConeBlock(len(points), model.nv, ITERATIONS).function
    impulses = solve(
        ca.densify(J.T),
        ca.densify(spread),
        ca.densify(ca.vertcat(*b)),
        ca.vertcat(*cfm),
        ca.vertcat(*mu),
        ca.vertcat(*touching),
    )
    impulses = _corrected(points, impulses, h, taps)
    end = v + spread @ impulses
    if model.options.impact_time == "step":
        return end, end
    return end, v + spread @ (impulses * ca.vertcat(*acting))


def _at_the_start(
    distance: ca.SX, v_n: ca.SX, gained: ca.SX, e: ca.SX, baumgarte: ca.SX, h: float
) -> tuple[ca.SX, ca.SX, ca.SX | int]:
    """(b_n, whether it touches, share of the step in which it does)."""
    return -v_n * (1 + e) - baumgarte * distance / h, distance < 0, 1


def _continuous(
    distance: ca.SX, v_n: ca.SX, gained: ca.SX, e: ca.SX, baumgarte: ca.SX, h: float
) -> tuple[ca.SX, ca.SX, ca.SX | int]:
    """The same; `gained` is what the other forces add to the normal velocity over the step."""
    meets = ca.logic_and(distance > 0, distance + h * v_n < 0)
    # As a share of the step; the quotient is one of real approach only where it is used.
    waiting = ca.if_else(meets, distance / (h * ca.if_else(meets, -v_n, 1)), 0)
    # Semi-implicit velocities are those half a step before their time: positions go by them as if by the mean.
    behind = (waiting - 0.5) * gained
    bounced = ca.fmax(0, -e * (v_n + behind) - behind)
    return bounced - v_n - baumgarte * ca.fmin(distance, 0) / h, ca.logic_or(meets, distance <= 0), 1 - waiting


def _tapped(
    point: ContactPoint, velocity: ca.SX, parameter: dict[str, ca.SX], taps: Taps
) -> tuple[ca.SX, list[ca.SX], ca.SX, ca.SX]:
    """(distance, velocity (3,), mu, e) of a point, as networks have corrected them."""
    for axis, coordinate in zip("xyz", ca.vertsplit(point.point)):
        taps.record(f"{point.name}.point.{axis}", coordinate)
    distance = -taps(f"{point.name}.penetration", -point.distance)
    corrected = [
        taps(f"{point.name}.{name}", velocity[i])
        for i, name in enumerate(("normal_velocity", "relative_velocity.x", "relative_velocity.y"))
    ]
    mu = taps(f"{point.name}.friction_coefficient", parameter["mu"])
    return distance, corrected, mu, taps(f"{point.name}.restitution", parameter["restitution"])


def _corrected(points: Sequence[ContactPoint], impulses: ca.SX, h: float, taps: Taps) -> ca.SX:
    """The impulses (3 n,), whose forces networks may have corrected."""
    changed = ca.SX(impulses)
    for k, point in enumerate(points):
        for i, name in enumerate(("normal_force", "tangential_force.x", "tangential_force.y"), start=3 * k):
            force = impulses[i] / h
            corrected = taps(f"{point.name}.{name}", force)
            if corrected is not force:
                # Add the difference, so that a network whose output is zero does not change a single bit.
                changed[i] = impulses[i] + h * (corrected - force)
    return changed
