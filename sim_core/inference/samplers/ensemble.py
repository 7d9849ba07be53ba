"""Affine-invariant ensemble by stretch moves, through the library emcee."""

from __future__ import annotations

import numpy as np

from sim_core.inference.samplers.sampler import Run, Sampler, sobol

__all__ = ["EMCEE"]


def stretch(
    run: Run, iterations: int, stretch: float = 2.0, walkers: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """An ensemble of walkers; each moves along a line through another one, half of them at a time.

    Walkers start at Sobol points; beyond the limits the density is zero. The walkers' last positions are returned.

    Args:
        stretch: Goodman and Weare's a: moves scale the distance by 1/a to a.
        walkers: at least the N wanted and twice the dimension plus two (the default), even.

    Source: Goodman & Weare, CAMCoS 5(1), 2010; Foreman-Mackey et al., PASP 125, 2013.
    """
    import emcee

    least = max(run.samples, 2 * run.n + 2)
    walkers = max(walkers or 0, least + least % 2)

    def inside_the_limits(z: np.ndarray) -> np.ndarray:
        inside = ((z >= 0) & (z <= 1)).all(1)
        value = np.full(len(z), -np.inf)
        if inside.any():
            value[inside] = run.log_p(z[inside])
        return value

    sampler = emcee.EnsembleSampler(
        walkers, run.n, inside_the_limits, vectorize=True, moves=emcee.moves.StretchMove(a=stretch)
    )
    start = emcee.State(
        sobol(walkers, run.n, run.seed), random_state=np.random.RandomState(run.seed % 2**32).get_state()
    )
    chain = sampler.sample(start, iterations=iterations, store=False, skip_initial_state_check=True)
    before = start.coords
    # Walkers at zero density: the difference of two infinities is no number, and rejects.
    with np.errstate(invalid="ignore"):
        for i in run.iterate(iterations, "emcee"):
            state = next(chain)
            moved = float((state.coords != before).any(1).mean())
            before = state.coords.copy()
            z, log_p = before[: run.samples], state.log_prob[: run.samples].copy()
            run.record(i, z, log_p, accept=moved)
    return z, log_p


EMCEE = Sampler(stretch, False, 1000, "affine-invariant ensemble, stretch moves (emcee)", "inference")
