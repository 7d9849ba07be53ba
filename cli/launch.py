"""`refit launch`: `ros2 launch` where a distribution provides it, the front end of pip_ros elsewhere."""

from __future__ import annotations

import ast
import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path

from cli.errors import CommandError, as_command_error
from cli.listing import first_line, show_lines
from config.network import enclose
from config.share import shared_folder
from reporting.checks import EXIT_OK

#: options that start nothing
ASKING = {"-h", "--help", "-s", "--show-args", "--show-arguments"}


def launch(words: Sequence[str]) -> int:
    """Run a launch file: `words` are [PACKAGE] FILE [name:=value ...] and options, or --list alone.

    Raises:
        CommandError: an argument that no node could work with, before anything is started; or neither front end is there.
    """
    if "--list" in words:
        if len(words) > 1:
            raise CommandError(
                "--list says which launch files there are, and stands alone; FILE --show-args says what one takes."
            )
        show_lines(launch_files())
        return EXIT_OK
    if not words:
        raise CommandError("which launch file? --list shows ours; usage: refit launch [PACKAGE] FILE [name:=value ...]")
    _check(words)
    enclose(os.environ)
    if importlib.util.find_spec("launch_front"):
        import launch_front

        return launch_front.main(list(words))
    if importlib.util.find_spec("ros2launch") is None:
        raise CommandError("ros2 launch is not installed: sudo apt-get install ros-jazzy-ros2launch")
    os.execvp("ros2", ["ros2", "launch", *ros2_words(words)])


def launch_files() -> dict[str, str]:
    """Our launch files: name -> the first line of what each says about itself, read without importing it."""
    files = sorted(shared_folder("launch").glob("*.launch.py"))
    return {file.name: first_line(ast.parse(file.read_text(encoding="utf-8"))) for file in files}


def ros2_words(words: Sequence[str]) -> list[str]:
    """`words` as `ros2 launch` takes them: a bare file name means one of package refit."""
    positional = _positional(words)
    if len(positional) != 1 or os.path.isfile(positional[0]):
        return list(words)
    at = list(words).index(positional[0])
    return [*words[:at], "refit", *words[at:]]


def _positional(words: Sequence[str]) -> list[str]:
    return [word for word in words if not word.startswith("-") and ":=" not in word]


def _check(words: Sequence[str]) -> None:
    """Look at the arguments of our own launch files; in those of others the names may mean anything."""
    match _positional(words):
        case [name] | ["refit", name]:
            pass
        case _:
            return
    path, folder = Path(name).resolve(), shared_folder("launch").resolve()
    if not path.is_file():
        path = folder / (name if name.endswith(".launch.py") else f"{name}.launch.py")
    if path not in folder.glob("*.launch.py") or ASKING.intersection(words):
        return
    from nodes.supervision.launch_check import check_arguments

    given = {argument: value for argument, _, value in (word.partition(":=") for word in words if ":=" in word)}
    with as_command_error(ValueError):
        check_arguments(given)
