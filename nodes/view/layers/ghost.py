"""What the controller predicts: the robot at the end of its plan, and the way of the tool there."""

from __future__ import annotations

from typing import Any

import numpy as np

from nodes.view.stage.layer import Layer, Want
from nodes.view.stage.robot_shape import RobotDrawing
from nodes.view.stage.stage import Stage

__all__ = ["GhostLayer"]

COLOUR = (230, 120, 20)


class GhostLayer(Layer):
    """See the module's docstring."""

    wants = (Want("controller/plan", "trajectory_msgs/msg/JointTrajectory"),)

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._line: Any = None
        self._plan: Any = None
        if stage.robot is None:
            return
        self._root = stage.root("ghost", "prediction of the controller")
        self._shape = stage.robot.copy()
        self._drawing: RobotDrawing | None = None  # with the first plan

    def take(self, topic: str, message: Any, time: float) -> None:
        if self.stage.robot is not None and len(message.points):
            self._plan = message

    def refresh(self) -> None:
        plan, self._plan = self._plan, None
        if plan is None or not self._root.visible:
            return
        names, robot = plan.joint_names, self.stage.robot
        way = []
        assert robot is not None
        self._shape.data.qpos[:] = robot.data.qpos  # joints that the plan does not name, and a floating base
        for point in plan.points:
            if not self._shape.put(names, point.positions):
                return
            if (tool := self._shape.tool_position) is not None:
                way.append(tool)
        if self._drawing is None:
            self._drawing = RobotDrawing(self.stage.scene, "/ghost", self._shape, COLOUR, 0.22)
        self._drawing.update()
        if len(way) > 1:
            segments = np.stack([way[:-1], way[1:]], axis=1).astype(np.float32)
            if self._line is None or len(self._line.points) != len(segments):
                self._line = self.stage.scene.add_line_segments("/ghost/way", segments, COLOUR, thickness=0.005)
            else:
                self._line.points = segments

    def forget(self) -> None:
        self._plan = None
