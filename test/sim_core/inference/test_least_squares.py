"""The minimiser and its covariance: closed forms, Monte Carlo coverage, bounds, endings."""

import numpy as np
import pytest
from linear import TRUTH, LinearDynamics, LinearParameters
from toy import TRUTH as TOY_TRUTH
from toy import ToyDynamics, ToyParameters, excite

from sim_core.inference.data.window import Window
from sim_core.inference.fit.covariance import posterior
from sim_core.inference.fit.least_squares import Ending, minimise
from sim_core.inference.shooting.shooting import DelayPrior, ShootingProblem

NOISE = np.array([0.02, 0.05])


def linear_problem(seed, transitions=200, length=20, loss="gaussian", correlation=0.0, outliers=0.0, **prior):
    rng = np.random.default_rng(seed)
    dynamics = LinearDynamics()
    u = rng.standard_normal((transitions, 1))
    X = dynamics.rollout(np.zeros((1, 2)), u[None], TRUTH)[0]
    e = rng.standard_normal(X.shape)
    for k in range(1, len(e)):
        e[k] = correlation * e[k - 1] + np.sqrt(1 - correlation**2) * e[k]
    e[rng.random(len(e)) < outliers] *= 30
    Y = X + NOISE * e
    window = Window(dynamics.dt * np.arange(transitions + 1), Y[:, :1], Y[:, 1:], u)
    return ShootingProblem(dynamics, LinearParameters(**prior), [window], length, loss=loss)


def test_linear_problem_has_the_closed_form_answer_and_covariance():
    problem = linear_problem(0)
    solution = minimise(problem, np.zeros(3), scale=NOISE)
    assert solution.ending is Ending.CONVERGED and solution.evaluations <= 12
    J = (problem.evaluate(np.zeros(3), problem.measured_starts).jacobian / NOISE[:, None]).reshape(
        len(problem.times), -1, 5
    )
    H, g = np.diag(1 / problem.prior_std**2), np.zeros(3)
    r0 = problem.evaluate(np.zeros(3), np.zeros_like(problem.measured_starts)).residual / NOISE
    for Js, rs in zip(J, r0.reshape(len(J), -1)):
        Z, T = Js[:, :2], Js[:, 2:]
        P = np.eye(len(Z)) - Z @ np.linalg.solve(Z.T @ Z, Z.T)  # projects the start away
        H, g = H + T.T @ P @ T, g + T.T @ P @ rs
    np.testing.assert_allclose(solution.theta, -np.linalg.solve(H, g), rtol=1e-5, atol=1e-6)
    independent = posterior(problem, solution).covariance / np.outer(*[posterior(problem, solution).inflation] * 2)
    m = np.mean((solution.rollout.residual / NOISE) ** 2)  # measured residual variance, 1 in expectation
    A, L = solution.normal.data_hessian, np.diag(1 / problem.prior_std**2)
    C = np.linalg.inv(A + L)
    expected = C @ (m * A + L) @ C
    # Inflated coordinates also carry Student's quantile; the inert one carries neither.
    assert independent[2, 2] == pytest.approx(expected[2, 2], rel=1e-6)
    assert np.all(np.diag(independent)[:2] >= np.diag(expected)[:2] * (1 - 1e-9))


@pytest.mark.parametrize(
    "options",
    [
        dict(),
        dict(loss="huber"),
        dict(loss="huber", outliers=0.05),
        dict(loss="huber", correlation=0.8),
        dict(length=8, correlation=0.5),
    ],
    ids=["gaussian", "huber", "outliers", "correlated", "short segments"],
)
def test_intervals_cover_the_truth(options):
    """95 % intervals over 100 seeds: at least 90 % (two binomial sigma below 0.95), not absurdly wide."""
    hits, errors, widths = [], [], []
    for seed in range(100):
        problem = linear_problem(seed, **options)
        solution = minimise(problem, np.zeros(3))
        std = posterior(problem, solution).std[:2]
        error = solution.theta[:2] - TRUTH[:2]
        hits.append(np.abs(error) < 1.96 * std)
        errors.append(error)
        widths.append(std)
    cover = np.mean(hits, axis=0)
    assert (cover >= 0.90).all(), cover
    assert (np.mean(widths, 0) < 1.8 * np.std(errors, 0)).all()


def test_robust_loss_survives_outliers_that_ruin_least_squares():
    errors = {
        loss: np.mean(
            [abs(minimise(linear_problem(s, outliers=0.1, loss=loss), np.zeros(3)).theta[0] - 2.0) for s in range(20)]
        )
        for loss in ("gaussian", "huber", "student_t")
    }
    assert errors["huber"] < 0.3 * errors["gaussian"] and errors["student_t"] < 0.3 * errors["gaussian"]


def test_unexcited_coordinate_keeps_its_prior_and_is_named():
    problem = linear_problem(1, mean=(0.0, 0.0, 0.7))
    solution = minimise(problem, np.array([0.0, 0.0, -2.0]))
    found = posterior(problem, solution)
    assert solution.theta[2] == pytest.approx(0.7)
    assert found.excited.tolist() == [True, True, False] and found.rank == 2
    assert found.std[2] == pytest.approx(3.0)


def test_bounds_hold_and_are_named_while_the_rest_is_optimal():
    problem = linear_problem(2, upper=1.5)
    solution = minimise(problem, np.zeros(3))
    found = posterior(problem, solution)
    assert solution.theta[0] == 1.5 and found.at_bound.tolist() == [True, False, False]
    assert abs(solution.normal.gradient[1]) < 1e-2 * np.sqrt(solution.normal.hessian[1, 1])


def test_noise_free_recovery_from_a_wrong_start():
    dynamics = ToyDynamics(0.01)
    X, _, u = excite(dynamics, 150, 4)
    window = Window(0.01 * np.arange(151), X[:, :2], X[:, 2:], u)
    problem = ShootingProblem(dynamics, ToyParameters(), [window], 15)
    solution = minimise(problem, problem.prior_mean)
    np.testing.assert_allclose(np.exp(solution.theta[:5]), TOY_TRUTH[:5], rtol=1e-4)
    assert all(b < a for a, b in zip(solution.costs, solution.costs[1:])) or solution.evaluations < 20


def test_sensor_delay_is_recovered_within_its_interval():
    dynamics, delay = ToyDynamics(0.002), 0.0033
    X, _, u = excite(dynamics, 1000, 5)
    t = 0.002 * np.arange(1001)
    late = np.stack([np.interp(t - delay, t, X[:, j]) for j in range(4)], 1)[10:]
    late += np.random.default_rng(0).standard_normal(late.shape) * [2e-4, 2e-4, 2e-3, 2e-3]
    window = Window(t[10:], late[:, :2], late[:, 2:], u[10:])
    problem = ShootingProblem(dynamics, ToyParameters(), [window], 50, delay=DelayPrior(0.001, 0.003, 0.0, 0.008))
    solution = minimise(problem, problem.prior_mean, max_evaluations=30)
    std = posterior(problem, solution).std
    assert abs(solution.theta[-1] - delay) < 2.5 * std[-1] and std[-1] < 2e-4
    assert np.all(np.abs(solution.theta[:5] - np.log(TOY_TRUTH[:5])) < 3.0 * std[:5])


def test_endings_say_what_to_do():
    problem = linear_problem(3)
    assert minimise(problem, np.zeros(3), max_evaluations=1).ending is Ending.EVALUATIONS
    assert minimise(problem, np.zeros(3), time_budget=0.0).ending is Ending.TIME
    assert minimise(problem, np.full(3, np.nan)).ending is Ending.NOT_FINITE
    assert all(ending.value for ending in Ending)
