"""Where to listen on a person who was scanned: a reference torso is fitted to the scan, and its landmarks go with it.

    found = register(cloud, viewpoint, "front").require()
    place = found.project(found.landmarks[region])        # (2,) on the coronal plane, as the planner wants it
    point, normal = found.deproject(place)                # (3,) each, as the placement wants it

The fit is rigid, then stretched along the body's axes, and with `bend=True` non-rigid in the end. On synthetic bodies bending makes
landmarks no better (see the experiment torso_registration), and it is not the default.

Source: Zhu, PhD thesis (University of Illinois 2023), section 5.3; its threshold of rejection is not published.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.spatial import cKDTree

from sim_core.auscultation.regions import REGIONS, Region, Side
from sim_core.auscultation.torso import REFERENCE, Torso
from sim_core.perception.registration.cloud import checked, normals, thinned
from sim_core.perception.registration.nonrigid import nonrigid_register
from sim_core.perception.registration.rigid import rigid_register
from sim_core.perception.registration.stretched import StretchedFit, stretched_register

__all__ = ["Registration", "RegistrationRejected", "register"]

VOXEL = 0.01  # [m]
VISIBLE = 0.1  # cosine between a normal and the side's axis above which a camera sees a vertex
#: beyond which a fit is rejected: root mean square distance [m]; share of the scan within 1 cm of the fitted torso; stretch
RESIDUAL, COVERED, STRETCH = 0.006, 0.85, (0.76, 1.24)
EXTENT = (0.2, 1.0)  # [m] a scanned side is as large
NEIGHBOURS = 12


class RegistrationRejected(ValueError):
    """A fit that must not be used; the text says why, and what to do."""


@dataclass(frozen=True, eq=False)
class Registration:
    """A fit.

    Attributes:
        side: which was scanned. landmarks: region -> place on the scan (3,) [m].
        residual: root mean square distance between scan and torso [m]. covered: share of the scan within 1 cm of it.
        scales: by which the torso was stretched to the left, upwards and outwards (3,).
        why: "" if it can be used, else what is wrong. is_manual: somebody has set landmarks.
        axes: rotation (3, 3) from the body's axes to the scan's. origin: of the body's axes (3,) [m].
        points, point_normals: of the thinned scan (n, 3) [m], (n, 3). surface: the fitted torso's vertices (v, 3) [m].
    """

    side: Side
    landmarks: Mapping[Region, np.ndarray]
    residual: float
    covered: float
    scales: np.ndarray
    why: str
    axes: np.ndarray
    origin: np.ndarray
    points: np.ndarray
    point_normals: np.ndarray
    surface: np.ndarray = field(repr=False)
    is_manual: bool = False

    @property
    def is_accepted(self) -> bool:
        """Whether it can be used."""
        return self.is_manual or not self.why

    def require(self) -> Registration:
        """Itself.

        Raises:
            RegistrationRejected: it cannot be used.
        """
        if not self.is_accepted:
            raise RegistrationRejected(f"{self.why}; scan again, or set the landmarks by hand")
        return self

    def with_landmarks(self, landmarks: Mapping[Region, np.ndarray]) -> Registration:
        """The same scan with landmarks (3,) [m] that a person has set; they are put onto the scan.

        Raises:
            ValueError: one is not of this side, or farther than 5 cm from the scan.
        """
        tree = cKDTree(self.points)
        found = {}
        for region, place in landmarks.items():
            if region not in REGIONS or region[1] != self.side:
                raise ValueError(f"{region} is no region of the {self.side}")
            distance, near = tree.query(np.asarray(place, float))
            if not distance < 0.05:
                raise ValueError(f"{region}: {place} is not on the scan, whose nearest point is {distance:.2f} m away")
            found[region] = self.points[near]
        return replace(self, landmarks={**self.landmarks, **found}, is_manual=True)

    def project(self, points: np.ndarray) -> np.ndarray:
        """Points (..., 3) on the coronal plane (..., 2) [m]: x to the person's left, y up, as `regions` has it."""
        off = (points - self.origin) @ self.axes
        return off[..., :2] * [1.0 if self.side == "front" else -1.0, 1.0]

    def deproject(self, place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Point and outward normal (3,) of the skin at a place (2,) [m] of the coronal plane: a plane through the neighbours there.

        Raises:
            ValueError: the scan has nothing within 2 cm of the place.
        """
        place = np.asarray(place, float)
        flat = self.project(self.points)
        distance, near = cKDTree(flat).query(place, NEIGHBOURS)
        if not distance[0] < 0.02:
            raise ValueError(f"nothing was scanned at {place}: the nearest point is {distance[0]:.2f} m away")
        normal = self.point_normals[near].mean(0)
        normal /= np.linalg.norm(normal)
        middle = self.points[near].mean(0)
        out = self.axes[:, 2]
        sign = 1.0 if self.side == "front" else -1.0
        there = self.origin + self.axes[:, 0] * sign * place[0] + self.axes[:, 1] * place[1]
        along = ((middle - there) @ normal) / (out @ normal)
        return there + along * out, normal


def register(
    cloud: np.ndarray, viewpoint: np.ndarray, side: Side = "front", bend: bool = False, stretch: bool = True
) -> Registration:
    """Fit the reference torso to a scan.

    Args:
        cloud: of the torso alone (n, 3) [m], in any axes in which up and outwards are those of the body to within 25 degrees.
        viewpoint: of the camera (3,) [m]. side: which it sees. bend: non-rigid in the end, as published.
        stretch: along the body's axes.

    Returns:
        A fit, which may be rejected: `require` says so.

    Raises:
        ValueError: the cloud is no cloud of a torso's size in metres.
    """
    points = checked(cloud, 500)
    extent = float(np.linalg.norm(np.ptp(points, axis=0)))
    if not EXTENT[0] < extent < EXTENT[1]:
        raise ValueError(
            f"a scanned torso extends over {EXTENT[0]} to {EXTENT[1]} m, this cloud over {extent:.3g}: is it in metres?"
        )
    points = thinned(points, VOXEL)
    outward = normals(points, np.asarray(viewpoint, float))
    torso = Torso(REFERENCE, side)
    seen = torso.normals[:, 2] > VISIBLE
    vertices, vertex_normals = torso.vertices[seen], torso.normals[seen]
    rigid = rigid_register(vertices, points, outward)
    fit = StretchedFit(rigid.rotation, np.ones(3), rigid.translation, rigid.residual)
    if stretch:
        fit = stretched_register(vertices, vertex_normals, points, outward, rigid)
    surface = fit(vertices)
    if bend:
        surface = nonrigid_register(surface, _faces(torso.faces, seen), fit.turned(vertex_normals), points, outward)
    distance = cKDTree(surface).query(points)[0]
    covered = float(np.mean(distance < VOXEL))
    return Registration(
        side, _landmarks(torso, fit, vertices, surface, points), fit.residual, covered, fit.scales,
        _complaint(fit, covered), fit.rotation, fit.translation, points, outward, surface,
    )  # fmt: skip


def _faces(faces: np.ndarray, seen: np.ndarray) -> np.ndarray:
    number = np.where(seen, np.cumsum(seen) - 1, -1)
    return number[faces][(number[faces] >= 0).all(1)]


def _landmarks(
    torso: Torso, fit: StretchedFit, vertices: np.ndarray, surface: np.ndarray, points: np.ndarray
) -> dict[Region, np.ndarray]:
    """The torso's landmarks where it is now, on the nearest points of the scan."""
    tree, own = cKDTree(points), cKDTree(vertices)
    found = {}
    for region, place in torso.landmarks.items():
        k = own.query(place)[1]
        moved = surface[k] + fit(place[None])[0] - fit(vertices[[k]])[0]
        found[region] = points[tree.query(moved)[1]]
    return found


def _complaint(fit: StretchedFit, covered: float) -> str:
    low, high = STRETCH
    if not (low < fit.scales.min() and fit.scales.max() < high):
        return f"the body differs too much from the reference: stretched by {fit.scales.round(2).tolist()}, known are {low} to {high}"
    if fit.residual > RESIDUAL:
        return f"the scan is not that of a torso: {1e3 * fit.residual:.1f} mm are left, at most {1e3 * RESIDUAL:.0f} mm may be"
    if covered < COVERED:
        return (
            f"only {100 * covered:.0f} % of the scan lies on the fitted torso, at least {100 * COVERED:.0f} % have to"
        )
    return ""
