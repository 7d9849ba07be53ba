"""A page without a browser, and messages of plain fields, as bags and ROS have them."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("viser", reason="the tier 'view' is not installed: ./refit setup view")

sys.path.insert(0, str(Path(__file__).parents[2]))  # for what all tests share

from nodes.view.player import robot_shape
from nodes.view.stage.page import open_page
from nodes.view.stage.stage import Stage


@pytest.fixture(scope="module")
def server():
    page = open_page(0, "test")
    yield page
    page.stop()


@pytest.fixture
def panda():
    return robot_shape("panda")


@pytest.fixture
def asked():
    """What the operator has asked: (verb, function that is told the answer)."""
    return []


@pytest.fixture
def stage(server, panda, asked):
    server.scene.reset()
    server.gui.reset()
    stage = Stage(server, panda, lambda verb, answered: asked.append((verb, answered)))
    stage.arrange()
    return stage
