"""Where one listens: the four valve areas and eight places over the lungs, on the coronal projection of each side.

Axes of a side: x to the person's left, y up, origin on the midline at the height of the nipples [m]. The places are those of a
torso of average size; registration gives those of a person.

Sources: the areas as the PhysioNet/CinC Challenge 2016 describes them (aortic: second right intercostal space; pulmonic: second
left, at the sternum; tricuspid: fourth left; mitral: apex, fifth space on the midclavicular line). The coordinates of the valve
areas are those with which the published table of Bayesian optimisation was calibrated; those of the lungs are a choice.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

__all__ = ["BANDS", "REGIONS", "Region", "Side", "Structure", "places"]

Structure = Literal["heart", "lung"]
Side = Literal["front", "back"]
Region = tuple[Structure, Side, str]

#: in which a sound is judged [Hz]
BANDS: dict[Structure, tuple[float, float]] = {"heart": (50.0, 250.0), "lung": (200.0, 1000.0)}

#: (structure, side, name) -> place (x, y) [m]
REGIONS: dict[Region, tuple[float, float]] = {
    ("heart", "front", "aortic"): (-0.03, 0.06),
    ("heart", "front", "pulmonic"): (0.03, 0.06),
    ("heart", "front", "tricuspid"): (0.03, -0.02),
    ("heart", "front", "mitral"): (0.09, -0.03),
    ("lung", "front", "right upper"): (-0.08, 0.10),
    ("lung", "front", "left upper"): (0.08, 0.10),
    ("lung", "front", "right lower"): (-0.10, -0.03),
    ("lung", "front", "left lower"): (0.13, -0.01),
    ("lung", "back", "right upper"): (-0.06, 0.10),
    ("lung", "back", "left upper"): (0.06, 0.10),
    ("lung", "back", "right lower"): (-0.08, -0.06),
    ("lung", "back", "left lower"): (0.08, -0.06),
}


def places(structure: Structure, side: Side) -> dict[str, np.ndarray]:
    """Name -> place (2,) [m] of a structure's regions on a side; empty where it has none (the heart on the back)."""
    return {
        name: np.array(place) for (what, where, name), place in REGIONS.items() if (what, where) == (structure, side)
    }
