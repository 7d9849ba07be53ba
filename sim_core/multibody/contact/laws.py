"""Laws of one contact: Hunt-Crossley normal force, Brown-McPhee friction.

Source: Hunt, Crossley, Coefficient of Restitution Interpreted as Damping in Vibroimpact, J. Appl. Mech. 42(2), 1975;
Brown, McPhee, A Continuous Velocity-Based Friction Model, J. Comput. Nonlinear Dyn. 11(5), 2016.
"""

from __future__ import annotations

import casadi as ca

__all__ = ["friction_over_speed", "normal_force", "speed"]

# Half width of the blend between s and 0, in units of s: the law is changed where it is below this share of k x^1.5.
ONSET = 0.05
# Speeds are taken as at least this share of v_t, so that the direction of no motion has a derivative.
STILL = 1e-4


def normal_force(x: ca.SX, rate: ca.SX, stiffness: ca.SX, dissipation: ca.SX) -> ca.SX:
    """f_n = k x^1.5 + d x^1.5 x' where the depth x > 0 and the sum is positive: surfaces do not pull [N].

    Args:
        x: penetration [m], negative apart.   rate: x' [m/s].   stiffness k [N/m^1.5], dissipation d [N s/m^2.5].

    C1: x^1.5 begins with slope zero, and where a fast separation would make f_n negative (k + d x' < 0) the corner
    becomes a parabola, within 5 % of k.
    """
    s = 1 + dissipation / stiffness * rate
    pushing = ca.if_else(s > ONSET, s, ca.if_else(s > -ONSET, (s + ONSET) ** 2 / (4 * ONSET), 0))
    depth = ca.fmax(x, 0)
    # The square root of a positive number, so that no contact has the derivative 0 and not 0 / 0.
    return stiffness * depth * ca.sqrt(ca.fmax(x, 1e-24)) * pushing


def speed(v: ca.SX, v_t: ca.SX) -> ca.SX:
    """|v| [m/s] of a tangential velocity (2,), smooth at rest."""
    return ca.sqrt(ca.sumsqr(v) + (STILL * v_t) ** 2)


def friction_over_speed(s: ca.SX, mu_s: ca.SX, mu_d: ca.SX, v_t: ca.SX) -> ca.SX:
    """f_t / (f_n s) [s/m] at the speed s [m/s]; the force opposes the velocity, -f_n v times this.

    f_t / f_n = mu_d tanh(4 s / v_t) + (mu_s - mu_d) (s / v_t) / ((s / v_t)^2 / 4 + 3 / 4)^2, mu_s at s = v_t nearly.
    """
    z = s / v_t
    return mu_d * ca.tanh(4 * z) / s + (mu_s - mu_d) / (v_t * (z**2 / 4 + 0.75) ** 2)
