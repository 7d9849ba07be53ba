"""What a time-of-flight camera makes of true depths: noise that grows with distance and slope, rays that are lost, pixels that mix two depths.

The noise follows the data sheet of the RealSense L515 (standard deviation 2.5 mm at 1 m) and grows towards grazing rays, where rays are
lost as well. At edges some rays mix two depths ("flying pixels").
"""

from __future__ import annotations

import numpy as np

__all__ = ["noisy_depth"]

NOISE, GRAZING = 0.0025, 0.15  # [m] at 1 m; cosine below which a ray is lost
LOST, FLYING = 0.01, 0.3  # share of rays lost anyway; share of edge rays that mix depths


def noisy_depth(depth: np.ndarray, points: np.ndarray, rays: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Depths (h, w) [m] as the camera tells them; NaN: the ray is lost.

    Args:
        depth: along the rays, NaN where they meet nothing (h, w) [m]. points: where they meet something (h, w, 3) [m].
        rays: directions of length 1 (h, w, 3).
    """
    normal = np.cross(np.gradient(points, axis=0), np.gradient(points, axis=1))
    length = np.linalg.norm(normal, axis=2, keepdims=True)
    cosine = np.abs((normal / np.where(length > 0.0, length, np.nan) * rays).sum(-1))
    # Nothing is known of the slope at the edges, beyond which there is nothing.
    edge = np.isnan(cosine) & np.isfinite(depth)
    cosine = np.where(edge, 0.5, cosine)
    noisy = depth + NOISE * depth**2 / np.sqrt(np.maximum(cosine, GRAZING)) * rng.standard_normal(depth.shape)
    noisy += np.where(edge & (rng.uniform(size=depth.shape) < FLYING), rng.uniform(0.0, 0.05, depth.shape), 0.0)
    keep = np.isfinite(depth) & (cosine > GRAZING) & (rng.uniform(size=depth.shape) > LOST)
    return np.where(keep, noisy, np.nan)
