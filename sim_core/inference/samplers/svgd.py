"""Stein variational gradient descent as published: particles that follow one common direction by Adam."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sim_core.inference.samplers.checkpoint import Checkpoint
from sim_core.inference.samplers.sampler import Run, sobol
from sim_core.inference.samplers.stein import Adam, bounded, decayed, stein_direction

__all__ = ["AdamSVGD"]


@dataclass(frozen=True)
class AdamSVGD:
    """N particles from Sobol points, moved together: uphill by a kernel's average of their gradients, and apart.

    Deterministic from the start on. A step over a limit ends on it. A particle whose density vanishes has no gradient,
    but is still pushed away by the others.

    Attributes:
        step, final_step: Adam's step at the start and the end, in units of the limits; geometric between.

    Source: Liu & Wang, NeurIPS 2016; thesis Eq. 4.1.
    """

    step: float = 0.02
    final_step: float = 0.002

    def __call__(
        self, run: Run, iterations: int, checkpoint: str | Path | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Particles z (N, M) and their log densities (N,).

        Args:
            run: of a density with gradients.
            checkpoint: path of a file to go on from, and to leave when stopped.
        """
        adam, z = Adam(), sobol(run.samples, run.n, run.seed)
        identity = {
            "method": "svgd",
            "samples": run.samples,
            "n": run.n,
            "seed": run.seed,
            "iterations": iterations,
            "step": [self.step, self.final_step],
        }
        file, first = Checkpoint(checkpoint, identity), 0
        if (resumed := file.load(run)) is not None:
            first, arrays = resumed
            z = arrays["z"]
            adam.resume(first, arrays, 1)
        for i in run.iterate(iterations, "SVGD", first):
            log_p, score = run.log_p_and_grad(z)
            phi, h = stein_direction(z, bounded(score))
            run.record(i, z, log_p, bandwidth=h)
            z = np.clip(z + adam.step(decayed(self.step, self.final_step, i, iterations), phi)[0], 0.0, 1.0)
            if run.cancelled or file.due(i + 1):
                file.save(run, i + 1, {"z": z, **adam.arrays()})
        return z, run.log_p(z)
