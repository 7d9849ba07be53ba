"""Ensembles of walkers that move along each other's differences, through the library emcee."""

from __future__ import annotations

import numpy as np

from sim_core.inference.samplers.sampler import Run, Sampler, sobol

__all__ = ["EMCEE"]


def ensemble(
    run: Run,
    iterations: int,
    stretch: float = 2.0,
    walkers: int | None = None,
    moves: str = "stretch",
    start: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """An ensemble of walkers; each moves along a line through another one, half of them at a time.

    Beyond the limits the density is zero. The walkers' last positions are returned,
    and their second half as chains.

    Args:
        stretch: Goodman and Weare's a: moves scale the distance by 1/a to a.
        walkers: at least the N wanted and twice the dimension plus two (the default), even.
        moves: "stretch", or "differences": four in five along the difference of two others, one in five in snooker moves,
            which come from one mode to another.
        start: where walkers start, (N, M); Sobol points by default.

    Raises:
        ValueError: other moves, or a start for fewer walkers than twice the dimension plus two.

    Sources: Goodman & Weare, CAMCoS 5(1), 2010; Foreman-Mackey et al., PASP 125, 2013; ter Braak & Vrugt, "Differential
    evolution Markov chain with snooker updater and fewer chains", Statistics and Computing 18, 2008.
    """
    import emcee

    known = {
        "stretch": lambda: emcee.moves.StretchMove(a=stretch),
        "differences": lambda: [(emcee.moves.DEMove(), 0.8), (emcee.moves.DESnookerMove(), 0.2)],
    }
    if moves not in known:
        raise ValueError(f"moves: expected one of {', '.join(known)}, found '{moves}'")
    least = max(run.samples, 2 * run.n + 2)
    walkers = max(walkers or 0, least + least % 2)
    if start is not None:
        if len(start) < 2 * run.n + 2:
            raise ValueError(
                f"start: expected at least {2 * run.n + 2} walkers of {run.n} coordinates, found {start.shape}"
            )
        walkers = len(start) - len(start) % 2
        start = start[:walkers]

    def inside_the_limits(z: np.ndarray) -> np.ndarray:
        inside = ((z >= 0) & (z <= 1)).all(1)
        value = np.full(len(z), -np.inf)
        if inside.any():
            value[inside] = run.log_p(z[inside])
        return value

    sampler = emcee.EnsembleSampler(walkers, run.n, inside_the_limits, vectorize=True, moves=known[moves]())
    first = emcee.State(
        sobol(walkers, run.n, run.seed) if start is None else start,
        random_state=np.random.RandomState(run.seed % 2**32).get_state(),
    )
    chain = sampler.sample(first, iterations=iterations, store=False, skip_initial_state_check=True)
    before, walks = first.coords, []
    # Walkers at zero density: the difference of two infinities is no number, and rejects.
    with np.errstate(invalid="ignore"):
        for i in run.iterate(iterations, "emcee"):
            state = next(chain)
            moved = float((state.coords != before).any(1).mean())
            before = state.coords.copy()
            z, log_p = before[: run.samples], state.log_prob[: run.samples].copy()
            if 2 * i >= iterations:
                walks.append(before)
            run.record(i, z, log_p, accept=moved)
    run.chains = np.stack(walks, axis=1) if walks else None
    return z, log_p


EMCEE = Sampler(ensemble, False, 3000, "affine-invariant ensemble, stretch moves (emcee)")
