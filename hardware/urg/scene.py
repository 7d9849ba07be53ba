"""What an emulated scanner sees: rays cast into a room or into the simulated robot's world, and the sensor's errors.

All rays are in the scanner's own frame: x ahead, y left, z up, angles counter-clockwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import yaml
from numpy.typing import ArrayLike

__all__ = ["Hits", "MujocoScene", "Optics", "Room", "Scene"]

NORMAL, DARK, MIRROR = 0, 1, 2
SURFACES = {"normal": NORMAL, "dark": DARK, "mirror": MIRROR}


@dataclass(frozen=True)
class Hits:
    """Where rays end: `distance` (n,) [m], inf where nowhere; `surface` (n,) NORMAL, DARK or MIRROR."""

    distance: np.ndarray
    surface: np.ndarray


class Scene(Protocol):
    """What rays from the scanner hit."""

    def cast(self, angles: np.ndarray) -> Hits:
        """Rays from the scanner, angles (n,) [rad]."""


class Room:
    """Walls and boxes in the plane of the scan, read from YAML (see room.yaml, the one seen by default).

    Raises:
        ValueError: the file describes no room.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        path = Path(path) if path else Path(__file__).with_name("room.yaml")
        about = yaml.safe_load(path.read_text()) or {}
        try:
            self.pose = np.array(about.get("sensor", [0.0, 0.0, 0.0]), float).reshape(3)
            walls = [
                (np.array(s["line"], float).reshape(2, 2), s.get("surface", "normal"))
                for s in about.get("segments", [])
            ]
            for box in about.get("boxes", []):
                sides = _sides(box["center"], box["size"], box.get("yaw", 0.0))
                walls += [(side, box.get("surface", "normal")) for side in sides]
            self._surfaces = np.array([SURFACES[surface] for _, surface in walls] + [NORMAL])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"{path} describes no room: expected segments with 'line' and boxes with 'center' and 'size', "
                f"surface one of {', '.join(SURFACES)} ({error!r})"
            ) from error
        self._walls = np.array([wall for wall, _ in walls]).reshape(-1, 2, 2)

    def cast(self, angles: np.ndarray) -> Hits:
        directions = np.stack((np.cos(angles + self.pose[2]), np.sin(angles + self.pose[2])), axis=1)[:, None]
        a, b = self._walls[:, 0] - self.pose[:2], self._walls[:, 1] - self._walls[:, 0]
        # origin + r d = a + s b
        with np.errstate(divide="ignore", invalid="ignore"):
            area = _cross(directions, b)
            r, s = _cross(a, b) / area, _cross(a, directions) / area
        r = np.where((r > 0.0) & (s >= 0.0) & (s <= 1.0), r, np.inf)
        r = np.concatenate((r, np.full((len(r), 1), np.inf)), axis=1)
        nearest = r.argmin(axis=1)
        nearest[np.isinf(r.min(axis=1))] = r.shape[1] - 1
        return Hits(r.min(axis=1), self._surfaces[nearest])


def _cross(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return u[..., 0] * v[..., 1] - u[..., 1] * v[..., 0]


def _sides(center: ArrayLike, size: ArrayLike, yaw: float) -> list[np.ndarray]:
    c, s = np.cos(yaw), np.sin(yaw)
    corners = np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]]) * np.array(size, float).reshape(2) / 2
    corners = corners @ np.array([[c, s], [-s, c]]) + np.array(center, float).reshape(2)
    return [np.stack((corners[k], corners[(k + 1) % 4])) for k in range(4)]


class MujocoScene:
    """The simulated robot's world, from a named site of its model, posed as the plant says.

    Args:
        mjcf: the model, as text.
        joints: whose positions `positions` gives, by name.
        positions: returns q, shape (len(joints),).
        site: the scanner's frame.

    Raises:
        ValueError: the model has no such site or joint.
    """

    DARK_BELOW = 0.08  # brightness of a geom's colour

    def __init__(self, mjcf: str, joints: list[str], positions: Callable[[], np.ndarray], site: str = "urg") -> None:
        import mujoco  # heavy, and of no use to a room

        self._mujoco = mujoco
        try:
            self.model = mujoco.MjModel.from_xml_string(mjcf)
            self._addresses = [int(self.model.joint(name).qposadr[0]) for name in joints]
            self._site = self.model.site(site).id
        except (KeyError, ValueError) as error:
            raise ValueError(
                f"The world's model has no frame for the scanner: expected a site '{site}' "
                f"(name another with --site). {error}"
            ) from error
        self.data = mujoco.MjData(self.model)
        self._positions = positions
        rgba = self.model.geom_rgba[:, :3].copy()
        coloured = self.model.geom_matid >= 0
        rgba[coloured] = self.model.mat_rgba[self.model.geom_matid[coloured], :3]
        shiny = np.zeros(self.model.ngeom, bool)
        shiny[coloured] = self.model.mat_reflectance[self.model.geom_matid[coloured]] > 0.8
        self._surfaces = np.where(shiny, MIRROR, np.where(rgba.max(axis=1) < self.DARK_BELOW, DARK, NORMAL))

    def follow(self) -> None:
        """Pose the model as the plant says."""
        self.data.qpos[self._addresses] = self._positions()
        self._mujoco.mj_kinematics(self.model, self.data)

    def cast(self, angles: np.ndarray) -> Hits:
        self.follow()
        n = len(angles)
        rotation = self.data.site_xmat[self._site].reshape(3, 3)
        rays = np.stack((np.cos(angles), np.sin(angles), np.zeros(n)), axis=1) @ rotation.T
        distance, geom = np.empty(n), np.empty(n, np.int32)
        # The scanner's own body is left out: its housing would hide the world.
        self._mujoco.mj_multiRay(
            self.model,
            self.data,
            self.data.site_xpos[self._site],
            rays.ravel(),
            None,
            True,
            int(self.model.site_bodyid[self._site]),
            geom,
            distance,
            None,
            n,
            1e3,
        )
        seen = geom >= 0
        return Hits(np.where(seen, distance, np.inf), np.where(seen, self._surfaces[np.maximum(geom, 0)], NORMAL))


class Optics:
    """The sensor's errors: noise within its specified accuracy, and error codes where light fails it.

    Args:
        seed: of both.
        noise: scale of the noise; 1: within ±10 mm below 1 m and ±1 % above (C-42-3389, specification), 0: none.
        codes: whether surfaces and edges cause error codes.
    """

    MAX = 5.6  # [m] farthest specified; a little more is still measured
    BLIND = 6.0

    def __init__(self, seed: int = 0, noise: float = 1.0, codes: bool = True) -> None:
        self.noise, self.codes = noise, codes
        self._rng = np.random.default_rng(seed)
        self._failed: np.ndarray | None = None

    def measure(self, hits: Hits) -> np.ndarray:
        """Readings of one turn, shape (n,) [mm], error codes below 20."""
        d, rng = hits.distance, self._rng
        n = len(d)
        far = d > self.BLIND
        near = np.where(far, self.BLIND, d)
        accuracy = np.where(near < 1.0, 0.01, 0.01 * near)
        error = np.clip(rng.standard_normal(n) / 3.0, -1.0, 1.0) * accuracy * self.noise
        readings = np.rint(1000.0 * (near + error)).astype(int)
        readings[far] = np.where((d[far] >= 20.0) & (d[far] < 22.0), 0, 1)
        readings[readings >= 20 * 1000] = 0
        readings[(d < 0.02)] = 6
        if not self.codes:
            return readings
        chance = rng.random(n)
        failed = np.zeros(n, bool)
        dark = (hits.surface == DARK) & ~far & (chance < np.minimum(0.95, d / 3.0))
        readings[dark] = 2
        mirror = (hits.surface == MIRROR) & ~far & (chance < 0.8)
        readings[mirror] = 18
        # At an edge part of the beam meets each surface.
        step = np.abs(np.diff(near)) > np.maximum(0.1, 0.05 * np.minimum(near[1:], near[:-1]))
        edge = np.zeros(n, bool)
        edge[:-1] |= step
        edge[1:] |= step
        edge &= chance < 0.5
        readings[edge] = np.where(chance[edge] < 0.25, 7, 8)
        failed = dark | mirror | edge
        if self._failed is not None and len(self._failed) == n:
            readings[failed & self._failed & (chance < 0.2)] = 9
        self._failed = failed
        return readings
