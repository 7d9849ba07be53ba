"""Beliefs: against dense algebra, central differences, quadrature and draws; and parameters that are known."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from sim_core.auscultation.regions import places
from sim_core.planning.acquisition import ACQUISITIONS, expected_improvement
from sim_core.planning.map_estimate import map_estimate
from sim_core.planning.parametric_mean import LandmarkMean, ZeroMean
from sim_core.planning.residual_process import ResidualProcess, SquaredExponential
from sim_core.planning.surrogate import MarginalSparGp, SparGp

MARKS = np.array(list(places("heart", "front").values()))
MEAN = LandmarkMean(MARKS)


def readings(rng, count):
    return rng.uniform([-0.06, -0.06], [0.12, 0.09], (count, 2)), rng.uniform(0.0, 1.0, count)


# ---- the residual process ------------------------------------------------------------------------


def test_mean_and_deviation_are_those_of_a_dense_solve():
    rng = np.random.default_rng(0)
    x, y = readings(rng, 30)
    at = rng.uniform(-0.1, 0.1, (50, 2))
    kernel, noise = SquaredExponential(0.02, 1.3), 0.0417
    covariance = np.array([[1.3 * np.exp(-np.sum((a - b) ** 2) / (2 * 0.02**2)) for b in x] for a in x])
    cross = np.array([[1.3 * np.exp(-np.sum((a - b) ** 2) / (2 * 0.02**2)) for b in x] for a in at])
    inverse = np.linalg.inv(covariance + noise * np.eye(30))
    process = ResidualProcess(kernel, noise, x)
    np.testing.assert_allclose(process.predict(y, at)[0], cross @ inverse @ y, atol=1e-8)
    variance = 1.3 - np.einsum("ij,jk,ik->i", cross, inverse, cross)
    np.testing.assert_allclose(process.predict(y, at)[1] ** 2, variance, atol=1e-8)
    several = np.stack([y, 2.0 * y, y - 0.3])
    np.testing.assert_allclose(process.predict(several, at)[0][2], process.predict(y - 0.3, at)[0], atol=1e-12)
    expected = multivariate_normal(np.zeros(30), covariance + noise * np.eye(30)).logpdf(several)
    np.testing.assert_allclose(process.log_likelihood(several), expected, rtol=1e-9)


def test_it_is_scikit_learns():
    gaussian_process = pytest.importorskip("sklearn.gaussian_process")
    rng = np.random.default_rng(1)
    x, y = readings(rng, 12)
    at = rng.uniform(-0.1, 0.1, (40, 2))
    theirs = gaussian_process.GaussianProcessRegressor(
        gaussian_process.kernels.RBF(0.02), alpha=0.0417, optimizer=None, normalize_y=False
    ).fit(x, y)
    mean, deviation = theirs.predict(at, return_std=True)
    means, deviations = SparGp(ZeroMean()).fit(x, y, np.zeros(0)).predict(at)
    np.testing.assert_allclose(means[0], mean, atol=1e-10)
    np.testing.assert_allclose(deviations[0], deviation, atol=1e-8)


# ---- the parametric mean -------------------------------------------------------------------------


def test_the_mean_is_the_formula_and_its_jacobian_its_derivative():
    rng = np.random.default_rng(2)
    x, theta = rng.uniform(-0.1, 0.1, (20, 2)), np.array([0.007, -0.004, 1.2])
    by_hand = [1.2 * 0.75 * max(np.exp(-np.hypot(*(p - theta[:2] - mark)) / 0.022) for mark in MARKS) for p in x]
    np.testing.assert_allclose(MEAN.value(theta, x), by_hand, rtol=1e-12)
    np.testing.assert_allclose(MEAN.value(np.stack([MEAN.default, theta]), x)[1], by_hand, rtol=1e-12)
    step = 1e-7
    central = [(MEAN.value(theta + step * e, x) - MEAN.value(theta - step * e, x)) / (2 * step) for e in np.eye(3)]
    np.testing.assert_allclose(MEAN.jacobian(theta, x), np.stack(central, 1), atol=1e-5)


def test_a_displaced_prior_is_found():
    """200 displacements and scales, two readings in each of four regions: the specification's acceptance item 2."""
    closer, ratios = [], []
    for seed in range(200):
        rng = np.random.default_rng([seed, 3])
        moved, scale = rng.uniform(-0.02, 0.02, 2), rng.uniform(0.7, 1.3)
        prior = LandmarkMean(MARKS + moved, height=0.75 * scale)
        angle, radius = rng.uniform(0, 2 * np.pi, 8), 0.03 * np.sqrt(rng.uniform(0, 1, 8))
        x = np.repeat(prior.landmarks, 2, axis=0) + radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1)
        process = ResidualProcess(SquaredExponential(), 0.0417, x)
        found = map_estimate(prior, process, MEAN.value(MEAN.default, x), prior.default)
        truth = np.array([*-moved, 1.0 / scale])
        off = [np.linalg.norm((theta - truth) / prior.deviation) for theta in (found, prior.default)]
        closer.append(off[0] < off[1])
        ratios.append(np.linalg.norm(found[:2] - truth[:2]) / np.linalg.norm(moved))
    assert np.mean(closer) >= 0.95 and np.median(ratios) <= 0.45


@pytest.mark.parametrize("likelihood", ["independent", "joint"])
def test_no_point_of_a_lattice_is_more_probable(likelihood):
    rng = np.random.default_rng(4)
    x, noise = np.repeat(MARKS, 2, axis=0) + rng.normal(0, 0.015, (8, 2)), 0.0417
    y = np.clip(LandmarkMean(MARKS + [0.012, -0.008]).value(MEAN.default, x) * 0.8 + rng.normal(0, 0.05, 8), 0, 1)
    kernel = SquaredExponential(0.02, 0.1)
    found = map_estimate(MEAN, ResidualProcess(kernel, noise, x), y, MEAN.default, likelihood)
    covariance = noise * np.eye(8) + (kernel(x, x) if likelihood == "joint" else 0.0)

    def log_posterior(theta):
        return multivariate_normal(np.zeros(8), covariance).logpdf(y - MEAN.value(theta, x)) + norm(
            MEAN.default, MEAN.deviation
        ).logpdf(theta).sum(-1)

    axes = [d + s * np.linspace(-2.5, 2.5, 31) for d, s in zip(MEAN.default, MEAN.deviation)]
    lattice = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 3)
    assert log_posterior(found) >= log_posterior(lattice).max() - 1e-9


def test_all_residuals_are_taken_anew():
    """With next to no noise the belief goes through every reading, whatever the parameters have become since."""
    rng = np.random.default_rng(5)
    x, y = readings(rng, 6)
    model = SparGp(MEAN, noise=1e-8)
    first = model.fit(x[:3], y[:3], MEAN.default)
    after = model.fit(x, y, first.theta)
    assert np.abs(after.theta - first.theta).max() > 1e-3
    mean, deviation = after.moments(x)
    np.testing.assert_allclose(mean, y, atol=1e-4)
    assert deviation.max() < 1e-3


def test_integration_agrees_with_quadrature():
    """One pair of variances, so that the belief is an integral over three parameters alone."""
    rng = np.random.default_rng(6)
    x = np.repeat(MARKS, 2, axis=0)[:5] + rng.normal(0, 0.012, (5, 2))
    y = LandmarkMean(MARKS + [0.01, 0.005]).value(MEAN.default, x)
    at = np.array([[-0.03, 0.06], [0.03, -0.02], [0.05, 0.05], [0.1, -0.03]])
    signal, noise = 0.15, 0.1
    model = MarginalSparGp(MEAN, signals=(signal,), noises=(noise,), draws=4096, components=2048)
    belief = model.fit(x, y, MEAN.default)
    axes = [d + s * np.linspace(-4, 4, 61) for d, s in zip(MEAN.default, MEAN.deviation)]
    lattice = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 3)
    process = ResidualProcess(SquaredExponential(0.02, signal**2), noise**2, x)
    off = y - MEAN.value(lattice, x)
    log = process.log_likelihood(off) + norm(MEAN.default, MEAN.deviation).logpdf(lattice).sum(1)
    weights = np.exp(log - log.max()) / np.exp(log - log.max()).sum()
    residual, spread = process.predict(off, at)
    means = MEAN.value(lattice, at) + residual
    mean = weights @ means
    deviation = np.sqrt(weights @ (spread**2 + (means - mean) ** 2))
    np.testing.assert_allclose((belief.theta - weights @ lattice) / MEAN.deviation, 0.0, atol=0.03)
    ours = belief.moments(at)
    np.testing.assert_allclose(ours[0], mean, atol=0.01)
    np.testing.assert_allclose(ours[1], deviation, atol=0.01)


def test_it_decides_between_variances():
    """Readings that scatter widely make the belief wide, exact ones make it narrow."""
    rng = np.random.default_rng(7)
    x = np.repeat(MARKS, 5, axis=0) + rng.normal(0, 0.012, (20, 2))
    exact = MEAN.value(MEAN.default, x)
    at = MARKS + [0.004, 0.004]
    deviations = [
        MarginalSparGp(MEAN).fit(x, y, MEAN.default).moments(at)[1].max()
        for y in (exact, np.clip(exact + rng.normal(0, 0.3, 20), 0, 1))
    ]
    assert deviations[0] < 0.06 < deviations[1]


# ---- acquisitions --------------------------------------------------------------------------------


def test_expected_improvement_is_that_of_draws():
    rng = np.random.default_rng(8)
    weights, means, deviations = np.array([0.3, 0.7]), rng.uniform(0, 1, (2, 3)), rng.uniform(0.05, 0.5, (2, 3))
    part = rng.choice(2, p=weights, size=2_000_000)
    for m in range(3):
        draws = means[part, m] + deviations[part, m] * rng.standard_normal(len(part))
        worth = expected_improvement(weights, means, deviations, 0.6)[m]
        assert worth == pytest.approx(np.maximum(draws - 0.6, 0).mean(), abs=1e-3)
    certain = expected_improvement(np.ones(1), np.array([[0.9, 0.2]]), np.zeros((1, 2)), 0.6)
    np.testing.assert_allclose(certain, [0.3, 0.0], atol=1e-12)


def test_the_others_are_their_formulas():
    weights, means, deviations = np.array([0.5, 0.5]), np.array([[0.2], [0.6]]), np.array([[0.1], [0.3]])
    spread = np.sqrt(0.5 * (0.1**2 + 0.3**2) + 0.2**2)
    assert ACQUISITIONS["ucb"](weights, means, deviations, 0.0, 1.5)[0] == pytest.approx(0.4 + 1.5 * spread)
    assert ACQUISITIONS["greedy"](weights, means, deviations, 0.0, 1.5)[0] == pytest.approx(0.4)


@pytest.mark.parametrize(
    "make, says",
    [
        (lambda: LandmarkMean(np.zeros((0, 2))), "landmarks are finite places of shape"),
        (lambda: LandmarkMean(np.array([[0.0, np.nan]])), "landmarks are finite places"),
        (lambda: LandmarkMean(MARKS, decay=0.0), "greater than 0"),
        (lambda: SquaredExponential(-1.0), "greater than 0, not -1.0"),
        (lambda: ResidualProcess(SquaredExponential(), 0.0, MARKS), "noise is greater than 0"),
    ],
)
def test_impossible_settings_are_refused(make, says):
    with pytest.raises(ValueError, match=says):
        make()
