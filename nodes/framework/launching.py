"""What the launch files share: the vocabulary of arguments, the kinds of parameter file, a quiet start.

    DeclareLaunchArgument("robot", **ARGUMENTS["robot"])

Plain data, so that nodes stay free of `launch`.
"""

from __future__ import annotations

import functools
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from config import yaml_text
from config.robot import DEFAULT, node_parameters, runnable_robots
from nodes.framework.config import Setting, settings
from sim_core.adoption import is_model_file

__all__ = ["ARGUMENTS", "ParameterFiles", "is_physical", "number", "parameter_files", "shield", "typed", "urgent"]

_SWITCH = ["true", "false"]


class RobotChoices(list[str]):
    """Names of robots, as a launch file lists them, and for its question `in` the path of any folder or model file as well."""

    def __contains__(self, value: object) -> bool:
        if super().__contains__(value) or (isinstance(value, str) and is_model_file(value)):
            return True  # what is wrong with a file, check_arguments says
        try:
            return isinstance(value, str) and node_parameters(value).is_file()
        except FileNotFoundError:
            return False


#: name -> keywords of DeclareLaunchArgument; an argument means the same in every launch file
ARGUMENTS: dict[str, dict] = {
    "robot": dict(
        default_value=DEFAULT,
        choices=RobotChoices(runnable_robots()),
        description="robot in config/robots, or the path of a robot's folder or of its URDF, xacro or MJCF file",
    ),
    "namespace": dict(
        default_value="",
        description="namespace of all nodes and of the clock; two robots on one machine need different ones",
    ),
    "use_sim_time": dict(default_value="false", choices=_SWITCH, description="take time from the clock topic"),
    "params_file": dict(
        default_value="",
        description="ROS parameter YAML on top of config/robots/<robot>/nodes.yaml, the physical "
        "parameters that a demo or identify found, or several files separated by commas, the later the stronger",
    ),
    "prior": dict(
        default_value="",
        description="physical parameters that controller and refit start from (a simulated "
        "plant keeps its own): a file, or 'start' for the published wrong start of a cart-pole",
    ),
    "secure": dict(
        default_value="false",
        choices=_SWITCH,
        description="let in only who has a key, and encrypt; needs a keystore, and a middleware built with security",
    ),
    "keystore": dict(default_value="", description="keys and permissions, from: refit security create"),
    "autostart": dict(default_value="true", choices=_SWITCH, description="configure and activate the lifecycle nodes"),
    "log_level": dict(
        default_value="info",
        choices=["debug", "info", "warn", "error", "fatal"],
        description="logging threshold of all nodes",
    ),
    "arm": dict(
        default_value="",
        choices=["", "auto", "by_hand"],
        description="who arms the robot: the supervisor itself as soon as all is well, or a person by its service arm; "
        "empty: the supervisor where the robot is simulated or its devices are emulated, a person on hardware",
    ),
    "refit": dict(
        default_value="true",
        choices=_SWITCH,
        description="run the refit; without it the controller keeps the parameters it starts with",
    ),
    "free": dict(
        default_value="",
        description="what the refit may change besides what the hand holds and the gears' friction, separated by commas: "
        "'*.friction', '*.damping', '*.gear', 'link4.density', 'gravity.tilt'; see docs/refit.md",
    ),
    "recipe": dict(
        default_value="robust",
        choices=["robust", "literal"],
        description="how a cart-pole's physics is refitted: robustly, or as published",
    ),
    "object": dict(
        default_value="",
        description="name of the soft object before a robot with a probe; a simulated plant knows "
        "sloth, vest, lamb, shoe, bird, and categories with a number: docs/nodes/sim_plant.md; empty: none",
    ),
    "boxes": dict(
        default_value="",
        description="that the arms of a robot which a person acts through keep away from, separated by semicolons: "
        "'table: 0.87 0 0.735 0.5 1.6 0.03', docs/nodes/teleop.md; empty: those of the task that is rehearsed, or none",
    ),
    "probe": dict(default_value="point", choices=["point", "line", "cylinder"], description="that such a robot holds"),
    "solver": dict(
        default_value="osqp",
        choices=["osqp", "neural"],
        description="of a quadruped's stance legs: the quadratic programme, or the network that imitates it",
    ),
    "lockstep": dict(
        default_value="false",
        choices=_SWITCH,
        description="the plant waits for every command, so that results do not depend on load",
    ),
    "view": dict(
        default_value="false",
        choices=_SWITCH,
        description="show the robot in the browser while it moves: docs/view.md; needs the tier 'view'",
    ),
    "view_port": dict(default_value="8080", description="port of that page on this machine; 0: a free one"),
    "view_reference": dict(
        default_value="", description="bag of an earlier run, whose tracking error the page draws beside this one's"
    ),
    "profile": dict(
        default_value="control",
        choices=["full", "control", "exam", "search", "dig", "poke", "scan", "identify", "calibrate"],
        description="which topics are recorded: recording/profiles.yaml lists them",
    ),
    "drivers": dict(
        default_value="auto",
        choices=["auto", "by_hand", "none"],
        description="drivers of the robot's devices: "
        "started, there for somebody to configure and activate, or absent because joint states come from elsewhere",
    ),
    "supervised": dict(
        default_value="false",
        choices=_SWITCH,
        description="a supervisor runs beside these drivers, and whoever moves something needs its consent; without, "
        "anybody may command within the drivers' limits",
    ),
    "use_emulators": dict(
        default_value="false",
        choices=_SWITCH,
        description="play the devices on a simulated robot; the drivers and what travels on their wires stay the same",
    ),
    "devices": dict(
        default_value="",
        description="which devices of config/robots/<robot>/robot.yaml, separated by commas; empty: all",
    ),
    "scenario": dict(
        default_value="", description="hidden changes of the plant: YAML text or file, see docs/nodes/sim_plant.md"
    ),
    "seed": dict(default_value="0", description="of the plant's initial states and sensor noise"),
    "record": dict(default_value="false", choices=_SWITCH, description="record a bag into run_directory"),
    "run_directory": dict(
        default_value="",
        description="where the bag and accepted parameter revisions go; empty: runs/<robot>-<stamp> "
        "if record:=true, else nowhere",
    ),
}


def number(name: str, text: str, kind: type = float):
    """The number that an argument was given.

    Raises:
        ValueError: it is none; the text names the argument.
    """
    try:
        return kind(text)
    except ValueError:
        raise ValueError(f"{name}:={text}: expected a {'whole ' if kind is int else ''}number") from None


def typed(config_class: type, value: Mapping[str, str]) -> dict[str, object]:
    """Arguments as the node wants them whose settings they are called like.

    Args:
        config_class: made of `setting` fields. value: {argument: text}.

    Returns:
        {parameter: value} of the arguments that are settings of the node.

    Raises:
        ValueError: a value that the node would refuse; the text names it and what may be.
    """
    known = settings(config_class)
    return {name: _typed(known[name], text) for name, text in value.items() if name in known}


def _typed(item: Setting, text: str) -> object:
    if item.type is bool:
        return item.coerce({"true": True, "false": False}.get(text, text))
    return item.coerce(number(item.name, text, item.type) if item.type in (int, float) else text)


@dataclass(frozen=True)
class ParameterFiles:
    """What `params_file:=` names.

    Attributes:
        ros: ROS parameter files in the order given, the later the stronger.
        physical: the file of physical parameters; "" if there is none.
    """

    ros: tuple[str, ...]
    physical: str


def parameter_files(text: str, name: str = "params_file") -> ParameterFiles:
    """One file, or several separated by commas; each is taken for what it holds.

    Raises:
        ValueError: a file that cannot be read, holds neither kind of parameter or comes twice, or two of physical
            parameters; the text names the argument and the file.
    """
    ros, physical = [], []
    for path in filter(None, map(str.strip, text.split(","))):
        if path in ros or path in physical:
            raise ValueError(f"{name}:={text}: {path} comes twice; give each file once, the stronger one later")
        (physical if is_physical(name, path) else ros).append(path)
    if len(physical) > 1:
        raise ValueError(
            f"{name}:={text}: {physical[0]} and {physical[1]} both hold physical parameters, which belong together: give one"
        )
    for path in ros:
        _check_ros_parameters(name, path)
    return ParameterFiles(tuple(ros), "".join(physical))


def _check_ros_parameters(name: str, path: str) -> None:
    """A node that is given something else ends with a traceback of its own, or ignores it."""
    try:
        sections = yaml_text.load(_content(name, path))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1}: " if mark else ""
        raise ValueError(f"{name}:={path}: is no YAML ({place}{getattr(error, 'problem', None) or error})") from None
    if not (isinstance(sections, dict) and sections and all(map(_has_parameters, sections.values()))):
        raise ValueError(
            f"{name}:={path}: holds neither ROS parameters (<node>: {{ros__parameters: ...}}) nor physical ones "
            "(model_hash: ..., as demo and identify write them)"
        )


def _has_parameters(section) -> bool:
    """Of a node, or of the nodes of a namespace."""
    return (
        isinstance(section, dict)
        and bool(section)
        and (isinstance(section.get("ros__parameters"), dict) or all(map(_has_parameters, section.values())))
    )


def is_physical(name: str, path: str) -> bool:
    """Whether a file holds physical parameters as refit and identify write them, rather than ROS parameters.

    Raises:
        ValueError: it cannot be read; the text names the argument.
    """
    return bool(path) and "model_hash:" in _content(name, path)


def _content(name: str, path: str) -> str:
    try:
        return Path(path).expanduser().read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{name}:={path}: cannot be read ({getattr(error, 'strerror', None) or error})") from None


@functools.cache
def shield() -> str:
    """Launch prefix under which a Ctrl-C waits until a node can take it.

    Before its first line runs, Python answers SIGINT with a traceback, for some tenths of a second
    on a busy machine. `env` starts the process with the signal blocked, nodes/framework/entry.py lets it through.
    Empty where `env` cannot (GNU coreutils before 8.31).
    """
    prefix = ["env", "--block-signal=INT"]
    # Out of the terminal's reach: a Ctrl-C that ends the trial must not leave the nodes without their shield. Between its fork and
    # its own session it is still within reach, so that it has the signal blocked from its first instruction.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        # It takes some milliseconds; on a busy machine five seconds were once too few, and the nodes stood without.
        trial = subprocess.run([*prefix, "true"], capture_output=True, timeout=60.0, start_new_session=True)
        works = trial.returncode == 0
    except (OSError, subprocess.SubprocessError):
        works = False
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return " ".join(prefix) if works else ""


def urgent(lockstep: bool = False) -> str:
    """Launch prefix of what moves a robot, or stands for a servo loop: shielded, and before other processes where that is allowed.

    Without the right to, `nice` says so and runs the process all the same. In lock-step the robot waits for its controller, and nobody
    is late: such a graph takes every core that it gets, and takes its turn as other processes do.
    """
    return shield() if lockstep else f"{shield()} nice -n -10".lstrip()
