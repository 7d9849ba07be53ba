"""Spatial algebra over CasADi scalars, written so that constants fold away.

Spatial vectors are pairs (angular, linear) of 3-vectors in body axes about the body frame's origin. A joint's
transform is kept as two stages, a constant pose and the joint's own rotation, for hinges about one coordinate axis,
because both are mostly zeros and ones: the number of instructions left decides how fast the compiled kernels run.

Source: Featherstone, Rigid Body Dynamics Algorithms (2008), chapters 2 and 7.
"""

from __future__ import annotations

from typing import Literal

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike

from sim_core.multibody.equations.operators import constant, hasten, scalars
from sim_core.multibody.equations.quaternion import rotation_matrix

__all__ = [
    "ArticulatedInertia",
    "JointKind",
    "JointTransform",
    "RigidInertia",
    "SpatialVector",
    "cross",
    "mirror_upper",
    "skew",
    "snap",
]

hasten()

#: What a joint of one link does: turn about an axis, move along one, or turn freely.
JointKind = Literal["revolute", "prismatic", "ball"]
#: (angular, linear) part of a motion or (moment, force), (3,) each, or (3, n) for n of them.
SpatialVector = tuple[ca.SX, ca.SX]
#: Mass m [kg], first moment h (3,) [kg m] and rotational inertia I (3, 3) [kg m^2] about a frame's origin.
RigidInertia = tuple[ca.SX, ca.SX, ca.SX]


def snap(a: ArrayLike, tolerance: float = 1e-12) -> np.ndarray:
    """Round entries within `tolerance` of -1, 0 and 1, so that 90 degree rotations become permutations."""
    a = np.array(a, dtype=float)
    for value in (-1.0, 0.0, 1.0):
        a[np.abs(a - value) < tolerance] = value
    return a


def cross(a: ca.SX, b: ca.SX) -> ca.SX:
    """a x b for a (3,) and b (3,), or each column of b (3, n)."""
    a, b = scalars(a), scalars(b)
    if b.shape[1] == 1:
        return ca.cross(a, b)
    return ca.horzcat(*(ca.cross(a, column) for column in ca.horzsplit(b)))


def skew(a: ca.SX) -> ca.SX:
    """[a]x (3, 3) with [a]x b = a x b, for a (3,)."""
    return ca.skew(scalars(a))


def mirror_upper(A: ca.SX) -> ca.SX:
    """Symmetric matrix from the upper triangle; the lower one, computed twice otherwise, drops out of the graph."""
    A = +scalars(A)
    for i in range(3):
        for j in range(i):
            A[i, j] = A[j, i]
    return A


def rotate_vector(axis: int, c: ca.SX, s: ca.SX, x: ca.SX) -> ca.SX:
    """R x for the rotation R by the angle with cosine c and sine s about a coordinate axis."""
    i, j = (axis + 1) % 3, (axis + 2) % 3
    y, x_i, x_j = +x, x[i, :], x[j, :]
    y[i, :], y[j, :] = c * x_i - s * x_j, s * x_i + c * x_j
    return y


def rotate_matrix(axis: int, c: ca.SX, s: ca.SX, A: ca.SX, symmetric: bool) -> ca.SX:
    """R A R' with eleven (symmetric: nine) operations for the 2x2 block instead of thirty-six.

    In the plane of rotation, A = [[a, b], [d, e]]: with k = s (a - e) + c (b + d),
    R A R' = [[a - s k, c k - d], [c k - b, e + s k]].
    """
    i, j = (axis + 1) % 3, (axis + 2) % 3
    B = +A
    k = s * (A[i, i] - A[j, j]) + (2 * c * A[i, j] if symmetric else c * (A[i, j] + A[j, i]))
    B[i, i] = A[i, i] - s * k
    B[j, j] = A[j, j] + s * k
    B[i, j] = c * k - A[j, i]
    B[j, i] = B[i, j] if symmetric else c * k - A[i, j]
    B[i, axis] = c * A[i, axis] - s * A[j, axis]
    B[j, axis] = s * A[i, axis] + c * A[j, axis]
    if symmetric:
        B[axis, i], B[axis, j] = B[i, axis], B[j, axis]
    else:
        B[axis, i] = c * A[axis, i] - s * A[axis, j]
        B[axis, j] = s * A[axis, i] + c * A[axis, j]
    return B


class ArticulatedInertia:
    """The symmetric 6x6 map [n; f] = [[I, H], [H', M]] [alpha; a] as three 3x3 blocks."""

    def __init__(self, I: ca.SX, H: ca.SX, M: ca.SX) -> None:
        self.I, self.H, self.M = I, H, M

    @classmethod
    def rigid(cls, m: ca.SX, h: ca.SX, I: ca.SX) -> ArticulatedInertia:
        """Inertia of a rigid body with mass m, first moment h (3,) and rotational inertia I (3, 3) about the origin."""
        return cls(I, skew(h), m * constant(np.eye(3)))

    def __add__(self, other: ArticulatedInertia) -> ArticulatedInertia:
        """Of both bodies moving as one."""
        return ArticulatedInertia(self.I + other.I, self.H + other.H, self.M + other.M)

    def times(self, alpha: ca.SX, a: ca.SX) -> SpatialVector:
        """Moment and force (n, f) that the accelerations (alpha, a) ask for."""
        return self.I @ alpha + self.H @ a, self.H.T @ alpha + self.M @ a

    def columns(self, kind: JointKind, axis: int) -> SpatialVector:
        """The map applied to a joint's unit motions: U = IA S as (angular, linear), (3, 1) each, (3, 3) for a ball."""
        if kind == "ball":
            return self.I, self.H.T
        if kind == "revolute":
            return self.I[:, axis], self.H[axis, :].T
        return self.H[:, axis], self.M[:, axis]

    def minus_outer(
        self, kind: JointKind, axis: int, U: SpatialVector, D_inv: ca.SX, armature: ca.SX
    ) -> ArticulatedInertia:
        """IA - U D^-1 U' with D = S' U + diag(armature).

        The rows along the joint are U (1 - D^-1 S'U) = U D^-1 armature, which needs no subtraction.
        """
        u_a, u_l = U
        if kind == "ball":
            share = ca.diag(armature) @ D_inv
            return ArticulatedInertia(
                mirror_upper(share @ self.I), share @ self.H, mirror_upper(self.M - u_l @ D_inv @ u_l.T)
            )
        k_a, k_l = u_a * D_inv, u_l * D_inv
        I = mirror_upper(self.I - u_a @ k_a.T)
        H = self.H - u_a @ k_l.T
        M = mirror_upper(self.M - u_l @ k_l.T)
        share = armature * D_inv
        if kind == "revolute":
            I[axis, :], I[:, axis] = (share * u_a).T, share * u_a
            H[axis, :] = (share * u_l).T
        else:
            M[axis, :], M[:, axis] = (share * u_l).T, share * u_l
            H[:, axis] = share * u_a
        return ArticulatedInertia(I, H, M)


class JointTransform:
    """Pose of a link in its parent: constant rotation R and offset r, then the joint's own motion.

    Args:
        kind: "revolute", "prismatic" or "ball".  axis: 0, 1 or 2, in the link's own axes; a ball has none.
        R: orientation of the link at q = 0 in its parent, numpy (3, 3).
        r: position of the link at q = 0 in its parent, SX (3,).
        q: joint coordinate measured from the model's reference, SX scalar; a ball's quaternion (4,).
    """

    def __init__(self, kind: JointKind, axis: int, R: np.ndarray, r: ca.SX, q: ca.SX) -> None:
        self.kind, self.axis = kind, axis
        self.R, self.r = constant(R), r
        self._R_transposed = constant(R.T)
        if kind == "revolute":
            self.c, self.s = ca.cos(q), ca.sin(q)
        elif kind == "ball":
            self.E = rotation_matrix(q)
        else:
            self.r += self.R[:, axis] * q

    def _into_child(self, x: ca.SX) -> ca.SX:
        x = self._R_transposed @ x
        if self.kind == "revolute":
            return rotate_vector(self.axis, self.c, -self.s, x)
        return self.E.T @ x if self.kind == "ball" else x

    def _into_parent(self, x: ca.SX) -> ca.SX:
        if self.kind == "revolute":
            x = rotate_vector(self.axis, self.c, self.s, x)
        elif self.kind == "ball":
            x = self.E @ x
        return self.R @ x

    def motion_to_child(self, w: ca.SX, v: ca.SX) -> SpatialVector:
        """Spatial velocity or acceleration of the parent, expressed at the child."""
        return self._into_child(w), self._into_child(v + cross(w, self.r))

    def force_to_parent(self, n: ca.SX, f: ca.SX) -> SpatialVector:
        """Moment and force, (3,) each or one a column, expressed at the parent."""
        f = self._into_parent(f)
        return self._into_parent(n) + cross(self.r, f), f

    def inertia_to_parent(self, IA: ArticulatedInertia) -> ArticulatedInertia:
        """An articulated inertia of the child, expressed at the parent."""
        I, H, M = IA.I, IA.H, IA.M
        if self.kind == "ball":
            I, H, M = (self.E @ A @ self.E.T for A in (I, H, M))
        elif self.kind == "revolute":
            I = rotate_matrix(self.axis, self.c, self.s, I, symmetric=True)
            H = rotate_matrix(self.axis, self.c, self.s, H, symmetric=False)
            M = rotate_matrix(self.axis, self.c, self.s, M, symmetric=True)
        I = mirror_upper(self.R @ I @ self._R_transposed)
        H = self.R @ H @ self._R_transposed
        M = mirror_upper(self.R @ M @ self._R_transposed)
        r = skew(self.r)
        H_shifted = H + r @ M
        return ArticulatedInertia(mirror_upper(I - H @ r + r @ H_shifted.T), H_shifted, M)

    def rotation(self) -> ca.SX:
        """Orientation of the child in the parent, SX (3, 3)."""
        return self._into_parent(constant(np.eye(3)))
