"""Statistics of ratings: published figures, and effects that are known."""

import numpy as np
import pytest

from sim_core.auscultation.hidden_rating import marks
from sim_core.auscultation.rating_statistics import agreement, method_effects, tukey


def test_the_published_probabilities_follow_from_the_published_coefficients():
    """Residual variance 0.0196, 12 regions of 4 subjects by 3 methods (Zhu, PhD thesis, section 5.4.2)."""
    freedom = 3 * 48 - (3 + 12 + 4) + 2
    bo, ro, dt = 0.662, 0.598, 0.703
    assert tukey(bo - dt, 0.0196, 48, 3, freedom) == pytest.approx(0.326, abs=0.005)
    assert tukey(bo - ro, 0.0196, 48, 3, freedom) == pytest.approx(0.0700, abs=0.005)
    assert tukey(ro - dt, 0.0196, 48, 3, freedom) == pytest.approx(0.00110, abs=0.0003)


def test_agreement_is_that_of_the_known_example():
    """Six things, four raters: Shrout and Fleiss, Psychological Bulletin 86(2), 1979, tables 2 and 4: ICC(2, k) is 0.62."""
    ratings = np.array([[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]])
    assert agreement(ratings) == pytest.approx(0.62, abs=0.005)
    assert agreement(np.tile(np.arange(5.0)[:, None], 3)) == pytest.approx(1.0)


def test_synthetic_raters_of_hearts_agree_better_than_those_of_lungs():
    rng = np.random.default_rng(0)
    truth = rng.uniform(0.1, 0.9, 2000)
    hearts, lungs = (agreement(marks(truth, structure, rng)) for structure in ("heart", "lung"))
    assert 0.85 < hearts < 0.97 and lungs < hearts


def test_known_effects_are_found_and_chance_is_not():
    rng = np.random.default_rng(1)
    subjects, regions = rng.normal(0, 0.2, (1, 30, 1)), rng.normal(0, 0.2, (1, 1, 12))
    values = 0.6 + np.array([0.0, 0.05, 0.05])[:, None, None] + subjects + regions + rng.normal(0, 0.1, (3, 30, 12))
    found = method_effects(values, ["a", "b", "c"])
    assert found.residual == pytest.approx(0.01, rel=0.1)
    assert found.means["b"] - found.means["a"] == pytest.approx(0.05, abs=0.02)
    assert found.p["a", "b"] < 1e-3 and found.p["b", "c"] > 0.05


@pytest.mark.parametrize(
    "wrong", [lambda: agreement(np.ones((1, 4))), lambda: agreement(np.full((3, 3), np.nan)),
              lambda: method_effects(np.ones((2, 3, 4)), ["a"]), lambda: method_effects(np.ones((2, 1, 4)), ["a", "b"])]
)  # fmt: skip
def test_what_no_statistic_can_be_made_of_is_refused(wrong):
    with pytest.raises(ValueError, match="finite"):
        wrong()
