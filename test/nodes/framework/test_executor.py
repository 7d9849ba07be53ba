"""Which executor drives a node, and that whoever has coroutines says so."""

import ast
import time
from functools import partial
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("rclpy")

import rclpy
from rclpy.executors import MultiThreadedExecutor, SingleThreadedExecutor

from nodes.framework.lifecycle import RefitNode, _executor
from nodes.table import NODES


@pytest.fixture
def context():
    rclpy.init()
    yield
    rclpy.shutdown()


def test_events_drive_whoever_has_neither_threads_nor_coroutines(context):
    of = lambda **said: _executor(SimpleNamespace(**{"executor_threads": 1, "coroutines": False, **said}))
    assert type(of()).__name__ == "EventsExecutor"
    assert isinstance(of(coroutines=True), SingleThreadedExecutor)
    assert isinstance(of(executor_threads=3), MultiThreadedExecutor)


@pytest.mark.parametrize("module", sorted(set(NODES.values())))
def test_a_node_with_coroutines_says_so(module):
    """The events executor takes a coroutine for an answer: nobody would ever run it."""
    source = import_module(module)
    tree = ast.parse(Path(source.__file__).read_text(encoding="utf-8"))
    for found in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        kind = getattr(source, found.name)
        if isinstance(kind, type) and issubclass(kind, RefitNode):
            awaits = any(isinstance(node, ast.AsyncFunctionDef) for node in ast.walk(found))
            assert kind.coroutines == (awaits and kind.executor_threads == 1), f"{module}.{found.name}"


def test_a_timer_that_is_destroyed_while_it_is_due_runs_no_more(context):
    """The events executor hands on what it has queued, whoever has freed the timer meanwhile."""
    node, ran = RefitNode("timed"), []

    def run(k):
        ran.append(k)
        node.discard(*timers[:k], *timers[k + 1 :])

    timers = [node.create_timer(0.01, partial(run, k)) for k in range(5)]
    executor = _executor(node)
    executor.add_node(node)
    time.sleep(0.1)  # all of them are due
    while len(ran) < 4:
        executor.spin_once(timeout_sec=0.1)
    assert len(set(ran)) == 1
    executor.shutdown()
    node.destroy_node()
