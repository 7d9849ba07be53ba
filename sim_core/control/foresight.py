"""Does a refit foretell what comes after its fits better than the parameters from before?

    foresight = Foresight(xi)                     # in use where the refit begins, or where the robot changes
    foresight.look(refit, windows)                # what do the samples say that came after the last proposal?
    result = foresight.judged(result, xi, refit)  # of this round

A proposal is fitted to the last second, and judged by held-out parts of the same second. Where the model lacks what has changed (the
tilt of a base), it describes that second better than the parameters from before, and what comes next worse. Where the data speak for
more than the refit may change, a proposal is therefore used only once those before it have foretold better, or if it is far better and
nothing is known of them; and what is used goes when it foretells worse.

Source: Dawid, Present Position and Potential Developments: The Prequential Approach (JRSS A 1984).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sim_core.control.refit import Refit, RefitResult
from sim_core.control.release import FAR
from sim_core.inference.data.window import Window

__all__ = ["Foresight"]

#: what was foretold counts for so long [s]
MEMORY = 1.0
#: loss of what proposals foretold over that of the parameters from before, from which on they are used
PROVEN = 0.9


class Foresight:
    """What proposals foretold of late, beside what the parameters from before would have.

    Args:
        before: coordinates (n,) that were in use before anything was learnt of the robot as it is.
    """

    def __init__(self, before: np.ndarray) -> None:
        self.before = np.array(before, float)
        self.forget()

    def forget(self) -> None:
        """What was foretold: time jumped."""
        self._last: tuple[float, np.ndarray] | None = None  # end of the data of the last proposal [s], and the proposal
        self._looks: list[tuple[float, np.ndarray]] = []  # stamp [s], and losses of the proposals and of `before`

    def look(self, refit: Refit, windows: Sequence[Window]) -> None:
        """Hold the last proposal against the samples that came after it."""
        if self._last is None or not windows:
            return
        end, xi = self._last
        losses = refit.losses([w for w in (_later(w, end) for w in windows) if w is not None], (xi, self.before))
        now = windows[-1].t[-1]
        if losses is not None:
            self._looks = [look for look in self._looks if look[0] > now - MEMORY] + [(now, losses)]

    @property
    def ratio(self) -> float:
        """Loss of what proposals foretold over that of the parameters from before; NaN: not known."""
        proposed, before = np.sum([losses for _, losses in self._looks], axis=0) if self._looks else (np.nan, np.nan)
        return float(proposed / before)

    def judged(self, result: RefitResult, xi: np.ndarray, refit: Refit) -> RefitResult:
        """The result of a round, refused or replaced by the parameters from before where the model is too small and does not foretell.

        Args:
            xi: coordinates in use (n,). refit: whose coordinates all are.
        """
        on_trial = np.array_equal(xi, self.before)
        proposed = result.xi if result.accepted or on_trial else xi
        if np.isfinite(result.window[1]):
            self._last = (result.window[1], np.array(proposed))
        if result.promise <= 0.0:
            return result
        if on_trial:
            leap = result.loss_after <= result.loss_before / FAR and not self.ratio > 1.0
            if not result.accepted or leap or self.ratio <= PROVEN:
                return result
            known = (
                "nothing is known yet of" if np.isnan(self.ratio) else f"{self.ratio:.2g} times the loss from before in"
            )
            return replace(
                result,
                accepted=False,
                reason=f"{result.reason}; not used yet: the data speak for more than the refit may change, and {known} what such "
                "proposals foretell",
            )
        if not self.ratio > 1.0:
            return result
        spread = np.diag(np.asarray(refit.spec.prior_std, float) ** 2)
        return replace(
            result,
            xi=self.before,
            p=refit.spec.to_physical(self.before),
            covariance=spread,
            estimates=refit.spec.report(self.before, spread),
            accepted=True,
            reason=f"back to the parameters from before: what was learnt foretold with {self.ratio:.2g} times their loss, as the data speak for "
            "more than the refit may change",
        )


def _later(window: Window, t: float) -> Window | None:
    """The part of a window from t [s] on, or None where there is none."""
    inside = np.flatnonzero(window.t >= t - 0.5 * window.dt)
    return window.slice(int(inside[0]), int(inside[-1])) if len(inside) > 1 else None
