"""Robots for the tests, each in a ROS domain of its own, and who of their processes is left."""

import time
import uuid
from pathlib import Path

import pytest
import yaml

pytest.importorskip("rclpy", reason="rclpy is not installed")

MARK = "REFIT_SCRIPTING_TEST"


class Marked:
    """Processes that inherited a mark in their environment."""

    def __init__(self, value: str):
        self._entry = f"{MARK}={value}".encode()

    def left(self) -> list[str]:
        """Command lines of those that run."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if self._entry in (folder / "environ").read_bytes():
                    found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip())
            except OSError:  # it ended meanwhile, or is another user's
                continue
        return found

    def wait_until_gone(self, deadline: float = 120.0) -> None:
        """AssertionError if one is left after so long [s]."""
        end = time.monotonic() + deadline
        while self.left():
            assert time.monotonic() < end, self.left()
            time.sleep(0.05)


@pytest.fixture(scope="module")
def patient(tmp_path_factory):
    """Makes the parameter file of a supervisor that waits out a busy machine's pauses: name=value [s]."""

    def make(**limits):
        path = tmp_path_factory.mktemp("parameters") / "patient.yaml"
        path.write_text(yaml.safe_dump({"/**/supervisor": {"ros__parameters": limits}}))
        return path

    return make


@pytest.fixture
def marked(monkeypatch):
    """The processes that a test starts, directly or not."""
    value = uuid.uuid4().hex
    monkeypatch.setenv(MARK, value)
    return Marked(value)
