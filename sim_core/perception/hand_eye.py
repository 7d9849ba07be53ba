"""Where a camera is on a robot, from poses of the hand and of a target that the camera saw.

    result = hand_eye(X_BH, X_CT)                       # camera on the hand: result.X is X_HC
    result = hand_eye(X_BH, X_CT, camera="base")        # camera beside the robot: result.X is X_BC

With the camera on the hand H and the target fixed to the base B, X_BH[i] X_HC X_CT[i] = X_BT for every pose i; with the
camera fixed to the base and the target on the hand, the same holds with X_BH inverted and X_HT in place of X_BT.

Sources: Park and Martin 1994, Robot sensor calibration: solving AX = XB on the Euclidean group (closed form);
Strobl and Hirzinger 2006, Optimal hand-eye calibration (refinement of both unknown poses, weights from the residuals).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.transform import Rotation

from sim_core.perception.poses import displaced, inverse, mean

__all__ = ["HandEye", "hand_eye", "park_martin"]

LEAST_TURN = np.deg2rad(3.0)  # smaller turns between poses say nothing about rotation
LEAST_SPREAD = 0.05  # of the turns' axes: second singular value over the first
ITERATIONS = 50


@dataclass(frozen=True)
class HandEye:
    """A calibration.

    Attributes:
        X: pose of the camera in the hand (or in the base), shape (4, 4) [-, m].
        target: pose of the target in the base (or in the hand), shape (4, 4).
        covariance: of X, shape (6, 6): rotation vector in the parent's axes [rad], then position [m].
        sigma_rotation, sigma_translation: standard deviation of a seen target pose per axis [rad], [m].
        residuals: seen less predicted target pose in the camera's axes, shape (n, 6): rotation vector [rad], position [m].
    """

    X: np.ndarray
    target: np.ndarray
    covariance: np.ndarray
    sigma_rotation: float
    sigma_translation: float
    residuals: np.ndarray

    @property
    def standard_errors(self) -> np.ndarray:
        """Of X, shape (6,) [rad x 3, m x 3]."""
        return np.sqrt(np.diag(self.covariance))


def hand_eye(
    X_BH: ArrayLike, X_CT: ArrayLike, camera: str = "hand", sigma: tuple[float, float] | None = None
) -> HandEye:
    """Pose of a camera from n >= 3 poses that turn about at least two axes.

    Args:
        X_BH: poses of the hand in the base, shape (n, 4, 4).
        X_CT: poses of the target as the camera saw it, shape (n, 4, 4).
        camera: "hand" (eye in hand) or "base" (eye to hand).
        sigma: standard deviations of a seen pose per axis (rotation [rad], translation [m]); None: from the residuals.

    Raises:
        ValueError: too few poses, not of equal number, or turning about one axis only.
    """
    X_BH, X_CT = np.asarray(X_BH, dtype=float), np.asarray(X_CT, dtype=float)
    if X_BH.ndim != 3 or X_BH.shape[1:] != (4, 4) or X_BH.shape != X_CT.shape:
        raise ValueError(
            f"hand-eye calibration needs as many hand poses as target poses, shape (n, 4, 4), not {X_BH.shape} "
            f"and {X_CT.shape}"
        )
    if len(X_BH) < 3:
        raise ValueError(
            f"hand-eye calibration needs at least 3 poses, not {len(X_BH)}: two give one turn, and its axis stays open"
        )
    if camera not in ("hand", "base"):
        raise ValueError(f"camera is '{camera}', expected hand or base")
    A = X_BH if camera == "hand" else inverse(X_BH)
    X = park_martin(A, X_CT)
    Y = mean(A @ X @ X_CT)
    scale = np.array([1.0, 1.0]) if sigma is None else np.asarray(sigma, dtype=float)
    for _ in range(ITERATIONS):
        residual, J = _residuals(A, X_CT, X, Y)
        weight = np.tile(np.repeat(1.0 / scale, 3), len(A))
        step, *_ = np.linalg.lstsq(weight[:, None] * J, -weight * residual, rcond=None)
        X, Y = displaced(X, step[:6]), displaced(Y, step[6:])
        before = scale
        if sigma is None:
            scale = _scales(_residuals(A, X_CT, X, Y)[0], weight[:, None] * J)
        if np.abs(step).max() < 1e-9 and np.allclose(scale, before, rtol=1e-3, atol=1e-12):
            break
    residual, J = _residuals(A, X_CT, X, Y)
    weighted = np.tile(np.repeat(1.0 / scale, 3), len(A))[:, None] * J
    covariance = np.linalg.inv(weighted.T @ weighted)[:6, :6]
    return HandEye(X, Y, covariance, float(scale[0]), float(scale[1]), residual.reshape(-1, 6))


def park_martin(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """X of A[i] X B[i] = const, in closed form over all pairs of poses; first rotation, then position.

    Args:
        A, B: shape (n, 4, 4).

    Returns:
        Shape (4, 4).

    Raises:
        ValueError: the poses turn too little, or about one axis only.
    """
    i, j = np.triu_indices(len(A), 1)
    motion_A, motion_B = inverse(A[j]) @ A[i], B[j] @ inverse(B[i])  # motion_A X = X motion_B
    alpha, beta = (Rotation.from_matrix(motion[:, :3, :3]).as_rotvec() for motion in (motion_A, motion_B))
    turn = np.linalg.norm(alpha, axis=1)
    # Near half a turn the sign of a rotation vector is a matter of noise.
    use = (turn > LEAST_TURN) & (turn < np.pi - LEAST_TURN)
    spread = np.linalg.svd(alpha[use], compute_uv=False) if use.sum() >= 2 else np.zeros(2)
    if spread[0] == 0.0 or spread[1] < LEAST_SPREAD * spread[0]:
        raise ValueError(
            "the poses turn about one axis only: turn the hand by 20 degrees or more about two different axes"
        )
    # alpha = R beta. Park and Martin's (M^T M)^(-1/2) M^T is the orthogonal factor of M, with det R = 1 here.
    R = Rotation.align_vectors(alpha[use], beta[use])[0].as_matrix()
    rows = motion_A[use, :3, :3] - np.eye(3)
    right = motion_B[use, :3, 3] @ R.T - motion_A[use, :3, 3]
    X = np.eye(4)
    X[:3, :3] = R
    X[:3, 3] = np.linalg.lstsq(rows.reshape(-1, 3), right.ravel(), rcond=None)[0]
    return X


def _residuals(A: np.ndarray, B: np.ndarray, X: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """B[i] less its prediction X^-1 A[i]^-1 Y, (6 n,), and its derivative by X and Y, (6 n, 12).

    Small changes turn a pose in its parent's axes, R <- exp(dr) R, and shift it, p <- p + dp. The rotation's derivative
    leaves out terms of the order of the residual.
    """
    n, R = len(A), X[:3, :3]
    C = np.swapaxes(A[:, :3, :3] @ R, 1, 2)  # base to camera
    w = (Y[:3, 3] - A[:, :3, 3])[:, None, :] @ A[:, :3, :3]  # target seen from the hand
    w = w[:, 0] - X[:3, 3]
    e = np.empty((n, 6))
    e[:, :3] = Rotation.from_matrix(B[:, :3, :3] @ np.swapaxes(C @ Y[:3, :3], 1, 2)).as_rotvec()
    e[:, 3:] = B[:, :3, 3] - w @ R
    J = np.zeros((n, 6, 12))
    J[:, :3, :3], J[:, :3, 6:9] = R.T, -C
    J[:, 3:, :3], J[:, 3:, 3:6], J[:, 3:, 9:] = -R.T @ _skew(w), R.T, -C
    return e.ravel(), J.reshape(6 * n, 12)


def _scales(residual: np.ndarray, weighted: np.ndarray) -> np.ndarray:
    """Standard deviations of rotations and of translations, each over the degrees of freedom that the fit leaves it."""
    Q, _ = np.linalg.qr(weighted)
    leverage = (Q**2).sum(axis=1).reshape(-1, 2, 3)
    squares = (residual**2).reshape(-1, 2, 3)
    freedom = np.maximum((1.0 - leverage).sum(axis=(0, 2)), 1e-9)
    return np.maximum(np.sqrt(squares.sum(axis=(0, 2)) / freedom), 1e-12)


def _skew(v: np.ndarray) -> np.ndarray:
    """Cross-product matrices of v (..., 3), shape (..., 3, 3)."""
    S = np.zeros((*v.shape, 3))
    S[..., 0, 1], S[..., 0, 2], S[..., 1, 2] = -v[..., 2], v[..., 1], -v[..., 0]
    return S - np.swapaxes(S, -1, -2)
