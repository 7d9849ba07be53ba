"""Ten-parameter inertias and their physically consistent coordinates.

The ten linear parameters are pi = (m, hx, hy, hz, Ixx, Iyy, Izz, Ixy, Ixz, Iyz): mass, first moment h = m c and
rotational inertia about the body frame's origin, in body axes. They belong to a real body exactly if the
pseudo-inertia J = [[Sigma, h], [h', m]], Sigma = tr(I)/2 1 - I, is positive definite.

Every function works on numpy arrays and on CasADi SX vectors alike.

Sources: Wensing, Kim, Slotine, "Linear matrix inequalities for physically-consistent inertial parameter
identification", RA-L 3(1), 2018 (pseudo-inertia); Rucker & Wensing, "Smooth parameterization of rigid-body inertia",
RA-L 7(2), 2022 (log-Cholesky coordinates).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import overload

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike

from sim_core.multibody.equations.operators import scalars

__all__ = [
    "com_inertia",
    "from_com",
    "from_log_cholesky",
    "is_physical",
    "pseudo_inertia",
    "rotational_inertia",
    "to_log_cholesky",
    "transform",
]

#: Numbers and arrays as numpy has them, or the same as CasADi expressions.
Scalar = float | ca.SX
Array = np.ndarray | ca.SX


def _stack(entries: Iterable[Scalar | Array]) -> Array:
    entries = list(entries)
    if any(isinstance(e, ca.SX) for e in entries):
        return ca.vertcat(*entries)
    return np.array([float(e) for e in entries])


@overload
def rotational_inertia(pi: np.ndarray) -> np.ndarray: ...


@overload
def rotational_inertia(pi: ca.SX) -> ca.SX: ...


def rotational_inertia(pi: Array) -> Array:
    """I about the origin from the ten parameters, (3, 3) [kg m^2]."""
    xx, yy, zz, xy, xz, yz = (pi[k] for k in range(4, 10))
    rows = [[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]
    if isinstance(pi, ca.SX):
        return ca.vertcat(*(ca.horzcat(*row) for row in rows))
    return np.array(rows, dtype=float)


def _ten(m: Scalar, h: Array, I: Array) -> Array:
    return _stack([m, h[0], h[1], h[2], I[0, 0], I[1, 1], I[2, 2], I[0, 1], I[0, 2], I[1, 2]])


@overload
def from_com(m: float, c: np.ndarray, I_c: np.ndarray) -> np.ndarray: ...


@overload
def from_com(m: ca.SX, c: ca.SX, I_c: Array) -> ca.SX: ...


def from_com(m: Scalar, c: Array, I_c: Array) -> Array:
    """Ten parameters from mass [kg], COM c (3,) [m] and inertia about the COM (3, 3) [kg m^2].

    Parallel-axis theorem: I = I_c + m (c'c 1 - c c').
    """
    c2 = c[0] * c[0] + c[1] * c[1] + c[2] * c[2]
    shift = [[m * ((c2 if i == j else 0) - c[i] * c[j]) for j in range(3)] for i in range(3)]
    return _stack(
        [m, m * c[0], m * c[1], m * c[2]]
        + [I_c[i, j] + shift[i][j] for i, j in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))]
    )


@overload
def com_inertia(pi: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]: ...


@overload
def com_inertia(pi: ca.SX) -> tuple[ca.SX, ca.SX, ca.SX]: ...


def com_inertia(pi: Array) -> tuple[Scalar, Array, Array]:
    """Mass, COM (3,) and inertia about the COM (3, 3) of the ten parameters; the mass must not be zero."""
    m = pi[0]
    c = pi[1:4] / m
    I = rotational_inertia(pi)
    c2 = c[0] * c[0] + c[1] * c[1] + c[2] * c[2]
    outer = c @ c.T if isinstance(pi, ca.SX) else np.outer(c, c)
    return m, c, I - m * (c2 * np.eye(3) - outer)


@overload
def transform(pi: np.ndarray, R: np.ndarray, r: np.ndarray) -> np.ndarray: ...


@overload
def transform(pi: ca.SX, R: Array, r: Array) -> ca.SX: ...


def transform(pi: Array, R: Array, r: Array) -> Array:
    """The ten parameters of the same body in another frame: x_new = R x + r. Linear in pi.

    I' = R I R' + 2 (r.Rh) 1 - r (Rh)' - (Rh) r' + m (r'r 1 - r r').

    Args:
        pi: ten parameters in the body's frame. R: (3, 3). r: (3,) [m].
    """
    symbolic = isinstance(pi, ca.SX) or isinstance(r, ca.SX)
    if symbolic:
        pi, R, r = scalars(pi), scalars(R), scalars(r)
    m, turned, I = pi[0], R @ pi[1:4], R @ rotational_inertia(pi) @ R.T
    h, o = [turned[k] for k in range(3)], [r[k] for k in range(3)]
    rh = o[0] * h[0] + o[1] * h[1] + o[2] * h[2]
    r2 = o[0] * o[0] + o[1] * o[1] + o[2] * o[2]

    def entry(i: int, j: int) -> Array:
        diagonal = 2 * rh + m * r2 if i == j else 0
        return I[i, j] + diagonal - o[i] * h[j] - h[i] * o[j] - m * o[i] * o[j]

    return _stack(
        [m]
        + [h[k] + m * o[k] for k in range(3)]
        + [entry(i, j) for i, j in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))]
    )


def pseudo_inertia(pi: ArrayLike) -> np.ndarray:
    """J (4, 4) as numpy array."""
    pi = np.asarray(pi, dtype=float)
    I = rotational_inertia(pi)
    J = np.empty((4, 4))
    J[:3, :3] = 0.5 * np.trace(I) * np.eye(3) - I
    J[:3, 3] = J[3, :3] = pi[1:4]
    J[3, 3] = pi[0]
    return J


def is_physical(pi: ArrayLike, tolerance: float = 0.0) -> bool:
    """Whether a body of positive density has these parameters: smallest eigenvalue of J above `tolerance`."""
    return bool(np.linalg.eigvalsh(pseudo_inertia(pi))[0] > tolerance)


@overload
def from_log_cholesky(theta: np.ndarray) -> np.ndarray: ...


@overload
def from_log_cholesky(theta: ca.SX) -> ca.SX: ...


def from_log_cholesky(theta: Array) -> Array:
    """Ten parameters from log-Cholesky coordinates; physically consistent for every theta in R^10.

    theta = (alpha, d1, d2, d3, s12, s23, s13, t1, t2, t3) and J = U U' with
    U = e^alpha [[e^d1, s12, s13, t1], [0, e^d2, s23, t2], [0, 0, e^d3, t3], [0, 0, 0, 1]].
    Hence m = e^(2 alpha), and t is the COM.
    """
    alpha, d1, d2, d3, s12, s23, s13, t1, t2, t3 = (theta[k] for k in range(10))
    exp = ca.exp if isinstance(theta, ca.SX) else np.exp
    U = ((exp(d1), s12, s13, t1), (0, exp(d2), s23, t2), (0, 0, exp(d3), t3))
    m = exp(2 * alpha)

    def sigma(i: int, j: int) -> Array:
        return m * sum(U[i][k] * U[j][k] for k in range(max(i, j), 4))

    xx, yy, zz = sigma(0, 0), sigma(1, 1), sigma(2, 2)
    return _stack([m, m * t1, m * t2, m * t3, yy + zz, xx + zz, xx + yy, -sigma(0, 1), -sigma(0, 2), -sigma(1, 2)])


def to_log_cholesky(pi: ArrayLike) -> np.ndarray:
    """Log-Cholesky coordinates (10,) of ten parameters, numpy.

    Raises:
        ValueError: no body of positive density has these parameters (J is not positive definite).
    """
    J = pseudo_inertia(pi)
    # J = U U' with U upper triangular: Cholesky of J with rows and columns reversed.
    try:
        U = np.linalg.cholesky(J[::-1, ::-1])[::-1, ::-1]
    except np.linalg.LinAlgError:
        raise ValueError(
            "These inertial parameters belong to no body of positive density: the pseudo-inertia's smallest "
            f"eigenvalue is {np.linalg.eigvalsh(J)[0]:.3g}, expected > 0. Correct mass, COM or inertia in the model, "
            'or use kind="point_mass" or "mass_com", which need no full inertia.'
        ) from None
    e_alpha = U[3, 3]
    U = U / e_alpha
    return np.array(
        [
            np.log(e_alpha),
            np.log(U[0, 0]),
            np.log(U[1, 1]),
            np.log(U[2, 2]),
            U[0, 1],
            U[1, 2],
            U[0, 2],
            U[0, 3],
            U[1, 3],
            U[2, 3],
        ]
    )
