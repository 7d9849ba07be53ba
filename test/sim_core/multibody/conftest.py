"""Models are loaded once for all tests of this folder."""

import sys
from pathlib import Path

import pytest

from sim_core.multibody import load_model

# Test modules are imported by path; this makes the models importable beside them.
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

import articulated_models as zoo

_cache = {}


@pytest.fixture
def load():
    """load(name): one of the models of articulated_models.py."""

    def cached(name):
        if name not in _cache:
            if name in zoo.URDF:
                path = zoo.example_urdf(name)
                if path is None:
                    pytest.skip("example-robot-data is not installed: pip install example-robot-data")
                _cache[name] = load_model(path)
            else:
                _cache[name] = load_model(zoo.OWN.get(name, getattr(zoo, name.upper(), name)))
        return _cache[name]

    return cached
