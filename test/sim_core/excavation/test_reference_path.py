"""The path: its shape in closed form, what is nearest on it, and its end."""

import numpy as np
import pytest

from sim_core.excavation.reference_path import DEPTHS, PathSettings, make_reference_path, wrap

pytestmark = pytest.mark.pure


@pytest.mark.parametrize("depth", DEPTHS.values(), ids=DEPTHS)
def test_length_depth_and_angles_are_those_asked_for(depth):
    s = PathSettings(depth=depth)
    path = make_reference_path(s)
    cut = s.corner * np.tan(s.slope / 2)
    # the corner is a polygon of chords, a little shorter than its arc
    exact = (s.above + depth) / np.sin(s.slope) - cut + s.corner * s.slope + s.drag - cut
    assert path.way[-1] == pytest.approx(exact, abs=1e-4)
    assert path.arc[-1] == pytest.approx(exact + 0.15 * (s.closed - s.level), abs=1e-4)
    assert path.poses[:, 2].min() == pytest.approx(s.surface - depth, abs=1e-12)
    assert path.poses[0] == pytest.approx([s.start, 0.0, s.surface + s.above, s.attack])
    assert path.poses[-1, [2, 3]] == pytest.approx([s.surface - depth, s.closed])
    assert np.diff(path.arc).max() < s.spacing + 1e-9 and np.diff(path.arc).min() > 0.0
    headings = np.diff(path.poses[:, [0, 2]], axis=0)[: int(np.searchsorted(path.way, path.way[-1] - 1e-9))]
    turns = np.diff(np.arctan2(headings[:, 1], headings[:, 0]) % (2 * np.pi))
    assert np.abs(turns).max() < 1.01 * s.spacing / s.corner  # nowhere sharper than the corner's radius


def test_progress_is_the_share_of_the_way_and_the_closing_counts_only_where_it_is_asked_to():
    path = make_reference_path(PathSettings(turn_length=0.0))
    assert path.progress(0) == 0.0
    there = np.searchsorted(path.way, path.way[-1] - 1e-12)
    np.testing.assert_allclose(path.progress(np.arange(there, len(path.arc))), 1.0)
    assert make_reference_path().progress(there) < 0.8


def test_equally_near_points_are_told_apart_by_the_angle_but_not_before_the_last_one():
    path = make_reference_path()
    end = len(path.arc) - 1
    pose = path.poses[end] + [0.0, 0.003, 0.0, -0.4]
    found = path.closest(pose, last=end - 30, ahead=0.2)
    assert found.distance == pytest.approx(0.003)
    assert abs(path.poses[found.index, 3] - pose[3]) < 0.011
    assert path.closest(pose, last=end - 2).index == end - 2


def test_a_window_keeps_to_its_part_of_the_path_and_says_so():
    path = make_reference_path(PathSettings(depth=0.06))
    far = path.poses[0] + [0.0, 0.0, 0.0, 0.0]
    last = int(np.searchsorted(path.way, 0.2))
    found = path.closest(np.stack([far, path.poses[last]]), last=last, back=0.02)
    assert found.bound.tolist() == [True, False]
    assert path.arc[last] - path.arc[found.index[0]] <= 0.02 + 1e-9 and found.index[1] == last


def test_a_path_is_followed_and_not_jumped_along():
    path = make_reference_path()
    # over the pile towards the base: near to the dragging, but nothing was dug
    over = np.column_stack([np.linspace(0.56, 0.44, 9), np.zeros(9), np.full(9, 0.045), np.full(9, -0.9)])
    last, lagging = 0, []
    for pose in over[1:]:
        found = path.closest(pose, last)
        assert path.arc[found.index] - path.arc[last] <= 0.03 + 1e-9
        last = int(found.index)
        lagging.append(bool(found.bound))
    assert found.distance > 0.09 and lagging[-1] and not lagging[0]
    jumped = path.closest(over[-1], 0, ahead=0.2).index
    assert path.arc[jumped] - path.arc[last] > 0.05
    np.testing.assert_array_equal(
        path.closest(path.poses[[10, 40, 70]], np.array([8, 38, 68])).index, [10, 40, 70]
    )  # each from its own
    one = [int(path.closest(pose, k).index) for pose, k in zip(over, range(0, 90, 10))]
    np.testing.assert_array_equal(path.closest(over, np.arange(0, 90, 10)).index, one)


def test_the_end_is_one_of_position_and_of_angle():
    path = make_reference_path()
    end = path.poses[-1]
    last = len(path.arc) - 1
    assert path.finished(end - [0, 0, 0, 0.09], last) and not path.finished(end - [0, 0, 0, 0.11], last)
    early = int(np.searchsorted(path.way, 0.9 * path.way[-1]))
    assert not path.finished(end, early)


def test_angles_wrap_to_the_half_open_turn():
    np.testing.assert_allclose(wrap(np.array([np.pi, -np.pi, 3 * np.pi, 0.5 - 2 * np.pi])), [np.pi] * 3 + [0.5])


@pytest.mark.parametrize("words", [{"depth": 0.0}, {"slope": 1.6}, {"corner": 0.5}])
def test_a_path_that_cannot_be_is_refused(words):
    with pytest.raises(ValueError, match="expected|steeper|corner"):
        PathSettings(**words)
