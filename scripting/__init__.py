"""Robots driven by a script: start or join a graph, follow a path, change the world, read what was learnt.

    from scripting import Robot

    with Robot.start("panda", record="runs/today") as robot:
        robot.follow_path(duration=5.0)
        robot.change_world([{"action": "attach", "frame": "hand", "mass": 2.0}])
        robot.follow_path(duration=8.0)
        print(robot.learnt())

Importing this is cheap: the ROS client library is loaded when a robot is started or joined. Page: docs/scripting.md.
"""

from scripting.errors import GraphError, ScriptError, UsageError
from scripting.learnt import Learnt, Quantity
from scripting.results import EpisodeResult, Outcome, PathResult
from scripting.robot import Robot
from scripting.tasks import Task

__all__ = [
    "EpisodeResult",
    "GraphError",
    "Learnt",
    "Outcome",
    "PathResult",
    "Quantity",
    "Robot",
    "ScriptError",
    "Task",
    "UsageError",
]
