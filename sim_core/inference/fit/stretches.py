"""A recording of a robot that changed: when, and what it was before and after.

    history = identify_stretches(model, spec, windows, IdentifyConfig())
    history.found              # the last stretch: what the robot is now
    history.changes[0].time    # [s]
    history.changed(0)         # names of quantities that changed then

Changes are sought in all of the data; each stretch between them is then identified by itself, with its own starts and its
own held-out part. What lies within a change's interval and a margin around it belongs to neither side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from sim_core.inference.data.window import Window
from sim_core.inference.fit.change_point import Change, ChangeConfig, find_changes, segment_costs
from sim_core.inference.fit.identify import (
    Identification,
    IdentificationError,
    IdentifyConfig,
    dynamics_at,
    identify,
    shooting_problem,
)
from sim_core.inference.shooting.shooting import ShootingProblem
from sim_core.multibody.model.model import RobotModel
from sim_core.multibody.model.parameters import FreeParameters
from sim_core.system import System

__all__ = ["History", "Stretch", "cut_at", "identify_stretches"]

# Probability that a quantity which did not change is called changed, over all quantities of one change.
FALSE_ALARM = 0.05


@dataclass(frozen=True)
class Stretch:
    """Data between two changes: begin, end [s], NaN if nothing is left; what was found, or None and why not."""

    begin: float
    end: float
    found: Identification | None
    reason: str = ""


@dataclass(frozen=True)
class History:
    """Stretches in order of time and the changes between them.

    times: begins of segments over the whole recording (S,) [s]; costs: mean loss of each segment's residuals under each
    stretch's parameters (len(stretches), S), about 1 where they are as large as in the last stretch, NaN where unknown.
    """

    stretches: list[Stretch]
    changes: list[Change]
    times: np.ndarray
    costs: np.ndarray

    @property
    def found(self) -> Identification:
        """What the robot is now: the last stretch."""
        found = self.stretches[-1].found
        assert found is not None, "identify_stretches raises where the last stretch cannot be identified"
        return found

    def changed(self, i: int) -> list[str]:
        """Quantities that differ significantly between the stretches on both sides of change i.

        Bonferroni over the quantities. Empty if one side was not identified.
        """
        a, b = self.stretches[i].found, self.stretches[i + 1].found
        if a is None or b is None:
            return []
        limit = ndtri(1.0 - 0.5 * FALSE_ALARM / len(b.after))
        return [y.name for x, y in zip(a.after, b.after) if abs(y.value - x.value) > limit * np.hypot(x.std, y.std)]


def identify_stretches(
    model: RobotModel,
    spec: FreeParameters,
    windows: list[Window],
    config: IdentifyConfig = IdentifyConfig(),
    detect: ChangeConfig | None = ChangeConfig(),
    progress: Any = None,
) -> History:
    """Find the changes of the robot and identify every stretch between them.

    Args:
        detect: when a change is believed; None for one set of parameters throughout.

    Raises:
        IdentificationError: the last stretch is too short, or cannot be fitted.
    """
    dynamics = dynamics_at(model, windows[0].dt)
    problem = shooting_problem(dynamics, spec, windows, config.segment_time, config)
    changes = _find(problem, windows, detect, progress)
    margin = detect.margin if detect else 0.0
    stretches = [_identify(model, spec, part, config, progress, dynamics) for part in cut_at(windows, changes, margin)]
    last = stretches[-1]
    if last.found is None:
        if changes:
            raise IdentificationError(
                f"the robot changed at {changes[-1].time:.3f} s and the stretch after it cannot be identified: {last.reason}; "
                f"record longer, or identify what it was before with --to {changes[-1].lower - margin:.3f}"
            )
        raise IdentificationError(f"the recording cannot be identified: {last.reason}")
    scale = last.found.solution.scale
    unknown = np.full(len(problem.times), np.nan)
    costs = [
        unknown if s.found is None else 2.0 * segment_costs(problem, s.found.theta, scale) / problem.observed[0].size
        for s in stretches
    ]
    return History(stretches, changes, problem.times, np.array(costs))


def cut_at(windows: list[Window], changes: list[Change], margin: float) -> list[list[Window]]:
    """The windows of each stretch between changes; samples within `margin` [s] of a change's interval are left out."""
    begins = [-np.inf, *(c.upper + margin for c in changes)]
    ends = [*(c.lower - margin for c in changes), np.inf]
    return [[part for w in windows if (part := _between(w, a, b)) is not None] for a, b in zip(begins, ends)]


def _between(window: Window, begin: float, end: float) -> Window | None:
    """Samples from begin to end [s], or None where there is not even one transition."""
    first, last = np.searchsorted(window.t, begin - 1e-9), np.searchsorted(window.t, end + 1e-9) - 1
    return window.slice(int(first), int(last)) if last > first else None


def _find(problem: ShootingProblem, windows: list[Window], detect: ChangeConfig | None, progress: Any) -> list[Change]:
    if detect is None:
        return []
    if progress is None:
        return find_changes(problem, windows, detect)
    with progress.stage("looking for changes of the robot"):
        return find_changes(problem, windows, detect)


def _identify(
    model: RobotModel,
    spec: FreeParameters,
    windows: list[Window],
    config: IdentifyConfig,
    progress: Any,
    dynamics: System,
) -> Stretch:
    begin, end = (windows[0].t[0], windows[-1].t[-1]) if windows else (np.nan, np.nan)
    # The held-out part must hold a lead and a forecast at least as long.
    held, needed = sum(w.transitions * w.dt for w in windows), 2.0 * config.lead_time / config.held_out
    if held < needed - 1e-9:
        return Stretch(begin, end, None, f"it is {held:.2f} s long and {needed:g} s are needed")
    try:
        return Stretch(begin, end, identify(model, spec, windows, config, progress, dynamics))
    except IdentificationError as error:
        return Stretch(begin, end, None, str(error))
