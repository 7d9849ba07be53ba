"""The allowance for held parameters against Bayes' rule in closed form: a linear model with normal noise and priors."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from sim_core.inference.fit.considered import NOTHING, Considered, consider
from sim_core.inference.shooting.shooting import NormalEquations

#: fitted coordinates, those held of two kinds, and readings
N, KINDS, READINGS = 2, {"gears": np.array([2, 3, 4]), "tilt": np.array([5])}, 12
FITTED = np.arange(N)


def problem(seed, theta_true, segments=1, repeat=1):
    """Design (m, 6), readings (m,), prior's standard deviations (6,), and which segment a reading is of; the prior's means are zero."""
    rng = np.random.default_rng(seed)
    J = rng.standard_normal((READINGS * segments, 6))
    y = J @ theta_true + rng.standard_normal(len(J))
    J, y = np.repeat(J, repeat, axis=0), np.repeat(y, repeat)
    return J, y, np.array([3.0, 3.0, 1.5, 1.5, 1.5, 1.0]), np.repeat(np.arange(segments), READINGS * repeat)


def equations(J, y, std, segment):
    """Normal equations where the fitted coordinates are at their optimum and the others are held at zero, and that optimum."""
    L = np.diag(1.0 / std**2)
    a = np.linalg.solve((J.T @ J + L)[:N, :N], J[:, :N].T @ y)
    theta = np.concatenate([a, np.zeros(4)])
    scores = np.stack([J[segment == s].T @ (J @ theta - y)[segment == s] for s in range(segment.max() + 1)])
    hessians = np.stack([J[segment == s].T @ J[segment == s] for s in range(segment.max() + 1)])
    none = np.zeros(0)
    return NormalEquations(
        cost=0.0,
        gradient=scores.sum(0) + L @ theta,
        hessian=hessians.sum(0) + L,
        segment_hessians=hessians,
        scores=scores,
        start_step=none,
        start_slope=none,
        start_gain=0.0,
        leverage=none,
    ), a


def bayes(J, y, std, columns):
    """Evidence (logarithm), posterior mean and covariance of the columns' coordinates, all others being zero."""
    G, P = J[:, columns], np.diag(std[columns] ** 2)
    log = multivariate_normal(np.zeros(len(y)), G @ P @ G.T + np.eye(len(y))).logpdf(y)
    V = np.linalg.inv(G.T @ G + np.linalg.inv(P))
    return log, V @ G.T @ y, V


@pytest.mark.parametrize("held", [(0.0, 0.0, 0.0, 0.0), (0.6, -0.4, 0.3, 0.0), (0.0, 0.0, 0.0, 1.5)])
def test_it_is_bayes_rule(held):
    J, y, std, segment = problem(0, np.array([1.0, -2.0, *held]))
    normal, a = equations(J, y, std, segment)
    doubt = consider(normal, FITTED, KINDS, std)
    own = np.linalg.inv(normal.hessian[:N, :N])
    logs, spreads = [bayes(J, y, std, FITTED)[0]], []
    for members in KINDS.values():
        log, mean, V = bayes(J, y, std, np.concatenate([FITTED, members]))
        logs.append(log)
        off = mean[:N] - a
        spreads.append(V[:N, :N] + np.outer(off, off) - own)  # about what the fit says, beyond its own
    weights = np.array([NOTHING, *[(1.0 - NOTHING) / 2] * 2]) * np.exp(np.array(logs) - max(logs))
    weights /= weights.sum()
    assert list(doubt.probability.values()) == pytest.approx(weights[1:].tolist(), abs=1e-12)
    assert np.allclose(doubt.covariance, sum(w * s for w, s in zip(weights[1:], spreads)), atol=1e-12)


def test_the_kind_that_is_off_is_named_and_none_where_none_is():
    for kind, held in (("gears", (0.8, -0.9, 0.7, 0.0)), ("tilt", (0.0, 0.0, 0.0, 1.5))):
        J, y, std, segment = problem(1, np.array([1.0, -2.0, *held]), segments=10)
        doubt = consider(equations(J, y, std, segment)[0], FITTED, KINDS, std)
        assert doubt.suspect[0] == kind and doubt.suspect[1] > 0.95
    J, y, std, segment = problem(1, np.array([1.0, -2.0, 0.0, 0.0, 0.0, 0.0]), segments=10)
    normal, _ = equations(J, y, std, segment)
    doubt = consider(normal, FITTED, KINDS, std)
    assert doubt.suspect[1] < 0.2
    assert (np.diag(doubt.covariance) < np.diag(np.linalg.inv(normal.hessian[:N, :N]))).all()


def test_intervals_hold_what_a_fit_that_holds_too_much_misses():
    """Forty robots whose gears are off as the prior says: a share of 0.95 of the truths, where the fit alone holds fewer than 0.8."""
    held, alone, count = 0, 0, 0
    for seed in range(40):
        std = problem(seed, np.zeros(6))[2]
        true = np.array([1.0, -2.0, *(std[2:5] * np.random.default_rng(100 + seed).standard_normal(3)), 0.0])
        J, y, std, segment = problem(seed, true, segments=4)
        normal, a = equations(J, y, std, segment)
        own = np.linalg.inv(normal.hessian[:N, :N])
        whole = own + consider(normal, FITTED, KINDS, std).covariance
        off = np.abs(a - true[:N])
        held, alone = (
            held + np.sum(off < 1.96 * np.sqrt(np.diag(whole))),
            alone + np.sum(off < 1.96 * np.sqrt(np.diag(own))),
        )
        count += N
    assert held / count >= 0.9 and alone / count < 0.8


def test_readings_that_repeat_each_other_say_no_more_than_one():
    """Nothing is off. Each reading of ten segments nine times over: nine times the curvature, and a ninefold weight of its noise."""
    true = np.array([1.0, -2.0, 0.0, 0.0, 0.0, 0.0])
    once, again = (
        consider(equations(J, y, std, segment)[0], FITTED, KINDS, std).probability["gears"]
        for J, y, std, segment in (problem(2, true, segments=10, repeat=count) for count in (1, 9))
    )
    assert once < 0.1 and again < 2.0 * once


def test_what_is_held_stays_where_it_is():
    class Spec:
        names = ("mass", "gear", "com")

    held = Considered(Spec(), np.array([1.0, 2.0, 3.0]), {"gears": ("gear",)})
    assert held.indices(("com", "mass")).tolist() == [2, 0]
    assert held.around(("com", "mass"), np.array([7.0, 8.0])).tolist() == [8.0, 2.0, 7.0]
