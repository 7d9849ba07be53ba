"""Baselines for localisation: two clouds of points in a plane, registered by ICP, GICP and NDT.

ICP and GICP are small_gicp's (Koide 2024), where it is installed (`./refit setup bench`); NDT is written here after Biber and Strasser
(IROS 2003). Each is tried with several settings, and the one that is nearest to the truth counts, which favours the baselines.
"""

from __future__ import annotations

import importlib.util
import itertools
import time
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

__all__ = ["METHODS", "Registered", "available", "best_registration", "moved", "pose_error"]

METHODS = ("ICP", "GICP", "NDT")
#: a level scan's walls as seen by a method for surfaces [m]
HEIGHTS = (-0.04, -0.02, 0.0, 0.02, 0.04)
REACH, SPACING, CELL = (0.1, 0.3, 1.0, 3.0), (0.01, 0.03), (0.15, 0.3, 0.6)


@dataclass(frozen=True)
class Registered:
    """A sensor's pose (3,) as a method has it; error: of the place [m], the heading [rad]; seconds it took; settings that were best."""

    pose: np.ndarray
    place: float
    heading: float
    seconds: float
    settings: str

    @property
    def combined(self) -> float:
        """Metres and radians alike."""
        return float(np.hypot(self.place, self.heading))


def available() -> bool:
    """Whether small_gicp is installed."""
    return importlib.util.find_spec("small_gicp") is not None


def moved(pose: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Points (n, 2) of a frame at `pose` (3,) in its parent's."""
    c, s = np.cos(pose[2]), np.sin(pose[2])
    return points @ np.array([[c, s], [-s, c]]) + pose[:2]


def pose_error(pose: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    """Of the place [m] and of the heading [rad]."""
    turn = np.angle(np.exp(1j * (pose[2] - truth[2])))
    return float(np.hypot(*(pose[:2] - truth[:2]))), float(abs(turn))


def best_registration(
    method: str, source: np.ndarray, target: np.ndarray, start: np.ndarray, truth: np.ndarray
) -> Registered:
    """Where the sensor is, as `method` has it.

    Args:
        source: what the scan would be at `start` (3,), points (n, 2) in the sensor's frame. target: the measured scan (m, 2).
        truth: by which the best settings are chosen.
    """
    found = []
    options = itertools.product(REACH, SPACING) if method != "NDT" else ((cell, 0.0) for cell in CELL)
    for first, second in options:
        began = time.process_time()
        align = _small_gicp if method != "NDT" else _ndt
        turn, shift = align(source, target, method, first, second)
        took = time.process_time() - began
        # a point p of the source is at R p + s in the target: the sensor is where the target's origin was in the source
        heading = start[2] - turn
        back = np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])
        pose = np.array([*moved(start, (-back @ shift)[None])[0], heading])
        found.append(Registered(pose, *pose_error(pose, truth), took, f"{first:g}, {second:g}"))
    return min(found, key=lambda one: one.combined)


def _small_gicp(
    source: np.ndarray, target: np.ndarray, method: str, reach: float, spacing: float
) -> tuple[float, np.ndarray]:
    import small_gicp

    def upright(points: np.ndarray) -> np.ndarray:
        return np.concatenate([np.column_stack([points, np.full(len(points), z)]) for z in HEIGHTS])

    found = small_gicp.align(
        upright(target),
        upright(source),
        registration_type=method,
        downsampling_resolution=spacing,
        max_correspondence_distance=reach,
        max_iterations=100,
    ).T_target_source
    return float(np.arctan2(found[1, 0], found[0, 0])), found[:2, 3]


def _ndt(source: np.ndarray, target: np.ndarray, method: str, cell: float, unused: float) -> tuple[float, np.ndarray]:
    """Four grids, shifted by half a cell, as published; the score's own gradient."""
    cells = []
    for shift in itertools.product((0.0, 0.5), repeat=2):
        key = np.floor(target / cell + shift).astype(int)
        for place in np.unique(key, axis=0):
            inside = target[(key == place).all(1)]
            if len(inside) < 3:
                continue
            spread = np.cov(inside.T)
            values, vectors = np.linalg.eigh(spread)
            values = np.maximum(values, 1e-3 * values[1] + 1e-9)
            cells.append((shift, tuple(place), inside.mean(0), (vectors / values) @ vectors.T))
    tables = {
        shift: {place: (mean, inverse) for s, place, mean, inverse in cells if s == shift}
        for shift in itertools.product((0.0, 0.5), repeat=2)
    }

    def score(p: np.ndarray) -> tuple[float, np.ndarray]:
        c, s = np.cos(p[2]), np.sin(p[2])
        there = source @ np.array([[c, s], [-s, c]]) + p[:2]
        slope = source @ np.array([[-s, c], [-c, -s]])
        total, gradient = 0.0, np.zeros(3)
        for shift, table in tables.items():
            key = np.floor(there / cell + shift).astype(int)
            hits = [(k, *table[place]) for k, place in enumerate(map(tuple, key.tolist())) if place in table]
            if not hits:
                continue
            row = np.array([h[0] for h in hits])
            off = there[row] - np.array([h[1] for h in hits])
            pull = np.einsum("nij,nj->ni", np.array([h[2] for h in hits]), off)
            weight = np.exp(-0.5 * (off * pull).sum(1))
            total -= weight.sum()
            gradient[:2] += weight @ pull
            gradient[2] += (weight * (pull * slope[row]).sum(1)).sum()
        return total, gradient

    found = minimize(score, np.zeros(3), jac=True, method="BFGS", options={"maxiter": 100}).x
    return float(found[2]), found[:2]
