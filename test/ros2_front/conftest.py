"""The command is found where a distribution hides it, too."""

import importlib.util
import sys
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed")

FRONT = Path(__file__).resolve().parents[2] / "pip_ros"
if importlib.util.find_spec("ros2_front") is None:
    sys.path.append(str(FRONT / "python"))
# Test modules are imported by path; this makes the helpers importable beside them.
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]  # the small graph, and what all tests share
