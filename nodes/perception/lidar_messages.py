"""Between messages of the LIDAR model and what `sim_core.lidar` computes with."""

from __future__ import annotations

import array
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from geometry_msgs.msg import Point, Pose, Quaternion, TransformStamped
from refit_interfaces.msg import ScanEstimate
from scipy.spatial.transform import Rotation
from sensor_msgs.msg import LaserScan, PointCloud2
from std_msgs.msg import ColorRGBA, Float32MultiArray, MultiArrayDimension, MultiArrayLayout
from visualization_msgs.msg import Marker, MarkerArray

from nodes.framework.clouds import cloud_message
from sim_core.lidar.material import Material
from sim_core.lidar.scan import Lidar
from sim_core.lidar.scene import POSE
from sim_core.lidar.search import Found
from sim_core.lidar.settings import LidarSettings

__all__ = [
    "DEPTHS", "estimate_of", "phases_of", "pose_of", "returns_of", "scan_of", "scene_of", "transform_of",
]  # fmt: skip

#: colours of returns by how many surfaces the light met before: blue, orange, green, red, purple
DEPTHS = np.array([[38, 89, 160], [230, 126, 34], [39, 154, 96], [200, 60, 40], [130, 60, 160]], np.uint8)
#: of the URG-04LX's turn, where a simulated scan has none of its own [s]
PERIOD = 0.1


def pose_of(values: Mapping[str, float], owner: str) -> Pose:
    """Of an owner of a pose, in the scene's frame."""
    x, y, z, *turns = (float(values[f"{owner}.{q}"]) for q in POSE)
    qx, qy, qz, qw = map(float, Rotation.from_euler("xyz", turns).as_quat())
    return Pose(position=Point(x=x, y=y, z=z), orientation=Quaternion(x=qx, y=qy, z=qz, w=qw))


def transform_of(values: Mapping[str, float], stamp: Any, frame_id: str, child: str) -> TransformStamped:
    """Where the scanner's frame is in the scene's."""
    found, pose = TransformStamped(child_frame_id=child), pose_of(values, "sensor")
    found.header.stamp, found.header.frame_id = stamp, frame_id
    shift = found.transform.translation
    shift.x, shift.y, shift.z = pose.position.x, pose.position.y, pose.position.z
    found.transform.rotation = pose.orientation
    return found


def estimate_of(
    names: Sequence[str], values: Mapping[str, float], stamp: Any, frame_id: str, found: Found | None
) -> ScanEstimate:
    """What was learnt; None: no scan was fitted."""
    message = ScanEstimate(names=list(names), values=[float(values[name]) for name in names])
    message.header.stamp, message.header.frame_id = stamp, frame_id
    fit = None if found is None else found.fit
    covariance = np.full((len(names), len(names)), math.nan) if fit is None else fit.covariance
    message.covariance = covariance.ravel().tolist()
    message.residual = math.nan if found is None else found.residual
    if found is not None and fit is not None:
        message.beams, message.iterations, message.converged = found.beams, fit.iterations, fit.converged
        message.lost, message.weak = bool(fit.lost), list(fit.weak)
    return message


def scan_of(ranges: np.ndarray, settings: LidarSettings, stamp: Any, frame_id: str) -> LaserScan:
    """Ranges (beams,) [m] as a driver sends them; what nothing comes back from is infinite."""
    message = LaserScan(scan_time=PERIOD, range_min=settings.nearest, range_max=settings.farthest)
    message.header.stamp, message.header.frame_id = stamp, frame_id
    message.angle_min, message.angle_max = float(settings.angles[0]), float(settings.angles[-1])
    message.angle_increment, message.time_increment = settings.spacing, PERIOD * settings.spacing / (2.0 * math.pi)
    told = np.where(np.isfinite(ranges), ranges, np.inf)
    message.ranges = array.array("f", np.ascontiguousarray(told, np.float32).tobytes())
    return message


def returns_of(lidar: Lidar, values: Mapping[str, float], stamp: Any, frame_id: str) -> PointCloud2:
    """All that comes back, along each beam as if nothing turned it, in colours by the surfaces before."""
    back = lidar.returns(values)
    ranges = np.zeros(len(back))
    ranges[:] = back["path"]
    angles, pose = lidar.settings.angles[back["beam"]], lidar.values | dict(values)
    turn = Rotation.from_euler("xyz", [pose[f"sensor.{q}"] for q in POSE[3:]]).as_matrix()
    aim = np.stack([np.cos(angles), np.sin(angles), 0.0 * angles], 1)
    points = (ranges[:, None] * aim) @ turn.T + np.array([pose[f"sensor.{q}"] for q in POSE[:3]])
    return cloud_message(points, stamp, frame_id, DEPTHS[np.minimum(back["depth"], len(DEPTHS) - 1)])


def phases_of(lidar: Lidar, values: Mapping[str, float]) -> Float32MultiArray:
    """Phases of the waves that are expected (2, beams) [rad]; NaN where nothing comes back. Rows are labelled by their frequencies."""
    scan = lidar.scan(values)
    told = np.where(scan.valid[:, None], scan.phase, np.nan).T
    first, second = (f"{1e-6 * f:g} MHz" for f in lidar.settings.frequencies)
    rows, beams = (
        MultiArrayDimension(label=label, size=size, stride=stride)
        for label, size, stride in ((f"{first}, {second}", 2, told.size), ("beam", told.shape[1], told.shape[1]))
    )
    data = array.array("f", np.ascontiguousarray(told, np.float32).tobytes())
    return Float32MultiArray(layout=MultiArrayLayout(dim=[rows, beams]), data=data)


def scene_of(lidar: Lidar, values: Mapping[str, float], stamp: Any, frame_id: str) -> MarkerArray:
    """Bodies as triangles in the colours of their materials, posed."""
    pose = lidar.values | dict(values)
    found = [Marker(action=Marker.DELETEALL)]
    found[0].header.stamp, found[0].header.frame_id = stamp, frame_id
    for k, body in enumerate(lidar.scene.bodies):
        marker = Marker(ns=body.name, id=k, type=Marker.TRIANGLE_LIST, action=Marker.ADD, pose=pose_of(pose, body.name))
        marker.header.stamp, marker.header.frame_id = stamp, frame_id
        marker.scale.x = marker.scale.y = marker.scale.z = 1.0
        marker.points = [Point(x=x, y=y, z=z) for x, y, z in body.mesh.corners.reshape(-1, 3).tolist()]
        colours = {name: _colour(lidar.scene.materials[name]) for name in dict.fromkeys(body.mesh.material)}
        marker.colors = [colours[name] for name in body.mesh.material for _ in range(3)]
        marker.color = marker.colors[0]
        found.append(marker)
    return MarkerArray(markers=found)


def _colour(material: Material) -> ColorRGBA:
    """Grey by what is scattered; blue where light is reflected, clear where it goes through."""
    grey = 0.15 + 0.75 * material.albedo
    if material.transmission > 0.0:
        return ColorRGBA(r=0.6, g=0.85, b=0.9, a=0.25)
    if material.reflectivity > 0.0 or material.index > 0.0:
        return ColorRGBA(r=0.45, g=0.6, b=0.85, a=0.8)
    return ColorRGBA(r=grey, g=grey, b=grey, a=0.6)
