"""Contact at force level: every point on its own pushes by its depth and rubs by its velocity.

Source: spec of the contact model as in Heiden et al., NeuralSim, ICRA 2021; laws.py has the two laws.
"""

import casadi as ca

from sim_core.multibody.contact.laws import friction_over_speed, normal_force, speed
from sim_core.multibody.contact.points import contact_points, push_apart

__all__ = ["contact_force"]


def contact_force(model, q, v, p, taps):
    """Joint forces (nv,) [N m or N] of all contact points.

    Each point hands its quantities through `taps`, in this order: NAME.point.x .y .z (in the world), .penetration,
    .normal_velocity (approaching: negative), .relative_velocity.x .y, .direction.x .y (v / sqrt(v^2 + v_t^2) of the
    latter: of length one, less when slow), .normal_force, .tangential_force.x .y (on the second geom, along the two
    tangents; for a floor with its normal up these are the world's x and y). Points and directions are heard, the rest can
    be corrected too.
    """
    points = contact_points(model, q, v, p)
    return push_apart(model, q, p, points, [_force(model, point, p, taps) for point in points])


def _force(model, point, p, taps):
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
