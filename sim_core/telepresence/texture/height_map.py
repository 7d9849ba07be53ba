"""From depth pictures of a camera that stands still to heights over the surface's mean plane.

    scan = height_map(depths, K)                             # (n, h, w) [m], NaN: not measured
    scan.heights                                             # (rows, columns) [m], `scan.pitch` apart; NaN: not measured

1. Pixel by pixel, the pictures' median, and the mean of what is near it: once of all pictures, and once of each half of them, whose
   noise is independent, so that their product has none on average (`spectrum`).
2. A plane n . p = d through what the middle of the picture shows, by random samples of three points, then least squares of what is near.
3. A square of the plane, x as the picture's, about where the optical axis meets it. For each node of its grid the point

       p = o + u e1 + v e2 + w n

   is looked up in the picture, in which the ray of a pixel with depth z has w = n . (z r - o); w at the node decides where p is seen,
   so that this is done thrice. Between four pixels w is linear.
4. What is left of a plane in the heights is taken away.

What resolution allows: pixels are z / f apart (0.7 mm at 0.3 m with 640 x 480 and 58 degrees), so that waves below about 4 mm are lost.
What noise allows: 2.5 mm z^2 for each picture (0.23 mm at 0.3 m), less by the root of their number; depths in whole millimetres leave
terraces that averaging does not take away, the higher the less noise smears them: of a root mean square of about

    1 mm / (sqrt(2) pi) exp(-2 (pi s / 1 mm)^2)        with the noise s of one picture: 0.15 mm at 0.24 m, 0.08 at 0.3, 0.04 at 0.35.

Source of the latter: Widrow & Kollar, Quantization Noise (2008) (the first harmonic of what dither leaves).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.ndimage import map_coordinates

__all__ = ["FARTHEST", "NEAREST", "PITCH", "SIDE", "STEEPEST", "HeightMap", "ScanError", "height_map"]

#: side of the square that is mapped, and distance between two heights [m]
SIDE, PITCH = 0.1, 0.001
#: [m] along the optical axis from which and up to which a surface is scanned, and its slant at most [rad]
NEAREST, FARTHEST, STEEPEST = 0.24, 0.45, np.deg2rad(35.0)
#: pictures at least
FEWEST = 4
#: [m] from the median of a pixel within which a depth counts, about the plane within which a point belongs to it,
#: and over it that a height may be
NEAR, THICK, HIGHEST = 0.003, 0.006, 0.012
#: share of the middle that must be measured, that the plane must hold, and of the square that must be measured
SEEN, FLAT, COVERED = 0.3, 0.7, 0.8
#: [m] by which the two halves of the pictures may differ on average: beyond, the camera moved
MOVED = 0.0015
SAMPLES, TRIALS = 3000, 120


class ScanError(ValueError):
    """There is no height map; the text says why and what to do."""


@dataclass(frozen=True, eq=False)
class HeightMap:
    """Heights over the mean plane.

    Attributes:
        heights: (rows, columns) [m], towards the camera; NaN: not measured. Rows run along v, columns along u.
        first, second: the same from one half of the pictures each. pitch: between two of them [m].
        X_CP: pose of the plane's axes (u, v, towards the camera) in the optical frame (4, 4) [m].
        pictures: that were averaged.
    """

    heights: np.ndarray
    first: np.ndarray
    second: np.ndarray
    pitch: float
    X_CP: np.ndarray
    pictures: int

    @property
    def noise(self) -> float:
        """Standard deviation of a height [m] by which the two halves differ."""
        return float(np.nanstd(0.5 * (self.first - self.second)))

    @property
    def distance(self) -> float:
        """Along the optical axis to the plane [m]."""
        return float(self.X_CP[2, 3])

    @property
    def tilt(self) -> float:
        """Between the plane's normal and the optical axis [rad]."""
        return float(np.arccos(min(1.0, -self.X_CP[2, 2])))


def height_map(depths: np.ndarray, K: np.ndarray, side: float = SIDE, pitch: float = PITCH) -> HeightMap:
    """Heights of the square in the middle of what a camera sees.

    Args:
        depths: along the optical axis (n, h, w) [m]; NaN or nothing positive: not measured.
        K: intrinsics (3, 3) [pixel], no distortion. side: of the square [m]. pitch: of its grid [m].

    Raises:
        ScanError: too few pictures, nothing measured, no plane, too near, too far, too slanted, too small, or the camera moved.
    """
    depths = np.asarray(depths, float)
    K = np.asarray(K, float)
    if depths.ndim != 3 or len(depths) < FEWEST:
        raise ScanError(f"expected {FEWEST} pictures at least, found {len(depths)}: scan for longer")
    if K.shape != (3, 3) or not np.isfinite(K).all() or K[0, 0] <= 0.0 or K[1, 1] <= 0.0:
        raise ScanError("the camera's intrinsics are none: expected a matrix with positive focal lengths")
    depths, K = _middle(np.where(np.isfinite(depths) & (depths > 0.0), depths, np.nan), K, side)
    _check_still(depths)
    both, halves = _mean(depths), (_mean(depths[::2]), _mean(depths[1::2]))
    rays = _rays(K, both.shape)
    origin, axes = _plane(both[..., None] * rays)
    over = [(z[..., None] * rays - origin) @ axes[:, 2] for z in (both, *halves)]
    line = np.arange(-round(0.5 * side / pitch), round(0.5 * side / pitch) + 1) * pitch
    u, v = np.meshgrid(line, line)
    node = origin + u[..., None] * axes[:, 0] + v[..., None] * axes[:, 1]
    maps = [_levelled(_looked_up(heights, node, axes[:, 2], K), u, v) for heights in over]
    measured = np.isfinite(maps[0]) & np.isfinite(maps[1]) & np.isfinite(maps[2])
    if measured.mean() < COVERED:
        raise ScanError(
            f"the surface is too small: {100 * measured.mean():.0f} % of a square of {100 * side:g} cm is measured, "
            f"expected {100 * COVERED:.0f} %; look at the middle of a larger one"
        )
    heights, first, second = (np.where(measured, each, np.nan) for each in maps)
    X = np.eye(4)
    X[:3, :3], X[:3, 3] = axes, origin
    return HeightMap(heights, first, second, pitch, X, len(depths))


def _middle(depths: np.ndarray, K: np.ndarray, side: float) -> tuple[np.ndarray, np.ndarray]:
    """The part of the pictures that can show the square, and its intrinsics."""
    _, h, w = depths.shape
    v, u = K[1, 2], K[0, 2]
    if not (0.0 <= u < w and 0.0 <= v < h):
        raise ScanError("the camera's intrinsics do not belong to its pictures: the optical axis is beside them")
    reach = max(4, min(h, w) // 12)
    near = depths[:, max(0, int(v) - reach) : int(v) + reach, max(0, int(u) - reach) : int(u) + reach]
    if np.isfinite(near).mean() < SEEN:
        raise ScanError(
            "no depth is measured in the middle of the picture: nothing is there, or it is nearer or farther than the camera measures, "
            "or it reflects nothing"
        )
    z = float(np.nanmedian(near))
    if z < NEAREST:
        raise ScanError(f"the surface is too near: {z:.2f} m, expected {NEAREST:g} m at least; move the wrist back")
    if z > FARTHEST:
        raise ScanError(f"the surface is too far: {z:.2f} m, expected {FARTHEST:g} m at most; move the wrist closer")
    half = np.ceil(0.75 * side * np.array([K[0, 0], K[1, 1]]) / z).astype(int)
    left, top = max(0, int(u) - half[0]), max(0, int(v) - half[1])
    cut = K.copy()
    cut[:2, 2] -= left, top
    return depths[:, top : int(v) + half[1] + 1, left : int(u) + half[0] + 1], cut


def _check_still(depths: np.ndarray) -> None:
    """Raise unless the first and the last pictures show the same."""
    quarter = max(1, len(depths) // 4)
    moved = _median(depths[-quarter:]) - _median(depths[:quarter])
    rows, columns = (np.array_split(np.arange(n), 3) for n in moved.shape)
    parts = [moved[np.ix_(row, column)] for row in rows for column in columns]
    shifts = [np.nanmedian(part) for part in parts if np.isfinite(part).mean() > SEEN]
    if shifts and np.max(np.abs(shifts)) > MOVED:
        raise ScanError("the camera moved during the scan, or what it sees did: hold the wrist still and scan again")


def _median(depths: np.ndarray) -> np.ndarray:
    """Of each pixel, of what was measured (h, w); NaN: nothing."""
    ordered, count = np.sort(depths, axis=0), np.isfinite(depths).sum(axis=0)  # NaN come last
    middle = (np.take_along_axis(ordered, np.maximum(count - 1, 0)[None] // 2, 0)[0], count // 2)
    upper = np.take_along_axis(ordered, np.minimum(middle[1], np.maximum(count - 1, 0))[None], 0)[0]
    return 0.5 * (middle[0] + upper)


def _mean(depths: np.ndarray) -> np.ndarray:
    """Of each pixel, of the depths near its median (h, w) [m]; NaN: none was measured."""
    with np.errstate(invalid="ignore"):
        good = np.abs(depths - _median(depths)) < NEAR
    count = good.sum(axis=0)
    return np.where(count > 0, np.where(good, depths, 0.0).sum(axis=0) / np.maximum(count, 1), np.nan)


def _rays(K: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Of length 1 along the optical axis (h, w, 3)."""
    x, y = np.meshgrid((np.arange(shape[1]) - K[0, 2]) / K[0, 0], (np.arange(shape[0]) - K[1, 2]) / K[1, 1])
    return np.stack([x, y, np.ones_like(x)], axis=-1)


def _plane(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the optical axis meets the plane (3,) [m], and its axes as columns (3, 3), the last towards the camera."""
    points = points[np.isfinite(points[..., 2])]
    rng = np.random.default_rng(0)
    some = points[rng.choice(len(points), min(SAMPLES, len(points)), replace=False)]
    best: tuple[int, np.ndarray, float] = (-1, np.zeros(3), 0.0)
    for _ in range(TRIALS):
        a, b, c = some[rng.choice(len(some), 3, replace=False)]
        normal = np.cross(b - a, c - a)
        length = float(np.linalg.norm(normal))
        if length < 1e-6:
            continue
        normal /= length
        count = int((np.abs((some - a) @ normal) < THICK).sum())
        if count > best[0]:
            best = count, normal, float(normal @ a)
    count, normal, offset = best
    for _ in range(3):
        mine = points[np.abs(points @ normal - offset) < THICK]
        if len(mine) < FLAT * len(points):
            raise ScanError(
                "what the camera sees is no flat surface: no plane holds most of it; look at one whose depth varies by less than "
                f"{2e3 * THICK:g} mm"
            )
        centre = mine.mean(axis=0)
        normal = np.linalg.svd((mine - centre).T @ (mine - centre))[2][2]
        offset = float(normal @ centre)
    if normal[2] > 0.0:
        normal, offset = -normal, -offset
    slant = float(np.arccos(min(1.0, -normal[2])))
    if slant > STEEPEST:
        raise ScanError(
            f"the surface is slanted by {np.rad2deg(slant):.0f} degrees, expected {np.rad2deg(STEEPEST):.0f} at most: face it"
        )
    e1 = np.array([1.0, 0.0, 0.0]) - normal[0] * normal
    e1 /= np.linalg.norm(e1)
    return np.array([0.0, 0.0, offset / normal[2]]), np.column_stack([e1, np.cross(normal, e1), normal])


def _looked_up(over: np.ndarray, node: np.ndarray, normal: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Heights (rows, columns) [m] at nodes of the plane (rows, columns, 3) [m], from those of the pixels (h, w) [m]."""
    holes = ~(np.abs(np.nan_to_num(over, nan=np.inf)) < HIGHEST)
    filled = np.where(holes, 0.0, over)
    w = np.zeros(node.shape[:2])
    for _ in range(3):
        point = node + w[..., None] * normal
        column = K[0, 0] * point[..., 0] / point[..., 2] + K[0, 2]
        row = K[1, 1] * point[..., 1] / point[..., 2] + K[1, 2]
        w = map_coordinates(filled, [row, column], order=1, mode="nearest")
    hole = map_coordinates(holes.astype(float), [row, column], order=1, mode="constant", cval=1.0)
    return np.where(hole > 0.0, np.nan, w)


def _levelled(heights: np.ndarray, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The same without the plane that fits them best."""
    measured = np.isfinite(heights)
    if measured.sum() < 3:
        return heights
    basis = np.stack([np.ones_like(u), u, v], axis=-1)
    return heights - basis @ np.linalg.lstsq(basis[measured], heights[measured], rcond=None)[0]
