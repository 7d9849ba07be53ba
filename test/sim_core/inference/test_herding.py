"""Kernel herding: modes by their weight, moments better than by chance."""

import numpy as np
import pytest

from sim_core.inference.posterior.herding import herd


def test_two_modes_are_represented_by_their_weight():
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.normal(-5, 0.3, (75, 2)), rng.normal(5, 0.3, (25, 2))])
    assert (values[herd(values, 8)][:, 0] < 0).sum() == 6


def test_few_particles_are_taken_equally_often():
    assert sorted(herd(np.array([[1.0, 0.0], [2.0, 5.0]]), 4)) == [0, 0, 1, 1]
    assert list(herd(np.array([[3.0]]), 2)) == [0, 0]


def test_the_mean_is_kept_better_than_by_a_draw():
    rng = np.random.default_rng(1)
    values = rng.standard_normal((200, 3)) * [1.0, 10.0, 0.1]
    error = lambda chosen: np.abs((values[chosen].mean(0) - values.mean(0)) / values.std(0)).max()
    assert error(herd(values, 16)) < 0.5 * np.median([error(rng.choice(200, 16, False)) for _ in range(200)])


def test_what_is_no_set_of_particles_is_refused():
    with pytest.raises(ValueError, match="finite particles"):
        herd(np.array([[np.nan]]), 1)
