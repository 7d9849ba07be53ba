"""Depth pictures of a textured surface in closed form, with the camera's noise: what there is to learn from without drawing anything.

    view = surface_view(distance=0.3, tilt=0.2, turn=1.0)                      # pose of the surface in the optical frame
    depths = depth_pictures(surface, view, K, (h, w), 10, rng)

A ray meets the surface where it first comes below its height; that is looked for in steps between the highest and the lowest point,
and linearly within a step. Noise is that of `perception.depth_noise`, and depths are told in whole millimetres, as drivers do.
"""

from __future__ import annotations

import numpy as np
from scipy.ndimage import gaussian_filter
from scipy.spatial.transform import Rotation

from sim_core.perception.depth_noise import noisy_depth
from sim_core.telepresence.texture.surfaces import SIDE, TextureSurface

__all__ = ["camera_matrix", "depth_pictures", "surface_view", "true_depth"]

STEPS = 20
#: depths are told in steps of this [m]
MILLIMETRE = 1e-3


def camera_matrix(width: int, height: int, fovy: float = np.deg2rad(58.0)) -> np.ndarray:
    """Intrinsics (3, 3) [pixel] of a camera without distortion, with this vertical field of view [rad]."""
    focal = 0.5 * height / np.tan(0.5 * fovy)
    return np.array([[focal, 0.0, 0.5 * (width - 1)], [0.0, focal, 0.5 * (height - 1)], [0.0, 0.0, 1.0]])


def surface_view(distance: float, tilt: float = 0.0, towards: float = 0.0, turn: float = 0.0) -> np.ndarray:
    """Pose X_CS (4, 4) [m] of a surface in the optical frame (x right, y down, z forward), which its z axis looks back at.

    Args:
        distance: along the optical axis to the surface's origin [m]. tilt: between its normal and that axis [rad].
        towards: direction in the picture that it tilts to [rad]. turn: about its own normal [rad].
    """
    axis = tilt * np.array([np.cos(towards), np.sin(towards), 0.0])
    X = np.eye(4)
    X[:3, :3] = _turned(axis) @ np.diag([1.0, -1.0, -1.0]) @ _turned(np.array([0.0, 0.0, turn]))
    X[2, 3] = distance
    return X


def true_depth(surface: TextureSurface, X_CS: np.ndarray, K: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Depth along the optical axis (h, w) [m], without noise; NaN: beside the surface."""
    rays = _rays(K, shape)
    origin = X_CS[:3, :3].T @ -X_CS[:3, 3]
    along = rays @ X_CS[:3, :3]  # in the surface's axes
    low, high = surface.grid.min() - 1e-6, surface.grid.max() + 1e-6
    with np.errstate(divide="ignore", invalid="ignore"):
        first, last = (high - origin[2]) / along[..., 2], (low - origin[2]) / along[..., 2]
    depth = np.full(shape, np.nan)
    before = np.full(shape, np.inf)  # how far a ray is above the surface
    for k in range(STEPS + 1):
        z = first + (last - first) * k / STEPS
        point = origin + z[..., None] * along
        above = point[..., 2] - surface.at(point[..., :2])
        meets = np.isnan(depth) & (above <= 0.0)
        if k == 0:
            depth[meets] = z[meets]
        else:
            back = above / np.where(before - above > 0.0, before - above, 1.0)
            depth[meets] = (z + back * (last - first) / STEPS)[meets]
        before = above
    point = origin + depth[..., None] * along
    inside = (np.abs(point[..., :2]) <= 0.5 * SIDE).all(-1) & (first > 0.0)
    return np.where(inside, depth, np.nan)


def depth_pictures(
    surface: TextureSurface,
    X_CS: np.ndarray,
    K: np.ndarray,
    shape: tuple[int, int],
    count: int,
    rng: np.random.Generator,
    step: float = MILLIMETRE,
    blur: float = 0.0,
) -> np.ndarray:
    """Depths (count, h, w) [m] as a camera that stands still measures them, told in steps [m]; NaN: not measured.

    Args:
        surface: that is seen. X_CS: its pose in the optical frame (4, 4) [m]. K: intrinsics (3, 3) [pixel].
        shape: (h, w) of the pictures. count: of them. step: 0: depths are told as they are.
        blur: standard deviation over which a pixel averages what there is [pixel]; 0: it sees a point.
    """
    rays = _rays(K, shape)
    lengths = np.linalg.norm(rays, axis=-1)
    true = true_depth(surface, X_CS, K, shape)
    if blur:
        seen = np.isfinite(true)
        weight = gaussian_filter(seen.astype(float), blur)
        true = np.where(seen, gaussian_filter(np.where(seen, true, 0.0), blur) / np.maximum(weight, 1e-9), np.nan)
    points, directions = true[..., None] * rays, rays / lengths[..., None]
    told = np.array([noisy_depth(true * lengths, points, directions, rng) / lengths for _ in range(count)])
    return np.rint(told / step) * step if step else told


def _rays(K: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Of length 1 along the optical axis (h, w, 3)."""
    x, y = np.meshgrid((np.arange(shape[1]) - K[0, 2]) / K[0, 0], (np.arange(shape[0]) - K[1, 2]) / K[1, 1])
    return np.stack([x, y, np.ones_like(x)], axis=-1)


def _turned(vector: np.ndarray) -> np.ndarray:
    """Rotation (3, 3) about a vector by its length [rad]."""
    return Rotation.from_rotvec(vector).as_matrix()
