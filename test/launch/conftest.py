"""A ROS domain for every launch, and a probe in it."""

import random
import sys
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed")

# Test modules are imported by path; this makes the helpers importable beside them.
sys.path.insert(0, str(Path(__file__).parent))

import domain_coordinator
from launched import Probe


@pytest.fixture(scope="module")
def domain():
    """The number of a ROS domain that no other test of this machine uses, set for all processes started."""
    # In random order: someone may be using the low ones by hand.
    order = iter(random.sample(range(1, 101), 100))
    with domain_coordinator.domain_id(order.__next__) as number, pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROS_DOMAIN_ID", str(number))
        patch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
        yield number


@pytest.fixture(scope="module")
def probe(domain):
    """A node in that domain."""
    node = Probe(domain)
    yield node
    node.close()
