"""What every planner that learns from trials is asked and told, and the one that plans by Bayesian optimisation.

    planner = BayesianPlanner(Candidates(places), SparGp(LandmarkMean(landmarks)), acquisition="ei")
    suggestion = planner.ask()
    planner.tell(suggestion.index, score)          # or planner.fail(suggestion.index, "no contact")
    save(planner.checkpoint(), "exam.json")        # planner = BayesianPlanner.resume(load("exam.json"), surrogate)

Places in metres, values without a unit, unless a caller says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from sim_core.planning.acquisition import ACQUISITIONS
from sim_core.planning.candidates import Candidates
from sim_core.planning.surrogate import Posterior, Surrogate

__all__ = ["BayesianPlanner", "Planner", "Suggestion"]

VERSION = 1
OBSERVED = "observed"


@dataclass(frozen=True)
class Suggestion:
    """What to try next.

    Attributes:
        index: of the candidate. place: (d,). worth: its acquisition. mean, deviation: what is believed of its value.
    """

    index: int
    place: np.ndarray
    worth: float
    mean: float
    deviation: float


class Planner(Protocol):
    """A planner as nodes, replays and views see it.

    Attributes:
        candidates: what may be tried, and why some of it may not.
    """

    candidates: Candidates

    def ask(self, among: np.ndarray | None = None) -> Suggestion:
        """What to try next, of all candidates or of some, a mask (n,); asked twice, it answers the same.

        Raises:
            NoCandidate: nothing is left.
        """

    def tell(self, index: int, value: float) -> None:
        """A trial's outcome. Raises ValueError: not finite, or no such candidate."""

    def fail(self, index: int, reason: str) -> None:
        """A trial without an outcome: its candidate is closed, and nothing is learnt."""

    def checkpoint(self) -> dict[str, Any]:
        """All of the state as JSON; what is resumed from it suggests the same, to the bit."""


class BayesianPlanner:
    """Tries what an acquisition function finds most worth, at most once each.

    Args:
        candidates: what may be tried. surrogate: what is believed of it.
        acquisition: a key of `ACQUISITIONS`. beta: of the upper confidence bound. floor: value that is sure before any trial.
        seed: decides between candidates of equal worth.

    Attributes:
        candidates: as given. history: (candidate, value) of each trial, in order. posterior: the newest belief.
    """

    def __init__(
        self,
        candidates: Candidates,
        surrogate: Surrogate,
        acquisition: str = "ei",
        beta: float = 1.0,
        floor: float = 0.0,
        seed: int = 0,
    ) -> None:
        if acquisition not in ACQUISITIONS:
            raise ValueError(f"there is no acquisition '{acquisition}'; there are {', '.join(ACQUISITIONS)}")
        self.candidates, self.surrogate = candidates, surrogate
        self.acquisition, self.beta, self.floor, self.seed = acquisition, beta, floor, seed
        self.history: list[tuple[int, float]] = []
        self._start = surrogate.mean.default
        self.posterior = self._fit()

    def ask(self, among: np.ndarray | None = None) -> Suggestion:
        """See `Planner`. What was found among the same candidates counts as the best so far."""
        among = np.ones(len(self.candidates), bool) if among is None else among
        numbers = self.candidates.require(among)
        means, deviations = self.posterior.predict(self.candidates.places[numbers])
        weights = self.posterior.weights
        worth = ACQUISITIONS[self.acquisition](weights, means, deviations, self.best(among), self.beta)
        ties = np.flatnonzero(worth == worth.max())
        # Not a generator that runs on: asked twice, or after a checkpoint, the answer is the same.
        chosen = int(ties[np.random.default_rng([self.seed, len(self.history), *numbers[:1]]).integers(len(ties))])
        mean, deviation = self.posterior.moments(self.candidates.places[numbers[[chosen]]])
        index = int(numbers[chosen])
        return Suggestion(
            index, self.candidates.places[index], float(worth[chosen]), float(mean[0]), float(deviation[0])
        )

    def best(self, among: np.ndarray) -> float:
        """The best value so far of some candidates, a mask (n,); `floor` if none of them was tried."""
        return max((value for index, value in self.history if among[index]), default=self.floor)

    def tell(self, index: int, value: float) -> None:
        """See `Planner`."""
        if not 0 <= index < len(self.candidates):
            raise ValueError(f"there are candidates 0 to {len(self.candidates) - 1}; {index} was tried")
        if not np.isfinite(value):
            raise ValueError(f"a trial's value is finite, not {value}; say `fail` where there is none")
        self.candidates.close(index, OBSERVED)
        self.history.append((int(index), float(value)))
        self._start = self.posterior.theta
        self.posterior = self._fit()

    def fail(self, index: int, reason: str) -> None:
        """See `Planner`."""
        self.candidates.close(index, reason)

    def belief(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of the value of every candidate, each (n,)."""
        return self.posterior.moments(self.candidates.places)

    def checkpoint(self) -> dict[str, Any]:
        """See `Planner`."""
        return {
            "version": VERSION,
            "places": self.candidates.places.tolist(),
            "closed": self.candidates.closed,
            "history": [list(trial) for trial in self.history],
            "start": self._start.tolist(),
            "surrogate": self.surrogate.describe(),
            **{name: getattr(self, name) for name in ("acquisition", "beta", "floor", "seed")},
        }

    @classmethod
    def resume(cls, checkpoint: dict[str, Any], surrogate: Surrogate) -> BayesianPlanner:
        """The planner that wrote a checkpoint.

        Args:
            surrogate: made as the one that wrote it.

        Raises:
            ValueError: of another version, incomplete, or with another surrogate.
        """
        if checkpoint.get("version") != VERSION:
            raise ValueError(f"a planner's checkpoint has version {VERSION}, this one {checkpoint.get('version')}")
        words = ("places", "closed", "history", "start", "surrogate", "acquisition", "beta", "floor", "seed")
        if missing := [word for word in words if word not in checkpoint]:
            raise ValueError(f"the checkpoint lacks {', '.join(missing)}: it was not written by a planner, or cut")
        if checkpoint["surrogate"] != surrogate.describe():
            raise ValueError(
                f"the checkpoint was written with {checkpoint['surrogate']}, not with {surrogate.describe()}: "
                "make the surrogate with the same settings"
            )
        settings = {word: checkpoint[word] for word in words[5:]}
        planner = cls(Candidates(np.array(checkpoint["places"])), surrogate, **settings)
        for reason, numbers in checkpoint["closed"].items():
            planner.candidates.close(np.array(numbers, int), reason)
        planner.history = [(int(index), float(value)) for index, value in checkpoint["history"]]
        planner._start = np.array(checkpoint["start"])
        planner.posterior = planner._fit()
        return planner

    def _fit(self) -> Posterior:
        x = self.candidates.places[[index for index, _ in self.history]]
        return self.surrogate.fit(x, np.array([value for _, value in self.history]), self._start)
