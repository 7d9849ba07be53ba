"""Folds on the composition of the published data: 8 materials; 8 single, 25 of 28 pairs as partition, 18 of 28 as mixture."""

from itertools import combinations

import numpy as np
import pytest

from sim_core.meta.folds import characteristic_folds, random_folds

pytestmark = pytest.mark.pure

MATERIALS = tuple("abcdefgh")
rng = np.random.default_rng(3)
PAIRS = list(combinations(MATERIALS, 2))
TERRAINS = [
    *[(material,) for material in MATERIALS],
    *[PAIRS[k] for count in (25, 18) for k in rng.permutation(28)[:count]],
]


@pytest.mark.parametrize("count", [2, 4, 8])
def test_no_mean_sees_what_its_fold_holds_out(count):
    folds = characteristic_folds(TERRAINS, count, seed=1)
    assert sorted(name for fold in folds for name in fold.held_out) == list(MATERIALS)
    assert {len(fold.held_out) for fold in folds} == {8 // count}
    for fold in folds:
        assert sorted(fold.kernel + fold.mean) == list(range(51))
        assert all(set(TERRAINS[k]) & set(fold.held_out) for k in fold.kernel)
        assert not any(set(TERRAINS[k]) & set(fold.held_out) for k in fold.mean)
    times = np.bincount([k for fold in folds for k in fold.kernel], minlength=51)
    fold_of = {name: k for k, fold in enumerate(folds) for name in fold.held_out}
    assert times.tolist() == [len({fold_of[name] for name in terrain}) for terrain in TERRAINS]


@pytest.mark.parametrize("count, expected", [(8, 11.75), (4, 22.0), (2, 37.8)])
def test_sizes_are_those_expected_of_the_composition(count, expected):
    """A pair is in a fold of s of 8 materials with probability 1 - (8-s)(7-s)/56; over seeds the mean is that."""
    s = 8 // count
    exact = 8 * s / 8 + 43 * (1 - (8 - s) * (7 - s) / 56)
    assert exact == pytest.approx(expected, abs=0.15)
    sizes = [len(fold.kernel) for seed in range(200) for fold in characteristic_folds(TERRAINS, count, seed)]
    assert np.mean(sizes) == pytest.approx(exact, abs=0.2)


def test_random_folds_part_the_tasks():
    names = [f"terrain {k}" for k in range(51)]
    folds = random_folds(names, 4, seed=2)
    assert sorted(k for fold in folds for k in fold.kernel) == list(range(51))
    assert [len(fold.kernel) for fold in folds] == [13, 13, 13, 12]
    assert all(sorted(fold.kernel + fold.mean) == list(range(51)) for fold in folds)
    assert folds != random_folds(names, 4, seed=3) and folds == random_folds(names, 4, seed=2)


def test_refusals_say_what_is_wrong():
    with pytest.raises(ValueError, match="from 2 to 8 folds, as there are 8 characteristics, found 9"):
        characteristic_folds(TERRAINS, 9)
    with pytest.raises(ValueError, match="every task has one of .*take more folds"):
        characteristic_folds([("a", "b"), ("a", "c"), ("b", "c")], 2)
    with pytest.raises(ValueError, match="different names"):
        random_folds(["x", "x"], 2)
