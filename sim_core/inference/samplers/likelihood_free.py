"""BayesSim (sim_core/inference/bayessim) as one of the methods."""

from __future__ import annotations

import numpy as np

from .sampler import Run, Sampler, sobol

__all__ = ["BAYESSIM"]


def bayessim(run: Run, iterations: int, statistics: str = "downsampled", features: str = "mdn", simulations: int = 10_000,
             components: int = 10, step: float = 1e-3, patience: int | None = 30):
    """Simulate the prior once, in one roll-out; train; draw N samples at the recording.

    Of several recordings each has its own network, and an equal share of the samples: the mixture that the sum over
    trajectories means.

    Args:
        run: of a SingleShooting density: its simulator, limits and recording are used, its likelihood only reported.
        iterations: epochs at most.
        statistics: "downsampled", "difference", "summary" or "signature".
        features: "mdn", "mdrff-rbf" or "mdrff-matern".
        patience: see `fit`.

    Raises:
        ValueError: a density without recorded states.
    """
    from ..bayessim import fit, simulate, summary  # torch is slow to load

    density = run.density
    if not hasattr(density, "trajectories") or density.trajectories.y is not None:
        raise ValueError("bayessim needs a SingleShooting density over recorded states; use another method for others")
    z = sobol(simulations, run.n, run.seed)
    X, psi = simulate(density, z), summary(statistics)
    run.evaluations += simulations
    run.not_finite += int((~np.isfinite(X).all((1, 2, 3))).sum())
    count = density.trajectories.count
    shares = [len(part) for part in np.array_split(np.arange(run.samples), count)]
    drawn = []
    for r, share in enumerate(shares):
        with np.errstate(over="ignore", invalid="ignore"):
            s = psi(X[:, r])

        def stop(epoch, loss, r=r):
            run.record(r * iterations + epoch, np.empty((0, run.n)), np.empty(0), held_out=loss)
            return run.cancelled

        fitted = fit(z, s, features, components, iterations, step, run.seed, patience=patience,
                     track=lambda epochs: run.iterate(len(epochs), f"BayesSim, {statistics}, {features}"), stop=stop)
        drawn.append(fitted.sample(psi(density.trajectories.x[r, 1:]), share, run.seed))
    z = np.concatenate(drawn)
    return z, run.log_p(z)


BAYESSIM = Sampler(bayessim, False, 3000, "BayesSim: conditional density learnt from prior simulations (likelihood-free)")
