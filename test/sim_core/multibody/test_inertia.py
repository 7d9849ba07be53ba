"""Ten-parameter inertias and log-Cholesky coordinates."""

import casadi as ca
import numpy as np
import pytest

from sim_core.multibody import load_model
from sim_core.multibody.equations import inertia


def random_body(rng):
    """A cloud of point masses is a body of positive density."""
    points, masses = rng.normal(size=(6, 3)) * 0.3, rng.uniform(0.1, 1.0, 6)
    m, h = masses.sum(), masses @ points
    I = sum(w * (r @ r * np.eye(3) - np.outer(r, r)) for w, r in zip(masses, points))
    return np.r_[m, h, I[0, 0], I[1, 1], I[2, 2], I[0, 1], I[0, 2], I[1, 2]], points, masses


def test_log_cholesky_round_trip():
    rng = np.random.default_rng(0)
    for _ in range(200):
        pi, _, _ = random_body(rng)
        assert np.allclose(inertia.from_log_cholesky(inertia.to_log_cholesky(pi)), pi, rtol=1e-12, atol=1e-13)
        theta = rng.normal(size=10)
        assert np.allclose(inertia.to_log_cholesky(inertia.from_log_cholesky(theta)), theta, atol=1e-8)


def test_log_cholesky_reaches_only_physical_bodies():
    rng = np.random.default_rng(1)
    for _ in range(500):
        theta = rng.normal(size=10) * 1.5
        pi = inertia.from_log_cholesky(theta)
        assert inertia.is_physical(pi)
        m, c, I_c = inertia.com_inertia(pi)
        moments = np.linalg.eigvalsh(I_c)
        assert m > 0 and moments[0] > 0
        assert moments[2] < (moments[0] + moments[1]) * (1 + 1e-9), "triangle inequality"
        assert np.isclose(m, np.exp(2 * theta[0])) and np.allclose(c, theta[7:])


def test_transform_moves_every_point():
    rng = np.random.default_rng(2)
    pi, points, masses = random_body(rng)
    R = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    R *= np.sign(np.linalg.det(R))
    r = rng.normal(size=3)
    moved = points @ R.T + r
    I = sum(w * (x @ x * np.eye(3) - np.outer(x, x)) for w, x in zip(masses, moved))
    expected = np.r_[masses.sum(), masses @ moved, I[0, 0], I[1, 1], I[2, 2], I[0, 1], I[0, 2], I[1, 2]]
    assert np.allclose(inertia.transform(pi, R, r), expected)
    assert np.allclose(ca.DM(inertia.transform(ca.SX(pi), R, r)).full()[:, 0], expected)


def test_parallel_axis_round_trip():
    pi, _, _ = random_body(np.random.default_rng(3))
    assert np.allclose(inertia.from_com(*inertia.com_inertia(pi)), pi)


def test_impossible_body_is_refused():
    flat = inertia.from_com(1.0, np.zeros(3), np.diag([1.0, 1.0, 2.5]))
    assert not inertia.is_physical(flat)
    with pytest.raises(ValueError, match="smallest eigenvalue"):
        inertia.to_log_cholesky(flat)


def test_our_robots_are_physical():
    for name in ("cartpole", "double_cartpole", "panda"):
        model = load_model(name)
        for body in model.bodies:
            if body.has_inertia:
                assert inertia.is_physical(model.parameters.nominal[model.parameters.inertia_slice(body.name)]), body
