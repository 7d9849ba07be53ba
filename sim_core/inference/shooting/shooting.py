"""Multiple shooting: trajectory residuals over short segments, segment starts eliminated.

A window is cut into S segments of L steps. Segment s starts at its own state z_s and
rolls out under the measured controls; the residual compares the observed states y with

    y_hat_k = h(x_k, delay),   x_0 = z_s,   x_{k+1} = f(x_k, u_k, p(xi)).

The unknowns are theta = [xi, delay] and, unless starts are fixed to the measurement,
every z_s. Only theta couples segments, so each z_s is eliminated exactly by a Schur
complement of size nx, and the normal equations stay as small as theta.

Source: Bock, Recent Advances in Parameter Identification for ODEs (1983); Schur
elimination as in Triggs et al., Bundle Adjustment (2000), section 6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from sim_core.inference.data.robust import RobustLoss, robust_loss, robust_scale
from sim_core.inference.data.window import Window, sensor_noise

__all__ = ["DelayPrior", "NormalEquations", "Rollout", "Sensitive", "ShootingProblem"]


class Sensitive(Protocol):
    """What a shooting problem asks of a simulator: roll-outs with their sensitivities. Every `System` has them."""

    def rollout_sensitivity(
        self, x0: np.ndarray, U: np.ndarray, p: np.ndarray, dpdxi: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """X (..., H+1, nx) and d x[k] / d [x0, xi] (..., H+1, nx, nx+n), for p = p(xi) with dp/dxi (..., np_, n)."""
        ...


@dataclass(frozen=True)
class DelayPrior:
    """Sensor delay as a free coordinate: y(t) = x(t - delay). All in seconds."""

    mean: float = 0.0025
    std: float = 0.0025
    lower: float = 0.0
    upper: float = 0.008


@dataclass(frozen=True)
class Rollout:
    """Residuals and their Jacobian at one point; units of the observed states.

    residual: (S, K, ny); jacobian: (S, K, ny, nx + n) = d residual / d[z, theta].
    """

    theta: np.ndarray
    starts: np.ndarray
    residual: np.ndarray
    jacobian: np.ndarray


@dataclass(frozen=True)
class NormalEquations:
    """Quadratic model of the cost in theta after eliminating the segment starts.

    cost(theta + d) ~ cost + gradient.d + d.hessian.d / 2 - start_gain, with the starts moving
    along: z + start_step + start_slope @ d.
    """

    cost: float
    gradient: np.ndarray  # (n,) data and prior
    hessian: np.ndarray  # (n, n) data and prior
    segment_hessians: np.ndarray  # (S, n, n) each segment's data term
    scores: np.ndarray  # (S, n) gradient of each segment's data term
    start_step: np.ndarray  # (S, nx)
    start_slope: np.ndarray  # (S, nx, n)
    start_gain: float  # cost reduction from start_step alone
    leverage: np.ndarray  # (ny,) residual degrees of freedom the starts absorb

    @property
    def data_hessian(self) -> np.ndarray:
        """(n, n) without the prior."""
        return self.segment_hessians.sum(0)


class ShootingProblem:
    """Residuals of windows against a model, as a function of theta and segment starts.

    Args:
        dynamics: a System, or other roll-outs with sensitivities, at the windows' period.
        spec: free coordinates xi: `to_physical`, `jacobian`, `prior_mean`, `prior_std`, bounds.
        windows: contiguous data, one or several, same period.
        segment_length: steps per segment; shortened to what the windows hold.
        free_starts: estimate the segment starts (True) or fix them to the measured states.
        loss: name of a robust loss.
        delay: prior of a free sensor delay, or None for no delay. Needs free starts.
        scale_floor: smallest believable standard deviation of (positions, velocities).

    Raises:
        ValueError: no window holds a segment, or delay is free while the starts are fixed or the states have no rates.
    """

    def __init__(
        self,
        dynamics: Sensitive,
        spec: Any,
        windows: list[Window],
        segment_length: int,
        free_starts: bool = True,
        loss: str = "huber",
        delay: DelayPrior | None = None,
        scale_floor: tuple[float, float] = (1e-6, 1e-5),
    ) -> None:
        if delay is not None and not free_starts:
            raise ValueError("a free sensor delay needs free segment starts: set initial_state='free'")
        self.dynamics, self.spec, self.delay, self.free_starts = dynamics, spec, delay, free_starts
        self.loss: RobustLoss = robust_loss(loss)
        self.dt = windows[0].dt
        nq, nv = windows[0].q.shape[1], windows[0].v.shape[1]
        if delay is not None and nq != nv:
            raise ValueError(
                f"a free sensor delay needs the rate of every position, found {nq} positions and {nv} rates"
            )
        self.nq, self.nv, self.nx = nq, nv, nq + nv
        self.floor = np.concatenate([np.full(nq, scale_floor[0]), np.full(nv, scale_floor[1])])
        self.noise = sensor_noise(windows, self.floor)
        # First observed sample of a segment: old enough that t - delay lies inside it.
        self.skip = 0 if delay is None else int(np.ceil(delay.upper / self.dt - 1e-9))
        self.first = self.skip if free_starts else 1
        self.length, self.stride = self._segmentation(max(w.transitions for w in windows), segment_length)
        begins = [(w, k) for w in windows for k in range(0, w.transitions - self.length + 1, self.stride)]
        if not begins:
            raise ValueError(
                f"windows of at most {max(w.transitions for w in windows)} transitions hold no segment of {self.length}"
            )
        self.times = np.array([w.t[k] for w, k in begins])
        self.measured_starts = np.stack([w.x[k] for w, k in begins])
        self.controls = np.stack([w.u[k : k + self.length] for w, k in begins])
        self.observed = np.stack([w.x[k + self.first : k + self.length + 1] for w, k in begins])
        self.prior_mean, self.prior_std = (
            self._with_delay(spec.prior_mean, "mean"),
            self._with_delay(spec.prior_std, "std"),
        )
        self.lower, self.upper = self._with_delay(spec.lower, "lower"), self._with_delay(spec.upper, "upper")

    def _segmentation(self, transitions: int, wanted: int) -> tuple[int, int]:
        """Segment length and stride, stretched so that little of the longest window is left over.

        Observed samples belong to one segment each: a sample used twice would count as two
        independent measurements. Fixed starts are not residuals, so there segments touch.
        """
        gap = 1 - self.first  # stride = length + gap
        wanted = max(min(wanted, transitions), self.skip + 1)
        count = max(1, (transitions + gap) // (wanted + gap))
        length = (transitions + gap) // count - gap
        return min(length, transitions), length + gap

    def _with_delay(self, values: np.ndarray, field: str) -> np.ndarray:
        return np.asarray(values, float) if self.delay is None else np.append(values, getattr(self.delay, field))

    @property
    def n(self) -> int:
        """Number of coordinates in theta."""
        return len(self.prior_mean)

    @property
    def residual_count(self) -> int:
        return self.observed.size

    def theta(self, xi: np.ndarray, delay: float | None = None) -> np.ndarray:
        """theta from the model's coordinates; the delay starts at its prior mean by default."""
        if self.delay is None:
            return np.array(xi, float)
        return np.append(xi, self.delay.mean if delay is None else delay)

    def subset(self, keep: np.ndarray | slice) -> ShootingProblem:
        """The same problem over the segments selected by a boolean mask or indices."""
        other = object.__new__(ShootingProblem)
        other.__dict__.update(self.__dict__)
        for name in ("times", "measured_starts", "controls", "observed"):
            setattr(other, name, getattr(self, name)[keep])
        return other

    def shortened(self, steps: int) -> ShootingProblem:
        """The same segments cut after `steps` steps."""
        other = self.subset(slice(None))
        other.length = min(steps, self.length)
        other.controls = self.controls[:, : other.length]
        other.observed = self.observed[:, : other.length + 1 - self.first]
        return other

    # -- residuals ---------------------------------------------------------------------

    def evaluate(self, theta: np.ndarray, starts: np.ndarray) -> Rollout:
        """Roll out every segment; residuals and exact Jacobian."""
        xi = theta[: self.spec.n]
        X, dX = self.dynamics.rollout_sensitivity(
            starts, self.controls, self.spec.to_physical(xi), self.spec.jacobian(xi)
        )
        predicted, jacobian = self._observe(X, dX, theta)
        return Rollout(theta, starts, predicted - self.observed, jacobian)

    def _observe(self, X: np.ndarray, dX: np.ndarray, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """y_hat_k = x(t_k - delay) between the two steps around it, and its derivative."""
        if self.delay is None:
            return X[:, self.first :], dX[:, self.first :]
        steps = np.clip(theta[-1] / self.dt, 0.0, self.skip)
        whole = min(int(steps), self.skip - 1)
        late = slice(self.skip - whole, self.length + 1 - whole)
        early = slice(self.skip - whole - 1, self.length - whole)
        E, L, dE, dL = _hermite(1.0 + whole - steps, self.dt, self.nx // 2)
        Y = X[:, early] @ E.T + X[:, late] @ L.T
        dY = E @ dX[:, early] + L @ dX[:, late]
        later = -(X[:, early] @ dE.T + X[:, late] @ dL.T) / self.dt  # the model's velocity, negative
        return Y, np.concatenate([dY, later[..., None]], axis=-1)

    def common_scale(self, rollout: Rollout) -> np.ndarray:
        """One factor on the sensors' noise for all features, shape (ny,), never below the floor.

        For the way to the optimum: were each feature free to shrink its own scale, joints that
        the parameters hardly touch would outweigh the rest and bend the path into a valley.
        """
        factor = robust_scale(rollout.residual / self.noise, robust=False)
        return np.maximum(factor * self.noise, self.floor)

    def own_scale(self, rollout: Rollout, leverage: np.ndarray) -> np.ndarray:
        """Standard deviation of each feature's residuals, shape (ny,), never below the floor.

        `leverage` (degrees of freedom taken by the starts) makes it unbiased for short segments.
        """
        s = robust_scale(rollout.residual, axis=(0, 1), robust=self.loss.name != "gaussian")
        count = rollout.residual.shape[0] * rollout.residual.shape[1]
        return np.maximum(s / np.sqrt(np.clip(1.0 - leverage / count, 0.1, 1.0)), self.floor)

    # -- normal equations --------------------------------------------------------------

    def normal_equations(self, rollout: Rollout, scale: np.ndarray) -> NormalEquations:
        """IRLS Gauss-Newton equations at a roll-out, starts eliminated, prior added."""
        S, K, ny, columns = rollout.jacobian.shape
        r = rollout.residual / scale
        root_w = np.sqrt(self.loss.weight(r))
        J = (rollout.jacobian * (root_w / scale)[..., None]).reshape(S, K * ny, columns)
        b = (root_w * r).reshape(S, K * ny, 1)
        Jt = J.transpose(0, 2, 1)
        H, g = Jt @ J, (Jt @ b)[..., 0]
        nx = self.nx
        Htt, gt = H[:, nx:, nx:], g[:, nx:]
        prior_precision = 1.0 / self.prior_std**2
        offset = rollout.theta - self.prior_mean
        cost = float(self.loss.rho(r).sum() + 0.5 * np.sum(prior_precision * offset**2))
        if self.free_starts:
            Hzz, Hzt, gz = H[:, :nx, :nx], H[:, :nx, nx:], g[:, :nx]
            solved = np.linalg.solve(Hzz, np.concatenate([gz[..., None], Hzt], axis=-1))
            start_step, start_slope = -solved[..., 0], -solved[..., 1:]
            Htt = Htt + Hzt.transpose(0, 2, 1) @ start_slope
            gt = gt + np.einsum("szt,sz->st", Hzt, start_step)
            start_gain = float(-0.5 * np.sum(gz * start_step))
            leverage = self._leverage(J[..., :nx], Hzz, (S, K, ny))
        else:
            start_step, start_slope = np.zeros((S, nx)), np.zeros((S, nx, self.n))
            start_gain, leverage = 0.0, np.zeros(ny)
        return NormalEquations(
            cost=cost,
            gradient=gt.sum(0) + prior_precision * offset,
            hessian=Htt.sum(0) + np.diag(prior_precision),
            segment_hessians=Htt,
            scores=gt,
            start_step=start_step,
            start_slope=start_slope,
            start_gain=start_gain,
            leverage=leverage,
        )

    @staticmethod
    def _leverage(Jz: np.ndarray, Hzz: np.ndarray, shape: tuple[int, int, int]) -> np.ndarray:
        """Trace of the starts' hat matrix J Hzz^-1 J^T, summed per feature."""
        hat = np.sum((Jz @ np.linalg.inv(Hzz)) * Jz, axis=-1)
        return hat.reshape(shape).sum((0, 1))

    # -- prediction --------------------------------------------------------------------

    def settle_starts(self, theta: np.ndarray, scale: np.ndarray, iterations: int = 3) -> Rollout:
        """Roll-out from the segment starts that fit best under a given theta."""
        rollout = self.evaluate(theta, self.measured_starts)
        for _ in range(iterations if self.free_starts else 0):
            step = self.normal_equations(rollout, scale).start_step
            rollout = self.evaluate(theta, rollout.starts + step)
        return rollout

    def mean_loss(self, rollout: Rollout, scale: np.ndarray) -> float:
        """Robust loss per residual, scaled so that Gaussian residuals of that scale give about 1."""
        return float(2.0 * np.mean(self.loss.rho(rollout.residual / scale)))


def _hermite(a: float, h: float, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """State between two steps h [s] apart: x(a) = E x_early + L x_late, and dE/da, dL/da.

    Cubic Hermite in q from both ends' q and v, linear in v: what the velocity resolves.
    """
    I, O = np.eye(n), np.zeros((n, n))
    E = np.block([[(1 + 2 * a) * (1 - a) ** 2 * I, a * (1 - a) ** 2 * h * I], [O, (1 - a) * I]])
    L = np.block([[a * a * (3 - 2 * a) * I, a * a * (a - 1) * h * I], [O, a * I]])
    dE = np.block([[6 * a * (a - 1) * I, (1 - a) * (1 - 3 * a) * h * I], [O, -I]])
    dL = np.block([[6 * a * (1 - a) * I, a * (3 * a - 2) * h * I], [O, I]])
    return E, L, dE, dL
