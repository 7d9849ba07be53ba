"""These tests are for our own launch packages; beside the real ones they have no subject."""

import importlib.util
import os
import signal
import sys
from pathlib import Path

import pytest

OURS = Path(__file__).resolve().parents[2] / "pip_ros" / "python"


def _origin_of(package):
    """Return the file of a package; a mere folder `launch` (of launch files) is none."""
    spec = importlib.util.find_spec(package)
    return spec.origin if spec is not None else None


if _origin_of("launch") is None:
    sys.path.insert(0, str(OURS))
    sys.modules.pop("launch", None)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(OURS), os.environ.get("PYTHONPATH")]))

_REAL = not str(_origin_of("launch")).startswith(str(OURS))


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    for item in items:
        if _REAL and here in item.path.parents:
            item.add_marker(pytest.mark.skip(f"the real launch package is installed: {_origin_of('launch')}"))


@pytest.fixture(autouse=True)
def clean_surroundings(tmp_path, monkeypatch):
    """Log files go to the test's directory; changes to the environment end with the test."""
    monkeypatch.setenv("ROS_LOG_DIR", str(tmp_path / "ros_log"))
    monkeypatch.delenv("LAUNCH_SHARED_SESSION", raising=False)  # as a user launches
    before = dict(os.environ)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # started with & by a shell
        signal.signal(signal.SIGINT, signal.default_int_handler)
    import launch.logging

    launch.logging.launch_config.reset()
    yield
    launch.logging.launch_config.reset()
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def run_launch():
    """Return a function that runs entities and returns (return code, service)."""
    from launch import LaunchDescription, LaunchService

    def run(*entities, configurations=(), **kwargs):
        service = LaunchService(**kwargs)
        service.context.launch_configurations.update(configurations)
        service.include_launch_description(LaunchDescription(list(entities)))
        return service.run(), service

    return run


@pytest.fixture
def messages(capfd):
    """Return a function that returns what was written to the screen so far, line by line."""
    return lambda: capfd.readouterr().out.splitlines()
