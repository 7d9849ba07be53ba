"""Every `./refit ...` on the pages is a command that there is, with options, names, files and arguments that it takes."""

import argparse
import importlib
import importlib.util
import sys
from pathlib import Path

import pytest
import typer
from typer.main import get_command

pytest.importorskip("rclpy")
sys.path.insert(0, str(Path(__file__).parent))  # for what all tests share

from pages import PAGES, ROOT, commands, lines, name_of

from cli import catalog, main
from config.robot import robot_names
from config.tiers import TIERS
from hardware import emulate
from nodes.plant import lidar_emulator
from nodes.supervision.launch_check import check_arguments
from nodes.table import NODES

#: what a reader puts something of their own for, and what stands for it here
OWN = {"BAG": "runs/today/bag", "FILE": "my.yaml", "DIR": "keys", "DEVICE": "urg", "HOST": "somewhere"}
#: files of a robot that the reader brings
BROUGHT = ("my_arm", "/somewhere/", "crane.urdf")


class Wrong(Exception):
    """A command that nobody can run, and why."""


def checked(words):
    """Look at one command as it would be looked at before anything is started.

    Raises:
        Wrong: it would be refused.
    """
    words = [OWN.get(word, word) for word in words]
    if any("..." in word for word in words):  # a reader fills in the rest
        words = words[: next(k for k, word in enumerate(words) if "..." in word)]
        words = words[:-1] if words and words[-1].startswith("-") else words
    if not words:
        return
    name, rest = words[0], words[1:]
    if name in main.COMMANDS:
        _typed(name, rest)
    elif name == "launch":
        _launched(rest)
    elif name == "emulate":
        _emulated(rest)
    elif name == "test":
        _tested(rest)
    elif name == "setup":
        _known(rest, {*TIERS, "base", "test", "bench"}, "tier")
    elif name == "shell":
        _run_inside(rest)
    elif name not in (*main.PLAIN_COMMANDS, "ros2"):  # doctor parses in its own tests, and ros2 has a test of its pages
        raise Wrong(f"there is no command '{name}'")


def _typed(name, rest):
    function = getattr(importlib.import_module(main.COMMANDS[name][0]), main.COMMANDS[name][1])
    app = function
    if not isinstance(app, typer.Typer):
        app = typer.Typer()
        app.command(name=name)(function)
    command = get_command(app)
    if hasattr(command, "resolve_command"):
        if not rest or rest[0] == "WHAT":
            return
        try:
            inner, command, rest = command.resolve_command(command.make_context(name, list(rest)), list(rest))
        except typer.TyperException as error:
            raise Wrong(error.format_message()) from None
        name = f"{name} {inner}"
    needed = [p for p in command.params if p.param_type_name == "argument" and p.required]
    try:
        context = command.make_context(name, list(rest))
    except typer.TyperException as error:
        last = rest[-1] if rest else ""
        mentioned = not rest and needed or (last.startswith("-") and "requires" in error.format_message())
        if not mentioned:  # a command, or an option, that is merely named
            raise Wrong(error.format_message()) from None
        return
    given = context.params
    for kind in ("experiment", "bench"):
        if name == kind and given["name"] not in (None, "NAME"):
            _known([given["name"]], catalog.entries({"bench": "benchmarks"}.get(kind, "experiments")), kind)
    robot = given.get("robot")
    if robot and not any(each in robot for each in BROUGHT):
        _known([robot], robot_names(), "robot")


def _launched(words):
    files = [word for word in words if ":=" not in word and not word.startswith("-")]
    arguments = dict(word.split(":=", 1) for word in words if ":=" in word)
    if not files or files[0].isupper() or files[0].startswith("path/"):
        return
    path = ROOT / "launch" / (files[0] if files[0].endswith(".launch.py") else f"{files[0]}.launch.py")
    if not path.is_file():
        raise Wrong(f"there is no {path.name}")
    spec = importlib.util.spec_from_file_location(path.stem.replace(".", "_"), path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    declared = {each.name for each in module.generate_launch_description().get_launch_arguments()}
    _known(arguments, {*declared, "sigterm_timeout", "sigkill_timeout"}, "argument of that launch file")
    # What exists only at the reader's is not opened.
    theirs = {"params_file", "run_directory", "keystore", "prior"}
    own = {name: value for name, value in arguments.items() if value and name not in theirs}
    if "keystore" in arguments:
        own.pop("secure")
    if any(each in own.get("robot", "") for each in BROUGHT):
        own.pop("robot")
    try:
        check_arguments(own)
    except ValueError as error:
        raise Wrong(str(error)) from None


def _emulated(rest):
    if not rest or rest[0].startswith("-"):
        return
    _known(rest[:1], emulate.DEVICES, "emulated device")
    devices = lidar_emulator.DEVICES if "--scene" in rest else emulate.DEVICES  # as cli/emulate.py has it
    parser = emulate._parser(rest[0], devices)
    parser.exit_on_error = False

    def refuse(message):
        raise Wrong(message)

    parser.error = refuse
    if "--help" not in rest:
        try:
            parser.parse_args(rest[1:])
        except argparse.ArgumentError as error:
            raise Wrong(str(error)) from None


def _tested(rest):
    lost = [word for word in rest if word.startswith("test/") and not (ROOT / word).exists()]
    if lost:
        raise Wrong(f"there is no {', '.join(lost)}")


def _run_inside(rest):
    if rest[:2] == ["python", "-m"]:
        if importlib.util.find_spec(rest[2]) is None:
            raise Wrong(f"there is no module {rest[2]}")
    elif rest and rest[0] not in ("ros2", "static_transform"):
        _known(rest[:1], NODES, "node")


def _known(given, there, what):
    strangers = [each for each in given if each not in there]
    if strangers:
        raise Wrong(f"there is no {what} {', '.join(strangers)}; there are {', '.join(sorted(there))}")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_of_the_pages_are_ones(page):
    wrong = []
    for line in lines(page, "./refit"):
        for words in commands(line):
            if words[0] == "./refit" and len(words) > 1 and not words[1].isupper():
                try:
                    checked(words[1:])
                except Wrong as error:
                    wrong.append(f"{' '.join(words)}: {error}")
    assert not wrong, f"{name_of(page)}:\n" + "\n".join(wrong)


def test_commands_are_found_at_all():
    found = {" ".join(words) for page in PAGES for line in lines(page, "./refit") for words in commands(line)}
    assert (
        len(found) > 120 and "./refit demo" in found and "./refit launch sim robot:=quadruped solver:=neural" in found
    )


@pytest.mark.parametrize(
    "line",
    [
        "dance",
        "demo --robt panda",
        "demo --robot pandda",
        "demo --seed x",
        "experiment no_such_thing",
        "bench no_such_thing --quick",
        "identify runs/today/bag --methd csvgd",
        "calibrate tols runs/today/bag",
        "launch simm robot:=panda",
        "launch sim robott:=panda",
        "launch sim robot:=pandda",
        "emulate no_such_device",
        "emulate urg --no-such-option",
        "test test/no_such_folder",
        "setup no_such_tier",
        "shell no_such_node",
        "shell python -m experiments.no_such_module",
    ],
)
def test_a_command_that_is_none_is_found_out(line):
    with pytest.raises(Wrong):
        checked(line.split())
