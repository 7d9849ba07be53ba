"""Log likelihood of recorded trajectories under a simulator, and its exact gradient, for many particles at once.

All particles x trajectories x windows are simulated and differentiated in one call: of a compiled kernel
(`shooting_kernel.py`) where the simulator's step is a CasADi graph, of batched numpy (`system_shooting.py`) for any other
System. Observations and states count in units of their standard deviation
over the recording, parameters in units of their limits (z in [0, 1]).

    density = MultipleShooting(Dynamics(model), LimitedParameters(model, limits), trajectories, windows=10)
    log_p, grad = density.log_p_and_grad(z)          # z (N, M)

Sources: thesis Eqs. 4.2-4.6; Huber, "Robust estimation of a location parameter", 1964, for the loss.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import casadi as ca
import numpy as np

from sim_core.inference.data.density import Box
from sim_core.inference.data.trajectories import Trajectories, standard_deviation
from sim_core.inference.shooting.curvature import Curvature, ShootingCurvature
from sim_core.inference.shooting.recorded import Recorded, pull
from sim_core.inference.shooting.shooting_kernel import ShootingKernel
from sim_core.inference.shooting.system_shooting import SystemShooting
from sim_core.multibody.rollout.rollout import Dynamics
from sim_core.system import Observation, System, is_compiled

__all__ = ["Evaluation", "ExtendedShooting", "MultipleShooting", "SingleShooting"]

DIVERGED = 1e30  # misfits and defects beyond are on their way to infinity, and their gradients overflow before them
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


class MultipleShooting(Box):
    """p_ms (Eq. 4.6): each trajectory as S windows with start states of their own, joined by Gaussian defects.

    The first window starts at the measured state, the others at the measured state plus `starts` (N, R, S-1, nx), in units
    of the state's scale. `log_p` and `log_p_and_grad` leave them at the measured states.

    Args:
        dynamics: System with the recording's period. Where it is compiled (Dynamics) so is the likelihood.
        parameters: names, lower, upper, n, to_physical, pullback (ParameterBox, LimitedParameters); for the compiled kernel
            an `expression` instead of the last two (LimitedParameters, FreeParameters).
        trajectories: Trajectories; up to S - 1 steps at their ends are left out.
        windows: S; 1 is single shooting.
        sigma_obs: noise of the observations in units of `scale`; a number, or one per observation.
        sigma_def: spread of the defects, in units of the states' standard deviation.
        combine: "sum", an equally weighted mixture over trajectories (Eq. 4.4), or "product" (Eq. A.2).
        loss: "gaussian", or "huber" with its knee at 1.345 sigma_obs (normalised like the Gaussian).
        observe: CasADi function y = h(x) or h(x, p), or for a System that is not compiled an Observation; default the state.
            Held against `trajectories.y`, or where that is missing, against h of the measured states under the nominal
            parameters.
        scale: units of the observations (ny,); default their standard deviation.
        state_scale: units of the states (nx,), in which defects are measured and shooting states move; default their standard
            deviation, which is too small for joints that were meant to stand still.
        device: "cpu", "cuda" or "auto", see ShootingKernel; a System that is not compiled chooses its own.

    Attributes:
        recorded: the data as the kernel takes them; trajectories, starts_shape (R, S-1, nx); state_scale (nx,); not_finite: particles
            masked so far. observe; measured: observations (R, T+1, ny) it is held against, in their own units; scale (ny,).

    Raises:
        ValueError: what does not fit together, in one sentence.
    """

    def __init__(
        self,
        dynamics: System,
        parameters: Any,
        trajectories: Trajectories,
        windows: int = 10,
        sigma_obs: float | Sequence[float] = 0.2,
        sigma_def: float = 0.1,
        combine: str = "sum",
        loss: str = "gaussian",
        observe: ca.Function | Observation | None = None,
        scale: Sequence[float] | np.ndarray | None = None,
        state_scale: Sequence[float] | np.ndarray | None = None,
        device: str = "cpu",
    ) -> None:
        super().__init__(parameters.names, parameters.lower, parameters.upper)
        if combine not in ("sum", "product"):
            raise ValueError(f"combine: expected 'sum' or 'product', found '{combine}'")
        if loss not in ("gaussian", "huber"):
            raise ValueError(f"loss: expected 'gaussian' or 'huber', found '{loss}'")
        if not np.isclose(dynamics.dt, trajectories.dt, rtol=1e-6):
            raise ValueError(
                f"expected trajectories every {dynamics.dt} s as the dynamics, found {trajectories.dt} s; resample them"
            )
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
        self.state_scale = trajectories.scale if state_scale is None else np.asarray(state_scale, dtype=float)
        if self.state_scale.shape != (nx,) or not (self.state_scale > 0).all():
            raise ValueError(f"state_scale: expected {nx} numbers > 0, found {state_scale}")
        y, all_y = self._measured(cut, observe), self._measured(trajectories, observe)
        self.scale = standard_deviation(all_y) if scale is None else np.asarray(scale, dtype=float)
        sigma = self.scale * sigma_obs
        if sigma.shape != y.shape[-1:] or not (sigma > 0).all() or not sigma_def > 0:
            raise ValueError(
                f"scale and sigma: expected {y.shape[-1]} numbers > 0, found {sigma} and sigma_def {sigma_def}"
            )
        self.recorded = Recorded(
            S, cut.x[:, 0], cut.u, y, 1.0 / sigma, self.state_scale, 1.0 / (self.state_scale * self.sigma_def)
        )
        self.observe: Any = observe
        self.measured = all_y
        self._curvature: ShootingCurvature | None = None
        self.kernel = self._kernel(loss, device)
        # Densities are over normalised observations and states.
        self._log_norm_obs = -S * cut.steps * np.log(np.sqrt(2 * np.pi) * sigma / self.scale).sum()
        self._log_norm_def = -(S - 1) * nx * np.log(np.sqrt(2 * np.pi) * self.sigma_def)
        self.not_finite = 0

    def _kernel(self, loss: str, device: str) -> ShootingKernel | SystemShooting:
        compiled = is_compiled(self.dynamics) and hasattr(self.parameters, "expression")
        if self.observe is not None and isinstance(self.observe, ca.Function) != compiled:
            raise ValueError(
                f"observe: expected {'a CasADi function' if compiled else 'an Observation (sim_core/system.py)'} for "
                f"{self.dynamics.name}, found {type(self.observe).__name__}"
            )
        if compiled:
            return ShootingKernel(
                cast(Dynamics, self.dynamics), self.parameters, self.recorded, self.observe, loss, device
            )
        if device == "cuda":
            raise ValueError(f"device 'cuda' needs a step that is a CasADi graph, and {self.dynamics.name} has none")
        return SystemShooting(self.dynamics, self.parameters, self.recorded, self.observe, loss)

    def _measured(self, trajectories: Trajectories, observe: ca.Function | Observation | None) -> np.ndarray:
        if trajectories.y is not None and observe is not None:
            return trajectories.y
        if observe is not None and not isinstance(observe, ca.Function):
            return observe(
                trajectories.x, np.broadcast_to(self.dynamics.nominal, (*trajectories.x.shape[:2], self.dynamics.np_))
            )
        x = trajectories.x.reshape(-1, trajectories.x.shape[2]).T
        p = ca.DM(self.dynamics.nominal) if observe is not None else ca.DM()
        y = trajectories.x if observe is None else observe(*(x, p)[: observe.n_in()]).full().T
        return y.reshape(*trajectories.x.shape[:2], -1)

    # ---- as a density over theta --------------------------------------------------------------------------------

    def log_p(self, z: np.ndarray, starts: np.ndarray | None = None) -> np.ndarray:
        simulation = _Simulation(self, z, starts, gradient=False)
        return simulation.masked(self._combined(simulation.log_obs + self._log_def(simulation.defects))[0])[0]

    def log_p_and_grad(self, z: np.ndarray, starts: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        log_p, grad, _ = self.joint(z, starts)
        return log_p, grad

    def joint(self, z: np.ndarray, starts: np.ndarray | None = None) -> tuple[np.ndarray, ...]:
        """log p_ms with the density of its defects (N,), and its gradients with respect to z (N, M) and starts (N, R, S-1, nx)."""
        simulation = _Simulation(self, z, starts)
        d = simulation.defects
        log_p, weights = self._combined(simulation.log_obs + self._log_def(d))
        grad, grad_starts = simulation.gradient(0, -weights)
        return simulation.masked(log_p, grad, grad_starts - d * weights[:, :, None, None] / self.sigma_def)

    def _log_def(self, d: np.ndarray) -> np.ndarray:
        """Log density (N, R) of the defects (N, R, S-1, nx)."""
        return self._log_norm_def - 0.5 * np.einsum("nrsi,nrsi->nr", d, d)

    def _combined(self, log_p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log density (N,) of the set from that of each trajectory (N, R), and its gradient with respect to those."""
        if self.combine == "product" or log_p.shape[1] == 1:
            return log_p.sum(axis=1), np.ones_like(log_p)
        highest = np.where(np.isfinite(log_p), log_p, -1e300).max(axis=1, keepdims=True)
        share = np.exp(log_p - highest)
        total = share.sum(axis=1, keepdims=True)
        return (highest + np.log(total / log_p.shape[1]))[:, 0], share / total

    def extended(self, reach: float = REACH) -> ExtendedShooting:
        """The density over theta and the shooting states, for samplers that know no constraints."""
        return ExtendedShooting(self, reach)

    # ---- for constrained methods --------------------------------------------------------------------------------

    def evaluate(
        self,
        z: np.ndarray,
        starts: np.ndarray | None = None,
        multipliers: np.ndarray | None = None,
        damping: float = 1.0,
        form: str = "vector",
    ) -> Evaluation:
        """Likelihood without the density of defects; the defects; and what multipliers on them pull.

        Args:
            z: (N, M). starts: (N, R, S-1, nx), default 0.
            multipliers: lambda, (N, R, S-1, nx) for form "vector" with constraints g = d, (N, R, S-1) for form "squared"
                with g = |d|^2 (as printed in the source); default none.
            damping: c.
        """
        if multipliers is not None and form == "squared":
            multipliers = multipliers[..., None]
        pulled = multipliers is not None and self.windows > 1
        options = {"multipliers": multipliers, "damping": damping} if pulled else {"damping": 0.0}
        simulation = _Simulation(self, z, starts, form=form, separate=pulled, **options)
        log_p, weights = self._combined(simulation.log_obs)
        grad, grad_starts = simulation.gradient(0, -weights)
        if not pulled:
            penalty_grad, penalty_grad_starts = np.zeros_like(grad), np.zeros_like(grad_starts)
        else:
            penalty_grad, penalty_grad_starts = simulation.gradient(1)
            penalty_grad_starts = (
                penalty_grad_starts + pull(simulation.defects, multipliers, damping, form) / self.sigma_def
            )
        return Evaluation(
            *simulation.masked(log_p, grad, grad_starts, simulation.defects, penalty_grad, penalty_grad_starts)
        )

    def curvature(self, z: np.ndarray, starts: np.ndarray | None = None, damping: float = 1.0) -> Curvature:
        """Gauss-Newton curvature of -log p_obs + damping / 2 |d|^2 at z (N, M) and starts (N, R, S-1, nx), default 0.

        In a mixture each trajectory counts with its share of the density; beyond Huber's knee a residual counts as in
        iterated least squares.
        """
        if self._curvature is None:
            self._curvature = ShootingCurvature(self)
        z, (R, S1, nx) = self.checked(z), self.starts_shape
        at = np.broadcast_to(self.recorded.start, (len(z), *self.recorded.start.shape)).copy()
        if starts is not None:
            at.reshape(len(z), R, S1 + 1, nx)[:, :, 1:] += starts * self.state_scale
        return self._curvature(z, at, damping)


class SingleShooting(MultipleShooting):
    """p_ss (Eqs. 4.2-4.4): one roll-out per trajectory from its measured first state."""

    def __init__(
        self,
        dynamics: System,
        parameters: Any,
        trajectories: Trajectories,
        sigma_obs: float | Sequence[float] = 0.2,
        combine: str = "sum",
        loss: str = "gaussian",
        observe: ca.Function | Observation | None = None,
        scale: Sequence[float] | np.ndarray | None = None,
        device: str = "cpu",
    ) -> None:
        super().__init__(
            dynamics,
            parameters,
            trajectories,
            1,
            sigma_obs,
            combine=combine,
            loss=loss,
            observe=observe,
            scale=scale,
            device=device,
        )


class _Simulation:
    """One call of the kernel for N particles, in the likelihood's units; what is not finite is found and counted."""

    def __init__(self, shooting: MultipleShooting, z: np.ndarray, starts: np.ndarray | None, **options: Any) -> None:
        z = shooting.checked(z)
        # The centre of the limits stands in for what cannot be simulated at all.
        usable = np.isfinite(z).all(axis=1)
        theta = shooting.theta(z if usable.all() else np.where(usable[:, None], z, 0.5))
        self._shooting = shooting
        misfit, self.defects, self._offsetbar, self._thetabar = shooting.kernel(theta, starts, **options)
        self.log_obs = shooting._log_norm_obs - misfit
        with np.errstate(invalid="ignore", over="ignore"):
            far = misfit.sum(axis=1)
            if self.defects.size:
                far = far + np.abs(self.defects).reshape(len(z), -1).sum(axis=1)
        self.finite = usable & (far < DIVERGED)
        if not self.finite.all():
            self.defects = np.where(self.finite[:, None, None, None], self.defects, 0.0)

    def masked(self, log_p: np.ndarray, *gradients: np.ndarray) -> tuple[np.ndarray, ...]:
        """The same with -inf and 0 for particles of which anything is not finite; these are counted."""
        finite = self.finite
        with np.errstate(over="ignore", invalid="ignore"):
            # A sum is the cheapest look at every element; only a suspicious one is looked at closely.
            if finite.all() and all(math.isfinite(np.add.reduce(g, axis=None)) for g in gradients):
                return log_p, *gradients
        for g in gradients:
            finite = finite & np.isfinite(g).reshape(len(g), -1).all(axis=1)
        if finite.all():
            return log_p, *gradients
        self._shooting.not_finite += int((~finite).sum())
        return np.where(finite, log_p, -np.inf), *(
            np.where(finite.reshape(-1, *(1,) * (g.ndim - 1)), g, 0.0) for g in gradients
        )

    def gradient(self, column: int, weights: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """d/dz (N, M) and d/d starts (N, R, S-1, nx) of what the kernel summed up in a column, trajectories weighted (N, R)."""
        with np.errstate(over="ignore", invalid="ignore"):
            thetabar, offsetbar = self._thetabar[..., column], self._offsetbar[..., column]
            if weights is not None:
                thetabar, offsetbar = thetabar * weights[:, :, None], offsetbar * weights[:, :, None, None]
            return thetabar.sum(axis=1) * self._shooting.width, offsetbar


class ExtendedShooting(Box):
    """log p_ms over theta and all shooting states, the latter within +- reach standard deviations of the measured ones."""

    def __init__(self, shooting: MultipleShooting, reach: float) -> None:
        self._shooting, self._reach = shooting, float(reach)
        R, S1, nx = shooting.starts_shape
        middle, spread = (
            shooting.recorded.start.reshape(R, S1 + 1, nx)[:, 1:].ravel(),
            np.tile(reach * shooting.state_scale, R * S1),
        )
        names = [f"trajectory{r + 1}.window{s + 2}.x{i + 1}" for r in range(R) for s in range(S1) for i in range(nx)]
        super().__init__(
            (*shooting.names, *names), np.r_[shooting.lower, middle - spread], np.r_[shooting.upper, middle + spread]
        )

    parameters = property(lambda self: self._shooting.parameters)
    not_finite = property(lambda self: self._shooting.not_finite)

    def _split(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        z, M = self.checked(z), self._shooting.n
        return z[:, :M], ((2 * z[:, M:] - 1) * self._reach).reshape(len(z), *self._shooting.starts_shape)

    def log_p(self, z: np.ndarray) -> np.ndarray:
        return self._shooting.log_p(*self._split(z))

    def log_p_and_grad(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        log_p, grad, grad_starts = self._shooting.joint(*self._split(z))
        return log_p, np.hstack([grad, 2 * self._reach * grad_starts.reshape(len(z), -1)])
