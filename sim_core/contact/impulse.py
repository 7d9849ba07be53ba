"""Contact at impulse level: non-penetration and Coulomb friction of all touching points at once, in every step.

With the contact Jacobian J (rows normal, tangent, tangent of every point) and the velocity v that the other forces
alone would give, impulses p solve

    A p = b  with  p_n >= 0,  |p_t| <= mu p_n;      A = J M^-1 J' + R,
    b_n = -(1 + e) v_n - beta d / h,  b_t = -v_t,   where the distance d < 0;   p = 0 elsewhere,

by projected Gauss-Seidel (codegen/cone.py), and v' = v + M^-1 J' p.

Source: Heiden et al., NeuralSim, ICRA 2021 (contact model NCP); Stewart, Trinkle, An Implicit Time-Stepping Scheme for
Rigid Body Dynamics with Inelastic Collisions and Coulomb Friction, IJNME 39, 1996.
"""

import casadi as ca

from sim_core.articulated.dynamics import crba
from sim_core.articulated.symmetric import solve_symmetric
from sim_core.codegen.cone import ConeBlock

from .points import contact_points

__all__ = ["ITERATIONS", "after_impulses"]

ITERATIONS = 50


def after_impulses(model, q, v, p, h):
    """Velocity (nv,) after the contact impulses of a step of h [s].

    Args:
        q: positions (nq,) at the start of the step, where contact is tested.
        v: velocity (nv,) that all other forces bring about by its end.
    """
    # Symbols of their own: the velocity at the points is linear in them, and J its matrix.
    vs = ca.SX.sym("v", model.nv)
    points = contact_points(model, q, vs, p)
    J = ca.jacobian(ca.vertcat(*(point.velocity for point in points)), vs)
    parameter = {name: ca.vertcat(*(p[model.parameters.index(f"{point.pair.group}.{name}")] for point in points))
                 for name in ("mu", "restitution", "baumgarte", "cfm")}
    distance = ca.vertcat(*(point.distance for point in points))
    spread = solve_symmetric(crba(model, q, p), J.T)
    b = -J @ v
    for k in range(len(points)):
        b[3 * k] = b[3 * k] * (1 + parameter["restitution"][k]) - parameter["baumgarte"][k] * distance[k] / h
    solve = ConeBlock(len(points), model.nv, ITERATIONS).function
    Jt, Y = ca.densify(J.T), ca.densify(spread)
    return v + spread @ solve(Jt, Y, ca.densify(b), parameter["cfm"], parameter["mu"], distance < 0)
