"""A known scene with the scanner in it: bodies where they are believed to be, the scanner's estimated pose, its scan from there.

What is expected to come back is a cloud of its own (lidar/returns), coloured by how many surfaces the light met before.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nodes.view.stage.layer import Keep, Layer, Want
from nodes.view.stage.stage import Stage

__all__ = ["LidarLayer"]

#: of visualization_msgs/Marker
TRIANGLE_LIST = 11
SEEN = (210, 30, 60)
#: standard deviations that are told of an estimate
SPREAD = 2.0


class LidarLayer(Layer):
    """See the module's docstring."""

    wants = (
        Want("lidar/scene", "visualization_msgs/msg/MarkerArray", Keep.FACTS),
        Want("lidar/sensor", "geometry_msgs/msg/PoseStamped", Keep.FACTS),
        Want("lidar/estimate", "refit_interfaces/msg/ScanEstimate", Keep.FACTS),
        Want("*", "sensor_msgs/msg/LaserScan", period=0.1),
    )

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        stage.root("lidar", "scene of the scanner")
        self._bodies: dict[str, Any] = {}
        self._sensor: tuple[np.ndarray, np.ndarray] | None = None  # place and quaternion wxyz in the world
        with stage.tab("Sensors"):
            self._text = stage.gui.add_markdown("")

    def take(self, topic: str, message: Any, time: float) -> None:
        if topic.endswith("lidar/scene"):
            self._draw_scene(message)
        elif topic.endswith("lidar/sensor"):
            p, q = message.pose.position, message.pose.orientation
            self._sensor = np.array([p.x, p.y, p.z]), np.array([q.w, q.x, q.y, q.z])
            self.stage.scene.add_frame(
                "/lidar/sensor", axes_length=0.12, axes_radius=0.006, wxyz=self._sensor[1], position=self._sensor[0]
            )
        elif topic.endswith("lidar/estimate"):
            self._text.content = told(message)
        else:
            self._draw_scan(message)

    def _draw_scene(self, message: Any) -> None:
        """A body that has only moved is moved, and not sent anew."""
        markers = {
            marker.ns: marker for marker in message.markers if marker.type == TRIANGLE_LIST and len(marker.points)
        }
        for name in set(self._bodies) - set(markers):
            self._bodies.pop(name)[0].remove()
        for name, marker in markers.items():
            points = np.array([[p.x, p.y, p.z] for p in marker.points], np.float32)
            known = self._bodies.get(name)
            if known is None or not np.array_equal(known[1], points):
                if known is not None:
                    known[0].remove()
                colour = tuple(int(255 * c) for c in (marker.color.r, marker.color.g, marker.color.b))
                faces = np.arange(len(points), dtype=np.uint32).reshape(-1, 3)
                handle = self.stage.scene.add_mesh_simple(
                    f"/lidar/bodies/{name.replace('/', '_')}",
                    points,
                    faces,
                    color=colour,
                    opacity=float(marker.color.a),
                    side="double",
                )
                self._bodies[name] = known = handle, points
            p, q = marker.pose.position, marker.pose.orientation
            known[0].position, known[0].wxyz = (p.x, p.y, p.z), (q.w, q.x, q.y, q.z)

    def _draw_scan(self, message: Any) -> None:
        """From the estimated pose, where nobody else says where the scanner is."""
        if self._sensor is None or self.stage.frames.pose(message.header.frame_id) is not None:
            return
        ranges = np.asarray(message.ranges, float)
        angles = message.angle_min + message.angle_increment * np.arange(len(ranges))
        seen = np.isfinite(ranges) & (ranges >= message.range_min) & (ranges <= message.range_max)
        r, a = ranges[seen], angles[seen]
        points = np.stack([r * np.cos(a), r * np.sin(a), np.zeros(len(r))], axis=1).astype(np.float32)
        self.stage.scene.add_point_cloud(
            "/lidar/scan", points, np.tile(np.array(SEEN, np.uint8), (len(points), 1)), point_size=0.006,
            point_shape="circle", point_shading="flat", position=self._sensor[0], wxyz=self._sensor[1],
        )  # fmt: skip


def told(message: Any) -> str:
    """An estimate in words."""
    count = len(message.names)
    spread = SPREAD * np.sqrt(np.diag(np.asarray(message.covariance, float).reshape(count, count)))
    lines = [
        f"**{'out of view' if message.lost else 'scanner explained'}**, {message.beams} beams, errors {1e3 * message.residual:.1f} mm"
    ]
    for name, value, wide in zip(message.names, message.values, spread):
        lines.append(
            f"{name}: {value:.4f} ± {wide:.4f}" if np.isfinite(wide) else f"{name}: {value:.4f}, not determined"
        )
    return "\n\n".join(lines)
