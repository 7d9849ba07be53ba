"""What happens where two materials touch: stiffness, damping, friction, rolling resistance and adhesion.

Force along the normal: a spring, a dashpot that gives the coefficient of restitution, and adhesion. Force along the surface: a spring
and a dashpot up to Coulomb's limit (Cundall and Strack, Geotechnique 29, 1979). Moment: a spring and a dashpot up to a limit that grows
with the force (Ai, Chen, Rotter, Ooi, Powder Technology 206, 2011, model C). Adhesion: the pull-off force 2 pi w R of Derjaguin, Muller
and Toporov, which fades over a liquid bridge's reach.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["Law", "Material", "longest_step", "pair_table"]


@dataclass(frozen=True)
class Material:
    """Of a grain's or a tool's surface.

    Attributes:
        friction: Coulomb's coefficient [1]; of two materials the geometric mean counts.
        rolling: largest moment against rolling over force times effective radius [1]; likewise.
        restitution: of a collision [1]; likewise. stiffness: of the normal spring per metre of effective radius [N/m^2]; the
            harmonic mean. adhesion: work to part two surfaces [J/m^2]; the geometric mean. reach: gap at which adhesion ends, over
            the effective radius [1].

    Raises:
        ValueError: a value out of its range.
    """

    friction: float = 0.5
    rolling: float = 0.0
    restitution: float = 0.3
    stiffness: float = 1e6
    adhesion: float = 0.0
    reach: float = 0.05

    def __post_init__(self) -> None:
        ranges = {
            "friction": (0.0, 10.0),
            "rolling": (0.0, 10.0),
            "restitution": (0.05, 1.0),
            "stiffness": (1.0, 1e12),
            "adhesion": (0.0, 1e3),
            "reach": (0.0, 1.0),
        }
        for name, (low, high) in ranges.items():
            if not low <= (value := getattr(self, name)) <= high:
                raise ValueError(f"a material's {name} is between {low:g} and {high:g}, not {value}")


class Law(ctypes.Structure):
    """`granular_law` of runtime/law.h."""

    _fields_ = [
        (name, ctypes.c_float)
        for name in ("stiffness", "damping", "friction", "rolling", "adhesion", "reach", "shear", "root_shear")
    ]


#: stiffness along the surface over that along the normal: both springs of a sphere then swing alike
SHEAR = 2.0 / 7.0


@functools.cache
def damping_ratio(restitution: float) -> float:
    """Damping over critical damping that gives a coefficient of restitution where the dashpot never pulls (Schwager and Poeschel,
    Granular Matter 9, 2007, equation 21)."""

    from scipy.optimize import brentq  # slow to load, and asked once for each material

    def excess(ratio: float) -> float:
        root = math.sqrt(abs(1.0 - ratio**2))
        if ratio < 1.0:  # half a swing, less what the dashpot would pull
            angle = math.pi - math.atan2(2.0 * ratio * root, 1.0 - 2.0 * ratio**2)
        else:
            angle = math.log((ratio + root) / (ratio - root))
        return ratio / root * angle + math.log(restitution)

    return 0.0 if restitution == 1.0 else float(brentq(excess, 1e-9, 10.0))


def pair_law(one: Material, other: Material) -> Law:
    """Of two materials that touch."""
    restitution = math.sqrt(one.restitution * other.restitution)
    return Law(
        stiffness=2.0 * one.stiffness * other.stiffness / (one.stiffness + other.stiffness),
        damping=2.0 * damping_ratio(restitution),
        friction=math.sqrt(one.friction * other.friction),
        rolling=math.sqrt(one.rolling * other.rolling),
        adhesion=2.0 * math.pi * math.sqrt(one.adhesion * other.adhesion),
        reach=max(one.reach, other.reach),
        shear=SHEAR,
        root_shear=math.sqrt(SHEAR),
    )


def pair_table(materials: Sequence[Material]) -> ctypes.Array[Law]:
    """Laws of all pairs, row by row."""
    laws = [pair_law(one, other) for one in materials for other in materials]
    return (Law * len(laws))(*laws)


def longest_step(materials: Sequence[Material], radius: np.ndarray, mass: np.ndarray, share: float = 0.15) -> float:
    """Longest time step [s] with which all contacts are followed: a share of the stiffest one's 2 sqrt(m / k).

    Args:
        radius: of a body's largest sphere (n,) [m]. mass: least that a contact of it meets (n,) [kg], see `Grains.contact_mass`.
    """
    stiffest = max(material.stiffness for material in materials)
    # A grain against a wall is the stiffest contact: its whole radius and its whole mass.
    return float(share * 2.0 * np.sqrt((mass / (stiffest * radius)).min()))
