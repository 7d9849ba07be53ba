"""A node that ends takes leave of the graph and takes its shared memory with it."""

import os
import re
from pathlib import Path

import pytest

pytest.importorskip("rclpy")


def shared_memory(pid: int) -> set[Path]:
    """The middleware's segments that a process has mapped: its own, and those of whom it hears."""
    maps = Path(f"/proc/{pid}/maps").read_text()
    return {Path(name) for name in re.findall(r"/dev/shm/fastrtps_[0-9a-f]{16}$", maps, re.MULTILINE)}


@pytest.mark.parametrize("name", ["supervisor", "sim_plant"])  # of the events executor, and of a classic one
def test_nothing_is_left_behind(ros, name):
    node = ros.start(name, robot="cartpole")
    ros.up(name)
    own = shared_memory(node.pid) - shared_memory(os.getpid())  # it has mapped those of whom it hears, too
    code, _, output = ros.finish(node)
    assert code == 0 and "Traceback" not in output
    assert not [path for path in own if path.exists()]
    ros.until(lambda: name not in ros.node.get_node_names(), what=f"{name} is gone from the graph")
