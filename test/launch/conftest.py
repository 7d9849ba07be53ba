"""A probe in the ROS domain of each launch."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed")

# Test modules are imported by path; this makes the helpers importable beside them.
sys.path.insert(0, str(Path(__file__).parent))

from launched import Probe


@pytest.fixture(scope="module")
def probe(domain):
    """A node in that domain."""
    node = Probe(domain)
    yield node
    node.close()
