"""A toothed bucket as rounded boxes: floor, back, two sides, teeth.

In its own frame the origin is its middle, -x is where it opens and its teeth point, z is up from the floor.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim_core.granular.tools import Part, Tool, box

__all__ = ["Bucket"]


@dataclass(frozen=True)
class Bucket:
    """Sizes of a bucket [m].

    Attributes:
        length, width, height: inside. wall: thickness, of rounded edges. teeth: how many. tooth: how far they stand out.
    """

    length: float = 0.07
    width: float = 0.07
    height: float = 0.05
    wall: float = 0.005
    teeth: int = 4
    tooth: float = 0.015

    @property
    def edge(self) -> float:
        """How far the cutting edge of a level bucket lies below its middle [m]."""
        return 0.5 * self.height

    def tool(self, name: str = "bucket", material: str = "bucket") -> Tool:
        """The bucket as what grains meet."""
        x, y, z, w = 0.5 * self.length, 0.5 * self.width, 0.5 * self.height, self.wall
        r = 0.45 * w
        parts = [
            box((-x, -y - w, -z - w), (x + w, y + w, -z), material, r),
            box((x, -y - w, -z - w), (x + w, y + w, z), material, r),
            box((-x, -y - w, -z - w), (x + w, -y, z), material, r),
            box((-x, y, -z - w), (x + w, y + w, z), material, r),
        ]
        for middle in np.linspace(-y, y, self.teeth):
            parts.append(box((-x - self.tooth, middle - w, -z - w), (-x + w, middle + w, -z), material, r))
        return Tool(name, tuple(parts))

    def boxes(self) -> list[Part]:
        """Its parts."""
        return list(self.tool().parts)

    def surface(self, pitch: float = 0.005) -> np.ndarray:
        """Points of its parts, no farther from each other than a pitch [m], in its frame (k, 3)."""
        return np.concatenate([_points(part, pitch) for part in self.boxes()])

    def holds(self, places: np.ndarray) -> np.ndarray:
        """Whether points (n, 3), in its frame [m], lie between its walls, up to half its height over them (n,)."""
        x, y, z = 0.5 * self.length, 0.5 * self.width, 0.5 * self.height
        inside = (np.abs(places[:, 0]) <= x) & (np.abs(places[:, 1]) <= y)
        return inside & (places[:, 2] >= -z) & (places[:, 2] <= 2.0 * z)


def _points(part: Part, pitch: float) -> np.ndarray:
    half = np.array(part.half) + part.rounding
    axes = [np.linspace(-h, h, max(2, int(np.ceil(2.0 * h / pitch)) + 1)) for h in half]
    return np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 3) + part.offset
