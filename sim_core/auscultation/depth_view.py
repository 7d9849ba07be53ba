"""What a depth camera sees of a body: rays that meet its surface, with the camera's noise.

The noise follows the data sheet of the RealSense L515 (standard deviation 2.5 mm at 1 m) and grows towards grazing rays, where rays are
lost as well. At edges some rays mix two depths ("flying pixels").
"""

from __future__ import annotations

import mujoco
import numpy as np

from sim_core.auscultation.torso import Torso

__all__ = ["depth_view"]

NOISE, GRAZING = 0.0025, 0.15  # [m] at 1 m; cosine below which a ray is lost
LOST, FLYING = 0.01, 0.3  # share of rays lost anyway; share of edge rays that mix depths


def depth_view(
    torso: Torso, distance: float = 0.9, width: int = 160, height: int = 160, field: float = 0.62, seed: int = 0
) -> np.ndarray:
    """Points (n, 3) [m] of a body as seen along -z from `distance` before it, in the body's axes of that side.

    Args:
        width, height: of the picture, as a segmentation of the person leaves it. field: opening [rad]. seed: of the noise.
    """
    rng, model = np.random.default_rng([seed, 91]), torso.spec().compile()
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    u, v = np.meshgrid(np.linspace(-1, 1, width), np.linspace(-1, 1, height), indexing="ij")
    rays = np.stack([np.tan(field / 2) * u, np.tan(field / 2) * v, -np.ones_like(u)], -1).reshape(-1, 3)
    rays /= np.linalg.norm(rays, axis=1, keepdims=True)
    eye, hits, found = np.array([0.0, 0.0, distance]), np.full(len(rays), -1, np.int32), np.full(len(rays), -1.0)
    mujoco.mj_multiRay(model, data, eye, rays.ravel(), None, 1, -1, hits, found, None, len(rays), 10.0)
    depth = np.where(found > 0.0, found, np.nan).reshape(width, height)
    grid = eye + depth[..., None] * rays.reshape(width, height, 3)
    normal = np.cross(np.gradient(grid, axis=0), np.gradient(grid, axis=1))
    normal /= np.linalg.norm(normal, axis=2, keepdims=True)
    cosine = np.abs((normal * rays.reshape(width, height, 3)).sum(-1))
    # Nothing is known of the slope at the edges, beyond which there is nothing.
    edge = np.isnan(cosine) & np.isfinite(depth)
    cosine = np.where(edge, 0.5, cosine)
    noisy = depth + NOISE * depth**2 / np.sqrt(np.maximum(cosine, GRAZING)) * rng.standard_normal(depth.shape)
    noisy += np.where(edge & (rng.uniform(size=depth.shape) < FLYING), rng.uniform(0.0, 0.05, depth.shape), 0.0)
    keep = np.isfinite(depth) & (cosine > GRAZING) & (rng.uniform(size=depth.shape) > LOST)
    return (eye + noisy[..., None] * rays.reshape(width, height, 3))[keep]
