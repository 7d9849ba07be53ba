"""All windows of all particles of any `System`, simulated, held against the data and differentiated in batched numpy.

The same sums as `shooting_kernel.py` forms in one compiled call, for systems whose step is no CasADi graph: one batched
roll-out, and one reverse sweep in which misfit and pull on the defects are two rows of the batch.
"""

from __future__ import annotations

import numpy as np

from sim_core.inference.shooting.maps import ArrayMaps, ParameterMap
from sim_core.inference.shooting.recorded import HUBER, Recorded, pull
from sim_core.system import Observation, System

__all__ = ["SystemShooting"]

ROOM = 128e6  # bytes of states at a time


class SystemShooting:
    """Misfits, defects and their gradients of a System; called as ShootingKernel.

    Args:
        system: System; without derivatives it can be called with gradient=False only.
        parameters: to_physical, pullback.
        recorded: Recorded.
        observe: Observation; None: the states.
        loss: "gaussian" or "huber".

    Raises:
        ValueError: another number of observations than recorded.
    """

    def __init__(
        self,
        system: System,
        parameters: ParameterMap,
        recorded: Recorded,
        observe: Observation | None = None,
        loss: str = "gaussian",
    ) -> None:
        self._system, self._parameters, self._observe, self._loss = system, parameters, observe, loss
        self.recorded = recorded
        ny = system.nx if observe is None else observe(recorded.start[:1], system.nominal[None]).shape[-1]
        if ny != recorded.y.shape[-1]:
            raise ValueError(
                f"expected {ny} observations per sample as from the observation map, found {recorded.y.shape[-1]}"
            )

    def maps(self) -> ArrayMaps:
        """p(theta) and h(x, p(theta)) with their Jacobians."""
        return ArrayMaps(self._system, self._parameters, self._observe)

    def __call__(
        self,
        theta: np.ndarray,
        offsets: np.ndarray | None = None,
        multipliers: np.ndarray | None = None,
        damping: float = 1.0,
        form: str = "vector",
        separate: bool = False,
        gradient: bool = True,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Arguments and results as those of ShootingKernel; gradients are zeros without `gradient`."""
        data, nx, seeds = self.recorded, self._system.nx, 2 if separate else 1
        S, H = data.windows, data.u.shape[1]
        N, R, n = len(theta), len(data.start) // S, theta.shape[1]
        joints = (N, R, S - 1)
        given = []
        for name, array, width in (
            ("offsets", offsets, nx),
            ("multipliers", multipliers, nx if form == "vector" else 1),
        ):
            array = np.zeros((*joints, width)) if array is None else np.asarray(array, dtype=float)
            if array.shape != (*joints, width):
                raise ValueError(f"shooting, argument {name}: expected shape {(*joints, width)}, found {array.shape}")
            given.append(array)
        out = (
            np.zeros((N, R)),
            np.zeros((*joints, nx)),
            np.zeros((*joints, nx, seeds)),
            np.zeros((N, R, n, seeds)),
        )
        chunk = max(1, int(ROOM / (8 * R * S * (H + 1) * nx * (1 + 2 * seeds))))
        for i in range(0, N, chunk):
            rows = slice(i, i + chunk)
            with np.errstate(all="ignore"):
                self._part(theta[rows], given[0][rows], given[1][rows], damping, form, gradient, [a[rows] for a in out])
        return out

    def _part(
        self,
        theta: np.ndarray,
        offsets: np.ndarray,
        multipliers: np.ndarray,
        damping: float,
        form: str,
        gradient: bool,
        out: list[np.ndarray],
    ) -> None:
        misfit, d, offsetbar, thetabar = out
        data, nx, windows = self.recorded, self._system.nx, (d.shape[1], d.shape[2] + 1)
        measured = data.start.reshape(*windows, nx)
        start = np.broadcast_to(measured, (len(theta), *measured.shape)).copy()
        start[:, :, 1:] += offsets * data.scale
        p = self._parameters.to_physical(theta)
        # What cannot be simulated stands where the data do, and is marked afterwards.
        lost = ~(np.isfinite(p).all(axis=1) & np.isfinite(start).all(axis=(1, 2, 3)))
        if lost.any():
            start[lost], p = measured, np.where(lost[:, None], self._system.nominal, p)
        U, p = data.u.reshape(*windows, *data.u.shape[1:]), p[:, None, None]
        X = self._system.rollout(start, U, p)
        x, each_p = X[..., 1:, :], np.broadcast_to(p[..., None, :], (*X[..., 1:, 0].shape, p.shape[-1]))
        y = x if self._observe is None else self._observe(x, each_p)
        r = (y - data.y[:, 1:].reshape(*windows, *y.shape[3:])) * data.per_sigma
        inner = np.clip(r, -HUBER, HUBER) if self._loss == "huber" else r
        misfit[...] = (inner * (r - inner / 2)).sum(axis=(2, 3, 4))
        misfit[lost] = np.nan
        d[...] = (start[:, :, 1:] - X[:, :, :-1, -1]) * data.per_defect
        if not gradient:
            return
        # One row of the batch for each column of the result, so that a reverse sweep serves both.
        Xbar, direct = np.zeros((thetabar.shape[-1], *X.shape)), 0.0
        ybar = inner * data.per_sigma
        if self._observe is None:
            Xbar[0, ..., 1:, :] = ybar
        else:
            hx, hp = self._observe.jacobian(x, each_p)
            Xbar[0, ..., 1:, :] = np.einsum("...y,...yx->...x", ybar, hx)
            direct = np.einsum("nrsky,nrskyp->nrp", ybar, hp)
        Xbar[-1, :, :, :-1, -1] -= data.per_defect * pull(d, multipliers, damping, form)
        x0bar, _, pbar = self._system.rollout_vjp(start, U, p, X, Xbar)
        offsetbar[...] = np.moveaxis(x0bar[:, :, :, 1:] * data.scale, 0, -1)
        pbar = pbar.sum(axis=3)
        pbar[0] += direct
        every = np.broadcast_to(theta[None, :, None], (*pbar.shape[:3], theta.shape[1]))
        thetabar[...] = np.moveaxis(self._parameters.pullback(every, pbar), 0, -1)
