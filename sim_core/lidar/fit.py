"""What a scan says of a scene: parameters fitted to measured ranges, with their covariance.

Least squares of simulated minus measured ranges (Heiden, PhD thesis, University of Southern California, section 3.1.5), by
Levenberg-Marquardt from many starts at once, or by L-BFGS with a line search that meets the strong Wolfe conditions, as the source has
it. Ranges alone do not tell the scale of radiance: albedos times s, a / s^2 and b / s read the same. Hold one albedo.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from sim_core.lidar.scan import Lidar

__all__ = ["Fit", "FitOptions", "Watch", "fit"]

#: told after each step: how many there were, the cost, the values of the best start; a true answer ends the fit with what there is
Watch = Callable[[int, float, Mapping[str, float]], bool]


@dataclass(frozen=True)
class FitOptions:
    """How a fit goes on.

    Attributes:
        method: "lm" (Levenberg-Marquardt) or "lbfgs". iterations: most of either.
        huber: residual from which on it counts by its size and not its square [m]; inf: never.
        miss: residual of a beam that was measured and of which the model sees nothing [m].
        gain: relative fall of the cost below which a fit has converged. step: likewise of the parameters, over 1 + their size.
        softness: of soft bodies' outlines [rad], in stages one after the other; none: as the lidar's settings have it. The last one
            best is the beam's own half angle (settings), with which outlines count as they do in a real beam. coarse: `gain` and a
            tenth of it `step` of all stages but the last.
        starts: of a fit with bounds, how many; all but the first are drawn within them. seed: of the draw.

    Raises:
        ValueError: a value out of its range.
    """

    method: str = "lm"
    iterations: int = 100
    huber: float = np.inf
    miss: float = 0.5
    gain: float = 1e-6
    step: float = 1e-7
    softness: tuple[float, ...] = ()
    coarse: float = 1e-2
    starts: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        if self.method not in ("lm", "lbfgs"):
            raise ValueError(f"a fit's method is lm or lbfgs, not {self.method!r}")
        if self.iterations < 1 or self.starts < 1 or not self.huber > 0.0:
            raise ValueError("a fit has at least one iteration and one start, and huber is positive")


@dataclass(frozen=True, eq=False)
class Fit:
    """What was found.

    Attributes:
        values: of the free parameters by name. covariance: of them (Gauss-Newton), (free, free); NaN where undetermined. After stages
            it is that of the least softness above 0, as are `lost` and `weak`.
        residual: simulated minus measured (beams, or scans and beams) [m]; NaN where nothing was measured.
        cost: half the sum of squares, Huber's where asked for. trace: cost before and after each iteration (iterations + 1,); a stage
            has its own cost. path: of the parameters (iterations + 1, free). converged: whether it ended by itself.
        evaluations: scans that the start took which was best, trials that gained nothing among them.
        lost: owners (bodies, materials) on which no range depends at all: no ray meets them.
        weak: parameters that the scan does not determine beside the others.
    """

    values: dict[str, float]
    covariance: np.ndarray
    residual: np.ndarray
    cost: float
    trace: np.ndarray
    path: np.ndarray
    converged: bool
    evaluations: int
    lost: tuple[str, ...]
    weak: tuple[str, ...]

    @property
    def iterations(self) -> int:
        """Steps that were taken."""
        return len(self.trace) - 1


@dataclass(frozen=True, eq=False)
class _Evaluation:
    """At several starts: cost (s,), gradient (s, p), Gauss-Newton's matrix (s, p, p), residual (s, m), which columns are not 0 (s, p)."""

    cost: np.ndarray
    gradient: np.ndarray
    normal: np.ndarray
    residual: np.ndarray
    seen: np.ndarray


class _Problem:
    """Costs of rows of free parameters in units of their scale."""

    def __init__(
        self,
        lidar: Lidar,
        measured: np.ndarray,
        names: tuple[str, ...],
        options: FitOptions,
        each: Sequence[Mapping[str, float]],
    ) -> None:
        self.lidar, self.names, self.options, self.each = lidar, names, options, each
        self.measured = measured
        self.known = np.isfinite(measured)

    def __call__(self, rows: np.ndarray) -> _Evaluation:
        scans = [self.lidar.scans(self.names, rows, values, derivatives=True) for values in self.each]
        found = np.stack([s.range for s in scans], 1)
        slope = np.stack([s.jacobian for s in scans], 1)
        missed = self.known & np.isnan(found)
        residual = np.where(missed, self.options.miss, np.where(self.known, found - self.measured, 0.0))
        slope = np.where(self.known[..., None], slope, 0.0)
        residual, slope = residual.reshape(len(rows), -1), slope.reshape(len(rows), -1, len(self.names))
        size, edge = np.abs(residual), self.options.huber
        far = size > edge
        weight = np.where(far, edge / np.maximum(size, 1e-300), 1.0)
        cost = np.where(far, edge * (size - 0.5 * min(edge, 1e150)), 0.5 * size**2) if far.any() else 0.5 * size**2
        return _Evaluation(
            cost.sum(1),
            np.einsum("smp,sm->sp", slope, weight * residual),
            np.einsum("smp,sm,smq->spq", slope, weight, slope),
            residual,
            (slope != 0.0).any(1),
        )


def fit(
    lidar: Lidar,
    measured: np.ndarray,
    start: Mapping[str, float],
    bounds: Mapping[str, tuple[float, float]] = {},
    options: FitOptions = FitOptions(),
    each: Sequence[Mapping[str, float]] = ({},),
    watch: Watch | None = None,
) -> Fit:
    """Fit the parameters that `start` names.

    Args:
        lidar: the model, with all other parameters at its values.
        measured: ranges (beams,), or (scans, beams) of several scans [m]; NaN where nothing was measured.
        start: first values of the free parameters. bounds: of any of them, low and high.
        options: see there. each: of several scans, the values that differ in each (known poses, say). watch: see there; None: nobody
            looks.

    Raises:
        KeyError: an unknown parameter. ValueError: nothing is free or measured, shapes that do not fit, bounds the wrong way round, a
        start outside of them, several starts without bounds.
    """
    names = tuple(start)
    lidar.tracer.inputs.known([*names, *bounds])
    data = np.atleast_2d(np.asarray(measured, float))
    wanted = (len(each), lidar.settings.beams)
    if data.shape != wanted:
        raise ValueError(f"measured ranges are {wanted}, for each scan and beam, found {data.shape}")
    if not names or not np.isfinite(data).any():
        raise ValueError("a fit needs a free parameter and a measured range, and one of them is missing")
    limit = np.array([bounds.get(name, (-np.inf, np.inf)) for name in names], float)
    first = np.array([start[name] for name in names], float)
    if (limit[:, 0] >= limit[:, 1]).any() or (first < limit[:, 0]).any() or (first > limit[:, 1]).any():
        k = int(np.flatnonzero((limit[:, 0] >= limit[:, 1]) | (first < limit[:, 0]) | (first > limit[:, 1]))[0])
        raise ValueError(
            f"{names[k]} starts within its bounds, but {first[k]} is not between {limit[k, 0]} and {limit[k, 1]}"
        )
    rows = first[None]
    if options.starts > 1:
        if not np.isfinite(limit).all():
            raise ValueError("several starts are drawn within bounds; give bounds of every free parameter")
        drawn = np.random.default_rng(options.seed).uniform(limit[:, 0], limit[:, 1], (options.starts - 1, len(names)))
        rows = np.concatenate([rows, drawn])
    descend = _marquardt if options.method == "lm" else _quasi_newton
    looked = _Looked(watch, names)
    stages = options.softness or (lidar.settings.softness,)
    runs = [_Run([row], [], 0, False) for row in rows]
    for softness in stages:
        last = softness == stages[-1]
        here = options if last else replace(options, gain=options.coarse, step=0.1 * options.coarse)
        problem = _Problem(lidar.softened(softness), data, names, here, each)
        found = descend(problem, np.array([run.path[-1] for run in runs]), limit, looked)
        runs = [before.then(after) for before, after in zip(runs, found)]
        looked.steps = max(len(run.trace) for run in runs) - 1
        if looked.ended:
            problem = problem if last else _Problem(lidar.softened(stages[-1]), data, names, options, each)
            break
    # Several starts may end in one place, whose costs then differ by rounding: the one that came there first has found it.
    least = min(run.trace[-1] for run in runs)
    best = min((run for run in runs if run.trace[-1] <= least * (1.0 + options.gain)), key=lambda run: len(run.trace))
    end = problem(best.path[-1][None])
    # without softness a plane mirror's place along itself would seem unknown, which is told by where it begins and ends
    blurred = min((s for s in stages if s > 0.0), default=stages[-1])
    seen = (
        end
        if blurred == stages[-1]
        else _Problem(lidar.softened(blurred), data, names, options, each)(best.path[-1][None])
    )
    covariance, weak = _covariance(seen, int(problem.known.sum()), names)
    owners = list(dict.fromkeys(name.split(".")[0] for name in names))
    lost = tuple(o for o in owners if not any(s for n, s in zip(names, seen.seen[0]) if n.split(".")[0] == o))
    residual = np.where(problem.known, end.residual[0].reshape(data.shape), np.nan)
    return Fit(
        dict(zip(names, map(float, best.path[-1]))),
        covariance,
        residual.reshape(np.shape(measured)),
        float(end.cost[0]),
        np.array(best.trace),
        np.array(best.path),
        best.converged and not looked.ended,
        best.evaluations,
        lost,
        weak,
    )


@dataclass
class _Run:
    """A start's way: parameters and costs from before the first step on, scans taken, whether it ended by itself."""

    path: list[np.ndarray]
    trace: list[float]
    evaluations: int
    converged: bool

    def then(self, after: _Run) -> _Run:
        """With the next stage, which begins where this one ended."""
        trace = [*self.trace, *after.trace[1:]] if self.trace else after.trace
        return _Run([*self.path, *after.path[1:]], trace, self.evaluations + after.evaluations, after.converged)


@dataclass
class _Looked:
    """Who watches, and whether they want an end; `steps` are those of stages before."""

    watch: Watch | None
    names: tuple[str, ...]
    steps: int = 0
    ended: bool = False

    def __call__(self, run: _Run) -> bool:
        if self.watch is not None and not self.ended:
            values = dict(zip(self.names, map(float, run.path[-1])))
            self.ended = bool(self.watch(self.steps + len(run.trace) - 1, run.trace[-1], values))
        return self.ended


def _marquardt(problem: _Problem, rows: np.ndarray, limit: np.ndarray, looked: _Looked) -> list[_Run]:
    """All starts at once: those that are done are scanned no more."""
    options, count = problem.options, rows.shape[1]
    at = rows.copy()
    now = problem(at)
    cost, gradient, normal = now.cost.copy(), now.gradient.copy(), now.normal.copy()
    damping, growth = np.full(len(at), 1e-3), np.full(len(at), 2.0)
    runs = [_Run([row.copy()], [float(c)], 1, False) for row, c in zip(at, cost)]
    open_ = np.ones(len(at), bool)
    for _ in range(3 * options.iterations):
        live = np.flatnonzero(open_)
        if not len(live) or looked(min(runs, key=lambda run: run.trace[-1])):
            break
        step = np.zeros((len(live), count))
        for row, s in enumerate(live):
            step[row] = _step(at[s], gradient[s], normal[s], damping[s], limit)
        trial = problem(at[live] + step)
        for row, s in enumerate(live):
            run = runs[s]
            run.evaluations += 1
            promised = -(gradient[s] @ step[row] + 0.5 * step[row] @ normal[s] @ step[row])
            gained = cost[s] - trial.cost[row]
            small = np.abs(step[row]).max() < options.step * (1.0 + np.abs(at[s]).max())
            if gained > 0.0 and promised > 0.0:
                flat = gained < options.gain * cost[s]
                at[s], cost[s] = at[s] + step[row], trial.cost[row]
                gradient[s], normal[s] = trial.gradient[row], trial.normal[row]
                damping[s] *= max(1.0 / 3.0, 1.0 - (2.0 * gained / promised - 1.0) ** 3)
                growth[s] = 2.0
                run.path.append(at[s].copy())
                run.trace.append(float(cost[s]))
                run.converged = bool(flat or small)
                open_[s] = not run.converged and len(run.trace) <= options.iterations
            else:
                damping[s], growth[s] = damping[s] * growth[s], 2.0 * growth[s]
                run.converged = bool(small or promised <= options.gain * cost[s])
                open_[s] = not run.converged and damping[s] < 1e12
    return runs


def _step(at: np.ndarray, gradient: np.ndarray, normal: np.ndarray, damping: float, limit: np.ndarray) -> np.ndarray:
    """Damped step within bounds: what would cross one stops on it, and the rest is solved again."""
    scale = np.diag(normal).copy()
    scale[scale <= 0.0] = 1.0
    damped = normal + damping * np.diag(scale)
    step, free = np.zeros_like(at), np.ones(len(at), bool)
    while free.any():
        pull = gradient[free] + damped[np.ix_(free, ~free)] @ step[~free]
        step[free] = -np.linalg.lstsq(damped[np.ix_(free, free)], pull, rcond=None)[0]
        bounded = np.clip(at + step, limit[:, 0], limit[:, 1]) - at
        crossing = free & (bounded != step) & (np.abs(bounded - step) > 1e-12 * (1.0 + np.abs(at)))
        step[crossing] = bounded[crossing]
        if not crossing.any():
            break
        free &= ~crossing
    return step


def _quasi_newton(problem: _Problem, rows: np.ndarray, limit: np.ndarray, looked: _Looked) -> list[_Run]:
    """One start after the other."""
    return [_descent(problem, row, limit, looked) for row in rows]


def _descent(problem: _Problem, row: np.ndarray, limit: np.ndarray, looked: _Looked) -> _Run:
    """L-BFGS wants parameters of one scale, which the first Gauss-Newton matrix gives."""
    begun = problem(row[None])
    curvature = np.diag(begun.normal[0])
    scale = 1.0 / np.sqrt(np.where(curvature > 0.0, curvature, 1.0))
    path, trace = [row.copy()], [float(begun.cost[0])]

    def value(unit: np.ndarray) -> tuple[float, np.ndarray]:
        found = problem((unit * scale)[None])
        return float(found.cost[0]), found.gradient[0] * scale

    def note(intermediate_result: OptimizeResult) -> None:
        path.append(intermediate_result.x * scale)
        trace.append(float(intermediate_result.fun))
        if looked(_Run(path, trace, 0, False)):
            raise StopIteration

    found = minimize(
        value,
        row / scale,
        jac=True,
        method="L-BFGS-B",
        bounds=[(low / s, high / s) for (low, high), s in zip(limit, scale)],
        callback=note,
        options={"maxiter": problem.options.iterations, "ftol": problem.options.gain, "gtol": 1e-10},
    )
    return _Run(path, trace, 1 + found.nfev, found.nit < problem.options.iterations)


def _covariance(end: _Evaluation, count: int, names: tuple[str, ...]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Of the estimate, and the names in directions that the ranges do not tell."""
    normal = end.normal[0]
    scale = np.sqrt(np.where(np.diag(normal) > 0.0, np.diag(normal), 1.0))
    values, vectors = np.linalg.eigh(normal / np.outer(scale, scale))
    blind = values < 1e-9 * max(values[-1], 1e-300)
    weak = tuple(n for n, share in zip(names, np.abs(vectors[:, blind]).max(1, initial=0.0)) if share > 0.01)
    spread = 2.0 * float(end.cost[0]) / max(count - len(names), 1)
    if blind.any():
        inverse = (vectors[:, ~blind] / values[~blind]) @ vectors[:, ~blind].T
        covariance = spread * inverse / np.outer(scale, scale)
        lost = [n in weak for n in names]
        covariance[lost] = covariance[:, lost] = np.nan
        return covariance, weak
    return spread * ((vectors / values) @ vectors.T) / np.outer(scale, scale), weak
