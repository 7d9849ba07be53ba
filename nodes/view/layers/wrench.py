"""Force-torque sensors: an arrow of the force where the sensor is, and the numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from nodes.view.stage.layer import Layer, Want
from nodes.view.stage.stage import Stage

__all__ = ["WrenchLayer"]

#: [m/N] of the arrow, and its greatest length [m]
SCALE, LONGEST = 0.01, 0.6
COLOUR = (0, 158, 115)


class WrenchLayer(Layer):
    """See the module's docstring."""

    wants = (Want("*", "geometry_msgs/msg/WrenchStamped"),)

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        stage.root("wrench", "forces")
        self._newest: dict[str, Any] = {}
        self._arrows: dict[str, Any] = {}
        self._texts: dict[str, Any] = {}

    def take(self, topic: str, message: Any, time: float) -> None:
        self._newest[topic] = message

    def refresh(self) -> None:
        newest, self._newest = self._newest, {}
        for topic, message in newest.items():
            f, m = message.wrench.force, message.wrench.torque
            force, torque = np.array([f.x, f.y, f.z]), np.array([m.x, m.y, m.z])
            if np.isfinite(force).all():
                self._say(topic, message.header.frame_id, force, torque)
                self._draw(topic, message.header.frame_id, force)

    def _say(self, topic: str, frame: str, force: np.ndarray, torque: np.ndarray) -> None:
        if topic not in self._texts:
            with self.stage.tab("Sensors"):
                self._texts[topic] = self.stage.gui.add_text(topic, "", disabled=True, hint=f"in the axes of {frame}")
        numbers = " ".join(f"{value:.1f}" for value in force), " ".join(f"{value:.2f}" for value in torque)
        self._texts[topic].value = f"{numbers[0]} N   {numbers[1]} N m"

    def _draw(self, topic: str, frame: str, force: np.ndarray) -> None:
        X = self.stage.frames.pose(frame)
        if X is None:
            return
        length = float(np.linalg.norm(force))
        way = X[:3, :3] @ force * (min(SCALE * length, LONGEST) / max(length, 1e-9))
        points = np.array([[X[:3, 3], X[:3, 3] + way]], np.float32)
        if topic not in self._arrows:
            self._arrows[topic] = self.stage.scene.add_arrows(
                f"/wrench/{topic.strip('/')}", points, COLOUR, shaft_radius=0.006, head_radius=0.014, head_length=0.03
            )
        self._arrows[topic].points = points

    def forget(self) -> None:
        self._newest.clear()
