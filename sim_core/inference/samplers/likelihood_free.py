"""BayesSim (sim_core/inference/bayessim) as one of the methods."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sim_core.inference.samplers.sampler import Run, Sampler, sobol

if TYPE_CHECKING:
    from sim_core.inference.bayessim import Simulations

__all__ = ["BAYESSIM"]


def bayessim(
    run: Run,
    iterations: int,
    statistics: str = "downsampled",
    features: str = "mdn",
    simulations: int | Simulations = 10_000,
    components: int = 10,
    step: float = 5e-3,
    patience: int | None = 60,
    every: int = 20,
    depth: int = 3,
    noise: float = 0.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Simulate the prior once, in batched roll-outs; train; draw N samples at the recording.

    Of several recordings each has its own network, and an equal share of the samples: the mixture that the sum over
    trajectories means.

    Args:
        run: of a SingleShooting density: its simulator, observations, limits and recordings are used, its likelihood only
            reported.
        iterations: epochs at most.
        statistics: "downsampled", "difference", "summary" or "signature".
        features: "mdn", "mdrff-rbf" or "mdrff-matern".
        simulations: how many, or those of `bayessim.simulate`, which several variants may share.
        step, patience: see `fit`.   every, depth, noise: see `simulate`; they are those of given simulations.

    Raises:
        ValueError: a density without recordings of its own; given simulations lack the statistics.
    """
    from sim_core.inference.bayessim import Simulations, fit, simulate, summary  # torch is slow to load

    density = run.density
    if not hasattr(density, "measured"):
        raise ValueError("bayessim needs a SingleShooting density over recordings; use another method for others")
    summary(statistics)
    if not isinstance(simulations, Simulations):
        simulations = simulate(
            density, sobol(int(simulations), run.n, run.seed), (statistics,), every, depth, noise, run.seed
        )
    if statistics not in simulations.summaries:
        raise ValueError(
            f"bayessim: expected simulations with '{statistics}', found {', '.join(simulations.summaries)}; simulate them too"
        )
    run.evaluations += len(simulations.z)
    run.not_finite += simulations.not_finite
    S, recorded = simulations.summaries[statistics], simulations.recorded[statistics]
    shares = [len(part) for part in np.array_split(np.arange(run.samples), len(recorded))]
    drawn = []
    for r, share in enumerate(shares):

        def stop(epoch: int, loss: float, r: int = r) -> bool:
            run.record(r * iterations + epoch, np.empty((0, run.n)), np.empty(0), held_out=loss)
            return run.cancelled

        fitted = fit(
            simulations.z,
            S[:, r],
            features,
            components,
            iterations,
            step,
            run.seed,
            patience=patience,
            track=lambda epochs: run.iterate(len(epochs), f"BayesSim, {statistics}, {features}"),
            stop=stop,
        )
        drawn.append(fitted.sample(recorded[r], share, run.seed))
    z = np.concatenate(drawn)
    return z, run.log_p(z)


BAYESSIM = Sampler(
    bayessim, False, 300, "BayesSim: conditional density learnt from prior simulations (likelihood-free)", "learning"
)
