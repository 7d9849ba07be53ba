"""Multiple shooting: Jacobians against central differences, elimination against a dense solve."""

import numpy as np
import pytest
from toy import TRUTH, ToyDynamics, ToyParameters, excite

from sim_core.inference.data.window import Window
from sim_core.inference.shooting.shooting import DelayPrior, ShootingProblem


@pytest.fixture(scope="module")
def dynamics():
    return ToyDynamics(0.01)


def make(dynamics, transitions=90, length=20, noise=(1e-3, 1e-2), **options):
    _, Y, u = excite(dynamics, transitions, 3, noise)
    window = Window(dynamics.dt * np.arange(transitions + 1), Y[:, :2], Y[:, 2:], u)
    return ShootingProblem(dynamics, ToyParameters(), [window], length, **options)


@pytest.mark.parametrize("delay", [None, DelayPrior(0.012, 0.01, 0.0, 0.03)])
def test_jacobian_matches_central_differences(dynamics, delay):
    problem = make(dynamics, delay=delay)
    theta, z = problem.theta(np.log(TRUTH) + 0.1), problem.measured_starts
    J, h = problem.evaluate(theta, z).jacobian, 1e-6
    for j in range(4 + problem.n):
        dz, dtheta = np.zeros(4), np.zeros(problem.n)
        (dz if j < 4 else dtheta)[j if j < 4 else j - 4] = h
        plus, minus = (problem.evaluate(theta + s * dtheta, z + s * dz).residual for s in (1, -1))
        np.testing.assert_allclose(J[..., j], (plus - minus) / (2 * h), rtol=1e-6, atol=1e-8)


def test_eliminating_the_starts_solves_the_full_system(dynamics):
    problem = make(dynamics)
    rollout = problem.evaluate(problem.prior_mean + 0.1, problem.measured_starts)
    scale = np.array([0.01, 0.02, 0.1, 0.2])
    normal = problem.normal_equations(rollout, scale)
    S, K, ny, _ = rollout.jacobian.shape
    n, nx = problem.n, 4
    full = np.zeros((S, K * ny, S * nx + n))
    r = (rollout.residual / scale).reshape(S, -1)
    root_w = np.sqrt(problem.loss.weight(r))
    J = (rollout.jacobian / scale[:, None]).reshape(S, K * ny, nx + n) * root_w[..., None]
    for s in range(S):
        full[s, :, s * nx : (s + 1) * nx] = J[s, :, :nx]
        full[s, :, S * nx :] = J[s, :, nx:]
    A, b = full.reshape(-1, S * nx + n), (root_w * r).ravel()
    H, g = A.T @ A, A.T @ b
    H[S * nx :, S * nx :] += np.diag(1 / problem.prior_std**2)
    g[S * nx :] += (rollout.theta - problem.prior_mean) / problem.prior_std**2
    step = -np.linalg.solve(H, g)
    reduced = -np.linalg.solve(normal.hessian, normal.gradient)
    np.testing.assert_allclose(reduced, step[S * nx :], rtol=1e-6, atol=1e-9)
    moved = normal.start_step + normal.start_slope @ reduced
    np.testing.assert_allclose(moved.ravel(), step[: S * nx], rtol=1e-5, atol=1e-9)
    promised = -(normal.gradient @ reduced + 0.5 * reduced @ normal.hessian @ reduced) + normal.start_gain
    assert promised == pytest.approx(-(g @ step + 0.5 * step @ H @ step), rel=1e-8)
    # Leverage: trace of the starts' hat matrix, by feature.
    Z = A[:, : S * nx]
    hat = np.einsum("ij,ji->i", Z, np.linalg.solve(Z.T @ Z, Z.T)).reshape(S, K, ny).sum((0, 1))
    np.testing.assert_allclose(normal.leverage, hat, rtol=1e-8)


@pytest.mark.parametrize("length", [1, 7, 20, 89, 500])
def test_every_free_start_sample_is_observed_at_most_once(dynamics, length):
    problem = make(dynamics, length=length)
    stamps = np.concatenate([t + problem.dt * np.arange(problem.length + 1) for t in problem.times])
    assert len(np.unique(np.round(stamps, 6))) == len(stamps)
    assert len(stamps) > 0.9 * 91 - problem.length / 2


def test_fixed_starts_use_every_transition(dynamics):
    problem = make(dynamics, length=1, free_starts=False)
    assert problem.observed.shape == (90, 1, 4)


def test_delayed_samples_are_disjoint_too(dynamics):
    problem = make(dynamics, delay=DelayPrior(upper=0.02))
    assert problem.skip == 2 and problem.observed.shape[1] == problem.length - 1
    stamps = np.concatenate([t + problem.dt * np.arange(2, problem.length + 1) for t in problem.times])
    assert len(np.unique(np.round(stamps, 6))) == len(stamps)


def test_a_free_delay_needs_free_starts(dynamics):
    with pytest.raises(ValueError, match="free segment starts"):
        make(dynamics, free_starts=False, delay=DelayPrior())
