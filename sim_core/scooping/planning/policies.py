"""How much each action is believed to bring, and which one is worth trying next.

A belief gives mean and deviation of every action's volume from what is seen now and from the scoops so far:

* `ModelBelief`: any model that is conditioned on trials (`sim_core.meta`): the deep Gaussian process, its rivals, or a mean that does
  not adapt;
* `SweptBelief`: the swept intersection, which needs no learning (Vol-Max).

An acquisition makes one number of them. The published rule is the upper confidence bound with gamma 2; with `reach` and
`gain`, which know the threshold, exploration ends where success is likely enough.

Source: Zhu, PhD thesis (University of Illinois 2023), sections 6.3.3 and 6.4; the threshold's acquisitions are ours.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from scipy.special import ndtr

from sim_core.planning.acquisition import ACQUISITIONS, Acquisition, expected_improvement
from sim_core.scooping.bed.actions import Actions
from sim_core.scooping.bed.rendering import Picture
from sim_core.scooping.bed.swept import BLADE, Blade, Field, swept_volume
from sim_core.scooping.learning.crops import CUBIC_CENTIMETRES

__all__ = ["RULES", "Belief", "ModelBelief", "Observation", "SweptBelief", "Trials", "reach"]


@dataclass(frozen=True, eq=False)
class Observation:
    """What is seen before a scoop.

    Attributes:
        views: (b, 4, s, s); each belongs to n / b consecutive actions. actions: n of them. picture: from which the views are, if there is one.
    """

    views: np.ndarray
    actions: Actions
    picture: Picture | None = None


@dataclass
class Trials:
    """The scoops so far: what was seen of each before it (4, s, s), its numbers (2,), place (2,) [m] and volume [m^3]."""

    views: list[np.ndarray] = field(default_factory=list)
    numbers: list[np.ndarray] = field(default_factory=list)
    places: list[np.ndarray] = field(default_factory=list)
    volumes: list[float] = field(default_factory=list)

    def add(self, view: np.ndarray, action: Actions, volume: float) -> None:
        """One more: one action."""
        self.views.append(view)
        self.numbers.append(action.numbers[0])
        self.places.append(action.place[0])
        self.volumes.append(volume)


class Belief(Protocol):
    """What volumes are expected."""

    def expects(self, seen: Observation, trials: Trials) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of each action's volume, (n,) each [m^3]."""
        ...


class Model(Protocol):
    """What `sim_core.meta` offers; volumes in cm^3."""

    @property
    def places(self) -> bool:
        """Whether it is told where actions are, after their numbers."""
        ...

    def encode(self, views: np.ndarray) -> Any:
        """Views in a form that may be given in their place."""
        ...

    def condition(self, inputs: Any = None, values: Any = ...) -> Any:
        """An object with `predict(inputs) -> (mean, deviation)`."""
        ...


class ModelBelief:
    """What a model believes after the trials.

    Args:
        model: meta-learnt. noisy: the deviation is that of a scoop, with its noise, where the model tells it, instead of that of
            what is expected of it.
    """

    def __init__(self, model: Model, noisy: bool = False) -> None:
        self.model, self.noisy = model, noisy
        self._encoded: tuple[int, Any] = (-1, None)
        self._seen: Observation | None = None

    def expects(self, seen: Observation, trials: Trials) -> tuple[np.ndarray, np.ndarray]:
        """See `Belief`; views are encoded once, however often they are asked about."""
        if self._seen is not seen:
            self._seen, self._encoded = seen, (len(seen.views), self.model.encode(seen.views))
        if trials.volumes:
            given = (np.stack(trials.views), *self._told(np.stack(trials.numbers), np.stack(trials.places)))
            believed = self.model.condition(given, CUBIC_CENTIMETRES * np.array(trials.volumes))
        else:
            believed = self.model.condition()
        told = self._told(seen.actions.numbers, seen.actions.place)
        mean, deviation = believed.predict((self._encoded[1], *told))
        if self.noisy and hasattr(believed, "noise"):
            deviation = np.hypot(deviation, believed.noise())
        return mean / CUBIC_CENTIMETRES, deviation / CUBIC_CENTIMETRES

    def _told(self, *numbers: np.ndarray) -> list[np.ndarray]:
        """Numbers, and places for a model that knows of them."""
        return [each.astype(np.float32) for each in numbers[: 1 + self.model.places]]


class SweptBelief:
    """Vol-Max: as much as the blade sweeps. Trials teach it nothing."""

    def __init__(self, blade: Blade = BLADE) -> None:
        self.blade = blade

    def expects(self, seen: Observation, trials: Trials) -> tuple[np.ndarray, np.ndarray]:
        """See `Belief`. Raises ValueError: there is no picture."""
        if seen.picture is None:
            raise ValueError("the swept volume is measured in a picture of the tray; there are views alone")
        height = Field(seen.picture.height.astype(float), seen.picture.origin, seen.picture.pitch)
        volume = swept_volume(height, seen.actions, self.blade)
        return volume, np.zeros_like(volume)


def reach(weights: np.ndarray, means: np.ndarray, deviations: np.ndarray, best: float, beta: float = 0.0) -> np.ndarray:
    """Probability of reaching `best`, here the threshold, shape (m,)."""
    return weights @ ndtr((means - best) / np.maximum(deviations, 1e-12))


#: name -> acquisition; "reach" and "gain" are given the threshold for the best value so far
RULES: dict[str, Acquisition] = {**ACQUISITIONS, "reach": reach, "gain": expected_improvement}
