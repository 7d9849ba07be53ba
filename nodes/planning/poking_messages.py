"""Between the messages about an object that is poked and what `sim_core.elastic` computes with."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

import numpy as np
from geometry_msgs.msg import Pose
from refit_interfaces.action import ExploreObject, PokeObject
from scipy.spatial.transform import Rotation
from sensor_msgs.msg import PointCloud2
from visualization_msgs.msg import Marker, MarkerArray

from nodes.framework.clouds import cloud_fields, cloud_message, cloud_points
from nodes.framework.geometry_messages import point_message, points_of, vector_message
from sim_core.elastic.contact import Contact
from sim_core.elastic.exploration import Exploration, Place
from sim_core.elastic.surface import Surface

__all__ = [
    "FAULTS",
    "Fault",
    "as_told",
    "deformed_message",
    "explored",
    "forces_message",
    "goal_of",
    "finite_points",
    "poses_of",
    "surface_message",
    "surface_of",
]

NAN = float("nan")
Outcome = PokeObject.Result
#: length of the line that stands for a force [m/N]
LENGTH = 0.02


class Fault(Enum):
    """What a poke that tells nothing says."""

    PLACE = "the place is no good"
    BODY = "the object was not where it was seen"
    EQUIPMENT = "the place is not to blame"
    STOPPED = "somebody or something stopped the arm, and decides whether it goes on"


#: outcome of a poke -> what it says; what is not listed brought displacements and forces
FAULTS = {
    Outcome.NO_CONTACT: Fault.BODY,
    Outcome.OUT_OF_REACH: Fault.PLACE,
    Outcome.TOO_FORCEFUL: Fault.PLACE,
    Outcome.SENSOR_SATURATED: Fault.PLACE,
    Outcome.SENSOR_DRIFTED: Fault.PLACE,
    Outcome.SENSOR_SILENT: Fault.EQUIPMENT,
    Outcome.ARM_STOPPED: Fault.STOPPED,
    Outcome.CANCELLED: Fault.EQUIPMENT,
}


def finite_points(points: Sequence[Any], what: str = "points") -> np.ndarray:
    """Points or vectors of a request, shape (n, 3). Raises ValueError: one is not finite."""
    found = points_of(points)
    if not np.isfinite(found).all():
        raise ValueError(f"{what}: expected finite numbers, found {found[~np.isfinite(found).all(axis=1)][0].tolist()}")
    return found


def poses_of(poses: Sequence[Pose]) -> np.ndarray:
    """Poses of a request, shape (b, 4, 4). Raises ValueError: one is not finite, or its quaternion has no length of 1."""
    places = finite_points([pose.position for pose in poses], "poses")
    turns = np.array([[q.x, q.y, q.z, q.w] for q in (pose.orientation for pose in poses)], float).reshape(-1, 4)
    length = np.linalg.norm(turns, axis=1)
    if not np.isfinite(length).all() or np.any(np.abs(length - 1.0) > 1e-3):
        raise ValueError("poses: expected quaternions of length 1; an orientation of zeros is none")
    X = np.tile(np.eye(4), (len(places), 1, 1))
    if len(places):
        X[:, :3, :3] = Rotation.from_quat(turns).as_matrix()
    X[:, :3, 3] = places
    return X


def goal_of(place: Place, probe: str, force_limit: float, speed: float, deepest: float) -> PokeObject.Goal:
    """What the arm is asked for; see PokeObject for what 0 means."""
    return PokeObject.Goal(
        point=point_message(place.point),
        normal=vector_message(place.normal),
        probe=probe,
        force_limit=force_limit,
        speed=speed,
        deepest=deepest,
    )


def surface_message(surface: Surface, exploration: Exploration | None, stamp: Any, frame: str) -> PointCloud2:
    """The surface in its colours, with its normals and, where a model is there, the force it predicts and how sure it is [N]."""
    further = {f"normal_{axis}": column for axis, column in zip("xyz", surface.normals.T)}
    if exploration is not None and exploration.model is not None:
        depth = np.full(len(surface), exploration.settings.depth)
        further["force"], further["deviation"] = exploration.model.predict_with_deviation(surface.features, depth)
    return cloud_message(surface.points, stamp, frame, _bytes(surface.colours), further=further)


def deformed_message(surface: Surface, displacement: np.ndarray, stamp: Any, frame: str) -> PointCloud2:
    """The surface where a body has moved it by `displacement` (n,) along its inward normals [m]."""
    points = surface.points - displacement[:, None] * surface.normals
    return cloud_message(points, stamp, frame, _bytes(surface.colours), further={"displacement": displacement})


def as_told(surface: Surface) -> Surface:
    """The same surface in the numbers that a cloud has: `surface_of` gives back the very same from its message.

    Points move by less than a micrometre within ten metres, and colours by less than one of 255 levels.
    """
    normals = surface.normals.astype(np.float32).astype(float)
    return Surface(surface.points.astype(np.float32).astype(float), _bytes(surface.colours) / 255.0, normals)


def surface_of(message: Any) -> Surface:
    """The surface of a cloud with normals, as `surface_message` makes it. Raises ValueError: it has none."""
    points, colours = cloud_points(message)
    normals = cloud_fields(message, ["normal_x", "normal_y", "normal_z"]).astype(float)
    return Surface(points.astype(float), colours / 255.0, normals)


def _bytes(colours: np.ndarray) -> np.ndarray:
    return np.rint(255.0 * colours).astype(np.uint8)


def forces_message(contact: Contact, stamp: Any, frame: str) -> MarkerArray:
    """The forces on a body, one line each from where it touches, LENGTH metres a newton."""
    lines = Marker(ns="contact_forces", type=Marker.LINE_LIST, action=Marker.ADD)
    lines.header.stamp, lines.header.frame_id = stamp, frame
    lines.scale.x, lines.color.r, lines.color.a, lines.pose.orientation.w = 0.001, 0.85, 1.0, 1.0
    ends = contact.points + LENGTH * contact.point_forces[:, None] * contact.normals
    lines.points = [point_message(point) for pair in zip(contact.points, ends) for point in pair]
    if not lines.points:
        lines.action = Marker.DELETE
    return MarkerArray(markers=[lines])


def explored(
    exploration: Exploration | None, failed: int, success: bool, message: str, checkpoint: str, report: str = ""
) -> ExploreObject.Result:
    """How an exploration ended."""
    return ExploreObject.Result(
        success=success,
        message=message,
        checkpoint=checkpoint,
        pokes=0 if exploration is None else len(exploration.pokes),
        failed=failed,
        deviation=NAN if exploration is None else exploration.mean_deviation(),
        report=report,
    )
