"""Windows of trajectories: padding, tails, and a split that keeps trajectories whole; trials as files and as summaries."""

import numpy as np
import pytest

from sim_core.excavation.primitives import NULL
from sim_core.excavation.trial import Trial, summary, wilson
from sim_core.excavation.trial_file import load_trial, save_trial
from sim_core.excavation.windows import build_windows, split_by_trajectory

pytestmark = pytest.mark.pure


def trial(actions, seed=0, jammed=False, mass=0.0):
    rng, T = np.random.default_rng(seed), len(actions)
    return Trial(
        np.array(actions),
        rng.standard_normal((T + 1, 4)),
        rng.standard_normal((T + 1, 3)),
        rng.integers(0, 255, (T + 1, 8, 4, 3)).astype(np.uint8),
        rng.uniform(1, 9, T),
        rng.uniform(1, 9, T),
        np.arange(T + 1),
        0,
        jammed,
        not jammed,
        mass,
        0.01 * (seed + 1),
        0.1,
    )


def test_every_window_is_what_happened_with_the_first_state_before_and_nothing_behind():
    trials = [trial([1, 5, 8], 1), trial([0, 2, 4, 6], 2)]
    windows = build_windows(trials, history=3, horizon=2)
    assert len(windows) == 7
    for row in range(7):
        one, t = (trials[0], row) if row < 3 else (trials[1], row - 3)
        for slot, at in enumerate(range(t - 2, t + 1)):
            np.testing.assert_array_equal(windows.poses[windows.history[row, slot]], one.poses[max(at, 0)])
            assert windows.past[row, slot] == (one.actions[at - 1] if at > 0 else NULL)
        for slot, at in enumerate((t, t + 1)):
            there = at < len(one.actions)
            assert windows.counts[row, slot] == there
            assert windows.actions[row, slot] == (one.actions[at] if there else NULL)
            if there:
                np.testing.assert_array_equal(windows.forces[windows.future[row, slot]], one.forces[at + 1])
                np.testing.assert_array_equal(
                    windows.images[windows.future[row, slot]], one.images[at + 1].transpose(2, 0, 1)
                )


def test_a_split_is_eight_one_one_and_no_trajectory_is_in_two_parts():
    parts = split_by_trajectory(300, seed=4)
    assert [len(part) for part in parts] == [240, 30, 30]
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(300))
    windows = build_windows([trial([0] * (k + 1), k) for k in range(5)], 2, 2)
    some = windows.of(np.array([1, 4]))
    assert set(some.trajectory) == {1, 4} and len(some) == 2 + 5
    with pytest.raises(ValueError, match="three"):
        split_by_trajectory(2)
    with pytest.raises(ValueError, match="expected trials"):
        build_windows([], 2, 2)


def test_a_trial_on_disk_gives_identical_windows(tmp_path):
    one = trial([3, 8, 1], 5, mass=0.04)
    again = load_trial(save_trial(tmp_path / "one.npz", one))
    mine, theirs = build_windows([one], 2, 2), build_windows([again], 2, 2)
    for name in ("poses", "forces", "images", "history", "past", "actions", "future", "counts", "trajectory"):
        np.testing.assert_array_equal(getattr(mine, name), getattr(theirs, name))
    assert (again.jammed, again.mass, again.bound) == (False, 0.04, 0)
    np.savez(tmp_path / "other.npz", actions=one.actions)
    with pytest.raises(ValueError, match="holds no trial"):
        load_trial(tmp_path / "other.npz")


def test_jams_bring_nothing_but_their_actions_count_and_their_errors_do_not():
    trials = [trial([0] * 10, 0, mass=0.03), trial([0] * 5, 1, jammed=True), trial([0] * 20, 2, mass=0.02)]
    found = summary(trials)
    assert (found.trials, found.jams, found.finished) == (3, 1, 2)
    assert found.mass_per_action == pytest.approx(0.05 / 35)
    assert found.mean_of_ratios == pytest.approx((0.003 + 0.0 + 0.001) / 3)
    assert found.position_error == pytest.approx(0.02)
    low, high = found.interval
    # the ends solve the score equation
    for share in (low, high):
        assert abs(1 / 3 - share) == pytest.approx(1.959964 * np.sqrt(share * (1 - share) / 3))
    assert wilson(0, 10)[0] == 0.0 and wilson(10, 10)[1] == 1.0
    with pytest.raises(ValueError, match="found none"):
        summary([])
