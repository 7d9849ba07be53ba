"""What a verdict says of the noise that was assumed, on predictions whose errors are made."""

import numpy as np
import pytest

from identification.judgement import Held, judge_prediction

R, T, NX = 30, 400, 3


def held(size, memory, seed=0):
    """Predictions that miss the recording by errors of this size, each of which remembers so much of the one before."""
    e = np.random.default_rng(seed).standard_normal((R, T + 1, NX))
    for k in range(1, T + 1):
        e[:, k] = memory * e[:, k - 1] + np.sqrt(1.0 - memory**2) * e[:, k]
    measured = np.random.default_rng(seed + 1).standard_normal((R, T + 1, NX))
    scale = np.array([0.1, 1.0, 10.0])
    simulated = np.stack([measured + size * scale * e] * 5)
    return Held(measured, simulated, measured + 3.0 * scale, scale)


def said(sigma, size, memory):
    verdicts = list(judge_prediction(held(size, memory), sigma, "product"))
    assert all(v.passed for v in verdicts if v.binding)
    return [v for v in verdicts if not v.binding]


@pytest.mark.parametrize("memory, sigma", [(0.0, 0.05), (0.0, 0.1), (0.8, 0.15), (0.95, 0.5)])
def test_a_noise_that_is_worth_what_the_errors_are_is_not_spoken_of(memory, sigma):
    assert said(sigma, 0.05, memory) == []


@pytest.mark.parametrize("memory", [0.8, 0.95])
def test_errors_that_last_make_intervals_too_narrow_by_the_root_of_their_autocorrelation_time(memory):
    worth = 0.05 * np.sqrt((1.0 + memory) / (1.0 - memory))  # of a first-order process, in closed form
    (verdict,) = said(0.05, 0.05, memory)
    assert verdict.check.value == pytest.approx(worth / 0.05, rel=0.15) and not verdict.passed
    assert "times too narrow" in verdict.sentence and "--errors fitted" in verdict.sentence
    assert float(verdict.sentence.split("--sigma-obs ")[1].split(",")[0]) == pytest.approx(worth, rel=0.15)


def test_trajectories_of_several_robots_are_not_held_against_one_particle():
    assert all(v.binding for v in judge_prediction(held(0.05, 0.95), 0.05, "sum"))


def test_a_noise_that_is_far_larger_than_the_errors_are_worth_is_said_with_one_that_is_not_too_small():
    (verdict,) = said(1.0, 0.05, 0.8)
    worth = 0.05 * 3.0
    assert (
        verdict.check.value == pytest.approx(1.0 / worth, rel=0.15)
        and "posterior is that much wider" in verdict.sentence
    )
    assert said(float(verdict.sentence.split("--sigma-obs ")[1].split(" ")[0]), 0.05, 0.8) == []
