"""A learnt network as the simulator, through iLQR, CSVGD and refit."""

import numpy as np
import pytest
from checks import check_batches, check_derivatives, check_plan
from network import DT, PHYSICS, driven, learnt_pendulum, trained

from sim_core.control.cost import ControlTerm, Cost, StateTerm
from sim_core.control.plan import IlqrConfig
from sim_core.control.refit import Refit, RefitConfig
from sim_core.control.solver import solver_for
from sim_core.inference.data.parameters import ParameterBox
from sim_core.inference.data.trajectories import Trajectories
from sim_core.inference.data.window import Window, contiguous_windows
from sim_core.inference.samplers import sample
from sim_core.inference.shooting.likelihood import MultipleShooting
from sim_core.system import System

TRUTH = np.array([7.5, 0.7])
LIMITS = {"stiffness": (4.0, 9.0), "damping": (0.1, 0.95)}


@pytest.fixture(scope="module")
def pendulum():
    return learnt_pendulum()


def test_it_has_learnt_the_pendulum_and_is_a_system(pendulum):
    assert trained()[-1] < 0.05 and isinstance(pendulum, System)
    p = pendulum.nominal
    X = pendulum.rollout([0.5, 0.0], np.zeros((40, 1)), p)
    x, v = 0.5, 0.0
    for k in range(40):  # the equation it was shown, by the same scheme
        v += DT * (-p[0] * np.sin(x) - p[1] * v)
        x += DT * v
        assert abs(X[k + 1, 0] - x) < 0.1


def test_derivatives_and_batches(pendulum):
    X, U = driven(pendulum, pendulum.nominal)
    check_derivatives(pendulum, X[0, 5], U[0, 5], U[0, :12], pendulum.nominal)
    check_batches(pendulum, X, U, pendulum.nominal)


def test_the_plan_lifts_it_and_is_scipys_optimum(pendulum):
    cost = Cost(pendulum, [StateTerm([0.1, 0.01], [500.0, 50.0]), ControlTerm(1e-2)])
    solver = solver_for(pendulum, cost, IlqrConfig(40, DT, max_iterations=100, tolerance=1e-12))
    goal = np.array([1.2, 0.0])  # more than the torque can hold: it must swing there
    result = check_plan(solver, np.zeros(2), np.zeros((40, 1)), cost.reference(40, state=goal))
    assert np.abs(result.X[-1] - goal).max() < 0.05 and np.abs(result.U).max() > 2.9


def test_csvgd_recovers_the_physical_inputs_within_its_spread(pendulum):
    parameters = ParameterBox(pendulum, LIMITS)
    X, U = driven(pendulum, parameters.to_physical(TRUTH))
    e = 0.05 * X.std((0, 1)) * np.random.default_rng(0).standard_normal(X.shape)
    e[:, 0] = 0
    density = MultipleShooting(
        pendulum, parameters, Trajectories(DT, X + e, U), windows=4, sigma_obs=0.05, combine="product"
    )
    rng = np.random.default_rng(1)
    z, step = rng.uniform(0.3, 0.7, (3, 2)), 1e-6
    _, grad = density.log_p_and_grad(z)
    for i, d in enumerate(step * np.eye(2)):
        numeric = (density.log_p(z + d) - density.log_p(z - d)) / (2 * step)
        assert np.abs(grad[:, i] - numeric).max() < 1e-6 * np.abs(grad).max()
    found = sample("csvgd", density, 16, iterations=30, seed=0)
    theta = density.theta(found.z)
    assert found.trace.extra["defect"][-1] < 2.0
    assert (np.abs(theta.mean(0) - TRUTH) < 3 * theta.std(0) + 1e-3).all()
    assert (theta.std(0) < 0.15 * density.width).all()


def window_of(system, p, noise=(1e-4, 1e-3)):
    X, U = driven(system, p, steps=120, trajectories=1)
    X = X[0] + np.random.default_rng(2).standard_normal(X[0].shape) * noise
    return DT * np.arange(len(X)), X[:, :1], X[:, 1:], U[0]


CONFIG = RefitConfig(segment_length=10, time_budget=np.inf)


def test_refit_finds_a_change_of_the_physical_inputs(pendulum):
    refit = Refit(pendulum, ParameterBox(pendulum, LIMITS), CONFIG)
    assert np.array_equal(refit.spec.prior_mean, list(PHYSICS.values()))
    t, q, v, u = window_of(pendulum, refit.spec.to_physical(TRUTH))
    result = refit.fit(Window(t, q, v, u))
    std = np.sqrt(np.diag(result.covariance))
    assert result.accepted and (np.abs(result.xi - TRUTH) < 4 * std + 1e-3).all() and (std < [0.3, 0.1]).all()


def test_refit_finds_another_last_layer(pendulum):
    last = pendulum.nominal[2:]
    parameters = ParameterBox(
        pendulum,
        {f"last.{i}": (w - 2.0, w + 2.0) for i, w in enumerate(last)},
        prior={f"last.{i}": (w, 0.1) for i, w in enumerate(last)},
    )
    rng = np.random.default_rng(4)
    real = pendulum.nominal.copy()
    real[2:] += 0.1 * rng.standard_normal(len(last))
    t, q, v, u = window_of(pendulum, real)
    result = Refit(pendulum, parameters, CONFIG).fit(Window(t, q, v, u))
    assert result.accepted and result.loss_after < 0.1 * result.loss_before
    before, after = (
        np.abs(pendulum.rollout([0.3, 0.0], u, p) - pendulum.rollout([0.3, 0.0], u, real)).max()
        for p in (pendulum.nominal, result.p)
    )
    assert after < 0.1 * before


def test_refit_refuses_a_window_of_nan(pendulum):
    t, q, v, u = window_of(pendulum, pendulum.nominal)
    result = Refit(pendulum, ParameterBox(pendulum, LIMITS), CONFIG).fit(contiguous_windows(t, q, v * np.nan, u, DT))
    assert not result.accepted and "no usable data" in result.reason
