"""Caution: deviations that are added, and what is said to fit with it."""

import numpy as np
import pytest

from sim_core.elastic.cautious import COUPLED, Cautious, careful_simulator
from sim_core.elastic.contact import ContactSimulator
from sim_core.elastic.rigid_body import sphere
from sim_core.elastic.surface import Surface

pytestmark = pytest.mark.pure
DOWN = np.array([0.0, 0.0, -1.0])


class Sure:
    deepest = 0.01

    def predict(self, features, displacement):
        return 100.0 * displacement

    def predict_with_deviation(self, features, displacement):
        return 100.0 * displacement, 20.0 * displacement


def test_caution_adds_deviations():
    d = np.array([0.0, 0.01])
    assert Cautious(Sure(), 2.0).predict(np.zeros((2, 9)), d) == pytest.approx(140.0 * d)
    assert Cautious(Sure(), 0.0).predict(np.zeros((2, 9)), d) == pytest.approx(100.0 * d)
    assert Cautious(Sure()).deepest == 0.01
    with pytest.raises(ValueError, match="0 or more"):
        Cautious(Sure(), -1.0)
    with pytest.raises(ValueError, match="says how sure"):
        Cautious(object())


def test_a_careful_simulator_pushes_back_harder_and_without_caution_as_expected():
    """On a plane, where each spring by itself pushes 1.4 times as hard, and neighbours give way less together."""
    rng = np.random.default_rng(0)
    places = np.column_stack([rng.uniform(-0.03, 0.03, (4000, 2)), np.zeros(4000)])
    plane = Surface(places, np.full((4000, 3), 0.5), np.tile([0.0, 0.0, 1.0], (4000, 1)))
    poses = np.tile(np.eye(4), (3, 1, 1))
    poses[:, 2, 3] = [0.0195, 0.019, 0.018]

    def force(simulator):
        return simulator.queries(sphere(0.04), poses, DOWN).force[:, 2]

    expected = force(ContactSimulator(plane, Sure(), 0.01))
    np.testing.assert_array_equal(force(careful_simulator(plane, Sure(), 0.01, 0.0)), expected)
    careful = force(careful_simulator(plane, Sure(), 0.01, 2.0))
    assert (
        careful[0] == pytest.approx(1.4 * expected[0]) and expected[0] > 0.0
    )  # one point, which has no neighbours in touch
    assert (careful[1:] > 1.4 * expected[1:] * (1.0 + 1e-3)).all()
    np.testing.assert_allclose(careful, 1.4 * force(ContactSimulator(plane, Sure(), COUPLED * 0.01)))
