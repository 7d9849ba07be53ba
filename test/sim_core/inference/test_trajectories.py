import numpy as np
import pytest

from sim_core.inference.data.trajectories import Trajectories, standard_deviation, unwrapped


def made(R=2, T=10):
    x = np.arange(R * (T + 1) * 3, dtype=float).reshape(R, T + 1, 3)
    return Trajectories(0.1, x, np.arange(R * T, dtype=float).reshape(R, T, 1), x[..., :2])


def test_windows_share_their_ends_and_keep_their_controls():
    t = made()
    w = t.windows(3)
    assert (w.count, w.steps) == (6, 3)
    assert np.array_equal(w.x[1, 0], w.x[0, -1]) and np.array_equal(w.x[3], t.x[1, :4])
    assert np.array_equal(w.u[2], t.u[0, 6:9]) and np.array_equal(w.y[5], t.y[1, 6:10])
    assert np.array_equal(t.windows(1).x, t.x)


def test_slice_and_pick():
    t = made()
    assert t.slice(2, 5).steps == 3 and np.array_equal(t.slice(2, 5).u, t.u[:, 2:5])
    assert np.array_equal(t.pick([1]).x, t.x[1:])


def test_scale_is_the_standard_deviation_and_one_where_nothing_moves():
    x = np.random.default_rng(0).normal(3.0, [2.0, 1e-3, 1.0], (4, 500, 3))
    x[..., 2] = 7.0
    assert np.allclose(standard_deviation(x), [x[..., 0].std(), x[..., 1].std(), 1.0])


def test_what_is_not_finite_is_named():
    t = made()
    x = t.x.copy()
    x[1, 4, 2] = np.nan
    with pytest.raises(ValueError, match="found nan in trajectory 1, sample 4, column 2"):
        Trajectories(0.1, x, t.u)
    with pytest.raises(ValueError, match="trajectories u: expected 2 x 10 rows"):
        Trajectories(0.1, t.x, t.u[:, :5])
    with pytest.raises(ValueError, match="at least one step"):
        Trajectories(0.1, t.x[:, :1], t.u[:, :0])


def test_unwrapped_angles_do_not_jump():
    angle = np.linspace(0, 20, 200)
    x = np.stack([np.angle(np.exp(1j * angle)), np.sin(angle)], axis=1)
    assert np.allclose(unwrapped(x, [0])[:, 0], angle) and np.array_equal(unwrapped(x, [0])[:, 1], x[:, 1])
