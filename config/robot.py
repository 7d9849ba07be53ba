"""Robots are folders: `config/robots/<robot>/` holds everything that is particular to one, and nothing else names it.

<robot>.xml      the model (MJCF)
nodes.yaml       ROS parameters: what differs from the nodes' defaults
devices.yaml     its drivers and how each is emulated
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["node_parameters", "robot_file", "robot_folder", "robot_names", "robots_folder"]

_SOURCE_TREE = Path(__file__).resolve().parent / "robots"


def robots_folder() -> Path:
    """Folder with the project's robots: in the source tree, else where the package installed them.

    Raises:
        FileNotFoundError: neither is there; the text says what to do.
    """
    if _SOURCE_TREE.is_dir():
        return _SOURCE_TREE
    for prefix in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep):
        candidate = Path(prefix) / "share" / "refit" / "config" / "robots"
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(
        f"No folder with robot models at {_SOURCE_TREE} or share/refit/config/robots under AMENT_PREFIX_PATH. "
        "Source the workspace's setup file, or pass the path of a model file."
    )


def robot_names() -> list[str]:
    """Names of the project's robots."""
    return sorted(path.name for path in robots_folder().iterdir() if (path / f"{path.name}.xml").is_file())


def robot_folder(name: str) -> Path:
    """The folder of a robot.

    Raises:
        FileNotFoundError: no robot of that name; the text lists those there are.
    """
    path = robots_folder() / name
    if not name or not (path / f"{path.name}.xml").is_file():
        raise FileNotFoundError(f"No robot named '{name}'. Known: {', '.join(robot_names())}; or give a path.")
    return path


def robot_file(name: str) -> Path:
    """MJCF file of a robot.

    Raises:
        FileNotFoundError: no robot of that name; the text lists those there are.
    """
    return robot_folder(name) / f"{name}.xml"


def node_parameters(name: str) -> Path:
    """ROS parameter file of a robot: what differs from the nodes' defaults.

    Raises:
        FileNotFoundError: no robot of that name, or one that no node runs.
    """
    path = robot_folder(name) / "nodes.yaml"
    if not path.is_file():
        runnable = [robot for robot in robot_names() if (robots_folder() / robot / "nodes.yaml").is_file()]
        raise FileNotFoundError(
            f"Robot '{name}' has no nodes.yaml, so no graph runs it. Those that can be launched: {', '.join(runnable)}."
        )
    return path
