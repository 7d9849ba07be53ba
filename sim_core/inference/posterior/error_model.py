"""How wrong the simulator is, fitted with what it is asked for: noise, process and discrepancy of a recording.

A recording is x = X(z, what the simulator lacks) + noise. What it lacks are joint forces (`joint_causes`) of unknown sizes,
pushes at every step that nobody explains (process), and first states that were measured with noise. They are
linear about a roll-out, so that all of them are integrated out in closed form; their sizes are drawn from their own posterior.

    model = ErrorModel.fitted(density, z)        # at the best z there is
    posterior = model.density()                  # over z, for any sampler

Source: Kennedy & O'Hagan, "Bayesian calibration of computer models", JRSS B 63(3), 2001.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import logsumexp

from sim_core.inference.data.density import Box
from sim_core.inference.posterior.error_sizes import FIRST_STATES, SIZES, LinearRecording, drawn_sizes, likely_sizes
from sim_core.inference.shooting.joint_causes import JointCauses, held_inertias
from sim_core.inference.shooting.likelihood import MultipleShooting
from sim_core.multibody.rollout.rollout import Dynamics

__all__ = ["DELAY", "Discrepant", "ErrorModel"]

LARGE, NEGLIGIBLE = 0.5, 0.3  # a direction that moves a recording by less [sigma in all] at a large size is left out
# How often it is linearised, each time at the best z of the one before: by the noise assumed, and by that recorded, which may be a hundredth
# of it and of what a linearisation is good for. Draws of the sizes.
COARSE, FINE, DRAWS = 3, 3, 8
QUIETEST = 1e-6  # of the noise assumed in a state, whatever a recording without any says
DELAY = 0.1  # of the sensors, of size 1 [s]
MOST = 40  # samples of a trajectory; of more, neighbours are averaged, over which errors hardly change
INSIDE = 1e-3  # of the limits' range, by which draws keep away from them


@dataclass(frozen=True)
class ErrorModel:
    """What a recording says of the errors of a simulator.

    Attributes:
        likelihood: whose z, recordings and assumed noise are meant. sizes (B, len(SIZES)): draws of their posterior.
        evidence (B,): log density of the recording by each.
        unit (nx,): of the noise in each state. starts (R, nx): likeliest first states, from which everything is rolled out. added (R, D): what those do to the recording, by which
            it is held against first states as they were measured.
    """

    likelihood: MultipleShooting
    linear: LinearRecording
    unit: np.ndarray
    starts: np.ndarray
    added: np.ndarray
    sizes: np.ndarray
    evidence: np.ndarray

    @staticmethod
    def fitted(likelihood: MultipleShooting, z: np.ndarray, seed: int = 0, progress: Any = None) -> ErrorModel:
        """Sizes from the recordings of a likelihood.

        Args:
            likelihood: of whole roll-outs of one robot (one window, combine="product", states as observations).
            z: where to linearise first (M,), the best there is.

        Raises:
            ValueError: a likelihood of another form, a robot with balls or free joints, or a z that does not roll out.
        """
        causes = _causes(likelihood)
        z = np.clip(np.asarray(z, dtype=float), 0.0, 1.0)
        if not np.isfinite(likelihood.log_p(z[None])[0]):
            raise ValueError(
                "no particle rolls out to finite states, so that nothing tells what the simulator has wrong; expected limits between "
                "which the robot's motion is finite"
            )
        modes, units = (
            np.empty((0, len(SIZES))),
            (*COARSE * [1.0 / likelihood.recorded.per_sigma], *FINE * [_noise(likelihood)]),
        )
        starts = likelihood.trajectories.x[:, 0]
        stage = progress.stage("errors of the simulator", total=len(units)) if progress else None
        for again, unit in enumerate(units):
            linear, added = _linearised(likelihood, causes, z, starts, unit)
            modes = likely_sizes(linear, None if again in (0, COARSE) else modes, seed)
            best = 10.0 ** modes[0]
            further = np.clip(linear.marginal(best)[1], 0.0, 1.0)
            if stage:
                stage.advance()
            if again < len(units) - 1 and np.isfinite(likelihood.log_p(further[None])[0]):
                first = linear.causes(best)[linear.kind == FIRST_STATES].reshape(starts.shape)
                z, starts = further, likelihood.trajectories.x[:, 0] + first * likelihood.state_scale
        if stage:
            stage.close()
        draws = drawn_sizes(linear, modes, DRAWS, np.random.default_rng(seed))
        evidence = np.array([linear.marginal(each)[0] for each in draws])
        return ErrorModel(likelihood, linear, unit, starts, added, draws, evidence)

    def density(self) -> Discrepant:
        """The likelihood of z with the errors integrated out."""
        return Discrepant(self)

    def drawn(self, count: int, seed: int = 0) -> np.ndarray:
        """Draws z (count, M) as far as all is linear, moved between the limits: where an ensemble for `density` may start."""
        rng, M = np.random.default_rng(seed), len(self.linear.z)
        found = []
        for sizes in self.sizes[rng.integers(len(self.sizes), size=count)]:
            _, mean, L = self.linear.marginal(sizes)
            found.append(mean + np.linalg.solve(L.T, rng.standard_normal(len(L)))[:M])
        edge = INSIDE * rng.uniform(0.5, 1.5, (count, M))
        return np.clip(found, edge, 1.0 - edge)

    def spread(self, likelihood: MultipleShooting) -> np.ndarray:
        """Standard deviation (R, T, nx) of other recordings about a prediction, in units of their likelihood's scale: noise, and
        what the errors may do to a roll-out."""
        causes, first = _causes(likelihood), likelihood.trajectories.x[:, 0]
        linear, _ = _linearised(likelihood, causes, self.linear.z, first, self.unit)
        data, nx = likelihood.trajectories, likelihood.dynamics.nx
        count = _counts(data.steps)
        unrotated = linear.basis @ linear.effects
        variance = np.zeros((data.count, len(count), nx))
        for sizes in self.sizes:
            process = sizes[1] ** 2 * np.einsum("rde,re->rd", linear.basis**2, linear.spread)
            errors = process + np.square(unrotated * sizes[linear.kind]).sum(axis=-1)
            # Averaged samples hold an error as often as there are of them, and white noise once.
            variance += sizes[0] ** 2 + errors.reshape(variance.shape) / count[:, None]
        wide = np.repeat(np.sqrt(variance / len(self.sizes)), count, axis=1)
        return wide * self.unit / likelihood.scale


class Discrepant(Box):
    """Log density of z by whole roll-outs, causes integrated out, averaged over draws of their sizes.

    Only what causes do is linear, about one trajectory; what z does is simulated.
    """

    def __init__(self, model: ErrorModel) -> None:
        likelihood = model.likelihood
        super().__init__(likelihood.names, likelihood.lower, likelihood.upper)
        self.model, self.parameters, self.not_finite = model, likelihood.parameters, 0
        self._nx = likelihood.dynamics.nx
        linear = model.linear
        R, D = linear.residual.shape
        self._parts: list[tuple[float, np.ndarray, np.ndarray]] = []
        for sizes, evidence in zip(model.sizes, model.evidence):
            w, J = linear.weight(sizes).ravel(), (linear.effects * sizes[linear.kind]).reshape(R * D, -1)
            L = np.linalg.cholesky(np.eye(J.shape[1]) + J.T @ (w[:, None] * J))
            folded = solve_triangular(L, (w[:, None] * J).T, lower=True)
            self._parts.append((0.5 * np.log(w).sum() - np.log(np.diag(L)).sum() - evidence, w, folded))

    def log_p(self, z: np.ndarray) -> np.ndarray:
        return self._evaluated(np.atleast_2d(z), gradient=False)[0]

    def log_p_and_grad(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self._evaluated(np.atleast_2d(z), gradient=True)

    def _evaluated(self, z: np.ndarray, gradient: bool) -> tuple[np.ndarray, np.ndarray]:
        like, linear = self.model.likelihood, self.model.linear
        x0, U, unit = self.model.starts, like.trajectories.u, self.model.unit
        theta = like.theta(z)
        p = like.parameters.to_physical(theta)[:, None, :]
        X = like.dynamics.rollout(x0, U, p)
        with np.errstate(over="ignore", invalid="ignore"):
            residual = (like.trajectories.x - X)[:, :, 1:] / unit
        good = np.isfinite(residual).all(axis=(1, 2, 3)) & (
            np.abs(np.where(np.isfinite(residual), residual, 0)) < 1e9
        ).all(axis=(1, 2, 3))
        self.not_finite += int((~good).sum())
        R, D = linear.residual.shape
        each_r = np.where(good[:, None, None, None], residual, 0.0).reshape(len(z) * R, *residual.shape[2:])
        flat = _averaged(each_r).reshape(len(z), R, D)
        r = np.matmul(flat.transpose(1, 0, 2), linear.basis).transpose(1, 0, 2).reshape(len(z), R * D)
        r += self.model.added.ravel()
        each = np.empty((len(self._parts), len(z)))
        pulls = []
        for k, (constant, w, folded) in enumerate(self._parts):
            inner = r @ folded.T
            each[k] = constant - 0.5 * ((r**2) @ w - (inner**2).sum(axis=1))
            pulls.append(inner)
        log_p = np.where(good, logsumexp(each, axis=0) - np.log(len(each)), -np.inf)
        if not gradient:
            return log_p, np.zeros_like(z)
        share = np.exp(each - logsumexp(each, axis=0))
        alpha = sum(
            s[:, None] * (r * w - inner @ folded) for s, (_, w, folded), inner in zip(share, self._parts, pulls)
        )
        turned = np.matmul(alpha.reshape(len(z), R, D).transpose(1, 0, 2), linear.basis.transpose(0, 2, 1))
        back = _spread_out(turned.transpose(1, 0, 2).reshape(len(z) * R, -1, self._nx), residual.shape[2]).reshape(
            residual.shape
        )
        Xbar = np.zeros_like(X)
        Xbar[:, :, 1:] = back / unit
        safe = np.where(good[:, None, None, None], X, 0.0)
        pbar = like.dynamics.rollout_vjp(x0, U, p, safe, Xbar)[2].sum(axis=1)
        grad = like.parameters.pullback(theta, pbar) * self.width
        return log_p, np.where(good[:, None] & np.isfinite(grad), grad, 0.0)


def _causes(likelihood: MultipleShooting) -> JointCauses:
    """The causes of a likelihood's simulator.

    Raises:
        ValueError: a likelihood that an error model is not made for.
    """
    if likelihood.windows != 1 or likelihood.combine != "product" or likelihood.observe is not None:
        raise ValueError(
            "an error model takes whole roll-outs of one robot: windows=1, combine='product', no observation map"
        )
    if not isinstance(likelihood.dynamics, Dynamics):
        raise ValueError(f"an error model takes rigid bodies (Dynamics), found {likelihood.dynamics.name}")
    return JointCauses(likelihood.dynamics)


def _noise(likelihood: MultipleShooting) -> np.ndarray:
    """What counts as one unit of noise in each state (nx,): as likely as assumed over all, among each other as the recording has it.

    Encoders are far better than what velocities are made of, so that one share of each state's motion fits neither. Fourth differences
    leave noise and hardly any motion.
    """
    assumed = 1.0 / likelihood.recorded.per_sigma
    rough = np.diff(likelihood.trajectories.x, n=4, axis=1)
    if not rough.size:
        return assumed
    share = np.maximum(np.sqrt(np.mean(rough**2, axis=(0, 1)) / 70.0) / assumed, QUIETEST)
    return assumed * share / np.exp(np.log(share).mean())


def _linearised(
    likelihood: MultipleShooting, causes: JointCauses, z: np.ndarray, starts: np.ndarray, unit: np.ndarray
) -> tuple[LinearRecording, np.ndarray]:
    """Linearised at z and first states (R, nx); and what the latter's distance from those measured does to the recording (R, D)."""
    dynamics, data = causes.dynamics, likelihood.trajectories
    R, nx = data.count, dynamics.nx
    theta = likelihood.theta(z)
    p = likelihood.parameters.to_physical(theta)
    jacobian = _jacobian(likelihood, theta)
    X, S = dynamics.rollout_sensitivity(starts, data.u, p, jacobian * likelihood.width)

    def seen(change: np.ndarray) -> np.ndarray:
        """Of changes (R, T+1, nx, K) of the states what a recording shows, (R, D, K)."""
        seen = _averaged(change[:, 1:] / unit[:, None])
        return seen.reshape(len(change), seen.shape[1] * nx, change.shape[-1])

    effects, kinds = [], []
    for kind, force in causes.forces(p, X[:, :-1], data.u, held_inertias(causes.model, jacobian)).items():
        effect = _condensed(seen(causes.response(p, X, data.u, force)))
        effects.append(effect)
        kinds += effect.shape[-1] * [SIZES.index(kind)]
    effects.append(seen(-DELAY * np.gradient(X, dynamics.dt, axis=1)[..., None]))
    kinds += [SIZES.index("delay")]
    by_start = seen(S[..., :nx] * likelihood.state_scale)
    for r in range(R):
        own = np.zeros_like(by_start)
        own[r] = by_start[r]
        effects.append(own)
        kinds += nx * [FIRST_STATES]
    slope = seen(S[..., nx:])
    residual = seen((data.x - X)[..., None])
    variance, basis = _process(causes, p, X, data.u, seen)
    turn = basis.transpose(0, 2, 1)
    moved = (starts - data.x[:, 0]) / likelihood.state_scale
    added = (turn @ (by_start @ moved[..., None]))[..., 0]
    linear = LinearRecording(
        z,
        basis,
        variance,
        (turn @ residual)[..., 0] + added,
        turn @ slope,
        turn @ np.concatenate(effects, axis=-1),
        np.array(kinds),
    )
    return linear, added


def _counts(T: int) -> np.ndarray:
    """How many of T samples are averaged to each of at most MOST."""
    return np.diff(np.linspace(0, T, min(T, MOST) + 1).astype(int))


def _averaged(a: np.ndarray) -> np.ndarray:
    """(R, T', ...) of (R, T, ...): sums of neighbours over the root of their number, so that white noise stays as large."""
    count = _counts(a.shape[1])
    return np.add.reduceat(a, np.cumsum(count) - count, axis=1) / np.sqrt(count).reshape(-1, *(a.ndim - 2) * [1])


def _spread_out(a: np.ndarray, T: int) -> np.ndarray:
    """The transpose of `_averaged`: (R, T, ...) of (R, T', ...)."""
    count = _counts(T)
    return np.repeat(a / np.sqrt(count).reshape(-1, *(a.ndim - 2) * [1]), count, axis=1)


def _condensed(effect: np.ndarray) -> np.ndarray:
    """Fewer columns (R, D, K') with the same outer product, but for what nobody would see."""
    R, D, K = effect.shape
    if not K:
        return effect
    U, s, _ = np.linalg.svd(effect.reshape(R * D, K), full_matrices=False)
    keep = LARGE * s > NEGLIGIBLE
    return (U[:, keep] * s[keep]).reshape(R, D, -1)


def _jacobian(likelihood: MultipleShooting, theta: np.ndarray) -> np.ndarray:
    """d p / d theta (np_, M)."""
    unit = np.eye(likelihood.dynamics.np_)
    return likelihood.parameters.pullback(np.broadcast_to(theta, (len(unit), len(theta))), unit)


def _process(
    causes: JointCauses, p: np.ndarray, X: np.ndarray, U: np.ndarray, seen: Callable[[np.ndarray], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Variances (R, D) and directions (R, D, D) of what joint forces of the size of the load do to a trajectory, that are others
    from sample to sample."""
    (R, T), nv = U.shape[:2], causes.model.nv
    load = causes.load(p, X[:, :-1], U)
    sample = np.repeat(np.arange(len(_counts(T))), _counts(T))
    kicks = np.zeros((1, T, nv, sample[-1] + 1, nv))
    kicks[0, np.arange(T), :, sample, :] = np.diag(load)
    found = []
    for r in range(R):
        effect = seen(causes.response(p, X[r : r + 1], U[r : r + 1], kicks.reshape(1, T, nv, -1)))[0]
        found.append(np.linalg.eigh(effect @ effect.T))
    return np.maximum([values for values, _ in found], 0.0), np.array([vectors for _, vectors in found])
