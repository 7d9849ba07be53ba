"""How hard an object is, painted on it: dark where it is soft or surely known, bright where it is hard or unknown; what a body presses into it.

The control "paint" chooses between the force that a probe would feel and how sure that is. Lines are the forces of the body that was
simulated last, and the surface that it has moved is drawn where it has moved to.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from nodes.framework.clouds import cloud_fields, cloud_points
from nodes.framework.geometry_messages import points_of
from nodes.view.stage.layer import Keep, Layer, Want
from nodes.view.stage.points import draw_points
from nodes.view.stage.stage import Stage

__all__ = ["StiffnessLayer"]

FORCE, SURENESS, MOVED = "force", "uncertainty", "deformation"
#: field of the cloud -> colours of its least and of its greatest value, by way of the middle
SCALES = {
    FORCE: np.array([[68.0, 1.0, 84.0], [33.0, 145.0, 140.0], [253.0, 231.0, 37.0]]),
    SURENESS: np.array([[0.0, 0.0, 4.0], [183.0, 55.0, 121.0], [252.0, 253.0, 191.0]]),
    MOVED: np.array([[222.0, 235.0, 247.0], [107.0, 174.0, 214.0], [8.0, 48.0, 107.0]]),
}
FIELDS = {FORCE: "force", SURENESS: "deviation"}
POKED, FORCES = np.array([200, 60, 40], np.uint8), (217, 30, 24)
#: [m] by which paint and pokes stand out of the surface along its normals, which a cloud draws as well
PAINT, RAISED = 0.002, 0.006
#: points that are painted of a surface
POINTS = 15000


class StiffnessLayer(Layer):
    """See the module's docstring."""

    wants = (
        Want("poking/surface", "sensor_msgs/msg/PointCloud2", keep=Keep.FACTS),
        Want("poking/deformed", "sensor_msgs/msg/PointCloud2", keep=Keep.FACTS),
        Want("poking/contact_forces", "visualization_msgs/msg/MarkerArray", keep=Keep.FACTS),
        Want("poking/exploration", "std_msgs/msg/String", keep=Keep.FACTS),
    )

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        stage.root("stiffness", "how hard it is")
        self._surface: Any = None
        with stage.tab("Object"):
            self._paint = stage.gui.add_dropdown("paint", tuple(FIELDS))
            self._text = stage.gui.add_markdown("No surface was built yet.")
        self._paint.on_update(lambda _: self._draw_surface())

    def take(self, topic: str, message: Any, time: float) -> None:
        if topic == "poking/surface":
            self._surface = message
            self._draw_surface()
        elif topic == "poking/deformed":
            points, _ = cloud_points(message)
            moved = cloud_fields(message, ["displacement"])[:, 0]
            which = slice(None, None, max(1, len(points) // POINTS))
            frame, colours = message.header.frame_id, _colours(moved[which], MOVED)
            draw_points(self.stage, "/stiffness/deformed", frame, points[which], colours, 0.003)
        elif topic == "poking/contact_forces":
            self._draw_forces(message)
        else:
            self._draw_pokes(json.loads(message.data))

    def _draw_surface(self) -> None:
        message = self._surface
        if message is None or not {"force", "deviation"} <= {field.name for field in message.fields}:
            return  # nothing was learnt: the cloud in its own colours is drawn elsewhere
        points, _ = cloud_points(message)
        values = cloud_fields(message, ["normal_x", "normal_y", "normal_z", "force", "deviation"])
        which = slice(None, None, max(1, len(points) // POINTS))
        raised = (points + PAINT * values[:, :3])[which]
        shown = values[which, 3 if self._paint.value == FORCE else 4]
        frame = message.header.frame_id
        draw_points(self.stage, "/stiffness/surface", frame, raised, _colours(shown, self._paint.value), 0.003)

    def _draw_forces(self, message: Any) -> None:
        for marker in message.markers:
            ends = points_of(marker.points).reshape(-1, 2, 3)
            X = self.stage.frames.pose(marker.header.frame_id)
            if X is not None:
                ends = (ends @ X[:3, :3].T + X[:3, 3]).astype(np.float32)
                self.stage.scene.add_line_segments("/stiffness/forces", ends, FORCES, thickness=0.002)

    def _draw_pokes(self, state: dict[str, Any]) -> None:
        features = np.array([poke["feature"] for poke in state["exploration"]["pokes"]], float).reshape(-1, 9)
        raised = features[:, :3] + RAISED * features[:, 6:]
        colours = np.tile(POKED, (len(raised), 1))
        draw_points(self.stage, "/stiffness/pokes", state["frame"], raised, colours, 0.008)
        self._text.content = _told(state)


def _colours(values: np.ndarray, scale: str) -> np.ndarray:
    """(n, 3) of 0 to 255, from the least to the greatest of values (n,)."""
    low, high = (values.min(), values.max()) if len(values) else (0.0, 1.0)
    share = (values - low) / max(high - low, 1e-9)
    return np.stack([np.interp(share, [0.0, 0.5, 1.0], column) for column in SCALES[scale].T], axis=1).astype(np.uint8)


def _told(state: dict[str, Any]) -> str:
    """The same in words."""
    pokes, deviations = len(state["exploration"]["pokes"]), state["deviations"]
    lines = [f"**{state['object'] or 'an object'}**: {pokes} pokes are known, {state['failed']} failed."]
    if deviations:
        depth = state["exploration"]["settings"]["depth"]
        lines.append(f"The force {1e3 * depth:g} mm deep is known to **{deviations[-1]:.2f} N** on average.")
    if state["left"]:
        lines.append(f"{state['left']} more are wanted.")
    return "\n\n".join(lines)
