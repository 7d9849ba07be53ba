"""What states are worth: the published weights and thresholds as numbers, and what must rise and fall."""

from dataclasses import replace

import numpy as np
import pytest

from sim_core.excavation.costs import (
    TUNED,
    CostSettings,
    Workspace,
    adjusted_distance,
    excess_force,
    step_terms,
    tracking_distance,
)
from sim_core.excavation.pile import PileSettings
from sim_core.excavation.primitives import PrimitiveSettings, displacements
from sim_core.excavation.reference_path import DEPTHS, PathSettings, make_reference_path

pytestmark = pytest.mark.pure
PATH = make_reference_path()
NO_FORCE = np.zeros(3)


def test_small_deviations_count_a_fifth():
    np.testing.assert_allclose(adjusted_distance(np.array([0.010, 0.015, 0.035])), [0.002, 0.003, 0.023], atol=1e-15)


def test_a_radian_counts_as_much_as_fifteen_centimetres():
    pose = np.array([0.03, 0.0, 0.04, 0.8])
    assert tracking_distance(pose, np.zeros(4)) == pytest.approx(np.hypot(0.05, 0.12))
    assert tracking_distance(np.array([0, 0, 0, np.pi - 0.1]), np.array([0, 0, 0, -np.pi + 0.1])) == pytest.approx(0.03)


def test_force_is_free_up_to_the_threshold():
    forces = np.array([[17.5, 0, 0], [0, 36.0, 48.0], [0, 0, -10.0]])
    np.testing.assert_allclose(excess_force(forces), [0.0, 42.5, 0.0], atol=1e-12)
    assert CostSettings().force * 42.5 == pytest.approx(-0.0283, abs=1e-4)
    assert 0.8 * 0.015 / 0.42 == pytest.approx(0.0286, abs=1e-4)  # what a step earns on a path of 0.42 m


def test_tuned_weights_are_the_published_ones_but_for_the_prices_of_force_and_distance():
    """What is free lies where this pile's arm digs; what stops it costs more than two motions along the deep path earn."""
    assert replace(TUNED, track=-1.05, threshold=17.5, force=-1.0 / 1500.0) == CostSettings()
    limit = PileSettings().force_limit
    path = make_reference_path(PathSettings(depth=DEPTHS["deep"]))
    earned = TUNED.progress * PrimitiveSettings().translation / path.arc[-1]
    assert excess_force(np.array([30.0, 0.0, 0.0]), TUNED) == 0.0
    assert TUNED.force * excess_force(np.array([0.0, 0.0, limit]), TUNED) < -2.0 * earned


def test_worth_rises_along_the_path_and_falls_with_force_and_deviation():
    worth = step_terms(PATH, PATH.poses[:40], np.zeros((40, 3)), np.arange(40)).total
    assert np.all(np.diff(worth) > 0)
    loads = np.linspace(0, 100, 11)[:, None] * [0.6, 0.0, 0.8]
    worth = step_terms(PATH, np.repeat(PATH.poses[[30]], 11, 0), loads, 30).total
    assert np.all(np.diff(worth)[:1] == 0) and np.all(np.diff(worth)[1:] < 0)
    aside = PATH.poses[30] + np.linspace(0, 0.05, 6)[:, None] * [0, 1, 0, 0]
    assert np.all(np.diff(step_terms(PATH, aside, np.zeros((6, 3)), 30).total) < 0)


def test_batches_of_any_shape_give_what_single_states_give():
    rng = np.random.default_rng(2)
    poses = PATH.poses[rng.integers(60, size=(3, 4))] + 0.01 * rng.standard_normal((3, 4, 4))
    forces = 20 * rng.standard_normal((3, 4, 3))
    whole = step_terms(PATH, poses, forces, 20)
    for i, j in np.ndindex(3, 4):
        one = step_terms(PATH, poses[i, j], forces[i, j], 20)
        assert (one.total, one.track) == (whole.total[i, j], whole.track[i, j])


def test_what_leaves_the_workspace_is_worth_nothing():
    settings = CostSettings(workspace=Workspace(lower=(0.3, -0.05, -0.1, -1.0), upper=(0.8, 0.05, 0.1, 1.2)))
    poses = PATH.poses[[10, 10]] + [[0, 0.04, 0, 0], [0, 0.06, 0, 0]]
    assert np.isfinite(step_terms(PATH, poses, np.zeros((2, 3)), 0, settings).total).tolist() == [True, False]


def test_turning_in_place_comes_to_an_end():
    path = PATH
    last = int(np.searchsorted(path.way, path.way[-1] - 1e-12))
    pose = path.poses[last].copy()
    for _ in range(9):  # 0.9 rad less 0.1, with one to spare
        if path.finished(pose, last):
            break
        ends = pose + displacements()
        pose = ends[int(np.argmax(step_terms(path, ends, np.zeros((9, 3)), last).total))]
        last = int(path.closest(pose, last).index)
    assert path.finished(pose, last)


@pytest.mark.parametrize("turn_length, gain", [(0.0, 0.0), (0.15, 0.02)])
def test_nothing_would_drive_it_if_it_were_no_progress(turn_length, gain):
    path = make_reference_path(PathSettings(turn_length=turn_length))
    last = int(np.searchsorted(path.way, path.way[-1] - 1e-12))
    ends = path.poses[last] + [[0, 0, 0, 0], [0, 0, 0, 0.1]]
    stays, turns = step_terms(path, ends, np.zeros((2, 3)), last).total
    assert turns - stays == pytest.approx(gain * 0.8 * 0.75 / path.arc[-1], abs=1e-9)
