"""A soft object whose truth is known: seen by a camera that is a little off, and touched by probes where it truly is.

What is seen, and where a robot therefore pokes, is the object moved by one rigid offset; so forces begin some millimetres before or after
the surface, as published (Zhu, PhD thesis, section 4.3.1: -5 to 5 mm).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from scipy.spatial.transform import Rotation

from sim_core.elastic.poke import Poke
from sim_core.elastic.rigid_body import probe_pose
from sim_core.elastic.surface import Surface
from sim_core.elastic.truth.solid import Press

__all__ = ["ProbeTrial", "SoftObject", "Truth", "camera_offset", "noisy", "rounded_tip"]

#: at which a force-torque sensor is read, and at which a probe goes in, as published
RATE, SPEED = 250.0, 0.002
#: between which forces are taken as straight lines [m]
STEP = 5e-4
#: before the seen surface where a poke's log begins [m]
STAND_OFF = 0.006


class Truth(Protocol):
    """What truly is there: SoftSolid (finite elements) or AnalyticSolid."""

    @property
    def vertices(self) -> np.ndarray:
        """(n, 3) [m]."""
        ...

    @property
    def faces(self) -> np.ndarray:
        """(f, 3)."""
        ...

    @property
    def normals(self) -> np.ndarray:
        """(n, 3) unit, outward."""
        ...

    @property
    def colours(self) -> np.ndarray:
        """(n, 3), 0 to 1."""
        ...

    def press(self, points: np.ndarray) -> Press:
        """A rigid probe's points (m, 3), where they are now."""
        ...


@dataclass(frozen=True, eq=False)
class ProbeTrial:
    """A probe that went into an object along one line.

    Attributes:
        poses: (k, 4, 4) of the probe's frame in the world [m]: its origin is the tip, its z axis points out of the object.
        displacement: (k,) of the tip from the seen point along the inward normal [m].
        force: (k, 3) on the probe [N]. torque: (k, 3) on the probe about its tip [N m], both along the world's axes.
        feature: (9,) of the seen point. probe: its name.
    """

    poses: np.ndarray
    displacement: np.ndarray
    force: np.ndarray
    torque: np.ndarray
    feature: np.ndarray
    probe: str


def rounded_tip(radius: float = 0.005, rings: int = 3) -> np.ndarray:
    """Points (m, 3) of a hemisphere [m]: a real point probe. The tip is the origin, z points back to the wrist."""
    angles = [(k / rings * 0.45 * np.pi, 2.0 * np.pi * j / (6 * k)) for k in range(1, rings + 1) for j in range(6 * k)]
    tilt, around = np.array([(0.0, 0.0), *angles]).T
    return radius * np.stack([np.sin(tilt) * np.cos(around), np.sin(tilt) * np.sin(around), 1.0 - np.cos(tilt)], 1)


def camera_offset(
    rng: np.random.Generator, centre: np.ndarray, shift: float = 0.004, degrees: float = 1.0
) -> np.ndarray:
    """Pose (4, 4) by which a camera sees things away from where they are: at most `shift` [m] far and turned about the centre (3,) [m]."""
    way = rng.standard_normal(3)
    way *= rng.uniform(0.25, 1.0) * shift / np.linalg.norm(way)
    axis = rng.standard_normal(3)
    turn = Rotation.from_rotvec(np.radians(rng.uniform(0.0, degrees)) * axis / np.linalg.norm(axis)).as_matrix()
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = turn, centre + way - turn @ centre
    return pose


def noisy(poke: Poke, rng: np.random.Generator, deviation: float = 0.05) -> Poke:
    """The poke as a sensor with that standard deviation reports it [N]."""
    return replace(poke, force=poke.force + deviation * rng.standard_normal(len(poke)))


@dataclass(frozen=True, eq=False)
class SoftObject:
    """A soft object.

    Attributes:
        name, category: of it. truth: what it does. camera: pose (4, 4) by which it is seen off.
        force_limit: at which pokes stop [N]. probe_limit: likewise of lines and cylinders [N]. travel: at which pokes stop [m].
        tip: points (m, 3) of the point probe in its frame [m].
    """

    name: str
    category: str
    truth: Truth
    camera: np.ndarray = field(default_factory=lambda: np.eye(4))
    force_limit: float = 5.0
    probe_limit: float = 10.0
    travel: float = 0.02
    tip: np.ndarray = field(default_factory=lambda: np.zeros((1, 3)))

    def surface(self, count: int = 4000, seed: int = 0, seen: bool = True) -> Surface:
        """Points evenly over the surface, as they are seen or as they are."""
        rng = np.random.default_rng(seed)
        corner = self.truth.vertices[self.truth.faces]
        area = np.linalg.norm(np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0]), axis=1)
        face = self.truth.faces[rng.choice(len(area), count, p=area / area.sum())]
        share = rng.dirichlet(np.ones(3), count)[:, :, None]
        points, normals, colours = (
            (share * a[face]).sum(1) for a in (self.truth.vertices, self.truth.normals, self.truth.colours)
        )
        if seen:
            points, normals = points @ self.camera[:3, :3].T + self.camera[:3, 3], normals @ self.camera[:3, :3].T
        return Surface(points, np.clip(colours, 0.0, 1.0), normals / np.linalg.norm(normals, axis=1, keepdims=True))

    def places(
        self, surface: Surface, spacing: float = 0.02, margin: float = 0.015, flattest: float = 0.5
    ) -> np.ndarray:
        """Indices of surface points to poke, one in each cube of a side `spacing` [m], those on flanks and near the rim left out.

        Args:
            margin: from the box around the surface [m]. flattest: least upward part of the normal.
        """
        points = surface.points
        low, high = points[:, :2].min(0) + margin, points[:, :2].max(0) - margin
        fit = ((points[:, :2] > low) & (points[:, :2] < high)).all(1) & (surface.normals[:, 2] > flattest)
        index = np.flatnonzero(fit)
        cube = np.floor(points[index] / spacing).astype(int)
        away = np.linalg.norm(points[index] / spacing - cube - 0.5, axis=1)
        order = np.lexsort((away, *cube.T))
        first = np.unique(cube[order], axis=0, return_index=True)[1]
        return np.asarray(index[order[first]])

    def poke(self, feature: np.ndarray, limit: float | None = None, travel: float | None = None) -> Poke:
        """Poke a seen point along its inward normal until a sample reaches the limit [N] or the travel [m], without noise.

        Args:
            feature: (9,) of the point, as `Surface.features`.
        """
        limit, travel = self.force_limit if limit is None else limit, self.travel if travel is None else travel
        feature = np.asarray(feature, float)
        pose = probe_pose(feature[:3], feature[6:])
        body = self.tip @ pose[:3, :3].T + feature[:3]
        depths, forces = [-STAND_OFF], [0.0]
        while depths[-1] < travel - 1e-9 and forces[-1] < limit:
            depths.append(min(depths[-1] + STEP, travel))
            forces.append(float(self.truth.press(body - depths[-1] * feature[6:]).force @ feature[6:]))
        d = np.arange(-STAND_OFF, depths[-1] + 1e-9, SPEED / RATE)
        f = np.interp(d, depths, forces)
        beyond = np.flatnonzero(f >= limit)
        stop = int(beyond[0]) + 1 if len(beyond) else len(d)
        return Poke(feature, d[:stop], f[:stop])

    def probe(
        self, points: np.ndarray, feature: np.ndarray, name: str, roll: float = 0.0, tilt: float = 0.0, samples: int = 8
    ) -> ProbeTrial:
        """Press a probe of any shape at a seen point until its force reaches `probe_limit` or its way `travel`.

        Args:
            points: (m, 3) in the probe's frame [m]. roll: about the normal [rad]. tilt: of the probe about its own x axis [rad]; it goes
                along its own axis then.
            samples: that are kept, uniformly from the first touch to the end.
        """
        feature = np.asarray(feature, float)
        pose = probe_pose(feature[:3], feature[6:], roll)
        pose[:3, :3] = pose[:3, :3] @ Rotation.from_rotvec([tilt, 0.0, 0.0]).as_matrix()
        outward = pose[:3, 2]
        body = points @ pose[:3, :3].T + feature[:3]
        depth, touched, last = -STAND_OFF, None, -STAND_OFF
        while depth < self.travel - 1e-9:
            depth = min(depth + 2.0 * STEP, self.travel)
            felt = float(self.truth.press(body - depth * outward).force @ outward)
            touched = last if touched is None and felt > 0.0 else touched
            if felt >= self.probe_limit:
                break
            last = depth
        begin = last if touched is None else touched
        kept = np.linspace(begin, last, samples + 1)[1:] if last > begin else np.full(samples, last)
        presses = [self.truth.press(body - d * outward) for d in kept]
        poses = np.tile(pose, (samples, 1, 1))
        poses[:, :3, 3] = feature[:3] - kept[:, None] * outward
        force = np.array([p.force for p in presses])
        torque = np.array([p.torque for p in presses]) - np.cross(poses[:, :3, 3], force)
        return ProbeTrial(poses, kept, force, torque, feature, name)
