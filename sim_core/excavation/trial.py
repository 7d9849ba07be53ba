"""A policy digs until it has come to the end of its path or the arm jams; what was measured, and what many trials say together.

Source: Zhu, PhD thesis (University of Illinois 2023), section 7.6.3, for the measures. A jammed trial counts as no mass, and its
actions count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sim_core.excavation.pile import Dig
from sim_core.excavation.policies import Policy
from sim_core.excavation.reference_path import ReferencePath
from sim_core.excavation.trial_run import TrialRun

__all__ = ["Summary", "Trial", "run_trial", "summary"]


@dataclass(frozen=True, eq=False)
class Trial:
    """One trial of T actions.

    Attributes:
        actions: (T,). poses: (T + 1, 4) [m, m, m, rad]. forces: (T + 1, 3) [N].
        images: (T + 1, height, width, 3) of bytes; None where nobody looked.
        peaks, held: largest force inside of each primitive, and the largest that lasted as long as a jam must (T,) [N].
        closest: index on the path of each state (T + 1,). bound: how often a point outside of the search window was nearer.
        jammed: the last primitive was aborted. finished: the path's end was reached. mass: in the bucket at the end [kg].
        position_error, angle_error: mean distance from the path [m], [rad], see `ReferencePath.errors`.
    """

    actions: np.ndarray
    poses: np.ndarray
    forces: np.ndarray
    images: np.ndarray | None
    peaks: np.ndarray
    held: np.ndarray
    closest: np.ndarray
    bound: int
    jammed: bool
    finished: bool
    mass: float
    position_error: float
    angle_error: float


def run_trial(
    dig: Dig, policy: Policy, path: ReferencePath, seed: int, longest: int = 100, follow_end: bool = True
) -> Trial:
    """Dig a new pile.

    Args:
        seed: of the pile. longest: actions after which it is lifted wherever it is.
        follow_end: whether the path's end ends the trial; random actions have no path.
    """
    run = TrialRun(policy, path, longest, follow_end)
    run.begin(dig.reset(seed, path.poses[0]))
    while (action := run.ask()) is not None:
        run.settle(dig.execute(action))
    mass, jammed = 0.0, run.jammed
    if not jammed:
        jammed = dig.lift().jammed
        mass = 0.0 if jammed else dig.weigh()
    states = run.states
    place, angle = run.errors()
    return Trial(
        np.array(run.actions, int),
        np.array([one.pose for one in states]),
        np.array([one.force for one in states]),
        None if states[0].image is None else np.array([one.image for one in states]),
        np.array(run.peaks),
        np.array(run.held),
        np.array(run.closest),
        run.bound,
        jammed,
        run.finished,
        mass,
        place,
        angle,
    )


@dataclass(frozen=True)
class Summary:
    """Of many trials.

    Attributes:
        trials, jams, finished: counts. interval: of the jam rate, 95 % (low, high).
        position_error [m], angle_error [rad]: means over trials that did not jam; NaN if all did.
        mass_per_action: sum of masses over sum of actions [kg]. mean_of_ratios: mean of mass over actions [kg].
        peak: mean largest force inside of a primitive [N].
    """

    trials: int
    jams: int
    finished: int
    interval: tuple[float, float]
    position_error: float
    angle_error: float
    mass_per_action: float
    mean_of_ratios: float
    peak: float

    @property
    def jam_rate(self) -> float:
        """Share of trials that jammed."""
        return self.jams / self.trials


def summary(trials: Sequence[Trial]) -> Summary:
    """The published measures, and an interval of Wilson's for the jam rate.

    Raises:
        ValueError: there are none.
    """
    if not trials:
        raise ValueError("expected trials, found none: run some first")
    n, jams = len(trials), sum(one.jammed for one in trials)
    free = [one for one in trials if not one.jammed]
    mean = lambda values: float(np.mean(values)) if len(values) else float("nan")
    counts = np.array([max(1, len(one.actions)) for one in trials])
    masses = np.array([one.mass for one in trials])
    return Summary(
        n,
        jams,
        sum(one.finished for one in trials),
        wilson(jams, n),
        mean([one.position_error for one in free]),
        mean([one.angle_error for one in free]),
        float(masses.sum() / counts.sum()),
        float((masses / counts).mean()),
        mean([one.peaks.max() for one in trials if len(one.peaks)]),
    )


def wilson(count: int, n: int, z: float = 1.959964) -> tuple[float, float]:
    """Interval of a probability of which `count` of n came true: Wilson, J. Am. Stat. Assoc. 22 (1927)."""
    share, square = count / n, z**2 / n
    middle = (share + 0.5 * square) / (1.0 + square)
    half = z * np.sqrt(share * (1.0 - share) / n + 0.25 * square / n) / (1.0 + square)
    low, high = float(middle - half), float(middle + half)
    return (0.0 if count == 0 else low), (1.0 if count == n else high)
