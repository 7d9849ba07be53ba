"""What every sampling method takes and returns, and the bookkeeping they share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sim_core.inference.data.density import LogDensity

__all__ = ["Chains", "Run", "Sampler", "Samples", "Tail", "Trace", "sobol"]


@dataclass(frozen=True)
class Trace:
    """Course of a run, one row per iteration, for convergence plots.

    Attributes:
        iteration (K,), evaluations (K,): of the density, up to the end of the iteration.
        best, mean (K,): highest log density met so far; mean over the method's current points with a finite one.
        extra: further columns of a method by name, (K,) each (acceptance, step size, defects, ...).
    """

    iteration: np.ndarray
    evaluations: np.ndarray
    best: np.ndarray
    mean: np.ndarray
    extra: dict[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True)
class Samples:
    """Draws from a density, equally weighted.

    Attributes:
        z (N, M): normalised coordinates inside [0, 1].   log_p (N,): their log densities, not normalised.
        evaluations: of the log density, gradients included (one per point), and of its curvature.
        trace: Trace.
        method: name in METHODS.
        cancelled: the callback asked to stop before the last iteration.
        not_finite: evaluations that gave NaN or infinity and were taken for probability zero.
        chains: (C, D, M) draws after warm-up, chain by chain, of a method that makes Markov chains.
    """

    z: np.ndarray
    log_p: np.ndarray
    evaluations: int
    trace: Trace
    method: str = ""
    cancelled: bool = False
    not_finite: int = 0
    chains: np.ndarray | None = None


@dataclass(frozen=True)
class Sampler:
    """One method of the table.

    Attributes:
        function: f(run, iterations, **options) -> z (N, M), log_p (N,).
        gradient: it asks for gradients.
        iterations: default.
        about: one sentence: what it is, whose it is.
        tier: of the packages it needs beyond the base (config/tiers.py); "" for none.
    """

    function: Callable
    gradient: bool
    iterations: int
    about: str
    tier: str = ""


class Run:
    """A density under observation: counts evaluations, masks what is not finite, keeps the trace.

    Args:
        density: LogDensity (sim_core/inference/data/density.py).
        samples: number of draws wanted.
        seed: every random number follows from it.
        progress: reporting.Progress or None.
        callback: f(iteration, z (N, M), log_p (N,)) after every iteration; a true answer ends the run.
    """

    def __init__(
        self,
        density: LogDensity,
        samples: int,
        seed: int,
        progress: Any = None,
        callback: Callable[[int, np.ndarray, np.ndarray], object] | None = None,
    ) -> None:
        self.density: Any = density  # more than a LogDensity where a method asks for more
        self.n, self.samples, self.seed = density.n, samples, seed
        self.rng = np.random.default_rng(seed)
        self.progress, self.callback = progress, callback
        self.evaluations = self.not_finite = 0
        self.cancelled = False
        self.chains: np.ndarray | None = None  # of `Samples`
        self._best = -np.inf
        self._rows: list[dict] = []

    def log_p(self, z: np.ndarray) -> np.ndarray:
        """log p (N,) of z (N, M); -inf where it is NaN or +inf."""
        log_p = self.density.log_p(z)
        return self._masked(log_p, ~np.isfinite(log_p))

    def log_p_and_grad(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log p (N,) and gradient (N, M); where either is not finite, -inf and zero."""
        log_p, grad = self.density.log_p_and_grad(z)
        bad = ~(np.isfinite(log_p) & np.isfinite(grad).all(-1))
        return self._masked(log_p, bad), np.where(bad[:, None], 0.0, grad)

    def evaluate(self, *arguments: Any) -> Any:
        """`MultipleShooting.evaluate`, counted like the others."""
        evaluation = self.density.evaluate(*arguments)
        self._masked(evaluation.log_p, ~np.isfinite(evaluation.log_p))
        return evaluation

    def curvature(self, z: np.ndarray, *arguments: Any) -> Any:
        """`MultipleShooting.curvature` of z (N, M): N roll-outs with their sensitivities, counted as evaluations."""
        self.evaluations += len(z)
        return self.density.curvature(z, *arguments)

    def _masked(self, log_p: np.ndarray, bad: np.ndarray) -> np.ndarray:
        """log p (N,) with -inf where `bad` (N,) says so; all of them counted."""
        self.evaluations += len(log_p)
        self.not_finite += int(bad.sum())
        log_p = np.where(bad, -np.inf, log_p)
        self._best = max(self._best, log_p.max(initial=-np.inf))
        return log_p

    def iterate(self, iterations: int, text: str, first: int = 0) -> Iterator[int]:
        """Yield first .. iterations - 1 under the progress bar until the callback wants an end."""
        stage = self.progress.stage(text, total=iterations) if self.progress else None
        try:
            if stage and first:
                stage.advance(first)
            for i in range(first, iterations):
                yield i
                if stage:
                    stage.advance()
                if self.cancelled:
                    return
        finally:
            if stage:
                stage.close()

    def record(self, iteration: int, z: np.ndarray, log_p: np.ndarray, **extra: float) -> None:
        """End of an iteration with current points z (N, M), log_p (N,): a row of the trace, and the callback."""
        finite = log_p[np.isfinite(log_p)]
        mean = finite.mean() if len(finite) else -np.inf
        self._rows.append(
            {"iteration": iteration, "evaluations": self.evaluations, "best": self._best, "mean": mean, **extra}
        )
        if self.callback is not None and self.callback(iteration, z, log_p):
            self.cancelled = True

    def risen(self, name: str, iterations: int) -> float:
        """By how much a column of the trace has risen over the last iterations; infinite before there are as many."""
        if len(self._rows) <= iterations:
            return np.inf
        return self._rows[-1][name] - self._rows[-1 - iterations][name]

    def state(self) -> dict:
        """The bookkeeping so far, as plain data; see `restore`."""
        return {
            "rows": self._rows,
            "best": self._best,
            "evaluations": self.evaluations,
            "not_finite": self.not_finite,
            "rng": self.rng.bit_generator.state,
        }

    def restore(self, state: dict) -> None:
        """Go on with the bookkeeping and the random numbers of an earlier run."""
        self._rows, self._best = list(state["rows"]), state["best"]
        self.evaluations, self.not_finite = state["evaluations"], state["not_finite"]
        self.rng.bit_generator.state = state["rng"]

    def trace(self) -> Trace:
        columns = {name: np.array([row[name] for row in self._rows]) for name in (self._rows[0] if self._rows else ())}
        base = {name: columns.pop(name, np.empty(0)) for name in ("iteration", "evaluations", "best", "mean")}
        return Trace(**base, extra=columns)

    def start(self) -> np.ndarray:
        """Where a single chain starts (M,): the centre of the limits, or, where the density vanishes there, the best of
        256 Sobol points.

        Raises:
            ValueError: the density is zero at all of them.
        """
        centre = np.full((1, self.n), 0.5)
        if np.isfinite(self.log_p(centre)[0]):
            return centre[0]
        points = sobol(256, self.n, self.seed)
        log_p = self.log_p(points)
        if not np.isfinite(log_p).any():
            raise ValueError(
                "The density is zero or not finite at the centre of the limits and at 256 points between them; "
                "check the limits and the data."
            )
        return points[np.argmax(log_p)]


class Tail:
    """The last `count` points of one or several chains, in order."""

    def __init__(self, count: int, n: int) -> None:
        self._z, self._log_p = np.empty((count, n)), np.empty(count)
        self._count, self._pushed = count, 0

    def push(self, z: np.ndarray, log_p: np.ndarray) -> None:
        """Points z (c, M), log_p (c,); of more than `count` the last ones."""
        z, log_p = z[-self._count :], log_p[-self._count :]
        where = (self._pushed + np.arange(len(z))) % self._count
        self._z[where], self._log_p[where] = z, log_p
        self._pushed += len(z)

    def points(self) -> tuple[np.ndarray, np.ndarray]:
        """z (N, M), log_p (N,), oldest first; copies."""
        n = min(self._pushed, self._count)
        order = (self._pushed - n + np.arange(n)) % self._count
        return self._z[order], self._log_p[order]


class Chains:
    """Draws of several chains that are made one after the other."""

    def __init__(self, count: int, n: int) -> None:
        self._n = n
        self._z: list[list[np.ndarray]] = [[] for _ in range(count)]
        self._log_p: list[list[float]] = [[] for _ in range(count)]
        self._adapting = [True] * count

    def push(self, chain: int, z: np.ndarray, log_p: float, sample: bool) -> None:
        """The next point z (M,) of a chain; before its first sample only the newest is kept, for who stops by then."""
        if self._adapting[chain]:
            self._z[chain].clear()
            self._log_p[chain].clear()
        self._adapting[chain] = not sample
        self._z[chain].append(z)
        self._log_p[chain].append(log_p)

    def last(self, chain: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        """The last `count` points z (N, M), log_p (N,) of a chain, oldest first."""
        return np.array(self._z[chain][-count:]).reshape(-1, self._n), np.array(self._log_p[chain][-count:])

    def tail(self, share: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        """The last `share` points of every chain, `count` in all at most."""
        parts = [self.last(chain, share) for chain in range(len(self._z))]
        z, log_p = (np.concatenate(part) for part in zip(*parts))
        return z[:count], log_p[:count]

    def equal(self) -> np.ndarray:
        """(C, D, M): as many draws of each chain that has begun to sample, as the shortest of them has."""
        done = [np.array(z) for z, adapting in zip(self._z, self._adapting) if not adapting]
        return np.stack([z[-min(map(len, done)) :] for z in done]) if done else np.empty((0, 0, self._n))


def sobol(count: int, n: int, seed: int) -> np.ndarray:
    """First `count` points (count, n) of a scrambled Sobol sequence in [0, 1]^n."""
    from scipy.stats import qmc

    sequence = qmc.Sobol(n, scramble=True, rng=np.random.default_rng(seed))
    return sequence.random_base2(int(np.ceil(np.log2(max(count, 2)))))[:count]
