"""Robots are folders: `config/robots/<robot>/` holds everything that is particular to one, and nothing else names it.

<robot>.xml      the model (MJCF): joints and their limits, home (its first keyframe), actuators, sites
robot.yaml       what it does and with which gains, what its sensors ask for, its devices, how it is shown
nodes.yaml       ROS parameters: what differs from the nodes' defaults; where a controller runs it

A robot is named, or given as the path of its folder, which may lie anywhere, or of a model file, of which a folder is made
(sim_core/adoption). Folders of further robots that are to be known by name are in the environment variable REFIT_ROBOTS,
separated by colons. Page: docs/robots.md.
"""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

from config import yaml_text
from config.description import Robot, RobotError
from config.share import shared_folder
from config.typed import TypedError, read_file

__all__ = [
    "DEFAULT",
    "SHOWN",
    "MODEL_FILES",
    "folder_of_model",
    "load_robot",
    "loadable_robots",
    "node_parameters",
    "node_settings",
    "robot_file",
    "robot_folder",
    "robot_names",
    "robots_folder",
    "runnable_robots",
]

#: the robot of a command or a launch file that names none
DEFAULT = "panda"
#: kind of demonstration -> robot that gives it where nobody names one
SHOWN = {
    "payload": DEFAULT,
    "swing_up": "double_cartpole",
    "auscultation": "panda_stethoscope",
    "scooping": "ur5e_scoop",
    "excavation": "panda_bucket",
    "poking": "panda_poker",
}
#: of model files that may stand for a robot
MODEL_FILES = (".urdf", ".xacro", ".xml")


def robots_folder() -> Path:
    """Folder with the project's robots: in the source tree, else where the package installed them.

    Raises:
        FileNotFoundError: neither is there; the text says what to do.
    """
    return shared_folder("config/robots")


def _folders() -> dict[str, Path]:
    """{name: folder} of all robots known by name; the project's own cannot be replaced by others of their name."""
    found: dict[str, Path] = {}
    others = [Path(text).expanduser() for text in os.environ.get("REFIT_ROBOTS", "").split(os.pathsep) if text]
    for place in (robots_folder(), *(path for path in others if path.is_dir())):
        for path in sorted(place.iterdir()):
            if _is_robot(path):
                found.setdefault(path.name, path)
    return dict(sorted(found.items()))


def _is_robot(folder: Path) -> bool:
    return (folder / f"{folder.name}.xml").is_file()


def robot_names() -> list[str]:
    """Names of all robots known by name."""
    return list(_folders())


def runnable_robots() -> list[str]:
    """Names of those that launch files can start: they have parameters for nodes."""
    return [name for name, folder in _folders().items() if (folder / "nodes.yaml").is_file()]


def loadable_robots() -> list[Robot]:
    """All that are known by name, sorted by it. One whose robot.yaml is broken is left out: who names it is told why."""
    found = []
    for folder in _folders().values():
        try:
            found.append(load_robot(folder))
        except RobotError:
            continue
    return found


def robot_folder(robot: str | Path) -> Path:
    """The folder of a robot.

    Args:
        robot: name, or path of a folder or of a model file (URDF, xacro, MJCF) anywhere.

    Raises:
        FileNotFoundError: no such robot; the text lists those there are.
        RobotError: a model file that cannot be used.
    """
    if isinstance(robot, str) and (known := _folders().get(robot)):
        return known
    path = Path(robot).expanduser().resolve()
    if path.suffix in MODEL_FILES and path.is_file():
        return folder_of_model(path) or _adopted(path)
    if not str(robot) or not _is_robot(path):
        raise FileNotFoundError(
            f"No robot named '{robot}'. Known: {', '.join(robot_names())}; or give the path of a folder <robot> that "
            "holds <robot>.xml, or of a URDF, xacro or MJCF file."
        )
    return path


def folder_of_model(path: Path) -> Path | None:
    """The robot's folder of which this file is the model; None: it is a model file by itself."""
    return path.parent if _is_robot(path.parent) and path.name == f"{path.parent.name}.xml" else None


def _adopted(path: Path) -> Path:
    """The folder that is made of a model file, by a process of its own: that takes MuJoCo, which drivers do without.

    Raises:
        RobotError: the file cannot be used.
    """
    code = str(Path(__file__).resolve().parents[1])
    done = subprocess.run(
        [sys.executable, "-m", "sim_core.adoption", str(path)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [code, os.environ.get("PYTHONPATH")]))},
    )
    if done.returncode:
        raise RobotError((done.stderr.strip().splitlines() or [f"{path} cannot be used as a robot"])[-1])
    return Path(done.stdout.strip())


def robot_file(robot: str | Path) -> Path:
    """MJCF file of a robot, by name or folder.

    Raises:
        FileNotFoundError: as for `robot_folder`.
    """
    folder = robot_folder(robot)
    return folder / f"{folder.name}.xml"


def load_robot(robot: str | Path) -> Robot:
    """What robot.yaml says of a robot, by name or folder.

    Raises:
        FileNotFoundError: as for `robot_folder`.
        RobotError: there is no robot.yaml, or it does not say what it has to.
    """
    folder = robot_folder(robot)
    path = folder / "robot.yaml"
    try:
        found: Robot = read_file(Robot, path, name=folder.name, folder=folder)
    except FileNotFoundError:
        raise RobotError(f"{path} is missing; expected at least 'title: <what people call the robot>' in it") from None
    except TypedError as error:
        raise RobotError(str(error)) from None
    if (called := _model_name(found.model)) != found.name:
        # Bags and parameter files carry the model's name, launch files the folder's.
        raise RobotError(f"{found.model}: expected a model of the folder's name '{found.name}', found '{called}'")
    needing = [key for key in ("controller", "devices") if getattr(found, key)]
    if needing and not (folder / "nodes.yaml").is_file():
        raise RobotError(
            f"{path}: {needing[0]} needs the nodes' parameters in nodes.yaml beside it; expected one, found none"
        )
    return found


def _model_name(path: Path) -> str:
    """What an MJCF file calls its model."""
    try:
        with path.open("rb") as file:
            _, root = next(ElementTree.iterparse(file, events=("start",)))
            return root.get("model", "")
    except (ElementTree.ParseError, StopIteration) as error:
        raise RobotError(f"{path} is not well-formed XML: {error}") from None


def node_parameters(robot: str | Path) -> Path:
    """ROS parameter file of a robot: what differs from the nodes' defaults.

    Raises:
        FileNotFoundError: no such robot, or one that no node runs.
    """
    folder = robot_folder(robot)
    path = folder / "nodes.yaml"
    if not path.is_file():
        raise FileNotFoundError(
            f"Robot '{folder.name}' has no nodes.yaml, so no graph runs it. Those that can be launched: "
            f"{', '.join(runnable_robots())}."
        )
    return path


def node_settings(robot: str | Path, node: str) -> dict[str, Any]:
    """The ROS parameters that a robot's file gives a node, as nested as it writes them; {} where it gives none.

    Raises:
        FileNotFoundError: as for `node_parameters`.
    """
    sections = yaml_text.load(node_parameters(robot).read_text(encoding="utf-8"))
    return dict(sections.get(f"/**/{node}", {}).get("ros__parameters", {}))
