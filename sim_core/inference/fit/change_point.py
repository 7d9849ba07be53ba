"""When did the robot change? One parameter set for a recording against two, as often as two predict far better.

What a model leaves out (friction, flexible joints) is correlated in time, so two sets always fit better than one, and by
any likelihood ratio significantly so. What decides here is prediction: blocks of segments are left out in turn, and two
sets, of the segments before k and of those from k on, must predict the blocks far better than one set of all does, each
fitted without the block. No fit is repeated for that. Where a fit or its linearisation leaves segment s the score g_s and
the Hessian H_s (shooting.py), the others' optimum and what it costs block b are

    d = -(H - H_b)^-1 (g - g_b),   cost_b = c_b + g_b.d + d.H_b.d / 2,   sums over the set's segments and its prior.

1. One fit of everything; from its scores and Hessians the gain of a cut at every k.
2. The best cut's sides are fitted, and the cut moves to where the two sets share the segments best, until it rests.
3. One set is fitted again from where each of the two ended (a local minimum is no change), and the held-out costs of real
   fits decide: two sets must cost less by several standard errors over the blocks, or far less on one side, which may be
   too short for a standard error. Both sides are then searched in the same way.
4. The time, to the sample: roll-outs with the first set up to sample j and the second from there on, over all j.

A payload that comes and goes may leave nothing for a single cut to gain. Where none is found, the linearisation is asked for a
stretch inside that would gain from a set of its own, and its two ends are searched for.

Source: binary segmentation, Scott and Knott (1974), with stretches as in circular binary segmentation, Olshen et al. (2004),
refined between neighbours as in Bai, Estimating Multiple Breaks One at a Time (1997); leave-out by one Newton step: Pregibon,
Logistic Regression Diagnostics (1981).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from sim_core.host.threads import single_threaded
from sim_core.inference.data.window import Window
from sim_core.inference.fit.least_squares import Solution, minimise
from sim_core.inference.shooting.shooting import Sensitive, ShootingProblem

__all__ = ["Change", "ChangeConfig", "find_changes", "held_out_costs", "segment_costs"]

# Held-out cost [nats] that a cut must promise to be worth real fits; without a change it promises a few at most.
PROMISING = 10.0
# Fits and moves of one cut; it rests after two or three.
MOVES = 6
# Of one set where two are better: without a change the start is near, and with one there is no hurry to a bad optimum.
REFIT_EVALUATIONS = 20
# Cost of a segment that does not roll out.
HOPELESS = 1e12


@dataclass(frozen=True)
class ChangeConfig:
    """When two parameter sets count as better than one.

    Attributes:
        shortest: stretch that may have its own set [s].
        block: time left out at once [s].
        errors: gain in held-out cost over its standard error, from which on a change is believed, or
        factor: held-out cost of one set over that of two on either side, with a gain in all.
        margin: data left out on either side of a change's interval: few are instantaneous [s].
        max_evaluations: roll-outs with sensitivities per fit.

    Panda, 6 to 14 s: without a change at most 1.4 standard errors, and 4.3 with friction of up to 0.6 N m in every joint that
    the fit knows nothing of; with 20 g more in the hand 5 to 12.
    """

    shortest: float = 0.5
    block: float = 0.25
    errors: float = 5.0
    factor: float = 3.0
    margin: float = 0.1
    max_evaluations: int = 60


@dataclass(frozen=True)
class Change:
    """When, and how much it explains.

    time: most probable [s]; lower, upper: 95 % interval [s]; factor: held-out cost of one set over that of two, on the side
    that gains more [-]; errors: gain in held-out cost in standard errors [-].
    """

    time: float
    lower: float
    upper: float
    factor: float
    errors: float


@single_threaded
def find_changes(
    problem: ShootingProblem, windows: list[Window], config: ChangeConfig = ChangeConfig()
) -> list[Change]:
    """Changes of the robot, in order of time.

    Args:
        problem: of `windows`, with free starts.
        windows: in order of time.
    """
    search = _Search(problem, config)
    edges = [0, *search.cuts(0, len(problem.times)), len(problem.times)]
    changes: list[Change] = []
    i = 1
    while i < len(edges) - 1:
        # Once more between its neighbours, which were unknown when the cut was made.
        cut = search.best_cut(edges[i - 1], edges[i + 1])
        if cut is None:
            del edges[i]
            continue
        edges[i] = cut.at
        changes.append(Change(*change_time(problem, windows, cut), cut.factor, cut.errors))
        i += 1
    return changes


@dataclass(frozen=True)
class Cut:
    """A change between segments: index of the first one after it, both sides' fits, how much they gain."""

    at: int
    before: Solution
    after: Solution
    factor: float
    errors: float


class _Search:
    """Cuts of a problem's segments a..b (b not included)."""

    def __init__(self, problem: ShootingProblem, config: ChangeConfig) -> None:
        self.problem, self.config = problem, config
        spacing = problem.stride * problem.dt
        self.shortest = max(2, int(np.ceil(config.shortest / spacing - 1e-6)))
        self.block = max(1, round(config.block / spacing))
        self.best_cut, self.whole = cache(self._best_cut), cache(self._whole)

    def cuts(self, a: int, b: int) -> list[int]:
        cut = self.best_cut(a, b)
        if cut is not None:
            return [*self.cuts(a, cut.at), cut.at, *self.cuts(cut.at, b)]
        # A robot that changes and changes back hides from a single cut: up to the second change there is one, from the first on.
        begin, end = self.excursion(a, b) or (b, a)
        cuts = [cut.at for cut in (self.best_cut(a, end), self.best_cut(begin, b)) if cut is not None]
        return sorted(set(cuts))

    def _best_cut(self, a: int, b: int) -> Cut | None:
        """Where two sets predict best, if they do so far better than one."""
        inside = range(self.shortest, b - a - self.shortest + 1)
        whole = self.whole(a, b) if inside else None
        if whole is None or not whole.rolled_out:
            return None
        gains = [self.linear_gain(whole, k) for k in inside]
        if max(gains) < PROMISING:
            return None
        k = a + inside[int(np.argmax(gains))]
        for _ in range(MOVES):
            cut, before, after = k, self.fit(a, k, whole.theta), self.fit(k, b, whole.theta)
            if not (before.rolled_out and after.rolled_out):
                return None
            k = self.share(a, b, before, after)
            if k == cut:
                break
        factor, errors = self.confirm(a, cut, b, whole, before, after)
        believed = factor > self.config.factor or errors > self.config.errors
        return Cut(cut, before, after, factor, errors) if believed else None

    def excursion(self, a: int, b: int) -> tuple[int, int] | None:
        """Stretch inside a..b that would gain most from a set of its own, from the linearisation of one fit."""
        fit, n = self.whole(a, b), b - a
        if not fit.rolled_out or n < 3 * self.shortest:
            return None
        blocks = self.blocks(0, n)
        common = np.concatenate([[0.0], np.cumsum(held_out_costs(self.problem, fit, blocks))])
        wide = int(np.ceil(self.shortest / self.block))
        best = PROMISING
        stretch: tuple[int, int] | None = None
        for i in range(wide, len(blocks) - 2 * wide + 1):
            for j in range(i + wide, len(blocks) - wide + 1):
                first, last = blocks[i][0], blocks[j - 1][-1] + 1
                own = held_out_costs(self.problem, fit, [block - first for block in blocks[i:j]], slice(first, last))
                gain = common[j] - common[i] - own.sum()
                if gain > best:
                    best, stretch = gain, (a + int(first), a + int(last))
        return stretch

    def _whole(self, a: int, b: int) -> Solution:
        return self.fit(a, b, self.problem.prior_mean)

    def fit(self, a: int, b: int, theta: np.ndarray) -> Solution:
        return minimise(self.problem.subset(slice(a, b)), theta, max_evaluations=self.config.max_evaluations)

    def refit(self, a: int, b: int, theta: np.ndarray, scale: np.ndarray) -> Solution:
        return minimise(self.problem.subset(slice(a, b)), theta, max_evaluations=REFIT_EVALUATIONS, scale=scale)

    def linear_gain(self, whole: Solution, k: int) -> float:
        """Held-out cost that a cut before segment k saves, from the linearisation of one fit."""
        n = len(whole.normal.scores)
        one = held_out_costs(self.problem, whole, [*self.blocks(0, k), *self.blocks(k, n)])
        before = held_out_costs(self.problem, whole, self.blocks(0, k), slice(0, k))
        after = held_out_costs(self.problem, whole, self.blocks(0, n - k), slice(k, n))
        return float(one.sum() - before.sum() - after.sum())

    def share(self, a: int, b: int, before: Solution, after: Solution) -> int:
        """The cut that gives every segment to the set that explains it better, as far as one cut can."""
        part, scale = self.problem.subset(slice(a, b)), _pooled_scale(before, after)
        excess = segment_costs(part, before.theta, scale) - segment_costs(part, after.theta, scale)
        sums = np.concatenate([[0.0], np.cumsum(excess)])[self.shortest : b - a - self.shortest + 1]
        return a + self.shortest + int(np.argmin(sums))

    def confirm(
        self, a: int, k: int, b: int, whole: Solution, before: Solution, after: Solution
    ) -> tuple[float, float]:
        """Held-out cost of one set over that of two on the better side, and what two save in standard errors; (0, 0) if
        they save nothing."""
        scale = _pooled_scale(before, after)
        tried = [self.refit(a, b, s.theta, scale) for s in (whole, before, after)]
        one = min((s for s in tried if s.rolled_out), key=lambda s: s.costs[-1])
        left, right = self.blocks(0, k - a), self.blocks(0, b - k)
        ones = np.split(held_out_costs(self.problem, one, [*left, *(block + k - a for block in right)]), [len(left)])
        twos = [
            held_out_costs(self.problem, self.refit(a, k, before.theta, scale), left),
            held_out_costs(self.problem, self.refit(k, b, after.theta, scale), right),
        ]
        saved = np.concatenate(ones) - np.concatenate(twos)
        if saved.sum() <= 0.0:
            return 0.0, 0.0
        return (
            float(max(o.sum() / t.sum() for o, t in zip(ones, twos))),
            float(saved.mean() / saved.std(ddof=1) * np.sqrt(len(saved))),
        )

    def blocks(self, a: int, b: int) -> list[np.ndarray]:
        """Segments a..b in at least two blocks."""
        return np.array_split(np.arange(a, b), max(2, round((b - a) / self.block)))


def held_out_costs(
    problem: ShootingProblem, fit: Solution, blocks: list[np.ndarray], segments: slice = slice(None)
) -> np.ndarray:
    """Cost of each block under the optimum of the other segments among `segments`, by one Newton step, shape (B,).

    Args:
        fit: of the problem's prior. blocks: indices into its segments from the first of `segments` on.
    """
    L = np.diag(1.0 / problem.prior_std**2)
    c = problem.loss.rho(fit.rollout.residual[segments] / fit.scale).sum((1, 2))
    g, H = fit.normal.scores[segments], fit.normal.segment_hessians[segments]
    c_b, g_b, H_b = (np.stack([x[block].sum(0) for block in blocks]) for x in (c, g, H))
    g_rest = g.sum(0) + L @ (fit.theta - problem.prior_mean) - g_b
    d = -np.linalg.solve(H.sum(0) + L - H_b, g_rest[..., None])[..., 0]
    return c_b + np.einsum("bi,bi->b", g_b, d) + 0.5 * np.einsum("bi,bij,bj->b", d, H_b, d)


def segment_costs(problem: ShootingProblem, theta: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Loss of each segment from the start that fits it best, shape (S,); huge where theta does not roll out."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            residual = problem.settle_starts(theta, scale).residual
    except (ValueError, np.linalg.LinAlgError):
        return np.full(len(problem.times), HOPELESS)
    cost = problem.loss.rho(residual / scale).sum((1, 2))
    return np.where(np.isfinite(cost), cost, HOPELESS)


def _pooled_scale(before: Solution, after: Solution) -> np.ndarray:
    """Residual scales that both sides share, shape (ny,): costs compare on common scales only."""
    counts = [len(s.rollout.starts) for s in (before, after)]
    return np.sqrt(np.average([before.scale**2, after.scale**2], axis=0, weights=counts))


# -- the time ----------------------------------------------------------------------------------


def change_time(problem: ShootingProblem, windows: list[Window], cut: Cut) -> tuple[float, float, float]:
    """Most probable time and 95 % interval [s], every sample near the cut being equally likely beforehand.

    One trajectory over three segments, its start free, per sample j: the first set up to j, the second from there on.
    The delay is the second set's. Residuals count as independent: what the model leaves out is not in the interval.
    """
    start, n = problem.times[cut.at], problem.spec.n
    earlier = [w for w in windows if w.t[-1] < start - problem.dt / 2]
    window = windows[len(earlier)]
    k, reach = int(np.argmin(np.abs(window.t - start))), round(1.5 * problem.length)
    around = window.slice(max(0, k - reach), min(window.transitions, k + reach))
    switches = np.arange(around.transitions + 1)
    before, after = (problem.spec.to_physical(s.theta[:n]) for s in (cut.before, cut.after))
    trial = ShootingProblem(
        _Switching(problem.dynamics, before, switches),
        _Fixed(after),
        [around] * len(switches),
        around.transitions,
        True,
        problem.loss.name,
        problem.delay,
        (problem.floor[0], problem.floor[-1]),
    )
    cost = segment_costs(trial, cut.after.theta[n:], _pooled_scale(cut.before, cut.after))
    probability = np.exp(cost.min() - cost)
    cumulative = np.cumsum(probability) / probability.sum()
    low, high = np.searchsorted(cumulative, (0.025, 0.975))
    if np.argmin(cost) == 0 and earlier and around.t[0] == window.t[0]:
        return 0.5 * (earlier[-1].t[-1] + window.t[0]), earlier[-1].t[-1], window.t[0]  # while nothing was recorded
    # The samples stand for the time up to their neighbours.
    ends = around.t[max(low - 1, 0)], around.t[min(high + 1, switches[-1])]
    return float(around.t[np.argmin(cost)]), float(ends[0]), float(ends[1])


class _Switching:
    """Roll-outs of which number s leaves the physical vector `before` for the given one at step switches[s]; no coordinate
    of theta is free."""

    def __init__(self, dynamics: Sensitive, before: np.ndarray, switches: np.ndarray) -> None:
        self._dynamics, self._before, self._switches = dynamics, before, switches

    def rollout_sensitivity(
        self, starts: np.ndarray, controls: np.ndarray, p: np.ndarray, dpdxi: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        S, K = controls.shape[:2]
        each, step, joint = np.arange(S)[:, None], np.arange(K + 1), self._switches[:, None]
        X, A = self._from(starts, controls, self._before)
        rest = controls[each, np.minimum(joint + step[:-1], K - 1)]  # what the padding leads to is not read
        X2, A2 = self._from(X[each, joint][:, 0], rest, p)
        late, behind = step > joint, np.maximum(step - joint, 0)
        A2 = A2[each, behind] @ A[each, joint]
        return np.where(late[..., None], X2[each, behind], X), np.where(late[..., None, None], A2, A)

    def _from(self, x0: np.ndarray, U: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        X, S = self._dynamics.rollout_sensitivity(x0, U, p, np.zeros((len(p), 1)))
        return X, S[..., :-1]


class _Fixed:
    """A physical vector without free coordinates."""

    n = 0
    prior_mean = prior_std = lower = upper = np.zeros(0)

    def __init__(self, p: np.ndarray) -> None:
        self._p = p

    def to_physical(self, xi: np.ndarray) -> np.ndarray:
        return self._p

    def jacobian(self, xi: np.ndarray) -> np.ndarray:
        return np.zeros((len(self._p), 0))
