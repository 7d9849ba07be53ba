"""The data of a shooting likelihood as both of its kernels take them, and the two formulas they share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

__all__ = ["HUBER", "Recorded", "pull"]

HUBER = 1.345  # residuals beyond this many sigma count linearly: 95 % efficient where noise is Gaussian after all


@dataclass(frozen=True)
class Recorded:
    """Data of W windows, `windows` to each trajectory, and the units they count in.

    Attributes:
        windows: S, so that W = trajectories S.
        start: measured start states (W, nx). u: (W, H, nu). y: (W, H+1, ny), of which the first sample is not used.
        per_sigma: (ny,), 1 / noise. scale: (nx,), unit of `offsets`. per_defect: (nx,), 1 / unit of a defect.
    """

    windows: int
    start: np.ndarray
    u: np.ndarray
    y: np.ndarray
    per_sigma: np.ndarray
    scale: np.ndarray
    per_defect: np.ndarray


def pull(d: Any, multipliers: Any, damping: Any, form: str) -> Any:
    """(multipliers + damping g) dg/dd, as SX (nx,) or arrays (..., nx): g = d for form "vector", |d|^2 for "squared".

    Raises:
        ValueError: another form.
    """
    if form == "vector":
        return multipliers + damping * d
    if form == "squared":
        square = ca.dot(d, d) if isinstance(d, ca.SX) else np.sum(d * d, axis=-1, keepdims=True)
        return 2 * d * (multipliers + damping * square)
    raise ValueError(f"form: expected 'vector' or 'squared', found '{form}'")
