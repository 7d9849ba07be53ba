"""How far a scan is off, as a few pokes tell: each begins to push back where the surface truly is.

A depth camera sees an object some millimetres away from where it is, by one shift for the whole object. Along each poked normal n the force
begins at a displacement o in place of 0, with o = -t'n for the shift t from the scan to the object. Pokes whose normals differ tell
all of t; a direction that none tells stays at 0. The source leaves the offset to the point model (Zhu, PhD thesis, section 4.3.1), which has to
learn it place by place; this is ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sim_core.elastic.poke import Poke
from sim_core.elastic.surface import Surface

__all__ = ["onset", "scan_shift", "shifted"]

#: forces between which a curve is followed back to where it begins [N], the upper one at most this share of the largest
LOW, HIGH, SHARE = 0.25, 1.0, 0.6
#: over which samples are averaged before [m]
WINDOW = 2e-4
#: what a shift is expected to be without pokes, and how well one poke tells it, as standard deviations [m]
EXPECTED, TOLD = 5e-3, 5e-4


def onset(poke: Poke) -> float:
    """Displacement at which the force begins [m], on the straight line through the first forces; NaN where the probe hardly touched."""
    d, f = poke.displacement, poke.force
    if len(d) < 3 or f.max() < 2.0 * LOW:
        return float("nan")
    step = float(np.median(np.diff(d)))
    width = max(1, 2 * int(0.5 * WINDOW / max(step, 1e-9)) + 1)
    smooth = np.convolve(np.pad(f, width // 2, mode="edge"), np.ones(width) / width, "valid")
    high = min(HIGH, SHARE * float(smooth.max()))
    if high <= LOW:
        return float("nan")
    first, last = (_crossing(d, smooth, level) for level in (LOW, high))
    return first - LOW * (last - first) / (high - LOW)


def _crossing(d: np.ndarray, f: np.ndarray, level: float) -> float:
    k = int(np.argmax(f > level))
    return float(d[0]) if k == 0 else float(np.interp(level, f[k - 1 : k + 1], d[k - 1 : k + 1]))


def scan_shift(pokes: Sequence[Poke]) -> np.ndarray:
    """The shift (3,) from the scan to the object [m].

    Raises:
        ValueError: no poke touched firmly enough to tell where the surface is.
    """
    begins = np.array([onset(poke) for poke in pokes])
    told = np.isfinite(begins)
    if not told.any():
        raise ValueError(
            f"where the surface is, is told by a poke that felt at least {2.0 * LOW} N, and none of {len(pokes)} did; poke harder"
        )
    normals = np.stack([poke.feature[6:] for poke, t in zip(pokes, told) if t])
    weight = normals.T @ normals + (TOLD / EXPECTED) ** 2 * np.eye(3)
    return np.linalg.solve(weight, -normals.T @ begins[told])


def shifted(surface: Surface, pokes: Sequence[Poke], shift: np.ndarray) -> tuple[Surface, list[Poke]]:
    """Surface and pokes as they would have been with a scan that is right; displacements count from there."""
    t = np.asarray(shift, float)
    there = [
        replace(
            poke,
            feature=np.concatenate([poke.feature[:3] + t, poke.feature[3:]]),
            displacement=poke.displacement + float(poke.feature[6:] @ t),
        )
        for poke in pokes
    ]
    return Surface(surface.points + t, surface.colours, surface.normals), there
