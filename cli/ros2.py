"""`refit ros2`: ROS's own command where a distribution provides it, the one of pip_ros elsewhere."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence

from cli.errors import CommandError
from cli.launch import launch
from config.network import enclose


def ros2(words: Sequence[str]) -> int:
    """Run `ros2` with some words, in the graph that this environment is in.

    Raises:
        CommandError: neither command is there, or launch arguments that no node could work with.
    """
    enclose(os.environ)
    if importlib.util.find_spec("ros2cli") is not None:
        os.execvp("ros2", ["ros2", *words])
    if importlib.util.find_spec("ros2_front") is None:
        raise CommandError("ros2 is not installed: sudo apt-get install ros-jazzy-ros2cli")
    if words[:1] == ["launch"]:  # with its look at the arguments of our own launch files
        return launch(words[1:])
    import ros2_front

    return ros2_front.main(words)
