"""A person who is not there: a surface, flesh that gives way and breathes, and what is heard at each place.

Everything follows from one number. The sounds come from where this body's landmarks are, not from where they are on the average.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim_core.auscultation.acoustic_field import AcousticField
from sim_core.auscultation.regions import Side, Structure
from sim_core.auscultation.synthetic_recordings import random_body
from sim_core.auscultation.torso import Torso, random_shape

__all__ = ["Flesh", "SimulatedPatient"]


@dataclass(frozen=True)
class Flesh:
    """How a body gives way.

    Attributes:
        stiffness, damping: of skin and flesh [N/m], [N s/m]. friction: of a membrane on the skin [-].
        breath: amplitude of the rib cage along its normal [m]; breath_rate: [Hz].
    """

    stiffness: float = 1500.0
    damping: float = 40.0
    friction: float = 0.5
    breath: float = 0.0025
    breath_rate: float = 0.25

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            least_reached = value > 0.0 if name == "stiffness" else value >= 0.0
            if not (np.isfinite(value) and least_reached):
                raise ValueError(f"{name}: expected a finite number that is not negative, found {value}")


class SimulatedPatient:
    """See the module's docstring.

    Args:
        body: number of the person. bmi: [kg/m^2]; None: follows from the number.

    Attributes:
        torso: side -> the surface, in the axes of that side. field: side -> what is heard, at places of its coronal plane (see
            `regions`). flesh: as soft as chests are, and breathing as the lungs sound.
    """

    def __init__(self, body: int, bmi: float | None = None) -> None:
        self.body, shape = body, random_shape(body, bmi)
        sides: tuple[Side, ...] = ("front", "back")
        self.torso: dict[Side, Torso] = {side: Torso(shape, side) for side in sides}
        self.field: dict[Side, AcousticField] = {side: _field(body, torso) for side, torso in self.torso.items()}
        stiffness = np.random.default_rng([body, 71]).uniform(700.0, 2000.0)
        self.flesh = Flesh(stiffness=float(stiffness), breath_rate=self.field["front"].lung.breath_rate)


def _field(body: int, torso: Torso) -> AcousticField:
    marks: dict[Structure, dict[str, np.ndarray]] = {"heart": {}, "lung": {}}
    for (structure, side, name), point in torso.landmarks.items():
        marks[structure][name] = point[:2] * [1.0 if side == "front" else -1.0, 1.0]
    return random_body(body, torso.side, marks)
