"""Contact at force level: every point on its own pushes by its depth and rubs by its velocity.

Source: Heiden et al., NeuralSim, ICRA 2021 (nonlinear spring-damper contact); laws.py has the two laws and their sources.
"""

from __future__ import annotations

import casadi as ca

from sim_core.multibody.contact.laws import friction_over_speed, normal_force, speed
from sim_core.multibody.contact.pairs import ContactTree
from sim_core.multibody.contact.points import ContactPoint, contact_points, push_apart
from sim_core.multibody.equations.taps import Taps

__all__ = ["contact_force"]


def contact_force(model: ContactTree, q: ca.SX, v: ca.SX, p: ca.SX, taps: Taps) -> ca.SX:
    """Joint forces (nv,) [N m or N] of all contact points.

    Each point hands its quantities through `taps`, in this order: NAME.point.x .y .z (in the world), .penetration,
    .normal_velocity (approaching: negative), .relative_velocity.x .y, .direction.x .y (v / sqrt(v^2 + v_t^2) of the
    latter: of length one, less when slow), .normal_force, .tangential_force.x .y (on the second geom, along the two
    tangents; for a floor with its normal up these are the world's x and y). Networks can read all of them, and can
    correct all but points and directions.
    """
    points = contact_points(model, q, v, p)
    return push_apart(model, q, p, points, [_force(model, point, p, taps) for point in points])


def _force(model: ContactTree, point: ContactPoint, p: ca.SX, taps: Taps) -> ca.SX:
    """Force (3,) on the second geom along the rows of the contact frame."""
    k, d, mu_s, mu_d, v_t = (
        p[model.parameters.index(f"{point.pair.group}.{name}")]
        for name in ("stiffness", "dissipation", "mu_s", "mu_d", "v_t")
    )
    for axis, coordinate in zip("xyz", ca.vertsplit(point.point)):
        taps.record(f"{point.name}.point.{axis}", coordinate)
    x = taps(f"{point.name}.penetration", -point.distance)
    rate = -taps(f"{point.name}.normal_velocity", point.velocity[0])
    slip = ca.vertcat(
        *(taps(f"{point.name}.relative_velocity.{axis}", point.velocity[i]) for i, axis in enumerate("xy", start=1))
    )
    s = speed(slip, v_t)
    for i, axis in enumerate("xy"):
        # Over v_t, as friction itself: a network of a direction that jumps at rest would make forces that do.
        taps.record(f"{point.name}.direction.{axis}", slip[i] / ca.sqrt(s**2 + v_t**2))
    f_n = taps(f"{point.name}.normal_force", normal_force(x, rate, k, d))
    rubbing = -f_n * slip * friction_over_speed(s, mu_s, mu_d, v_t)
    f_t = (taps(f"{point.name}.tangential_force.{axis}", rubbing[i]) for i, axis in enumerate("xy"))
    return ca.vertcat(f_n, *f_t)
