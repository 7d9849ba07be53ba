"""Which executor drives a node, and that whoever has coroutines says so."""

import ast
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
