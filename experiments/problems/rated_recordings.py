"""Synthetic recordings by body, what estimators see of them and what listeners say of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np

from sim_core.auscultation.hidden_rating import marks
from sim_core.auscultation.preparation import RATE
from sim_core.auscultation.quality_estimator import FEATURES
from sim_core.auscultation.quality_network import seen_by_network
from sim_core.auscultation.regions import Structure
from sim_core.auscultation.synthetic_recordings import recordings
from sim_core.auscultation.usability import usable
from sim_core.host.executors import spread

__all__ = ["STRUCTURES", "RatedSet", "rated_bodies"]

STRUCTURES: tuple[Structure, ...] = ("heart", "lung")


@dataclass(frozen=True)
class RatedSet:
    """Usable recordings of one structure.

    Attributes:
        features: (n, d). seen: spectrograms (n, bands, frames). truth: hidden rating (n,). label: mean mark of four
            listeners (n,). body: (n,) int. refused: how many recordings the front door refused.
    """

    features: np.ndarray
    seen: np.ndarray
    truth: np.ndarray
    label: np.ndarray
    body: np.ndarray
    refused: int

    def of(self, rows: np.ndarray) -> RatedSet:
        """Some of the recordings."""
        return RatedSet(*(part[rows] for part in (self.features, self.seen, self.truth, self.label, self.body)), 0)


def rated_body(body: int) -> dict[Structure, RatedSet]:
    """All recordings of a body."""
    heard, found = recordings(body), {}
    for k, structure in enumerate(STRUCTURES):
        good = [one for one in heard if usable(one.sound, RATE, structure)]
        truth = np.array([one.rating[structure] for one in good])
        names, taken = FEATURES[structure]
        found[structure] = RatedSet(
            np.array([taken(one.sound - one.sound.mean()) for one in good]).reshape(-1, len(names)),
            np.array([seen_by_network(one.sound - one.sound.mean()) for one in good], np.float32),
            truth,
            marks(truth, structure, np.random.default_rng([body, 84, k])).mean(1),
            np.full(len(good), body),
            len(heard) - len(good),
        )
    return found


def rated_bodies(
    bodies: Sequence[int], executor: Executor | None, advance: Callable[[], None]
) -> dict[Structure, RatedSet]:
    """All recordings of some bodies, in their order."""
    each = spread(rated_body, list(bodies), executor, lambda done: advance())
    joined = {}
    for structure in STRUCTURES:
        sets = [one[structure] for one in each if len(one[structure].truth)]
        parts = [
            np.concatenate([getattr(one, name) for one in sets])
            for name in ("features", "seen", "truth", "label", "body")
        ]
        joined[structure] = RatedSet(*parts, sum(one[structure].refused for one in each))
    return joined
