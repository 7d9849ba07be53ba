"""`refit ros2`: ROS's own command where a distribution provides it, the one of pip_ros elsewhere."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence

from cli.launch import launch
from config.network import enclose


def ros2(words: Sequence[str]) -> int:
    """Run `ros2` with some words, in the graph that this environment is in."""
    enclose(os.environ)
    if importlib.util.find_spec("ros2cli") is not None:
        os.execvp("ros2", ["ros2", *words])
    if words[:1] == ["launch"]:  # with its look at the arguments of our own launch files
        return launch(words[1:])
    import ros2_front

    return ros2_front.main(words)
