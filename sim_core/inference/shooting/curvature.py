"""Gauss-Newton curvature of a shooting likelihood: how much the data say about theta and the shooting states.

For residuals r with unit noise, J'J with J = dr / d(starts, theta) is the Fisher information, and the Hessian of -log p
where the model fits. One forward sweep of the roll-out's sensitivities gives it for many particles at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sim_core.inference.data.density import concatenated
from sim_core.inference.shooting.recorded import HUBER

__all__ = ["Curvature", "ShootingCurvature"]

SMALLEST = 1e-11  # of a matrix's trace: what rounding leaves of a direction about which the data say nothing
ROOM = 64e6  # bytes of sensitivities at a time
DIVERGED = 1e12  # sensitivities (SI) beyond are on their way to infinity; their square must leave digits for the rest


@dataclass(frozen=True)
class Curvature:
    """J'J of the residuals and, `damping` times, of the defects, per particle; 0 where a roll-out is not finite.

    Attributes:
        theta: (N, M, M), of z.
        starts: (N, R, K, K) of the K = (S-1) nx shooting states of a trajectory.
        mixed: (N, R, K, M), starts by theta.
    """

    theta: np.ndarray
    starts: np.ndarray
    mixed: np.ndarray

    def follow(self, force: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where shooting states go: ds = at + by dz minimises the quadratic model for a given dz.

        Args:
            force: ascent direction of the starts (N, R, S-1, nx).

        Returns:
            at (N, R, K), by (N, R, K, M).
        """
        N, R, K, M = self.mixed.shape
        if not K:
            return np.zeros((N, R, 0)), np.zeros_like(self.mixed)
        # A particle that is not finite has no curvature, and stays.
        trace = np.einsum("nrkk->nr", self.starts)[:, :, None, None]
        finite = trace[:, 0, 0, 0] > 0
        system = self.starts + np.where(trace > 0, SMALLEST * trace, 1.0) * np.eye(K)
        solved = np.linalg.solve(system, np.concatenate([force.reshape(N, R, K, 1), -self.mixed], axis=3))
        solved *= finite[:, None, None, None]
        return solved[..., 0], solved[..., 1:]

    def condensed(self, by: np.ndarray) -> np.ndarray:
        """Curvature (N, M, M) of z when the shooting states follow: the Schur complement."""
        F = self.theta + np.einsum("nrkm,nrkp->nmp", self.mixed, by)
        return 0.5 * (F + F.swapaxes(1, 2))


class ShootingCurvature:
    """Curvature of a MultipleShooting likelihood.

    Source: Albersmeyer & Diehl, "The lifted Newton method and its application in optimization", SIAM J. Optim. 20(3),
    2010, for the elimination of the shooting states (`Curvature.condensed`).
    """

    def __init__(self, shooting: Any) -> None:
        self._shooting, self._maps = shooting, shooting.kernel.maps()

    def __call__(self, z: np.ndarray, start: np.ndarray, damping: float) -> Curvature:
        """
        Args:
            z: (N, M). start: states the windows start from (N, R S, nx). damping: weight of the defects' curvature.
        """
        windows, nx, steps = start.shape[1], start.shape[2], self._shooting.recorded.u.shape[1]
        each = windows * (steps + 1) * nx * (nx + z.shape[1]) * 8
        chunk = max(1, int(ROOM / each))
        return concatenated(
            [self._part(z[i : i + chunk], start[i : i + chunk], damping) for i in range(0, len(z), chunk)]
        )

    def _part(self, z: np.ndarray, start: np.ndarray, damping: float) -> Curvature:
        s = self._shooting
        (N, _W, nx), M, (R, S1, _) = start.shape, z.shape[1], s.starts_shape
        usable = np.isfinite(z).all(axis=1) & np.isfinite(start).all(axis=(1, 2))
        misfit, J, end = self._residuals(
            s.theta(np.where(usable[:, None], z, 0.5)), np.where(usable[:, None, None], start, s.recorded.start)
        )
        with np.errstate(all="ignore"):
            finite = usable & (
                np.abs(misfit).sum(axis=1) + sum(np.abs(a).max(axis=(1, 2, 3)) for a in (J, end)) < DIVERGED
            )
        misfit = np.where(finite[:, None], misfit, 0.0)
        weights = s._combined(s._log_norm_obs - misfit.reshape(N, R, S1 + 1).sum(axis=2))[1]
        J, end = (np.where(finite.reshape(-1, *(1,) * (a.ndim - 1)), a, 0.0) for a in (J, end))
        units = np.concatenate([s.state_scale, s.width])
        information = (J.swapaxes(2, 3) @ J * units * units[:, None]).reshape(N, R, S1 + 1, nx + M, nx + M)
        information *= weights[:, :, None, None, None]
        end = (end * units / (s.state_scale * s.sigma_def)[:, None]).reshape(N, R, S1 + 1, nx, nx + M)[:, :, :-1]
        theta = information[..., nx:, nx:].sum(axis=(1, 2)) + damping * np.einsum(
            "nrsim,nrsip->nmp", end[..., nx:], end[..., nx:]
        )
        # d[s] = starts[s] / sigma_def - end of window s, whose own start is starts[s - 1].
        starts, mixed = np.zeros((N, R, S1, nx, S1, nx)), np.zeros((N, R, S1, nx, M))
        unit = np.eye(nx) / s.sigma_def * finite[:, None, None, None]
        for k in range(S1):
            starts[:, :, k, :, k] += information[:, :, k + 1, :nx, :nx] + damping * unit / s.sigma_def
            mixed[:, :, k] += information[:, :, k + 1, :nx, nx:] - damping / s.sigma_def * end[:, :, k, :, nx:]
            if k:
                A, C = end[:, :, k, :, :nx], end[:, :, k, :, nx:]
                starts[:, :, k - 1, :, k - 1] += damping * A.swapaxes(2, 3) @ A
                starts[:, :, k, :, k - 1] -= damping / s.sigma_def * A
                starts[:, :, k - 1, :, k] -= damping / s.sigma_def * A.swapaxes(2, 3)
                mixed[:, :, k - 1] += damping * A.swapaxes(2, 3) @ C
        return Curvature(theta, starts.reshape(N, R, S1 * nx, S1 * nx), mixed.reshape(N, R, S1 * nx, M))

    def _residuals(self, theta: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Misfit (N, W), weighted Jacobian of the residuals (N, W, H ny, nx + M) and of the ends (N, W, nx, nx + M)."""
        s, (N, W, nx), M = self._shooting, start.shape, theta.shape[1]
        p, D = self._maps.physical(theta)
        with np.errstate(all="ignore"):
            X, Z = s.dynamics.rollout_sensitivity(start, s.recorded.u, p[:, None], D[:, None])
            X, J = X[:, :, 1:], Z[:, :, 1:]
            end, y = J[:, :, -1], X
            if not self._maps.plain:
                y, hx, ht = self._maps.observation(X, theta)
                J = hx @ J
                J[..., nx:] += ht
            r = (y - s.recorded.y[:, 1:]) * s.recorded.per_sigma
            size = np.abs(r)
            inner = np.minimum(size, HUBER) if s.loss == "huber" else size
            misfit = (inner * (size - inner / 2)).sum(axis=(2, 3))
            weight = (
                s.recorded.per_sigma * np.sqrt(inner / np.maximum(size, 1e-300))
                if s.loss == "huber"
                else s.recorded.per_sigma
            )
            J = (J * np.broadcast_to(weight, r.shape)[..., None]).reshape(N, W, -1, nx + M)
        return misfit, J, end
