"""Models are loaded once for all tests of this folder."""

import articulated_models as zoo
import pytest

from sim_core.articulated import load_model

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
