"""`refit ros2`: the distribution's own command where it is there, with launch files looked at as ever elsewhere."""

import importlib.util
import os

import pytest

from cli.errors import CommandError
from cli.ros2 import ros2


def test_a_sourced_distribution_keeps_its_command(monkeypatch):
    started = []
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object() if name == "ros2cli" else None)
    monkeypatch.setattr(os, "execvp", lambda program, words: started.append((program, words)) or exec_ends())
    with pytest.raises(SystemExit):
        ros2(["topic", "list"])
    assert started == [("ros2", ["ros2", "topic", "list"])]


def exec_ends():
    raise SystemExit(0)  # as os.execvp does not come back


def test_neither_is_there(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(CommandError, match="ros-jazzy-ros2cli"):
        ros2(["topic", "list"])


def test_launch_files_are_looked_at_before_anything_starts():
    with pytest.raises(CommandError, match="robot"):
        ros2(["launch", "sim.launch.py", "robot:=no_such_robot"])


def test_words_are_those_of_the_front(capsys):
    pytest.importorskip("ros2_front", reason="a distribution is installed")
    assert ros2(["topic", "lst"]) == 2 and "did you mean 'list'?" in capsys.readouterr().err
