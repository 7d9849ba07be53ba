"""Unit quaternions (w, x, y, z) over CasADi scalars, as orientations of ball joints.

Every function is differentiable to any order wherever it is defined, also where there is no rotation at all: near zero
angles, sines over their angles come from their series. `if_else` chooses between the two, and its other branch is kept
away from the singularity.
"""

from __future__ import annotations

import casadi as ca

__all__ = ["displacement_rate", "exponential", "integrate", "multiply", "rotation_matrix", "rotation_vector"]

# The series below are taken up to the fourth power of an angle; the next term is under 1e-18 there.
SMALL = 1e-3


def multiply(a: ca.SX, b: ca.SX) -> ca.SX:
    """Hamilton product a b: first b, then a."""
    return ca.vertcat(a[0] * b[0] - ca.dot(a[1:], b[1:]), a[0] * b[1:] + b[0] * a[1:] + ca.cross(a[1:], b[1:]))


def rotation_matrix(q: ca.SX) -> ca.SX:
    """Orientation (3, 3) of a quaternion q (4,), which need not be of unit length: only its direction counts."""
    w, x, y, z = (q[k] for k in range(4))
    s = 2 / ca.dot(q, q)
    return ca.vertcat(
        ca.horzcat(1 - s * (y * y + z * z), s * (x * y - w * z), s * (x * z + w * y)),
        ca.horzcat(s * (x * y + w * z), 1 - s * (x * x + z * z), s * (y * z - w * x)),
        ca.horzcat(s * (x * z - w * y), s * (y * z + w * x), 1 - s * (x * x + y * y)),
    )


def exponential(phi: ca.SX) -> ca.SX:
    """Quaternion (4,) of the rotation by the vector phi (3,) [rad]: (cos |phi|/2, sin(|phi|/2) phi/|phi|)."""
    t = ca.dot(phi, phi) / 4
    small = t < SMALL**2
    half = ca.sqrt(ca.if_else(small, 1, t))
    cosine = ca.if_else(small, 1 - t / 2 * (1 - t / 12), ca.cos(half))
    sine_over_angle = ca.if_else(small, 1 - t / 6 * (1 - t / 20), ca.sin(half) / half)
    return ca.vertcat(cosine, sine_over_angle / 2 * phi)


def displacement_rate(phi: ca.SX, w: ca.SX) -> ca.SX:
    """d phi / dt (3,) of a body that has turned by the vector phi (3,) [rad] and turns at w (3,) [rad/s] in its own axes.

    The inverse of the exponential's derivative: w + phi x w / 2 + (1 - x cot x) / (4 x^2) phi x (phi x w)
    with x = |phi| / 2.
    Source: Iserles, Munthe-Kaas, Norsett, Zanna, Lie-group methods, Acta Numerica 9 (2000), section 2.6.
    """
    t = ca.dot(phi, phi) / 4
    small = t < SMALL**2
    square = ca.if_else(small, 1, t)
    x = ca.sqrt(square)
    c = ca.if_else(small, 1 / 12 + t / 180, (1 - x * ca.cos(x) / ca.sin(x)) / (4 * square))
    turned = ca.cross(phi, w)
    return w + turned / 2 + c * ca.cross(phi, turned)


def rotation_vector(q: ca.SX) -> ca.SX:
    """Vector (3,) [rad] of the rotation q (4,), the shorter way round: angle at most pi; inverse of `exponential`.

    Not differentiable at half a turn, where the shorter way changes sides.
    """
    side = ca.if_else(q[0] < 0, -1, 1)
    w, im = side * q[0], side * q[1:]
    n2, t = ca.dot(q, q), ca.dot(im, im)
    # 2 atan(s / w) / s for s = |im|, scaled to unit length; the series in (s / w)^2.
    small = t < SMALL**2 * n2
    s = ca.sqrt(ca.if_else(small, n2, t))
    r = t / ca.if_else(small, w * w, 1)
    series = 2 * (1 - r / 3 * (1 - r * 3 / 5)) / ca.if_else(small, w, 1)
    return ca.if_else(small, series, 2 * ca.atan2(s, w) / s) * im


def integrate(q: ca.SX, w: ca.SX, h: float) -> ca.SX:
    """Orientation (4,), of unit length, after turning for h [s] at the rate w (3,) [rad/s] in the body's own axes."""
    q = multiply(q, exponential(h * w))
    return q / ca.sqrt(ca.dot(q, q))
