"""Contact with objects that are taken to be as hard as they may well be, so that what is said to fit does.

Two things are not known of an object after ten pokes: how hard its other points are, and how far neighbours give way together, for which
one number, from presses at few places, stands everywhere. A tip that sticks out has few neighbours that could.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from sim_core.elastic.contact import ContactSimulator
from sim_core.elastic.point_model import PointModel
from sim_core.elastic.surface import Surface

__all__ = ["CAUTION", "CLEARANCE", "COUPLED", "Cautious", "SurePointModel", "careful_simulator"]

#: standard deviations; the height that a scan leaves open [m]; share of the coupling. Found on four sets of pokes of each of five objects: with
#: one deviation and all of the coupling, 9 of 45 sets have a place that feels more than the limit and the model's error, with these none.
CAUTION, CLEARANCE, COUPLED = 2.0, 1e-3, 0.5


class SurePointModel(PointModel, Protocol):
    """A point model that knows how sure it is."""

    def predict_with_deviation(self, features: np.ndarray, displacement: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation (n,) [N]."""
        ...


class Cautious:
    """The mean and `factor` standard deviations more, everywhere: errors of a body's points are taken to go together.

    Raises:
        ValueError: the factor is negative, or the model does not say how sure it is.
    """

    def __init__(self, model: SurePointModel, factor: float = 1.0) -> None:
        if not (np.isfinite(factor) and factor >= 0.0):
            raise ValueError(f"the factor of the deviation is 0 or more, not {factor}")
        if not hasattr(model, "predict_with_deviation"):
            raise ValueError(f"caution needs a model that says how sure it is, and {type(model).__name__} does not")
        self.model, self.factor = model, float(factor)

    @property
    def deepest(self) -> float:
        """Of the model [m]."""
        return self.model.deepest

    def predict(self, features: np.ndarray, displacement: np.ndarray) -> np.ndarray:
        """Forces (n,) [N]; see PointModel."""
        mean, deviation = self.model.predict_with_deviation(features, displacement)
        return mean + self.factor * deviation


def careful_simulator(
    surface: Surface, model: SurePointModel, coupling: float, caution: float = CAUTION, onset: float = 0.0
) -> ContactSimulator:
    """A simulator that says no less force than an object may well push back with; see `ContactSimulator` for surface, coupling and onset.

    Args:
        caution: standard deviations of the force that are added, and with them half the coupling is taken away; 0: what is expected.

    Raises:
        ValueError: as `Cautious` and `ContactSimulator`.
    """
    if caution == 0.0:
        return ContactSimulator(surface, model, coupling, onset=onset)
    return ContactSimulator(surface, Cautious(model, caution), COUPLED * coupling, onset=onset)
