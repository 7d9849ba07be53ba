"""Makes the hybrids importable from the tests beside them."""

import sys
from pathlib import Path

import numpy as np
import pytest

from sim_core.multibody import load_model

sys.path.insert(0, str(Path(__file__).parent))

import hybrids


@pytest.fixture(scope="session")
def pendulum():
    return load_model(hybrids.DOUBLE_PENDULUM)


@pytest.fixture
def rng():
    return np.random.default_rng(0)
