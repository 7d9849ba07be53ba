"""Estimate what a refit holds as well, where the data speak for it: for arms whose model is too small for what changed.

    release = Release(refit, dt)
    result = release.fit(windows, xi)      # of `refit`, or of all that it considers: result.spec says which
    release.take(result)                   # an accepted one

What belongs to a motor or to a tilted base is otherwise put into the hand. That predicts the last second of motion better than what is
in use, and the rest of the path worse. All that is held is freed at once, each with its prior around where it is held: which kind is
off can rarely be told from a second of motion, and need not be told to predict the next. Where the smaller model suffices, nothing is
freed, and the hand stays as well known as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sim_core.control.refit import Fit, Refit, RefitResult
from sim_core.inference.data.window import Window
from sim_core.inference.fit.considered import Considered
from sim_core.inference.fit.evidence import price
from sim_core.inference.fit.repetition import independent_share
from sim_core.multibody.model.parameters import NamedEstimate

__all__ = ["Release", "unless_far_better"]

#: a proposal that lowers the held-out loss by this factor is used though the data ask for more than it may change
FAR = 5.0
#: what is estimated besides is held again where the data speak against it, and not only say nothing of it [logarithm of the evidence]
NEEDLESS = -10.0
TOO_SMALL = "the data speak for more than the refit may change"


class Release:
    """A refit and its larger version, and which of them is in force.

    Args:
        refit: with or without what it considers; without, nothing is ever freed. dt: sample period [s].
        willing: else nothing is ever freed either.

    Attributes:
        refit: what it holds stands where it was last estimated. free: all that it considers is estimated as well.
    """

    def __init__(self, refit: Refit, dt: float, willing: bool = True) -> None:
        self.refit, self.dt, self.willing, self.free = refit, dt, willing, False
        self._home = refit
        self.asked = False  # did the round before ask for more to be estimated?
        self._ended: np.ndarray | None = None  # where its fit of all ended
        # How much of the data is no repetition, as the last fit of all that explained them has it: the robot's sensors and friction
        # decide that, so that it outlasts a change.
        self._temper = 1.0

    def fit(self, windows: Sequence[Window], xi: np.ndarray) -> RefitResult:
        """Fit from xi (n,), the coordinates of `refit` that are in use, and judge."""
        considered = self.refit.considered
        if considered is None or not self.willing:
            return self.refit.fit(windows, xi)
        start = considered.around(self.refit.spec.names, xi)
        if self.free:
            small = self._home.brief().attempt(windows, xi, self._temper)
            if small.result.promise < NEEDLESS:
                return small.result
            result = self.refit.released(self.dt).fit(windows, start)
            return self._said(replace(result, of_all=result.iterations))
        small = self.refit.attempt(windows, xi, self._temper)
        asked, self.asked = self.asked, small.result.promise > 0.0
        if not self.asked:
            self._ended = None
            return small.result
        far = unless_far_better(small.result, TOO_SMALL)
        if not asked or far.accepted:
            return far
        # From the smaller model's optimum the cost can but fall; where that explains nothing it is no place to start from.
        if small.result.explained:
            start = considered.around(self.refit.spec.names, small.result.xi)
        elif self._ended is not None:
            start = self._ended
        large = self.refit.released(self.dt).attempt(windows, start)
        self._ended = large.result.xi
        result = small.result
        if self._pays(small, large):
            result = self._said(large.result) if large.result.explained else far
        return replace(
            result,
            promise=small.result.promise,
            iterations=small.result.iterations + large.result.iterations,
            of_all=large.result.iterations,
            fit_time=small.result.fit_time + large.result.fit_time,
        )

    def take(self, result: RefitResult) -> None:
        """Hold what is held where an accepted result has it."""
        if result.spec is self._home.spec:
            self.refit, self.free = self._home, False
        elif result.spec is not self.refit.spec:
            self.refit, self.free = self.refit.with_base(result.p), True

    def hold(self) -> None:
        """Estimate the refit's own coordinates alone until the data ask for more: the robot has changed again."""
        self.free, self.asked, self._ended = False, False, None

    def _pays(self, small: Fit, large: Fit) -> bool:
        """Does the larger model save more than its price? Costs in units of what the larger one leaves over, tempered by it."""
        if small.solution is None or small.problem is None or large.solution is None or large.problem is None:
            return False
        considered, scale = self._considered(), large.solution.scale
        a = considered.indices(self.refit.spec.names)
        c = np.setdiff1d(np.arange(large.problem.n), a)
        theta = considered.around(self.refit.spec.names, small.solution.theta)
        problem, after = large.problem, large.problem.normal_equations(large.solution.rollout, scale)
        prior = lambda theta: 0.5 * float(np.sum(((theta - problem.prior_mean) / problem.prior_std) ** 2))
        cost = lambda fit: problem.loss.rho(fit.rollout.residual / scale).sum((1, 2))
        saved = cost(small.solution) - cost(large.solution)
        share = independent_share(large.solution.rollout.residual / scale)
        if large.result.explained:
            self._temper = share
        # Without the first segment: where that holds a moment from before a change it must not free anything.
        gain = share * saved[len(saved) > 1 :].sum() + prior(theta) - prior(large.solution.theta)
        return bool(gain > price(after, a, c, problem.prior_std, share))

    def _considered(self) -> Considered:
        assert self.refit.considered is not None
        return self.refit.considered

    def _said(self, result: RefitResult) -> RefitResult:
        """The verdict with a sentence on what else is estimated."""
        if not result.accepted:
            return result
        kind, surest = self._surest(result)
        return replace(
            result,
            reason=f"{result.reason}; what the refit held is now estimated too, above all {kind}: {surest.name} is "
            f"{surest.value:.3g} {surest.unit}, with 95 % between {surest.lower:.3g} and {surest.upper:.3g}",
        )

    def _surest(self, result: RefitResult) -> tuple[str, NamedEstimate]:
        """The held quantity that is off by most of its own standard deviations, and its kind."""
        considered = self._considered()
        home = {e.name: e.value for e in considered.spec.report(considered.spec.prior_mean, result.covariance)}
        found = {e.name: e for e in result.estimates}
        kinds = {name: kind for kind, names in considered.kinds.items() for name in names if name in found}
        off = lambda name: abs(found[name].value - home[name]) / max(found[name].std, np.finfo(float).tiny)
        name = max(kinds, key=off)
        return kinds[name], found[name]


def unless_far_better(result: RefitResult, why: str) -> RefitResult:
    """The result, refused for a reason unless it predicts far better than what is in use."""
    if not result.accepted or result.loss_after <= result.loss_before / FAR:
        return result
    return replace(result, accepted=False, reason=f"{result.reason}; not used: {why}")
