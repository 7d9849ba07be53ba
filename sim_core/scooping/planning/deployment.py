"""From the first look to a scoop that is large enough: observe, choose, do, measure, and again.

Actions that cannot be planned fall through to the next best and are no attempts. Source: Zhu, PhD thesis (University of Illinois 2023),
section 6.3.3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sim_core.planning.candidates import NoCandidate
from sim_core.planning.planner import Suggestion
from sim_core.scooping.bed.actions import Actions
from sim_core.scooping.bed.rendering import Camera, Picture
from sim_core.scooping.bed.reward import REWARD, RewardSettings, scoop
from sim_core.scooping.bed.terrain import Terrain
from sim_core.scooping.learning.dataset import TerrainRecord
from sim_core.scooping.planning.policies import Observation
from sim_core.scooping.planning.scoop_planner import ScoopPlanner

__all__ = ["Attempt", "Deployment", "PlanningFailed", "SimulatedTray", "Tray", "deploy", "deploy_logged"]


class PlanningFailed(RuntimeError):
    """The arm cannot do an action; the text says why, in a few words."""


class Tray(Protocol):
    """Where scoops are done."""

    def picture(self) -> Picture:
        """As it is now."""
        ...

    def execute(self, action: Actions) -> float:
        """Do one action; the volume that it brought [m^3], 0 where the arm was stopped. Raises PlanningFailed."""
        ...


@dataclass(frozen=True)
class Attempt:
    """One scoop: what was suggested and what it brought [m^3]."""

    suggestion: Suggestion
    volume: float


@dataclass(frozen=True)
class Deployment:
    """What came of it.

    Attributes:
        attempts: in order. success: whether the last one reached the threshold. failures: actions that could not be planned.
    """

    attempts: tuple[Attempt, ...]
    success: bool
    failures: int = 0


class SimulatedTray:
    """A simulated terrain that changes with every scoop.

    Args:
        terrain: which is changed. seed: of noise and luck. refuses: why an action cannot be planned; None: it can.
    """

    def __init__(
        self,
        terrain: Terrain,
        seed: int = 0,
        refuses: Callable[[Actions], str | None] = lambda action: None,
        settings: RewardSettings = REWARD,
    ) -> None:
        self.terrain, self.refuses, self.settings = terrain, refuses, settings
        self._camera = Camera(terrain)
        self._rng = np.random.default_rng([seed, terrain.recipe.number, 66])

    def picture(self) -> Picture:
        """See `Tray`."""
        return self._camera.picture(self._rng)

    def execute(self, action: Actions) -> float:
        """See `Tray`."""
        if reason := self.refuses(action):
            raise PlanningFailed(reason)
        return scoop(self.terrain, action, self._rng, self.settings).volume


def deploy(
    planner: ScoopPlanner,
    tray: Tray,
    threshold: float,
    budget: int = 20,
    after: Callable[[Attempt], None] = lambda attempt: None,
) -> Deployment:
    """Scoop until a volume reaches the threshold, the budget is used, or nothing is left to try.

    Args:
        threshold: [m^3]. budget: attempts. after: called with each attempt, as to save a checkpoint.
    """
    attempts: list[Attempt] = []
    failures = 0
    while len(attempts) < budget:
        planner.observe(tray.picture())
        while True:
            try:
                suggestion = planner.ask()
            except NoCandidate:
                return Deployment(tuple(attempts), False, failures)
            try:
                volume = tray.execute(planner.actions[[suggestion.index]])
            except PlanningFailed as error:
                planner.fail(suggestion.index, str(error))
                failures += 1
                continue
            break
        planner.tell(suggestion.index, volume)
        attempts.append(Attempt(suggestion, volume))
        after(attempts[-1])
        if volume >= threshold:
            return Deployment(tuple(attempts), True, failures)
    return Deployment(tuple(attempts), False, failures)


def deploy_logged(
    planner: ScoopPlanner, record: TerrainRecord, seen: Observation, threshold: float, strict: bool = False
) -> int:
    """Attempts among the scoops of a record, each at most once, until one reaches the threshold [m^3].

    Args:
        planner: of the record's actions. seen: what is known of them before the first.
        strict: volumes must be above the threshold; the published text allows both readings.

    Raises:
        ValueError: no scoop of the record reaches the threshold.
    """
    reaches = record.volumes > threshold if strict else record.volumes >= threshold
    if not reaches.any():
        raise ValueError(
            f"{record.name}: no scoop reaches {threshold:.3g} m^3; the largest has {record.volumes.max():.3g}"
        )
    planner.see(seen)
    for attempt in range(1, len(record.volumes) + 1):
        index = planner.ask().index
        planner.tell(index, float(record.volumes[index]))
        if reaches[index]:
            return attempt
    raise AssertionError("every scoop was tried, and none reached the threshold")
