"""From a cloud in the world to a registered body: what lies on the table is cut out, and turned to the axes of a lying person."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sim_core.auscultation.regions import Side
from sim_core.auscultation.registration import Registration, register

__all__ = ["crop", "register_scan"]

LEAST = 500  # points of a scan


def crop(cloud: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The finite points (n, 3) [m] of a cloud that lie in a box between two corners (3,) [m].

    Raises:
        ValueError: fewer than 500 are left.
    """
    points = np.asarray(cloud, float)
    if points.ndim != 2 or points.shape[1] != 3:
        raise ValueError(f"a cloud has points of shape (n, 3), not {points.shape}")
    points = points[np.isfinite(points).all(axis=1)]
    inside = points[((points >= low) & (points <= high)).all(axis=1)]
    if len(inside) < LEAST:
        raise ValueError(
            f"{len(inside)} of {len(points)} points of the scan lie where a person should, at least {LEAST} have to: does "
            "somebody lie there, does the camera see depth, and is the box of the table right?"
        )
    return inside


def register_scan(cloud: np.ndarray, viewpoint: np.ndarray, side: Side, axes: np.ndarray) -> Registration:
    """Fit the reference torso to a scan in the world's axes; what is found is in them too.

    Args:
        cloud: of the torso alone (n, 3) [m]. viewpoint: of the camera (3,) [m]. side: that is up.
        axes: of the lying person (3, 3) in the world: columns to its left, to its head, and upwards, to within 25 degrees.

    Raises:
        ValueError: axes that are no rotation; see `register`.
    """
    axes = np.asarray(axes, float)
    if axes.shape != (3, 3) or not np.allclose(axes.T @ axes, np.eye(3), atol=1e-6) or np.linalg.det(axes) < 0.0:
        raise ValueError(
            "the axes of a lying person are three columns of length 1 at right angles, left, head and up, right-handed; "
            f"found {axes.tolist()}"
        )
    found = register(np.asarray(cloud, float) @ axes, np.asarray(viewpoint, float) @ axes, side)
    return replace(
        found,
        landmarks={region: axes @ place for region, place in found.landmarks.items()},
        axes=axes @ found.axes,
        origin=axes @ found.origin,
        points=found.points @ axes.T,
        point_normals=found.point_normals @ axes.T,
        surface=found.surface @ axes.T,
    )
