"""A serial arm by Denavit and Hartenberg's parameters, and their recovery from where its end was.

Row i turns by its joint angle q_i about z, shifts by d_i along z and by a_i along x, and twists by alpha_i about x. A
parameter vector theta (3n,) holds all d [m], all a [m], all alpha [rad]. Source: Denavit and Hartenberg, A Kinematic
Notation for Lower-Pair Mechanisms (1955); as a design problem: Heiden, PhD thesis (University of Southern California
2022), section 2.2.4.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

__all__ = ["Recovery", "end_points", "random_arm", "random_motion", "rank", "recovered"]

RANK_TOLERANCE = 1e-9  # of the largest singular value


@dataclass(frozen=True)
class Recovery:
    """What a search ended with.

    Attributes:
        theta: (3n,). errors: root mean square distance of the end points at the start and after each iteration [m].
    """

    theta: np.ndarray
    errors: list[float]


def end_points(theta: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the arm's end is, and how that moves with the parameters.

    Args:
        theta: (3n,). q: joint angles (T, n) [rad].

    Returns:
        Points (T, 3) [m] in the base's frame, and their derivatives by theta (T, 3, 3n).

    Raises:
        ValueError: joint angles that are not n in a row.
    """
    d, a, alpha = theta.reshape(3, -1)
    rows = len(d)
    if q.ndim != 2 or q.shape[1] != rows:
        raise ValueError(f"expected joint angles (T, {rows}) for {3 * rows} parameters, found {q.shape}")
    R, o = np.broadcast_to(np.eye(3), (len(q), 3, 3)), np.zeros((len(q), 3))
    z_axes, x_axes, origins = [], [], []
    for i in range(rows):
        c, s, zero, one = np.cos(q[:, i]), np.sin(q[:, i]), np.zeros(len(q)), np.ones(len(q))
        turned = R @ np.stack([c, -s, zero, s, c, zero, zero, zero, one], axis=1).reshape(-1, 3, 3)
        x, y, z = np.moveaxis(turned, 2, 0)
        o = o + d[i] * z + a[i] * x
        z_axes.append(z)
        x_axes.append(x)
        origins.append(o)
        ca, sa = np.cos(alpha[i]), np.sin(alpha[i])
        R = np.stack([x, ca * y + sa * z, ca * z - sa * y], axis=2)
    twists = [np.cross(x, o - origin) for x, origin in zip(x_axes, origins)]
    return o, np.stack(z_axes + x_axes + twists, axis=2)


def rank(theta: np.ndarray, q: np.ndarray) -> int:
    """How many combinations of the parameters the end points of a motion tell."""
    J = end_points(theta, q)[1].reshape(-1, len(theta))
    values = np.linalg.svd(J, compute_uv=False)
    return int(np.sum(values > RANK_TOLERANCE * values[0]))


def random_arm(rng: np.random.Generator, rows: int = 4) -> np.ndarray:
    """Parameters (3 rows,) of an arm: lengths of 0.1 to 0.5 m, twists of up to a quarter turn either way."""
    return np.concatenate([rng.uniform(0.1, 0.5, 2 * rows), rng.uniform(-np.pi / 2, np.pi / 2, rows)])


def random_motion(rng: np.random.Generator, rows: int = 4, steps: int = 100) -> np.ndarray:
    """Joint angles (steps, rows) [rad] along two sine waves for each joint."""
    time = np.linspace(0.0, 2 * np.pi, steps)[:, None, None]
    size, rate, phase = (
        rng.uniform(0.3, 1.2, (2, rows)),
        rng.uniform(0.5, 3.0, (2, rows)),
        rng.uniform(0, 6.3, (2, rows)),
    )
    return np.sum(size * np.sin(rate * time + phase), axis=1)


def recovered(start: np.ndarray, q: np.ndarray, points: np.ndarray, iterations: int = 500) -> Recovery:
    """Parameters whose end points are nearest to `points` (T, 3) [m], by L-BFGS from `start`."""

    def cost(theta: np.ndarray) -> tuple[float, np.ndarray]:
        found, J = end_points(theta, q)
        off = found - points
        return float(np.sum(off**2)), 2.0 * np.einsum("tk,tkj->j", off, J)

    def error(theta: np.ndarray) -> float:
        return float(np.sqrt(cost(theta)[0] / len(q)))

    errors = [error(start)]
    end = minimize(
        cost,
        start,
        jac=True,
        method="L-BFGS-B",
        callback=lambda theta: errors.append(error(theta)),
        options={"maxiter": iterations, "maxfun": 2 * iterations, "ftol": 1e-15, "gtol": 1e-9},
    )
    return Recovery(end.x, errors)
