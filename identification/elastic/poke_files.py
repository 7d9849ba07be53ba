"""Pokes of a file, for a surface that is known: a CSV file of pokes, or a bag in which an arm made them.

pokes = read_pokes(Path("runs/poking-.../bag"), surface, 8)
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from identification.elastic.poke_bag import read_poke_bag
from sim_core.elastic.poke import Poke, downsampled, load_pokes
from sim_core.elastic.surface import Surface

__all__ = ["read_pokes"]

#: [m] by which a poke may be off the surface: a camera's error, and no other object
AWAY = 0.02


def read_pokes(file: Path, surface: Surface, samples: int) -> list[Poke]:
    """Pokes, thinned out evenly to so many samples each, where they have more; those of a bag are at the nearest point of the surface.

    Raises:
        FileNotFoundError: there is no such file. ValueError: it holds no pokes, or those of another object.
    """
    pokes = load_pokes(file) if file.suffix == ".csv" or not file.exists() else _of_bag(file)
    if not pokes:
        raise ValueError(f"{file} holds no poke")
    places = np.array([poke.feature[:3] for poke in pokes])
    off = np.linalg.norm(surface.points[surface.nearest(places)] - places, axis=1)
    if off.max() > AWAY:
        raise ValueError(
            f"poke {int(np.argmax(off))} of {file} is {1e3 * off.max():.0f} mm off the surface, at most {1e3 * AWAY:.0f} mm are "
            "taken: is it of another object?"
        )
    if not file.suffix == ".csv":
        pokes = [
            Poke(surface.features[k], p.displacement, p.force, p.probe) for k, p in zip(surface.nearest(places), pokes)
        ]
    return [poke if len(poke) <= samples else downsampled(poke, samples) for poke in pokes]


def _of_bag(file: Path) -> list[Poke]:
    """Those against which nothing speaks; their features are the place where the arm was sent, without a colour."""
    recorded, notes = read_poke_bag(file)
    good = [one for one in recorded if not one.complaint]
    if not good:
        notes += [f"poke {one.number} is left out: {one.complaint}" for one in recorded]
        raise ValueError(f"no poke in {file} is of use: {'; '.join(notes)}")
    return [
        Poke(
            np.r_[one.point, np.zeros(3), one.normal],
            np.array(one.log.displacement),
            np.array(one.log.force),
            one.probe,
        )
        for one in good
    ]
