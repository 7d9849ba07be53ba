"""Nothing of a graph is left, however a script ends; what could not start is said in a sentence."""

import os
import signal
import subprocess
import sys
import time

import pytest

from scripting import GraphError, Robot, UsageError

pytestmark = pytest.mark.graph

QUICK = dict(lockstep=True, real_time_factor=0, refit=False)


def wait_for_nodes(marked):
    """Until the launch has started its nodes."""
    end = time.monotonic() + 120.0
    while not any("sim_plant" in line for line in marked.left()):
        assert time.monotonic() < end, marked.left()
        time.sleep(0.05)


def test_an_exception_leaves_no_process(marked):
    with pytest.raises(ZeroDivisionError), Robot.start("cartpole", **QUICK) as robot:
        wait_for_nodes(marked)
        1 / 0
    assert not marked.left()
    robot.close()  # again
    with pytest.raises(UsageError, match="this cartpole is closed"):
        robot.learnt()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_killed_script_leaves_no_process(marked, number):
    script = f"from scripting import Robot; import time; Robot.start('cartpole', **{QUICK}); time.sleep(600)"
    child = subprocess.Popen([sys.executable, "-c", script])
    try:
        wait_for_nodes(marked)
    finally:
        os.kill(child.pid, number)
        child.wait()
    marked.wait_until_gone()


def test_a_script_without_with_leaves_no_process(marked):
    script = f"from scripting import Robot; import time; Robot.start('cartpole', **{QUICK}); time.sleep(1.0)"
    assert subprocess.run([sys.executable, "-c", script], timeout=300).returncode == 0
    marked.wait_until_gone()


def test_ctrl_c_while_waiting_leaves_no_process(marked):
    script = f"""
import os, signal, threading, time
from scripting import Robot
try:
    with Robot.start('cartpole', **{QUICK}) as robot:
        threading.Timer(2.0, os.kill, [os.getpid(), signal.SIGINT]).start()
        robot.wait_until_ready()
        time.sleep(600)
except KeyboardInterrupt:
    print('interrupted')
"""
    child = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert child.stdout.strip() == "interrupted" and child.returncode == 0, child.stderr
    assert not marked.left()


def test_a_timeout_names_what_was_missing(marked):
    with (
        pytest.raises(GraphError, match=r"not ready after 0.3 s: .*supervisor is (not there|unconfigured|inactive)"),
        Robot.start("cartpole", **QUICK) as robot,
    ):
        robot.wait_until_ready(0.3)
    assert not marked.left()


def test_an_unknown_launch_argument_is_one_sentence():
    with pytest.raises(UsageError, match="lockstop") as caught, Robot.start("cartpole", lockstop=True) as robot:
        robot.wait_until_ready(120.0)
    assert "\n" not in str(caught.value)
