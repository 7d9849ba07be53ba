"""What a time-of-flight camera makes of true depths: noise that grows with distance and slope, rays that are lost, pixels that mix two depths.

The noise follows the data sheet of the RealSense L515 (standard deviation 2.5 mm at 1 m) and grows towards grazing rays, where rays are
lost as well. At edges, where there is nothing behind or something much farther away, some rays of the nearer surface mix two depths
("flying pixels").
"""

from __future__ import annotations

import numpy as np

__all__ = ["noisy_depth"]

NOISE, GRAZING = 0.0025, 0.15  # [m] at 1 m; cosine below which a ray is lost
LOST, FLYING = 0.01, 0.3  # share of rays lost anyway; share of edge rays that mix depths
JUMP = 0.05  # [m] between neighbouring rays, beyond which they meet two surfaces


def noisy_depth(depth: np.ndarray, points: np.ndarray, rays: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Depths (h, w) [m] as the camera tells them; NaN: the ray is lost.

    Args:
        depth: along the rays, NaN where they meet nothing (h, w) [m]. points: where they meet something (h, w, 3) [m].
        rays: directions of length 1 (h, w, 3).
    """
    normal = np.cross(_difference(points, depth, 0), _difference(points, depth, 1))
    length = np.linalg.norm(normal, axis=2, keepdims=True)
    cosine = np.abs((normal / np.where(length > 0.0, length, np.nan) * rays).sum(-1))
    # Nothing is known of the slope at the edges.
    edge = np.isnan(cosine) & np.isfinite(depth)
    cosine = np.where(edge, 0.5, cosine)
    edge &= ~_is_behind(depth)
    noisy = depth + NOISE * depth**2 / np.sqrt(np.maximum(cosine, GRAZING)) * rng.standard_normal(depth.shape)
    noisy += np.where(edge & (rng.uniform(size=depth.shape) < FLYING), rng.uniform(0.0, 0.05, depth.shape), 0.0)
    keep = np.isfinite(depth) & (cosine > GRAZING) & (rng.uniform(size=depth.shape) > LOST)
    return np.where(keep, noisy, np.nan)


def _difference(points: np.ndarray, depth: np.ndarray, axis: int) -> np.ndarray:
    """Between a ray's two neighbours along an axis (h, w, 3) [m]; NaN where one of them meets another surface, or nothing."""
    jumps = np.abs(np.diff(depth, axis=axis)) > JUMP
    before, after = _beside(jumps, axis)
    return np.where((before | after)[..., None], np.nan, np.gradient(points, axis=axis))


def _is_behind(depth: np.ndarray) -> np.ndarray:
    """Whether a ray's neighbour meets something nearer, by more than a jump (h, w)."""
    behind = np.zeros(depth.shape, bool)
    for axis in (0, 1):
        step = np.diff(depth, axis=axis)
        behind |= _beside(step > JUMP, axis)[0] | _beside(step < -JUMP, axis)[1]
    return behind


def _beside(between: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """What holds between neighbours along an axis, told for each ray: towards the one before it, and the one after it."""
    none = np.zeros_like(np.take(between, [0], axis))
    return np.concatenate([none, between], axis), np.concatenate([between, none], axis)
