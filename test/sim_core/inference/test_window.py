"""Windows: what is refused, where raw samples are cut, and whether q and v agree."""

import numpy as np
import pytest

from sim_core.inference.data.window import Window, contiguous_windows, kinematic_inconsistency


def sine(n=201, dt=0.01):
    t = dt * np.arange(n)
    q = np.stack([np.sin(3 * t), 0.5 * np.cos(5 * t)], 1)
    v = np.stack([3 * np.cos(3 * t), -2.5 * np.sin(5 * t)], 1)
    return t, q, v, np.zeros((n - 1, 1))


def test_slices_and_times():
    window = Window(*sine())
    assert window.dt == pytest.approx(0.01) and window.transitions == 200 and window.x.shape == (201, 4)
    late = window.after(1.5)
    assert late.t[0] == pytest.approx(1.5) and late.transitions == 50
    np.testing.assert_array_equal(late.u, window.u[150:])


@pytest.mark.parametrize(
    "field, value, message", [("q", np.nan, "q is not finite at sample 7"), ("u", np.inf, "u is not")]
)
def test_values_that_are_not_finite_are_refused(field, value, message):
    data = dict(zip("tqvu", sine()))
    data[field] = data[field].copy()
    data[field][7, 0] = value
    with pytest.raises(ValueError, match=message):
        Window(**data)


def test_uneven_stamps_and_wrong_shapes_are_refused():
    t, q, v, u = sine()
    t = t.copy()
    t[50:] += 0.03
    with pytest.raises(ValueError, match="40.000 ms after sample 49"):
        Window(t, q, v, u)
    with pytest.raises(ValueError, match=r"u: expected shape \(200"):
        Window(sine()[0], q, v, np.zeros((201, 1)))


def test_gaps_nan_and_backward_stamps_cut_the_samples():
    t, q, v, u = (a.copy() for a in sine(400))
    t[100:] += 0.5  # gap after 99
    q[200, 1] = np.nan  # drops one sample
    u[250] = np.nan  # no transition 250 -> 251
    t[300:] -= 2.0  # the clock jumps back
    pieces = contiguous_windows(t, q, v, u, min_transitions=5)
    assert [w.transitions for w in pieces] == [99, 99, 49, 48, 99]
    assert contiguous_windows(t[:4], q[:4], v[:4], u[:3]) == []


def test_late_readings_are_brought_onto_even_stamps_and_even_ones_left_alone():
    rng = np.random.default_rng(0)
    even = 0.01 * np.arange(301)
    t = even + np.r_[0.0, 0.007 * rng.random(299), 0.0]
    q, v = np.sin(3 * t)[:, None], 3 * np.cos(3 * t)[:, None]
    u = rng.standard_normal((300, 2))
    (window,) = contiguous_windows(t, q, v, u, 0.01)
    np.testing.assert_allclose(window.t, even, atol=1e-12)
    # Steps reach 17 ms: h^4 / 384 of a fourth derivative of 81, h^2 / 8 of a second one of 27.
    np.testing.assert_allclose(window.q[:, 0], np.sin(3 * even), atol=2e-8)
    np.testing.assert_allclose(window.v[:, 0], 3 * np.cos(3 * even), atol=1e-3)
    np.testing.assert_allclose(0.01 * window.u.sum(0), np.diff(t) @ u, atol=1e-12)  # the impulse stays
    (same,) = contiguous_windows(even, q, v, u, 0.01)
    assert np.array_equal(same.t, even) and np.array_equal(same.q, q) and np.array_equal(same.u, u)


def test_a_lost_sample_cuts_unless_pauses_are_bridged():
    t, q, v, u = sine(400)
    lost = np.delete(np.arange(400), [200, 300, 301])
    samples = t[lost], q[lost], v[lost], u[lost[1:] - 1]
    assert [w.transitions for w in contiguous_windows(*samples)] == [199, 98, 97]
    assert [w.transitions for w in contiguous_windows(*samples, bridge=2.5)] == [299, 97]
    (window,) = contiguous_windows(*samples, bridge=3.5)
    np.testing.assert_allclose(window.q, q, atol=2e-6)


def test_sound_data_are_consistent_and_flipped_swapped_or_resting_joints_told_apart():
    t, q, v, u = sine()
    assert kinematic_inconsistency(Window(t, q, v, u)).max() < 1e-3
    flipped = kinematic_inconsistency(Window(t, q, v * [1, -1], u))
    assert flipped[0] < 1e-3 and flipped[1] == pytest.approx(2.0, rel=1e-3)
    assert kinematic_inconsistency(Window(t, q, v[:, ::-1], u)).min() > 0.7
    rng = np.random.default_rng(1)
    resting = Window(t, 1e-4 * rng.standard_normal(q.shape), 1e-3 * rng.standard_normal(v.shape), u)
    assert kinematic_inconsistency(resting).max() < 0.5


@pytest.mark.parametrize("noise", [0.0, 1e-3, 0.01])
def test_shuffled_samples_are_no_noise_and_a_poor_sensor_is_no_corruption(noise):
    t, q, v, u = sine()
    rng = np.random.default_rng(2)
    q = q + noise * rng.standard_normal(q.shape)
    assert kinematic_inconsistency(Window(t, q, v, u)).max() < 0.5
    order = rng.permutation(len(t))
    assert kinematic_inconsistency(Window(t, q[order], v[order], u)).min() > 2.0
    drowned = Window(t, q + rng.standard_normal(q.shape), v, u)
    assert kinematic_inconsistency(drowned).min() > 2.0


def test_a_resting_joint_read_in_steps_is_no_corruption():
    t, _, _, u = sine()
    q, v = (
        np.zeros((201, 1)),
        np.where(np.arange(201) % 40 < 20, 0.024, 0.0)[:, None],
    )  # one step of velocity, now and then
    assert kinematic_inconsistency(Window(t, q, v, u)).max() > 0.9
    assert kinematic_inconsistency(Window(t, q, v, u), resolution=4.4e-4).max() < 0.5
    moving = sine()
    both = kinematic_inconsistency(Window(*moving), Window(t, np.zeros((201, 2)), np.repeat(v, 2, 1), u))
    assert both.max() < 0.05  # one short rest spoils no window
