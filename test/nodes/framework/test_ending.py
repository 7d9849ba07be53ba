"""A node that ends takes leave of the graph and takes its shared memory with it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("rclpy")


def segments(pid: int) -> set[Path]:
    """The middleware's shared memory that a process owns: it holds the lock beside each of its segments."""
    held = {Path(os.readlink(link)) for link in Path(f"/proc/{pid}/fd").iterdir()}
    locks = {path for path in held if path.name.startswith("fastrtps_") and path.name.endswith("_el")}
    return {path.with_name(path.name.removesuffix("_el")) for path in locks if "port" not in path.name}


@pytest.mark.parametrize("name", ["supervisor", "sim_plant"])  # of the events executor, and of a classic one
def test_nothing_is_left_behind(ros, name):
    node = ros.start(name, robot="cartpole")
    ros.up(name)
    own = segments(node.pid)
    assert own and all(path.exists() for path in own)
    code, _, output = ros.finish(node)
    assert code == 0 and "Traceback" not in output
    assert not [path for path in own if path.exists()]
    ros.until(lambda: name not in ros.node.get_node_names(), what=f"{name} is gone from the graph")


@pytest.mark.process
def test_the_end_waits_for_threads_and_exit_functions():
    """Threads of pools, which rclpy's executors have, end only when they are told to."""
    script = """
import atexit, concurrent.futures, threading, time
from nodes.framework.entry import _leave
concurrent.futures.ThreadPoolExecutor(3).submit(print, "pool").result()
atexit.register(print, "exit function")
threading.Thread(target=lambda: (time.sleep(0.2), print("thread"))).start()
_leave(3)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout.split("\n") == ["pool", "thread", "exit function", ""] and done.returncode == 3, done
