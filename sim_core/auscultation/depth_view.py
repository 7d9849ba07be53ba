"""What a depth camera sees of a body: rays that meet its surface, with the camera's noise (`depth_noise`)."""

from __future__ import annotations

import mujoco
import numpy as np

from sim_core.auscultation.torso import Torso
from sim_core.perception.depth_noise import noisy_depth

__all__ = ["depth_view"]


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
    noisy = noisy_depth(depth, grid, rays.reshape(width, height, 3), rng)
    return (eye + noisy[..., None] * rays.reshape(width, height, 3))[np.isfinite(noisy)]
