"""Constrained Stein variational gradient descent as published: limits and defects by multipliers, steps by Adam."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sim_core.inference.samplers.checkpoint import Checkpoint
from sim_core.inference.samplers.sampler import Run, sobol
from sim_core.inference.samplers.stein import Adam, bounded, decayed, largest_norm, require_windows, stein_direction

__all__ = ["SIGMA_LIM", "AdamCSVGD"]

SIGMA_LIM = 0.01  # share of a limit's range that counts as one unit of its violation, as sigma_def does for defects


@dataclass(frozen=True)
class AdamCSVGD:
    """SVGD over theta whose particles carry shooting states of their own; limits and defects are equality constraints.

        dtheta  = phi - (lambda_lim + c g_lim) dg_lim/dtheta - (lambda_def + c g_def) dg_def/dtheta
        dstarts = d log p_obs / dstarts - (lambda_def + c g_def) dg_def/dstarts
        dlambda = eta g,      g_lim = (clamp(theta) - theta) / sigma_lim

    (modified differential method of multipliers). g_def is the vector of defects in units of sigma_def, or with form
    "squared" the squared norm of each, as printed in the source: never negative, so that its multipliers only grow.
    The kernel is over theta only. Simulated is clamp(theta), whose gradient goes on beyond the limits; that is also what
    is returned. With one window there are no defects, and it is SVGD as long as no limit is met.

    Attributes:
        step, final_step: see AdamSVGD.
        damping: c.
        multiplier_step: eta; None: Adam's step for limits, as printed, and `adams_pace` for defects; 0: penalties alone.
        sigma_lim: unit of a limit's violation, share of its range. In units of the whole range limits could not hold
            against likelihoods of hundreds of samples.
        form: "vector" or "squared".

    The trace has, besides best and mean log p_obs: `defect`, the largest norm of one defect [sigma_def], and `violation`,
    the largest step over a limit [its range].

    Source: Heiden et al., "Probabilistic inference of simulation parameters via parallel differentiable simulation",
    ICRA 2022, Alg. 1 with the shooting states' update and the vector form as docs/inference.md derives them; Platt &
    Barr, "Constrained differential optimization", NeurIPS 1987.
    """

    step: float = 0.02
    final_step: float = 0.002
    damping: float = 1.0
    multiplier_step: float | None = None
    sigma_lim: float = SIGMA_LIM
    form: str = "vector"

    def __call__(
        self, run: Run, iterations: int, checkpoint: str | Path | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Particles z (N, M) and their log densities (N,).

        Args:
            run: of a MultipleShooting density.
            checkpoint: path of a file to go on from, and to leave when stopped.

        Raises:
            ValueError: a density without shooting windows.
        """
        require_windows(run.density)
        z = sobol(run.samples, run.n, run.seed)
        starts = np.zeros((run.samples, *run.density.starts_shape))
        on_defects = np.zeros(starts.shape if self.form == "vector" else starts.shape[:-1])
        on_limits = np.zeros_like(z)
        adam = Adam()
        identity = {
            "method": "csvgd",
            "samples": run.samples,
            "n": run.n,
            "seed": run.seed,
            "iterations": iterations,
            "form": self.form,
            "step": [self.step, self.final_step, self.multiplier_step],
            "damping": self.damping,
            "sigma_lim": self.sigma_lim,
            "starts": starts.shape,
        }
        file, first = Checkpoint(checkpoint, identity), 0
        if (resumed := file.load(run)) is not None:
            first, arrays = resumed
            z, starts, on_defects, on_limits = (arrays[name] for name in ("z", "starts", "on_defects", "on_limits"))
            adam.resume(first, arrays, 2)
        for i in run.iterate(iterations, "CSVGD", first):
            now = run.evaluate(np.clip(z, 0.0, 1.0), starts, on_defects, self.damping, self.form)
            phi, h = stein_direction(z, bounded(now.grad))
            g_limits = (np.clip(z, 0.0, 1.0) - z) / self.sigma_lim
            g_defects = now.defects if self.form == "vector" else np.einsum("nrsi,nrsi->nrs", now.defects, now.defects)
            run.record(
                i,
                z,
                now.log_p,
                bandwidth=h,
                defect=largest_norm(now.defects),
                violation=self.sigma_lim * float(np.abs(g_limits).max()),
            )
            size = decayed(self.step, self.final_step, i, iterations)
            # dg_lim/dtheta is -1 / sigma_lim beyond a limit, and 0 within, where g_lim vanishes but its multiplier may not.
            push = (on_limits + self.damping * g_limits) * (g_limits != 0) / self.sigma_lim
            dz, dstarts = adam.step(
                size, phi + push - bounded(now.penalty_grad), bounded(now.grad_starts - now.penalty_grad_starts)
            )
            z, starts = z + dz, starts + dstarts
            on_limits = on_limits + (size if self.multiplier_step is None else self.multiplier_step) * g_limits
            on_defects = (
                on_defects
                + (adams_pace(adam, size, self.form) if self.multiplier_step is None else self.multiplier_step)
                * g_defects
            )
            if run.cancelled or file.due(i + 1):
                file.save(
                    run,
                    i + 1,
                    {"z": z, "starts": starts, "on_defects": on_defects, "on_limits": on_limits, **adam.arrays()},
                )
        z = np.clip(z, 0.0, 1.0)
        return z, run.evaluate(z, starts).log_p


def adams_pace(adam: Adam, size: float, form: str) -> np.ndarray:
    """Step of the defects' multipliers (as `form` has them): that of Adam for the shooting state each of them holds.

    Multipliers must not run faster than what they constrain. Adam moves a coordinate by size / sqrt(v) times its gradient;
    where gradients are in the hundreds, multipliers that take whole steps of `size` wind up without end (on a real
    pendulum's recording defects then grow from 12 to 22 sigma_def in 600 iterations; so they fall). Those of the limits
    may: they grow only while a particle is beyond one.
    """
    v = adam.moments[1][1] / (1 - adam.beta2**adam.t)
    pace = np.minimum(size / (np.sqrt(v) + adam.epsilon), size)
    return pace if form == "vector" else pace.mean(axis=-1)
