"""Gaussian process and kernel ridge regression, against scikit-learn and against their own equations."""

import numpy as np
import pytest

from sim_core.telepresence.hand.kernel_regression import (
    ALPHAS,
    GAMMAS,
    _squares,
    _unlikelihood,
    fit_gaussian_process,
    fit_kernel_ridge,
)

K = np.arange(36)
X = np.column_stack([np.sin(1.3 * K), np.cos(0.7 * K * K), 2.0 * np.sin(0.31 * K + 1.0), 0.02 * K])
Y = np.column_stack([np.sin(X[:, 0] + X[:, 2]) + 0.1 * np.sin(97.0 * K), X[:, 1] * X[:, 3] + 0.1 * np.cos(53.0 * K)])
N = np.arange(3)
ASKED = np.column_stack([np.sin(2.1 * N), np.cos(1.9 * N), np.array([0.5, -0.5, 1.0]), np.array([0.1, 0.3, 0.6])])


def test_the_process_is_that_of_scikit_learn():
    # scikit-learn 1.9.1: GaussianProcessRegressor(RBF() + WhiteKernel(), normalize_y=True, n_restarts_optimizer=8) on
    # standardised inputs found RBF(1.33) + WhiteKernel(0.0128)
    theirs = [[0.491742, 0.11280779], [0.42383654, -0.06000475], [-0.43567185, -0.14847152]]
    fit = fit_gaussian_process(X, Y)
    assert fit(ASKED) == pytest.approx(np.array(theirs), abs=2e-6)
    assert np.sqrt(0.5 / fit.gamma) == pytest.approx(1.33, abs=5e-3)


def test_kernel_ridge_is_that_of_scikit_learn():
    # scikit-learn 1.9.1: GridSearchCV(KernelRidge("rbf"), ALPHAS x GAMMAS, cv=LeaveOneGroupOut()) on standardised inputs and
    # centred targets chose alpha 0.001 and gamma 0.4361
    theirs = [[0.54015858, 0.10881805], [0.39363576, -0.09302868], [-0.39814042, -0.09768458]]
    fit = fit_kernel_ridge(X, Y, K // 3)
    assert fit(ASKED) == pytest.approx(np.array(theirs), abs=1e-7)
    assert fit.gamma == GAMMAS[6] and ALPHAS[0] == pytest.approx(1e-3)


def test_the_gradient_of_the_likelihood_is_that_of_central_differences():
    squares, theta, step = _squares(X, X), np.log([0.8, 0.05]), 1e-5
    value, gradient = _unlikelihood(theta, squares, Y)
    for k in range(2):
        d = step * np.eye(2)[k]
        rise = _unlikelihood(theta + d, squares, Y)[0] - _unlikelihood(theta - d, squares, Y)[0]
        assert gradient[k] == pytest.approx(rise / (2 * step), rel=1e-6)
    # the density of each column under N(0, K + s I), term by term
    A = np.exp(-0.5 * squares / 0.8**2) + 0.05 * np.eye(len(X))
    direct = sum(0.5 * (y @ np.linalg.inv(A) @ y + np.linalg.slogdet(2 * np.pi * A)[1]) for y in Y.T)
    assert value == pytest.approx(direct)


def test_a_process_tells_noise_from_what_it_rides_on():
    rng = np.random.default_rng(0)
    x = rng.uniform(-2.0, 2.0, (150, 1))
    y = np.sin(2.0 * x) + 0.3 * rng.standard_normal(x.shape)
    asked = np.linspace(-1.8, 1.8, 50)[:, None]
    assert np.sqrt(np.mean((fit_gaussian_process(x, y)(asked) - np.sin(2.0 * asked)) ** 2)) < 0.12


def test_groups_are_left_out_whole():
    # Ten rows of each of eight poses, alike but for a hair, with an error that a pose's rows share: whoever is judged by rows
    # of the same pose learns the errors by heart.
    pose, asked = np.linspace(-1.0, 1.0, 8), np.linspace(-0.9, 0.9, 30)[:, None]
    errors = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        x = np.repeat(pose, 10)[:, None] + 1e-3 * rng.standard_normal((80, 1))
        y = np.repeat(pose + 0.4 * rng.standard_normal(8), 10)[:, None]
        fits = [
            fit_kernel_ridge(x, y, groups, gammas=(0.03, 0.3, 3.0, 30.0))
            for groups in (np.repeat(np.arange(8), 10), np.arange(80))
        ]
        errors.append([np.sqrt(np.mean((fit(asked) - asked) ** 2)) for fit in fits])
    by_pose, by_row = np.mean(errors, axis=0)
    assert by_pose < 0.85 * by_row


def test_a_constant_channel_is_of_no_effect():
    x = np.column_stack([X[:, :1], np.ones(len(X))])
    fit = fit_gaussian_process(x, Y)
    assert np.isfinite(fit(x)).all() and fit(x[:3]) == pytest.approx(fit_gaussian_process(X[:, :1], Y)(X[:3, :1]))


@pytest.mark.parametrize(
    "x, y, said",
    [
        (X, Y[:5], "as many rows"),
        (X[:1], Y[:1], "two or more"),
        (np.where(X > 1.9, np.nan, X), Y, "finite numbers"),
    ],
)
def test_what_nothing_can_be_learnt_from_is_refused(x, y, said):
    with pytest.raises(ValueError, match=said):
        fit_gaussian_process(x, y)
    with pytest.raises(ValueError, match=said):
        fit_kernel_ridge(x, y, np.arange(len(x)))


def test_one_group_alone_is_refused():
    with pytest.raises(ValueError, match="at least two groups"):
        fit_kernel_ridge(X, Y, np.zeros(len(X)))
