"""SVGD and CSVGD by Newton steps: particles that do not creep along the ridges of a posterior."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.spatial.distance import cdist

from sim_core.inference.samplers.checkpoint import Checkpoint
from sim_core.inference.samplers.sampler import Run, sobol
from sim_core.inference.samplers.stein import largest_norm, require_curvature, require_windows
from sim_core.inference.samplers.stein_newton import newton_system, shortened
from sim_core.inference.shooting.curvature import Curvature

__all__ = ["NewtonCSVGD", "NewtonSVGD"]

REACH = 0.1  # longest Newton step of a coordinate, in units of the limits
STARTS_REACH = 1.0  # longest move of a shooting state in one iteration, in its scale
SETTLING = 10  # iterations over which the median log density is watched


@dataclass(frozen=True)
class NewtonCSVGD:
    """Stein variational Newton steps on the Lagrangian that AdamCSVGD follows; shooting states are condensed.

    Each particle's Lagrangian has the Gauss-Newton matrix [[F_zz, F_zs], [F_sz, F_ss]] in z and its shooting states s, defects
    included. Eliminating s leaves a score g_z - F_zs F_ss^-1 g_s and a curvature F_zz - F_zs F_ss^-1 F_sz of z alone, with which
    `newton_system` moves the particle; s follows by F_ss^-1 (g_s - F_sz dz). Where defects vanish the score is that of
    single shooting, so that the kernel averages whole scores; the printed form averages the likelihood's part and adds
    each particle's own constraint forces.

    Attributes:
        step: share of a Newton step.
        refresh: iterations between two evaluations of the curvature.
        damping: c; stiff penalties do not shorten these steps, and multipliers settle fast with them.
        multiplier_step: eta; None: step times damping; 0: penalties alone.
        sigma_lim: unit of a limit's violation, share of its range.
        settled: ends once the median log density has changed by less than this [nat] in `SETTLING` iterations, for whoever lets
            Markov moves finish the particles: few that are lost elsewhere do not hold the others up. 0: all iterations.

    The trace has the columns of AdamCSVGD, and the `median` of log p.

    Raises:
        ValueError: damping that is not positive.
    """

    step: float = 0.5
    refresh: int = 1
    damping: float = 100.0
    multiplier_step: float | None = None
    sigma_lim: float = 1e-4
    settled: float = 0.0

    def __post_init__(self) -> None:
        if not self.damping > 0:
            raise ValueError(
                f"metric 'gauss-newton' needs damping > 0, found {self.damping}; use metric 'adam' for penalties of none"
            )

    def __call__(
        self, run: Run, iterations: int, checkpoint: str | Path | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Particles z (N, M) and their log densities (N,).

        Args:
            run: of a MultipleShooting density, or another with windows and a curvature.
            checkpoint: path of a file to go on from, and to leave when stopped.

        Raises:
            ValueError: a density without windows or curvature.
        """
        require_windows(run.density)
        require_curvature(run.density)
        z = sobol(run.samples, run.n, run.seed)
        starts = np.zeros((run.samples, *run.density.starts_shape))
        on_defects, on_limits = np.zeros_like(starts), np.zeros_like(z)
        eta = self.step * self.damping if self.multiplier_step is None else self.multiplier_step
        identity = {
            "method": "csvgd, gauss-newton",
            "samples": run.samples,
            "n": run.n,
            "seed": run.seed,
            "iterations": iterations,
            "step": self.step,
            "refresh": self.refresh,
            "multiplier_step": eta,
            "damping": self.damping,
            "sigma_lim": self.sigma_lim,
            "settled": self.settled,
            "starts": starts.shape,
        }
        file, first = Checkpoint(checkpoint, identity), 0
        if (resumed := file.load(run)) is not None:
            first, arrays = resumed
            z, starts, on_defects, on_limits = (arrays[name] for name in ("z", "starts", "on_defects", "on_limits"))
            curvature = _curvature(arrays)
        for i in run.iterate(iterations, "CSVGD", first):
            inside = np.clip(z, 0.0, 1.0)
            now = run.evaluate(inside, starts, on_defects, self.damping)
            if i % self.refresh == 0:
                curvature = run.curvature(inside, starts, self.damping)
            run.record(
                i,
                z,
                now.log_p,
                median=float(np.median(now.log_p)),
                defect=largest_norm(now.defects),
                violation=float(np.abs(inside - z).max()),
            )
            if self.settled and abs(run.risen("median", SETTLING)) < self.settled:
                break
            # The Lagrangian with the shooting states where they belong, as a function of theta alone: its gradient and curvature.
            force = now.grad_starts - now.penalty_grad_starts
            at, by = curvature.follow(force)
            score = now.grad - now.penalty_grad + np.einsum("nrkm,nrk->nm", by, force.reshape(at.shape))
            drive, Q = newton_system(z, score, curvature.condensed(by))
            full, decrement = limited_step(Q, drive, z, on_limits, self.damping, self.sigma_lim)
            lost = ~np.isfinite(now.log_p) | (np.einsum("nmm->n", curvature.theta) <= 0.0)
            if lost.any() and not lost.all():
                # Without a density, or about to lose it, there is no direction but to the nearest particle that is well.
                near = np.flatnonzero(~lost)[cdist(z[lost], z[~lost]).argmin(axis=1)]
                full[lost], at[lost] = z[near] - z[lost], (starts[near] - starts[lost]).reshape(at[lost].shape)
            # Multipliers of a particle rest while it has far to go: they would wind up against places it is about to leave.
            pace = eta / (1.0 + decrement + np.einsum("nrk,nrk->n", at, force.reshape(at.shape)))
            dz = self.step * shortened(full, REACH)
            ds = shortened(
                (self.step * at + np.einsum("nrkm,nm->nrk", by, dz)).reshape(at.shape[0] * at.shape[1], at.shape[2]),
                STARTS_REACH,
            )
            starts = starts + ds.reshape(starts.shape)
            on_limits = self.sigma_lim * limit_force(z, on_limits, pace[:, None], self.sigma_lim)
            on_defects = on_defects + pace[:, None, None, None] * now.defects
            z = z + dz
            if run.cancelled or file.due(i + 1):
                file.save(
                    run,
                    i + 1,
                    {"z": z, "starts": starts, "on_defects": on_defects, "on_limits": on_limits, **_arrays(curvature)},
                )
        z = np.clip(z, 0.0, 1.0)
        return z, run.evaluate(z, starts).log_p


@dataclass(frozen=True)
class NewtonSVGD:
    """SVGD by Newton steps, for a density that knows its curvature and has one window: NewtonCSVGD without defects.

    Attributes:
        step, refresh: see NewtonCSVGD.
    """

    step: float = 0.5
    refresh: int = 1

    def __call__(
        self, run: Run, iterations: int, checkpoint: str | Path | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """See NewtonCSVGD.

        Raises:
            ValueError: a density without curvature, or with several windows.
        """
        require_curvature(run.density)
        if run.density.windows > 1:
            raise ValueError(
                f"svgd with metric 'gauss-newton' needs one window, found {run.density.windows}; use csvgd"
            )
        return NewtonCSVGD(self.step, self.refresh)(run, iterations, checkpoint)


def limited_step(
    Q: np.ndarray,
    drive: np.ndarray,
    z: np.ndarray,
    multipliers: np.ndarray,
    c: float,
    sigma_lim: float,
    rounds: int = 10,
) -> tuple[np.ndarray, np.ndarray]:
    """Newton steps (N, M) that see where they would meet a limit, and their squared lengths in the metric Q (N,).

    Solves Q step = drive + force(z + step), which is linear piece by piece, by a few rounds over which limits are active.

    Source: Hintermueller, Ito & Kunisch, "The primal-dual active set strategy as a semismooth Newton method", SIAM J.
    Optim. 13(3), 2002.
    """
    step = np.linalg.solve(Q, drive[..., None])[..., 0]
    active = np.zeros(z.shape, bool)
    for _ in range(rounds):
        force = limit_force(z + step, multipliers, c, sigma_lim)
        if np.array_equal(active, force != 0.0):
            break
        active = force != 0.0
        stiffness = c / sigma_lim**2 * active
        step = np.linalg.solve(
            Q + stiffness[:, :, None] * np.eye(z.shape[1]), (drive + force + stiffness * step)[..., None]
        )[..., 0]
    return step, np.einsum("nm,nmk,nk->n", step, Q, step)


def limit_force(z: np.ndarray, multipliers: np.ndarray, c: float, sigma_lim: float) -> np.ndarray:
    """Force (N, M) of the limits as inequalities g <= 0 with multipliers (N, M), those of upper limits negative: inwards by
    max(0, lambda + c g) / sigma_lim with g = -z / sigma_lim or (z - 1) / sigma_lim. The next multipliers are sigma_lim times
    the same with their step for c.

    The printed form's equality lets go as soon as a particle is inside, and a whole Newton step would follow outwards.

    Source: Rockafellar, "The multiplier method of Hestenes and Powell applied to convex programming", JOTA 12(6), 1973.
    """
    lower = np.maximum(0.0, multipliers - c * z / sigma_lim)
    upper = np.minimum(0.0, multipliers + c * (1.0 - z) / sigma_lim)
    return (lower + upper) / sigma_lim


def _arrays(curvature: Curvature) -> dict[str, np.ndarray]:
    return {f"curvature.{name}": getattr(curvature, name) for name in Curvature.__dataclass_fields__}


def _curvature(arrays: Mapping[str, np.ndarray]) -> Curvature:
    return Curvature(*(arrays[f"curvature.{name}"] for name in Curvature.__dataclass_fields__))
