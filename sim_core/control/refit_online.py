"""The sliding window of the running robot: collect, notice changes, refit, keep the last good.

    online = OnlineRefit(model, spec)
    online.append(t, q, v, u)        # u was applied over the tick that ended at t
    if online.due(t): result = online.update()

A pure library: no clock, no thread, no ROS. The same samples give the same parameters, which
is what makes a bag replayable.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sim_core.control.change_detection import Change, ChangeConfig, detect_change
from sim_core.control.foresight import Foresight
from sim_core.control.refit import FreeCoordinates, Refit, RefitConfig, RefitResult
from sim_core.control.release import Release, unless_far_better
from sim_core.inference.data.window import Window, contiguous_windows
from sim_core.inference.fit.considered import Considered
from sim_core.system import System

__all__ = ["OnlineConfig", "OnlineRefit"]

#: a robot that seems to have changed twice within so many windows has not changed: its model is too small
REPEATED = 3.0
#: share of the window from which on a proposal of such a robot is used though it is not far better than what is in use
YOUNG = 0.7


@dataclass(frozen=True)
class OnlineConfig:
    """The window and its rhythm. Times in seconds of the data's own stamps.

    Attributes:
        window: longest stretch fitted. Longer averages more noise and forgets more slowly.
        min_window: shortest stretch worth fitting, after a start or a change.
        period: time between fits.
        bridge: longest pause between two samples that is interpolated over [sample periods]. Below 2 a lost sample cuts
            the window: exact data should not be diluted.
        change: when to cut the window, see change_detection.py.
        estimate_held: what the refit considers is estimated as well, where the data ask for it (release.py).
        refit: how the window is fitted.
    """

    window: float = 1.0
    min_window: float = 0.25
    period: float = 0.25
    bridge: float = 1.9
    change: ChangeConfig = field(default_factory=ChangeConfig)
    estimate_held: bool = False
    refit: RefitConfig = field(default_factory=RefitConfig)

    def __post_init__(self) -> None:
        if not 0.0 < self.min_window <= self.window:
            raise ValueError(f"expected 0 < min_window <= window, got {self.min_window} and {self.window} s")


class OnlineRefit:
    """Parameters in use (`xi`, `p`, `revision`) and the samples that will correct them.

    Args:
        model, spec, dynamics, mass_matrix, considered: as for Refit.
        dt: sample period [s]; the model's time step by default, or the System's period.
    """

    def __init__(
        self,
        model: Any,
        spec: FreeCoordinates,
        config: OnlineConfig = OnlineConfig(),
        dt: float | None = None,
        dynamics: System | None = None,
        mass_matrix: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None,
        considered: Considered | None = None,
    ) -> None:
        self.config = config
        self.dt = (model.timestep if hasattr(model, "timestep") else model.dt) if dt is None else dt
        refit = Refit(model, spec, config.refit, dynamics=dynamics, mass_matrix=mass_matrix, considered=considered)
        self._first, self._release = refit, self._releasing(refit)
        self._foresight = Foresight(spec.prior_mean)
        self.dropped = 0
        self.reset()

    def _releasing(self, refit: Refit) -> Release:
        return Release(refit, self.dt, self.config.estimate_held)

    @property
    def refit(self) -> Refit:
        """The refit whose coordinates are `xi`; what it holds stands where it was last estimated."""
        return self._release.refit

    @property
    def spec(self) -> FreeCoordinates:
        """Of the refit."""
        return self.refit.spec

    @property
    def free(self) -> bool:
        """Is what the refit considers estimated as well?"""
        return self._release.free

    def reset(self) -> None:
        """Forget samples and everything learnt: back to the prior."""
        self._release = self._releasing(self._first)
        self.set_parameters(self.spec.prior_mean)
        self.revision = 0
        self.change: Change | None = None
        self.forget()

    def forget(self) -> None:
        """Drop the samples, keep the parameters: time jumped or the robot was moved by hand."""
        self._t: list[float] = []
        self._rows: list[np.ndarray] = []
        self._next_fit = -np.inf
        # Did the data ask for no more than the refit may change, in the last round? The last time that they did: taken for a
        # change, and yet to be [s].
        self._quiet, self._asked, self._pending = False, -np.inf, -np.inf
        self._changed = -np.inf  # last change of behaviour [s]
        self._foresight.forget()

    def set_parameters(self, xi: np.ndarray) -> None:
        """Take coordinates as the ones in use, for example from a parameter file."""
        self._use(xi)
        self._foresight = Foresight(self.xi)

    def _use(self, xi: np.ndarray) -> None:
        self.xi = np.array(xi, dtype=float)
        self.p = self.spec.to_physical(self.xi)

    def exchange(self, refit: Refit) -> None:
        """Fit another model in the same coordinates from now on; samples, coordinates and revision stay.

        Raises:
            ValueError: the other model's free coordinates have other names.
        """
        if refit.spec.names != self.spec.names:
            raise ValueError(
                f"expected the free coordinates {', '.join(self.spec.names)}, found {', '.join(refit.spec.names)}"
            )
        learnt = self.refit.considered
        if learnt is not None and refit.considered is not None and learnt.kinds == refit.considered.kinds:
            self._first, refit = refit, refit.with_base(refit.considered.spec.to_physical(learnt.at))
        else:
            self._first = refit
        self._release = self._releasing(refit)
        self.set_parameters(self.xi)

    def hold(self, p: np.ndarray) -> None:
        """Hold what the refit holds where p (np_,) has it; its coordinates stay."""
        self._release = self._releasing(self.refit.with_base(p))
        self.set_parameters(self.xi)

    def append(self, t: float, q: np.ndarray, v: np.ndarray, u: np.ndarray) -> bool:
        """Add the state at stamp t and the control applied over the tick that ended at t.

        Returns False for a sample that was dropped because it is not finite. A stamp that does
        not advance means time jumped back: earlier samples are forgotten.
        """
        row = np.concatenate([q, v, u])
        self._columns = [len(q), len(q) + len(v)]
        if not (np.isfinite(t) and np.isfinite(row).all()):
            self.dropped += 1
            return False
        if self._t and t <= self._t[-1]:
            self.forget()
        self._t.append(float(t))
        self._rows.append(row)
        excess = len(self._t) - 2 * (round(self.config.window / self.dt) + 1)
        if excess > 0:  # trimmed rarely, by halves, because lists shift on deletion
            keep = round(self.config.window / self.dt) + 1
            del self._t[:-keep], self._rows[:-keep]
        return True

    def windows(self) -> list[Window]:
        """The samples as contiguous windows, no older than `config.window`."""
        if len(self._t) < 2:
            return []
        t, rows = np.array(self._t), np.array(self._rows)
        recent = t >= t[-1] - self.config.window - 0.5 * self.dt
        t, rows = t[recent], rows[recent]
        q, v, u = np.split(rows, self._columns, axis=1)
        return contiguous_windows(t, q, v, u[1:], self.dt, bridge=self.config.bridge)

    def first(self) -> float:
        """Stamp of the first sample at hand that is no older than `config.window` [s]."""
        return next(t for t in self._t if t >= self._t[-1] - self.config.window - 0.5 * self.dt)

    def span(self) -> float:
        """Stretch of data at hand [s]."""
        return self._t[-1] - max(self._t[0], self._t[-1] - self.config.window) if self._t else 0.0

    def due(self, t: float) -> bool:
        """Is there enough data, and has a period passed since the last fit?"""
        return t >= self._next_fit and self.span() >= self.config.min_window - 0.5 * self.dt

    def look_for_change(self) -> Change | None:
        """Cut the window at a change of behaviour, if there is one in it."""
        windows = self.windows()
        if not windows:
            return None
        change = detect_change(self.refit.dynamics(self.dt), windows[-1], self.p, self.config.change)
        if change is not None:
            self.change = change
            self._release.hold()
            if change.time > self._changed + REPEATED * self.config.window:
                self._foresight = Foresight(self.xi)
            self._changed = change.time
            self._cut_at(change.time)
        return change

    def _cut_at(self, t: float) -> None:
        """Drop the samples before t, after which the robot is another."""
        keep = int(np.searchsorted(self._t, t - 0.5 * self.dt))
        del self._t[:keep], self._rows[:keep]
        self._next_fit = -np.inf  # fit as soon as min_window has passed, not a period later

    def update(self) -> RefitResult | None:
        """One round: cut at a change, fit what is left, take the proposal if it is accepted.

        Returns None while the window is still too short.
        """
        if not self._t:
            return None
        changed, pending, self._pending = self.look_for_change(), self._pending, -np.inf
        if changed is None and pending >= self._t[0]:
            self._asked = pending
            self._cut_at(pending)
        if self.span() < self.config.min_window - 0.5 * self.dt:
            return None
        self._next_fit = self._t[-1] + self.config.period
        lately = self._t[-1] - REPEATED * self.config.window
        again = lately < max(self._asked, self._changed)
        self._release.asked |= again
        windows, wary = self.windows(), lately < self._asked and self.span() < YOUNG * self.config.window
        self._foresight.look(self.refit, windows)
        result = self._take(self._foreseen(self._fitted(windows, wary)))
        asks = self.config.estimate_held and result.promise > 0.0
        if asks and not again and not self.free and self._quiet:
            self._pending = self._t[-1]
        self._quiet = not asks
        return result

    def fit(self, windows: list[Window]) -> RefitResult:
        """Fit these windows and take the proposal if it is accepted."""
        return self._take(self._fitted(windows))

    def _fitted(self, windows: list[Window], wary: bool = False) -> RefitResult:
        """The result of these windows. wary: accepted only if it is far better than what is in use."""
        result = self._release.fit(windows, self.xi)
        return unless_far_better(result, "the window is too short to tell what has changed") if wary else result

    def _foreseen(self, result: RefitResult) -> RefitResult:
        """The result, judged by what was foretold as well; a fit of all that is considered has its own decision."""
        if self.free or result.spec is not self.spec:
            self._foresight = Foresight(self.xi)
            return result
        return self._foresight.judged(result, self.xi, self.refit)

    def _take(self, result: RefitResult) -> RefitResult:
        if result.accepted:
            self._release.take(result)
            self._use(self._own(result))
            self.revision += 1
        return result

    def _own(self, result: RefitResult) -> np.ndarray:
        """Of a result's coordinates those that are the refit's own."""
        names = list(result.spec.names)
        return result.xi[[names.index(name) for name in self.spec.names]]
