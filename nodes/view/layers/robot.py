"""The robot as its joint states have it, and the way that its tool has come."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from nodes.view.stage.layer import Keep, Layer, Want
from nodes.view.stage.robot_shape import RobotDrawing
from nodes.view.stage.stage import Stage

__all__ = ["RobotLayer"]

#: the way behind the tool that is drawn: points, and the distance between two [m]
TRACE_POINTS, TRACE_STEP = 300, 0.004
COLOUR = (0, 115, 178)


class RobotLayer(Layer):
    """See the module's docstring."""

    wants = (
        Want("joint_states", "sensor_msgs/msg/JointState"),
        Want("/tf_static", "tf2_msgs/msg/TFMessage", Keep.FACTS),
        Want("/tf", "tf2_msgs/msg/TFMessage"),
    )

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        if stage.robot is None:
            return
        stage.root("robot", "robot")
        self._drawing = RobotDrawing(stage.scene, "/robot", stage.robot)
        stage.root("trace", "way of the tool")
        self._way: deque[np.ndarray] = deque(maxlen=TRACE_POINTS)
        self._line: Any = None
        self._shown = stage.robot.posed

    def take(self, topic: str, message: Any, time: float) -> None:
        robot = self.stage.robot
        if topic == "/tf_static":
            self.stage.frames.add_static(message)
        elif robot is None:
            return
        elif topic == "/tf":
            self._place_base(message)
        elif robot.put(message.name, message.position):
            self.stage.time = time

    def _place_base(self, message: Any) -> None:
        robot = self.stage.robot
        assert robot is not None
        for transform in message.transforms if robot.floating else ():
            if transform.child_frame_id.lstrip("/").endswith(robot.floating):
                p, q = transform.transform.translation, transform.transform.rotation
                robot.put_base((p.x, p.y, p.z), (q.w, q.x, q.y, q.z))

    def refresh(self) -> None:
        robot = self.stage.robot
        if robot is None or robot.posed == self._shown:
            return
        self._shown = robot.posed
        self._drawing.update()
        tool = robot.tool_position
        if tool is not None and (not self._way or np.linalg.norm(tool - self._way[-1]) > TRACE_STEP):
            self._way.append(tool)
            self._draw_way()

    def _draw_way(self) -> None:
        if len(self._way) < 2:
            return
        # The shape of the array stays the same, so that the page need not make the line anew.
        points = np.array(self._way)
        padded = np.concatenate([np.repeat(points[:1], TRACE_POINTS - len(points), axis=0), points])
        segments = np.stack([padded[:-1], padded[1:]], axis=1).astype(np.float32)
        if self._line is None:
            self._line = self.stage.scene.add_line_segments("/trace/line", segments, COLOUR, thickness=0.004)
        else:
            self._line.points = segments

    def forget(self) -> None:
        if self.stage.robot is None:
            return
        self._way.clear()
        if self._line is not None:
            self._line.remove()
            self._line = None
