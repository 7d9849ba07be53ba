"""A surface as it is seen along an approach: which points can be met, where they are across it, and a grid to find them by.

Pairs of a rigid and an elastic point are found across the approach (section 4.4.1 of Zhu's thesis). The projection alone would also pair a body
with the far side of the object, whose points lie at the same places; the published scans saw one side. So points take part whose normals
face the approach, and of several layers, as under an overhang, the first one.
"""

from __future__ import annotations

import ctypes

import numpy as np

from sim_core.codegen.library import pointer
from sim_core.elastic.kernel import SightData
from sim_core.elastic.surface import Surface

__all__ = ["FACING", "STEP", "Sight"]

#: least cosine between a normal and the way back along the approach: nearer to the tangent a displacement along the normal
#: says nothing (a choice)
FACING = 0.1
#: a layer is hidden so far below another, beyond what its slope explains [m] (a choice)
STEP = 0.015


class Sight:
    """Made once for each approach.

    Args:
        approach: direction in which the body moves (3,), of any length but 0. reach: a rigid point farther than this from the
            surface's nearest point across the approach is beside it [m].

    Attributes:
        visible: indices of the surface's points that can be met, in the kernel's order. hidden: how many lie under others.

    Raises:
        ValueError: no direction, or no three points of the surface face it.
    """

    def __init__(self, surface: Surface, approach: np.ndarray, reach: float) -> None:
        a = np.asarray(approach, float)
        length = float(np.linalg.norm(a)) if a.shape == (3,) and np.isfinite(a).all() else 0.0
        if not length > 0.0:
            raise ValueError(f"an approach is a direction (3,) of a length above 0, found {approach}")
        self.approach = a = a / length
        u = np.cross(a, np.eye(3)[np.argmin(np.abs(a))])
        u /= np.linalg.norm(u)
        v = np.cross(a, u)
        cosine = -surface.normals @ a
        facing = np.flatnonzero(cosine >= FACING)
        if len(facing) < 3:
            away = int((cosine <= -FACING).sum())
            raise ValueError(
                f"three points at least of a surface face the approach {np.round(a, 3)}, found {len(facing)} of {len(surface)} while {away} "
                "face the other way; turn the approach round, or build the surface again if its normals point inward"
            )
        across = surface.points[facing] @ np.stack([u, v], 1)
        above = -surface.points[facing] @ a
        hidden, covers = _layers(across, above, cosine[facing], 2.0 * surface.spacing)
        self.hidden = int(hidden.sum())
        seen = ~hidden
        self._sort(surface, facing[seen], across[seen], covers[seen], (u, v), reach)

    def _sort(
        self,
        surface: Surface,
        which: np.ndarray,
        across: np.ndarray,
        covers: np.ndarray,
        axes: tuple[np.ndarray, np.ndarray],
        reach: float,
    ) -> None:
        low, size = across.min(0), np.ptp(across, axis=0)
        # about two points in a cell, but never so many cells that an outlier far away fills the memory
        cell = max(float(np.sqrt(max(size.prod(), 1e-12) * 2.0 / len(across))), float(size.max()) / 2000.0, 1e-6)
        columns, rows = (int(n) for n in np.floor(size / cell).astype(int) + 1)
        at = np.minimum(np.floor((across - low) / cell).astype(np.int64), [columns - 1, rows - 1])
        number = at[:, 1] * columns + at[:, 0]
        order = np.argsort(number, kind="stable")
        self.visible = which[order]
        self._arrays = {
            "across": np.ascontiguousarray(across[order]),
            "feature": np.ascontiguousarray(surface.features[self.visible]),
            "start": np.searchsorted(number[order], np.arange(rows * columns + 1)).astype(np.int32),
            "covers": np.ascontiguousarray(covers[order], np.uint8),
        }
        F = ctypes.c_double
        self.data = SightData(
            **{name: pointer(array) for name, array in self._arrays.items()},
            u=(F * 3)(*axes[0]),
            v=(F * 3)(*axes[1]),
            low=(F * 2)(*low),
            cell=cell,
            reach=reach,
            columns=columns,
            rows=rows,
        )


def _layers(across: np.ndarray, above: np.ndarray, cosine: np.ndarray, cell: float) -> tuple[np.ndarray, np.ndarray]:
    """Which points lie under a layer, and which have one under them, each (n,).

    A point is hidden where the highest one in its cell and those around is higher than its own slope across them explains, and by
    more than STEP.
    """
    cell = max(cell, float(np.ptp(across, axis=0).max()) / 2000.0)
    at = np.floor((across - across.min(0)) / cell).astype(np.int64) + 1
    shape = tuple(at.max(0) + 2)
    top, low = np.full(shape, -np.inf), np.full(shape, np.inf)
    np.maximum.at(top, (at[:, 0], at[:, 1]), above)
    around = np.full(shape, -np.inf)
    inner = (slice(1, -1), slice(1, -1))
    for i in range(3):
        for j in range(3):
            view = top[i : shape[0] - 2 + i, j : shape[1] - 2 + j]
            np.maximum(around[inner], view, out=around[inner])
    slope = np.sqrt(1.0 - np.minimum(cosine, 1.0) ** 2) / cosine
    hidden = around[at[:, 0], at[:, 1]] - above > STEP + 3.0 * cell * slope
    np.minimum.at(low, (at[hidden, 0], at[hidden, 1]), above[hidden])
    return hidden, ~hidden & (low[at[:, 0], at[:, 1]] < above)
