"""Log likelihood of recorded trajectories under a simulator, and its exact gradient, for many particles at once.

All particles x trajectories x windows are simulated in one roll-out and differentiated in one reverse sweep of the
compiled dynamics (`sim_core.articulated.Dynamics`). Observations and states count in units of their standard deviation
over the recording, parameters in units of their limits (z in [0, 1]).

    density = MultipleShooting(Dynamics(model), LimitedParameters(model, limits), trajectories, windows=10)
    log_p, grad = density.log_p_and_grad(z)          # z (N, M)

Sources: thesis Eqs. 4.2-4.6; Huber, "Robust estimation of a location parameter", 1964, for the loss.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from .density import Box
from .observation import Observation
from .trajectories import Trajectories, standard_deviation

__all__ = ["Evaluation", "ExtendedShooting", "MultipleShooting", "SingleShooting"]

HUBER = 1.345  # residuals beyond this many sigma count linearly: 95 % efficient where noise is Gaussian after all
REACH = 1.0  # shooting states as sampled coordinates: +- this many standard deviations about the measured state


@dataclass(frozen=True)
class Evaluation:
    """What one batched simulation says about N particles; 0 and -inf for those whose roll-outs are not finite.

    Attributes:
        log_p: log p_obs, without the density of defects, (N,).
        grad: d log_p / dz, (N, M).
        grad_starts: d log_p / d starts, (N, R, S-1, nx).
        defects: d = (window's start - end of the window before) / (scale sigma_def), (N, R, S-1, nx).
        penalty_grad, penalty_grad_starts: J'(lambda + c g), J = dg/dz and dg/d starts; zeros where no multipliers are.
    """

    log_p: np.ndarray
    grad: np.ndarray
    grad_starts: np.ndarray
    defects: np.ndarray
    penalty_grad: np.ndarray
    penalty_grad_starts: np.ndarray

    @classmethod
    def concatenated(cls, parts) -> Evaluation:
        """Evaluations of slices of the particles, put together again."""
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in cls.__dataclass_fields__))


class MultipleShooting(Box):
    """p_ms (Eq. 4.6): each trajectory as S windows with start states of their own, joined by Gaussian defects.

    The first window starts at the measured state, the others at the measured state plus `starts` (N, R, S-1, nx), in units
    of the state's scale. `log_p` and `log_p_and_grad` leave them at the measured states.

    Args:
        dynamics: Dynamics with the recording's period.
        parameters: names, lower, upper, n, to_physical, pullback; LimitedParameters or FreeParameters.
        trajectories: Trajectories; up to S - 1 steps at their ends are left out.
        windows: S; 1 is single shooting.
        sigma_obs: noise of the observations in units of `scale`; a number, or one per observation.
        sigma_def: spread of the defects, in units of the states' standard deviation.
        combine: "sum", an equally weighted mixture over trajectories (Eq. 4.4), or "product" (Eq. A.2).
        loss: "gaussian", or "huber" with its knee at 1.345 sigma_obs (normalised like the Gaussian).
        observe: CasADi function y = h(x) or h(x, p); default the state. Held against `trajectories.y`, or where that is
            missing, against h of the measured states under the model's nominal parameters.
        scale: units of the observations (ny,); default their standard deviation.

    Attributes:
        trajectories, starts_shape (R, S-1, nx); state_scale (nx,); not_finite: particles masked so far.

    Raises:
        ValueError: what does not fit together, in one sentence.
    """

    def __init__(self, dynamics, parameters, trajectories: Trajectories, windows: int = 10, sigma_obs=0.2,
                 sigma_def: float = 0.1, combine: str = "sum", loss: str = "gaussian", observe=None, scale=None):
        super().__init__(parameters.names, parameters.lower, parameters.upper)
        if combine not in ("sum", "product"):
            raise ValueError(f"combine: expected 'sum' or 'product', found '{combine}'")
        if loss not in ("gaussian", "huber"):
            raise ValueError(f"loss: expected 'gaussian' or 'huber', found '{loss}'")
        if not np.isclose(dynamics.dt, trajectories.dt, rtol=1e-6):
            raise ValueError(f"expected trajectories every {dynamics.dt} s as the dynamics, found {trajectories.dt} s; resample them")
        if (trajectories.x.shape[2], trajectories.u.shape[2]) != (dynamics.nx, dynamics.nu):
            raise ValueError(
                f"expected {dynamics.nx} states and {dynamics.nu} controls, found {trajectories.x.shape[2]} and "
                f"{trajectories.u.shape[2]}"
            )
        self.dynamics, self.parameters, self.trajectories = dynamics, parameters, trajectories
        self.combine, self.loss, self.sigma_def, self.windows = combine, loss, float(sigma_def), windows
        cut = trajectories.windows(windows)
        R, S, nx = trajectories.count, windows, dynamics.nx
        self.starts_shape = (R, S - 1, nx)
        self.state_scale = trajectories.scale
        self._h = None if observe is None else Observation(observe, nx, dynamics.np_)
        self._start = cut.x[:, 0].reshape(R, S, nx)
        self._controls = cut.u.reshape(R, S, cut.steps, dynamics.nu)
        y, all_y = (self._measured(t) for t in (cut, trajectories))
        self._y = y.reshape(R, S, cut.steps + 1, -1)
        self.scale = standard_deviation(all_y) if scale is None else np.asarray(scale, dtype=float)
        sigma = self.scale * sigma_obs
        if sigma.shape != self._y.shape[-1:] or not (sigma > 0).all() or not sigma_def > 0:
            raise ValueError(f"scale and sigma: expected {self._y.shape[-1]} numbers > 0, found {sigma} and sigma_def {sigma_def}")
        self._per_sigma = 1.0 / sigma
        # Densities are over normalised observations and states.
        self._log_norm_obs = -S * cut.steps * np.log(np.sqrt(2 * np.pi) * sigma / self.scale).sum()
        self._log_norm_def = -(S - 1) * nx * np.log(np.sqrt(2 * np.pi) * self.sigma_def)
        self.not_finite = 0

    def _measured(self, trajectories):
        if self._h is None:
            return trajectories.x
        if trajectories.y is None:
            return self._h(trajectories.x, self.dynamics.model.parameters.nominal)
        if trajectories.y.shape[2] != self._h.ny:
            raise ValueError(f"expected {self._h.ny} observations per sample as from the observation map, found {trajectories.y.shape[2]}")
        return trajectories.y

    # ---- as a density over theta --------------------------------------------------------------------------------

    def log_p(self, z, starts=None):
        return self._joint(_Simulation(self, z, starts))[0]

    def log_p_and_grad(self, z, starts=None):
        log_p, grad, _ = self.joint(z, starts)
        return log_p, grad

    def joint(self, z, starts=None):
        """log p_ms with the density of its defects (N,), and its gradients with respect to z (N, M) and starts (N, R, S-1, nx)."""
        simulation = _Simulation(self, z, starts)
        log_p, weights = self._joint(simulation)
        pulled = -simulation.defects * weights[:, :, None, None]
        (grad,), (grad_starts,) = simulation.reverse([(weights, pulled)])
        return log_p, grad, grad_starts

    def _joint(self, simulation):
        d = simulation.defects
        log_def = -0.5 * np.einsum("nrsi,nrsi->nr", d, d) + self._log_norm_def
        return simulation.masked(*self._combined(simulation.log_obs + log_def))

    def _combined(self, log_p):
        """Log density (N,) of the set from that of each trajectory (N, R), and its gradient with respect to those."""
        if self.combine == "product":
            return log_p.sum(axis=1), np.ones_like(log_p)
        total = logsumexp(log_p, axis=1)
        with np.errstate(invalid="ignore"):
            return total - np.log(log_p.shape[1]), np.exp(log_p - total[:, None])

    def extended(self, reach: float = REACH) -> ExtendedShooting:
        """The density over theta and the shooting states, for samplers that know no constraints."""
        return ExtendedShooting(self, reach)

    # ---- for constrained methods --------------------------------------------------------------------------------

    def evaluate(self, z, starts=None, multipliers=None, damping: float = 1.0, form: str = "vector") -> Evaluation:
        """Likelihood without the density of defects; the defects; and what multipliers on them pull.

        Args:
            z: (N, M). starts: (N, R, S-1, nx), default 0.
            multipliers: lambda, (N, R, S-1, nx) for form "vector" with constraints g = d, (N, R, S-1) for form "squared"
                with g = |d|^2 (as printed in the source); default none.
            damping: c.
        """
        simulation = _Simulation(self, z, starts)
        log_p, weights = simulation.masked(*self._combined(simulation.log_obs))
        d = simulation.defects
        seeds = [(weights, np.zeros_like(d))]
        if multipliers is not None and d.size:
            seeds.append((np.zeros_like(weights), constraint_force(d, multipliers, damping, form)))
        grads, grads_starts = simulation.reverse(seeds)
        if len(grads) == 1:
            grads, grads_starts = [*grads, np.zeros_like(grads[0])], [*grads_starts, np.zeros_like(d)]
        return Evaluation(log_p, grads[0], grads_starts[0], d, grads[1], grads_starts[1])


class SingleShooting(MultipleShooting):
    """p_ss (Eqs. 4.2-4.4): one roll-out per trajectory from its measured first state."""

    def __init__(self, dynamics, parameters, trajectories, sigma_obs=0.2, combine="sum", loss="gaussian", observe=None, scale=None):
        super().__init__(dynamics, parameters, trajectories, 1, sigma_obs, combine=combine, loss=loss, observe=observe, scale=scale)


def constraint_force(d, multipliers, damping: float, form: str) -> np.ndarray:
    """(lambda + c g) dg/dd of defects d (N, R, S-1, nx): g = d for form "vector", |d|^2 for "squared"."""
    if form == "vector":
        return multipliers + damping * d
    if form == "squared":
        return 2 * d * (multipliers + damping * np.einsum("nrsi,nrsi->nrs", d, d))[..., None]
    raise ValueError(f"form: expected 'vector' or 'squared', found '{form}'")


class _Simulation:
    """One batched roll-out of a likelihood: residuals and defects, and gradients from one reverse sweep."""

    def __init__(self, shooting: MultipleShooting, z, starts):
        self.shooting = s = shooting
        z = s.checked(z)
        R, S = s._start.shape[:2]
        self.x0 = s._start
        usable = np.isfinite(z).all(axis=1)
        if starts is not None and S > 1:
            usable &= np.isfinite(starts).all(axis=(1, 2, 3))
            self.x0 = np.broadcast_to(s._start, (len(z), *s._start.shape)).copy()
            self.x0[:, :, 1:] += np.where(usable[:, None, None, None], starts, 0.0) * s.state_scale
        # The centre of the limits stands in for what cannot be simulated at all.
        self.theta = s.theta(np.where(usable[:, None], z, 0.5))
        self.p = s.parameters.to_physical(self.theta)
        N = len(z)
        self.X = s.dynamics.rollout(self.x0, s._controls, self.p[:, None, None, :])
        with np.errstate(over="ignore", invalid="ignore"):
            y = self.X if s._h is None else s._h(self.X, self.p[:, None, None, None, :])
            self.E = (y - s._y) * s._per_sigma
            self.E[..., 0, :] = 0.0  # a window's start is no prediction
            if s.loss == "huber":
                inner = np.clip(self.E, -HUBER, HUBER)
                self.log_obs = -np.einsum("nrsti,nrsti->nr", inner, self.E - 0.5 * inner)
                self.E = inner
            else:
                self.log_obs = -0.5 * np.einsum("nrsti,nrsti->nr", self.E, self.E)
            self.log_obs += s._log_norm_obs
            starts_at = self.x0[..., 1:, :]
            self.defects = (starts_at - self.X[:, :, :-1, -1]) / (s.state_scale * s.sigma_def)
        self.finite = usable & np.isfinite(self.log_obs).all(axis=1) & np.isfinite(self.defects).all(axis=(1, 2, 3))
        if not self.finite.all():
            self.defects[~self.finite] = 0.0
            s.not_finite += N - int(self.finite.sum())

    def masked(self, log_p, weights):
        """The same with -inf and 0 where the simulation is not finite."""
        if self.finite.all():
            return log_p, weights
        return np.where(self.finite, log_p, -np.inf), np.where(self.finite[:, None], weights, 0.0)

    def reverse(self, seeds):
        """Gradients from one sweep for all seeds (dL/d log_obs (N, R), dL/d defects (N, R, S-1, nx)).

        Returns:
            for every seed dL/dz (N, M); for every seed dL/d starts (N, R, S-1, nx).
        """
        s, X = self.shooting, self.X
        observed_p = None
        Xbar = np.empty((len(seeds), *X.shape))
        with np.errstate(over="ignore", invalid="ignore"):
            for k, (weights, dbar) in enumerate(seeds):
                if s._h is None:
                    np.multiply(self.E, -weights[:, :, None, None, None] * s._per_sigma, out=Xbar[k])
                else:
                    ybar = -self.E * weights[:, :, None, None, None] * s._per_sigma
                    Xbar[k], few = s._h.pullback(X, self.p[:, None, None, None, :], ybar)
                    observed_p = observed_p or []
                    observed_p.append(few.sum(axis=(1, 2, 3)))
                Xbar[k, :, :, :-1, -1] -= dbar / (s.state_scale * s.sigma_def)
        x0bar, _, pbar = s.dynamics.rollout_vjp(self.x0, s._controls, self.p[:, None, None, :], X, Xbar)
        pbar = pbar.sum(axis=(2, 3))
        if observed_p is not None:
            for k, few in enumerate(observed_p):
                pbar[k][:, s._h.entries] += few
        grad = s.parameters.pullback(self.theta, pbar) * s.width
        grad_starts = x0bar[:, :, :, 1:] * s.state_scale
        for k, (_, dbar) in enumerate(seeds):
            grad_starts[k] += dbar / s.sigma_def
        if not self.finite.all():
            grad[:, ~self.finite], grad_starts[:, ~self.finite] = 0.0, 0.0
        return grad, grad_starts


class ExtendedShooting(Box):
    """log p_ms over theta and all shooting states, the latter within +- reach standard deviations of the measured ones."""

    def __init__(self, shooting: MultipleShooting, reach: float):
        self._shooting, self._reach = shooting, float(reach)
        R, S1, nx = shooting.starts_shape
        middle, spread = shooting._start[:, 1:].ravel(), np.tile(reach * shooting.state_scale, R * S1)
        names = [f"trajectory{r + 1}.window{s + 2}.x{i + 1}" for r in range(R) for s in range(S1) for i in range(nx)]
        super().__init__(
            (*shooting.names, *names), np.r_[shooting.lower, middle - spread], np.r_[shooting.upper, middle + spread]
        )

    not_finite = property(lambda self: self._shooting.not_finite)

    def _split(self, z):
        z, M = self.checked(z), self._shooting.n
        return z[:, :M], ((2 * z[:, M:] - 1) * self._reach).reshape(len(z), *self._shooting.starts_shape)

    def log_p(self, z):
        return self._shooting.log_p(*self._split(z))

    def log_p_and_grad(self, z):
        log_p, grad, grad_starts = self._shooting.joint(*self._split(z))
        return log_p, np.hstack([grad, 2 * self._reach * grad_starts.reshape(len(z), -1)])
