"""`refit launch`: `ros2 launch` where a distribution provides it, the front end of pip_ros elsewhere."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence

from cli.errors import CommandError


def launch(words: Sequence[str]) -> int:
    """Run a launch file: `words` are [PACKAGE] FILE [name:=value ...] and options.

    Raises:
        CommandError: neither front end is there.
    """
    if importlib.util.find_spec("launch_front"):
        import launch_front

        return launch_front.main(list(words))
    if importlib.util.find_spec("ros2launch") is None:
        raise CommandError("ros2 launch is not installed: sudo apt-get install ros-jazzy-ros2launch")
    os.execvp("ros2", ["ros2", "launch", *ros2_words(words)])


def ros2_words(words: Sequence[str]) -> list[str]:
    """`words` as `ros2 launch` takes them: a bare file name means one of package refit."""
    positional = [word for word in words if not word.startswith("-") and ":=" not in word]
    if len(positional) != 1 or os.path.isfile(positional[0]):
        return list(words)
    at = list(words).index(positional[0])
    return [*words[:at], "refit", *words[at:]]
