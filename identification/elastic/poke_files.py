"""Pokes of a file, for a surface that is known: a CSV file of pokes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sim_core.elastic.poke import Poke, downsampled, load_pokes
from sim_core.elastic.surface import Surface

__all__ = ["read_pokes"]

#: [m] by which a poke may be off the surface: a camera's error, and no other object
AWAY = 0.02


def read_pokes(file: Path, surface: Surface, samples: int) -> list[Poke]:
    """Pokes, thinned out evenly to so many samples each, where they have more.

    Raises:
        FileNotFoundError: there is no such file. ValueError: it holds no pokes, or those of another object.
    """
    pokes = load_pokes(file)
    if not pokes:
        raise ValueError(f"{file} holds no poke")
    places = np.array([poke.feature[:3] for poke in pokes])
    off = np.linalg.norm(surface.points[surface.nearest(places)] - places, axis=1)
    if off.max() > AWAY:
        raise ValueError(
            f"poke {int(np.argmax(off))} of {file} is {1e3 * off.max():.0f} mm off the surface, at most {1e3 * AWAY:.0f} mm are "
            "taken: is it of another object?"
        )
    return [poke if len(poke) <= samples else downsampled(poke, samples) for poke in pokes]
