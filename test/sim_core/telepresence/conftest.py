"""The avatar, read once, and where the tests find what they share."""

import sys
from pathlib import Path

import pytest

from sim_core.multibody import load_model

sys.path.insert(0, str(Path(__file__).parent))
ROBOT = "avatar"


@pytest.fixture(scope="session")
def avatar_model():
    return load_model(ROBOT)


@pytest.fixture
def rehearsal(avatar_model):
    from rehearsal import Rehearsal

    return Rehearsal(avatar_model).run(0.1)
