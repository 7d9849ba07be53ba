"""Ranges as a driver tells them, and as this model does: one geometry, and NaN where nothing was measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from sim_core.lidar.settings import LidarSettings

__all__ = ["measured_ranges", "seen_by", "valid_scan"]

#: a beam may be off by so much of the spacing between two; float32 is a thousand times better
SLACK = 1e-2


def seen_by(
    angle_min: float, angle_increment: float, beams: int, settings: LidarSettings = LidarSettings()
) -> LidarSettings:
    """The settings of a sensor whose scans have this geometry, as sensor_msgs/LaserScan tells it [rad].

    Raises:
        ValueError: no beams, angles that are not finite, or that do not go counter-clockwise once round at most.
    """
    if beams < 1 or not (math.isfinite(angle_min) and 0.0 < angle_increment * beams < 2.0 * math.pi * (1.0 + SLACK)):
        raise ValueError(
            f"a scan has at least one beam, and angles that rise by up to one turn; found {beams} beams from {angle_min:g} rad "
            f"every {angle_increment:g} rad"
        )
    middle = angle_min + 0.5 * (beams - 1) * angle_increment
    return replace(settings, beams=beams, spacing=float(angle_increment), middle=float(middle))


def measured_ranges(
    ranges: ArrayLike,
    range_min: float,
    range_max: float,
    angle_min: float,
    angle_increment: float,
    settings: LidarSettings,
) -> np.ndarray:
    """Ranges (beams,) [m] of a scan as sensor_msgs/LaserScan tells it, NaN where it is invalid: not finite, or out of its limits.

    Raises:
        ValueError: another number of beams than the settings', or other angles.
    """
    found = np.asarray(ranges, float).reshape(-1)
    if len(found) != settings.beams:
        raise ValueError(
            f"a scan of {settings.beams} beams is expected, and this one has {len(found)}; the driver's settings have changed, or it "
            "is another sensor's"
        )
    first = settings.angles[0]
    if not (
        abs(angle_min - first) < SLACK * settings.spacing
        and abs(angle_increment - settings.spacing) * settings.beams < SLACK * settings.spacing
    ):
        raise ValueError(
            f"a scan's beams begin at {first:.4f} rad and are {settings.spacing:.6f} rad apart, and this one's begin at "
            f"{angle_min:.4f} rad, {angle_increment:.6f} rad apart; it is another sensor's"
        )
    with np.errstate(invalid="ignore"):
        good = np.isfinite(found) & (found >= range_min) & (found <= range_max)
    return np.where(good, found, np.nan)


def valid_scan(ranges: Sequence[np.ndarray] | np.ndarray) -> str:
    """Why scans (scans, beams) are of no use to a fit; "": they are."""
    given = np.atleast_2d(np.asarray(ranges, float))
    if not given.size:
        return "there is no scan"
    if not np.isfinite(given).any():
        return f"all {given.shape[1]} beams of {'the scan' if len(given) == 1 else f'{len(given)} scans'} are invalid"
    return ""
