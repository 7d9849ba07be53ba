"""What the controller predicts: the robot at the end of its plan, and the way of the tool there."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nodes.view.stage.layer import Layer, Want
from nodes.view.stage.robot_shape import RobotDrawing
from nodes.view.stage.stage import Stage

__all__ = ["GhostLayer"]

COLOUR = (230, 120, 20)
#: [s] of the robot's clock for which a plan is shown
BELIEVED = 1.0


class GhostLayer(Layer):
    """See the module's docstring."""

    wants = (Want("controller/plan", "trajectory_msgs/msg/JointTrajectory"),)

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._line: Any = None
        self._plan: Any = None
        self._stamp = -math.inf  # of the plan that is drawn [s]
        if stage.robot is None:
            return
        self._root = stage.root("ghost", "prediction of the controller")
        self._node = stage.scene.add_frame("/ghost/it", show_axes=False, visible=False)
        self._shape = stage.robot.copy()
        self._drawing: RobotDrawing | None = None  # with the first plan

    def take(self, topic: str, message: Any, time: float) -> None:
        if self.stage.robot is not None and len(message.points):
            self._plan, self._stamp = message, time

    def refresh(self) -> None:
        plan, self._plan = self._plan, None
        robot = self.stage.robot
        if robot is None:
            return
        # A controller that plans no more, for instance in a halt, predicts nothing.
        fresh = self.stage.time - self._stamp < BELIEVED
        if fresh != self._node.visible:
            self._node.visible = fresh
        if plan is None or not self._root.visible:
            return
        names = plan.joint_names
        way = []
        self._shape.data.qpos[:] = robot.data.qpos  # joints that the plan does not name, and a floating base
        for point in plan.points:
            if not self._shape.put(names, point.positions):
                return
            if (tool := self._shape.tool_position) is not None:
                way.append(tool)
        if self._drawing is None:
            self._drawing = RobotDrawing(self.stage.scene, "/ghost/it", self._shape, COLOUR, 0.22)
        self._drawing.update()
        if len(way) > 1:
            segments = np.stack([way[:-1], way[1:]], axis=1).astype(np.float32)
            if self._line is None or len(self._line.points) != len(segments):
                self._line = self.stage.scene.add_line_segments("/ghost/it/way", segments, COLOUR, thickness=0.005)
            else:
                self._line.points = segments

    def forget(self) -> None:
        self._plan, self._stamp = None, -math.inf
