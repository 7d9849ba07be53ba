"""The simulator's errors, fitted: closed forms, gradients, recovery of sizes, and intervals under a wrong model."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from experiments.problems.known_truths import problem
from experiments.problems.wrong_models import WrongModel
from sim_core.inference.posterior import error_model
from sim_core.inference.posterior.error_model import ErrorModel, _averaged, _spread_out
from sim_core.inference.posterior.error_sizes import (
    BROAD,
    SIZES,
    LinearRecording,
    drawn_sizes,
    likely_sizes,
    log_density,
)
from sim_core.inference.posterior.stein_check import stein_check
from sim_core.inference.samplers import sample


@pytest.fixture(scope="module")
def cartpole():
    return problem("cartpole")


@pytest.fixture(scope="module")
def rubbed(cartpole):
    """A recording of a cart-pole whose gears have a friction that the model has not: truth, likelihood, errors."""
    truth, data = WrongModel.of(cartpole, "hidden friction").drawn(3)
    likelihood = cartpole.density(data, 1)
    rough = sample("emcee", likelihood, 20, 100, 0)
    return truth, likelihood, ErrorModel.fitted(likelihood, rough.z[np.argmax(rough.log_p)], 0)


def test_the_marginal_is_that_of_the_whole_gaussian():
    """Against the dense covariance of noise, process, causes and a broad z."""
    rng = np.random.default_rng(0)
    R, D, M, K = 2, 5, 2, 3
    basis = np.array([np.linalg.qr(rng.normal(size=(D, D)))[0] for _ in range(R)])
    spread, kind = rng.uniform(0, 3, (R, D)), np.array([2, 3, 3])
    residual, slope, effects = rng.normal(size=(R, D)), rng.normal(size=(R, D, M)), rng.normal(size=(R, D, K))
    z = np.array([0.3, 0.8])
    linear = LinearRecording(z, basis, spread, residual, slope, effects, kind)
    sizes = np.array([0.7, 0.3, 1.2, 0.4, 1.0, 1.0, 1.0, 1.0, 1.0])
    J, E = slope.reshape(R * D, M), (effects * sizes[kind]).reshape(R * D, K)
    noise = np.diag((sizes[0] ** 2 + sizes[1] ** 2 * spread).ravel())
    covariance = noise + E @ E.T + BROAD**2 * J @ J.T
    value, mean, factor = linear.marginal(sizes)
    dense = multivariate_normal(J @ (0.5 - z), covariance)
    # Densities up to what does not depend on the sizes.
    expected = dense.logpdf(residual.ravel()) + 0.5 * R * D * np.log(2 * np.pi) + M * np.log(BROAD)
    np.testing.assert_allclose(value, expected, rtol=1e-10)
    gain = BROAD**2 * J.T @ np.linalg.inv(covariance)
    np.testing.assert_allclose(mean - z, (0.5 - z) + gain @ (residual.ravel() - J @ (0.5 - z)), rtol=1e-9)
    inverse = np.linalg.inv(factor @ factor.T)[:M, :M]
    np.testing.assert_allclose(inverse, BROAD**2 * (np.eye(M) - gain @ J), rtol=1e-8)


@pytest.mark.parametrize("T", [7, error_model.MOST, 2 * error_model.MOST + 13])
def test_averages_keep_white_noise_and_their_transpose_is_one(T):
    rng = np.random.default_rng(1)
    a = rng.normal(size=(2000, T, 1))
    b = _averaged(a)
    assert b.shape[1] == min(T, error_model.MOST) and abs(b.std() - 1.0) < 0.01
    c = rng.normal(size=b.shape)
    np.testing.assert_allclose((b * c).sum(), (a * _spread_out(c, T)).sum())


def test_the_gradient_is_that_of_the_density(rubbed):
    truth, _, errors = rubbed
    density, step = errors.density(), 1e-5
    z = np.clip(truth + 0.02 * np.random.default_rng(0).standard_normal((4, 3)), 0.05, 0.95)
    log_p, grad = density.log_p_and_grad(z)
    np.testing.assert_array_equal(log_p, density.log_p(z))
    numeric = np.stack([density.log_p(z + e) - density.log_p(z - e) for e in step * np.eye(3)], axis=-1) / (2 * step)
    np.testing.assert_allclose(grad, numeric, rtol=1e-4, atol=1e-4 * np.abs(numeric).max())


def test_long_recordings_have_the_same_gradient(cartpole, monkeypatch):
    """More samples than are kept: the averages are differentiated as well."""
    monkeypatch.setattr(error_model, "MOST", 12)
    truth, data = cartpole.drawn(0)
    errors = ErrorModel.fitted(cartpole.density(data, 1), truth, 0)
    assert errors.linear.residual.shape == (2, 12 * 4)
    density, step, z = errors.density(), 1e-5, np.clip(truth, 0.1, 0.9)[None]
    numeric = np.stack([density.log_p(z + e) - density.log_p(z - e) for e in step * np.eye(3)], axis=-1) / (2 * step)
    grad = density.log_p_and_grad(z)[1]
    np.testing.assert_allclose(grad, numeric, rtol=1e-4, atol=1e-4 * np.abs(numeric).max())


def test_hidden_friction_is_found_and_the_truth_is_inside(rubbed):
    """With the noise alone the truth is many standard deviations off; with the errors fitted it is not."""
    truth, likelihood, errors = rubbed
    assumed = sample("emcee", likelihood, 40, 300, 0)
    walks = assumed.chains.reshape(-1, 3)
    assert (np.abs(walks.mean(axis=0) - truth) / walks.std(axis=0)).max() > 5
    fitted = sample("emcee", errors.density(), 40, 300, 0, moves="differences", start=errors.drawn(40))
    assert (np.abs(fitted.z.mean(axis=0) - truth) / fitted.z.std(axis=0)).max() < 3
    check = stein_check(fitted.z, errors.density().log_p_and_grad(fitted.z)[1])
    assert check.p_value > 0.01
    sizes = dict(zip(SIZES, np.median(errors.sizes, axis=0)))
    assert 0.8 < sizes["noise"] < 1.25  # what the recording was made with
    assert max(sizes["friction"], sizes["posture"], sizes["process"], sizes["geometry"]) > 0.01


def some_recording(rng, effects=1.0):
    """A linear one of known sizes: noise 0.8, process 0.05, first states 0.3, friction 0.1, the others none; z (0.3, 0.8)."""
    R, D, M, K = 3, 60, 2, 8
    kind, spread = np.array([2, 2, 2, 4, 4, 4, 5, 5]), rng.uniform(0, 3, (R, D))
    sizes = np.array([0.8, 0.05, 0.3, 1e-4, 0.1, 1e-4, 1e-4, 1e-4, 1e-4])
    slope, columns = 30 * rng.normal(size=(R, D, M)), 20 * effects * rng.normal(size=(R, D, K))
    noise = rng.normal(size=(R, D)) * np.sqrt(sizes[0] ** 2 + sizes[1] ** 2 * spread)
    residual = noise + columns @ (sizes[kind] * rng.normal(size=K)) + slope @ (0.1 * rng.normal(size=M))
    return LinearRecording(
        np.array([0.3, 0.8]), np.tile(np.eye(D), (R, 1, 1)), spread, residual, slope, columns, kind
    ), sizes


def test_the_density_of_sizes_has_the_gradient_of_central_differences():
    linear, _ = some_recording(np.random.default_rng(0))
    step = 1e-4 * np.eye(len(SIZES))
    for x in np.random.default_rng(1).uniform(-1.5, 0.0, (4, len(SIZES))):
        numeric = [(log_density(linear, x + e)[0] - log_density(linear, x - e)[0]) / 2e-4 for e in step]
        np.testing.assert_allclose(log_density(linear, x)[1], numeric, rtol=1e-5, atol=1e-4)


def test_sizes_that_no_precision_can_hold_are_passed_over(monkeypatch):
    """As where one is millions of times another: a climb turns back, and no draw comes from there."""
    linear, truth = some_recording(np.random.default_rng(6))
    solved = LinearRecording._solved

    def limited(self, sizes):
        if sizes[0] < 0.3:
            raise np.linalg.LinAlgError("singular")
        return solved(self, sizes)

    monkeypatch.setattr(LinearRecording, "_solved", limited)
    assert log_density(linear, np.full(len(SIZES), -1.0))[0] < -1e99
    modes = likely_sizes(linear)
    np.testing.assert_allclose(10.0 ** modes[0][0], truth[0], rtol=0.1)
    assert (drawn_sizes(linear, modes, 8, np.random.default_rng(7))[:, 0] >= 0.3).all()


def test_the_likeliest_sizes_are_no_less_likely_than_any_of_many_and_the_same_from_everywhere():
    linear, truth = some_recording(np.random.default_rng(2))
    best = [likely_sizes(linear, None, seed)[0] for seed in range(3)]
    values = [log_density(linear, each)[0] for each in best]
    np.testing.assert_allclose(values, values[0], atol=1e-3)
    tried = np.random.default_rng(3).uniform(np.r_[-2.0, np.full(8, -6.0)], 0.7, (500, len(SIZES)))
    assert values[0] > max(log_density(linear, each)[0] for each in tried)
    np.testing.assert_allclose(10.0 ** best[0][0], truth[0], rtol=0.1)
    np.testing.assert_allclose(10.0 ** best[0][[2, 4]], truth[[2, 4]], rtol=0.8)


def test_draws_of_sizes_have_the_spread_of_a_long_chain():
    """Of a kind that the recording is full of, and of one that has no effect at all, whose prior is left."""
    linear, _ = some_recording(np.random.default_rng(4))
    rng, modes = np.random.default_rng(5), likely_sizes(linear)
    drawn = np.log10(np.concatenate([drawn_sizes(linear, modes, 8, rng) for _ in range(40)]))
    x, chain, value = modes[0].copy(), [], log_density(linear, modes[0])[0]
    for _ in range(20000):
        there = x + rng.normal(size=len(x)) * np.r_[0.03, 0.3, 0.2, 0.4, 0.2, np.full(4, 0.4)]
        if not ((there >= np.r_[-2.0, np.full(8, -6.0)]) & (there <= 0.7)).all():
            chain.append(x)
            continue
        if np.log(rng.random()) < (new := log_density(linear, there)[0]) - value:
            x, value = there, new
        chain.append(x)
    chain = np.array(chain[2000:])
    np.testing.assert_allclose(drawn.mean(axis=0), chain.mean(axis=0), atol=0.6 * chain.std(axis=0).max())
    for column in (0, 2, 4):
        np.testing.assert_allclose(drawn[:, column].mean(), chain[:, column].mean(), atol=0.5 * chain[:, column].std())
        assert 0.6 < drawn[:, column].std() / chain[:, column].std() < 1.5


def test_sensors_that_are_late_are_found_to_be_so_and_the_truth_is_inside(cartpole):
    """By 20 ms, which is a state that was, not noise."""
    truth, data = cartpole.drawn(1)
    late = replace(data, x=data.x - 0.02 * np.gradient(data.x, data.dt, axis=1))
    likelihood = cartpole.density(late, 1)
    errors = ErrorModel.fitted(likelihood, truth, 0)
    assert np.median(errors.sizes[:, SIZES.index("delay")]) == pytest.approx(0.2, rel=0.9)
    drawn = errors.drawn(300)
    assert (np.abs(drawn.mean(axis=0) - truth) / drawn.std(axis=0)).max() < 3


def test_each_state_s_noise_is_the_recording_s_own(cartpole):
    """A hundred times as much in a velocity as in a position, in units of what was assumed, and motion counts for nothing."""
    _, data = cartpole.drawn(1)
    t = data.dt * np.arange(data.steps + 1)
    smooth = np.stack([np.sin(k + 3 * t) for k in range(4)], axis=-1)
    noise = np.array([1e-4, 1e-4, 1e-2, 1e-2])
    x = smooth + noise * np.random.default_rng(0).normal(size=(data.count, *smooth.shape))
    likelihood = cartpole.density(replace(data, x=x), 1)
    unit = error_model._noise(likelihood)
    np.testing.assert_allclose(unit / unit[0], noise / noise[0], rtol=0.5)
    assumed = 1.0 / likelihood.recorded.per_sigma
    np.testing.assert_allclose(np.log(unit).mean(), np.log(assumed).mean())


def test_the_size_of_noise_is_found_whatever_was_assumed(cartpole):
    """Ten times too little, ten times too much."""
    truth, data = cartpole.drawn(1)
    for factor in (0.1, 10.0):
        likelihood = cartpole.density(data, 1)
        likelihood.recorded.per_sigma[:] /= factor
        errors = ErrorModel.fitted(likelihood, truth, 0)
        np.testing.assert_allclose(np.median(errors.sizes[:, 0]), 1 / factor, rtol=0.15)


def test_a_simulator_that_is_right_costs_little(cartpole):
    """Intervals grow by what was thought possible, not by orders of magnitude, and still hold the truth."""
    truth, data = cartpole.drawn(2)
    likelihood = cartpole.density(data, 1)
    assumed = sample("emcee", likelihood, 40, 300, 0)
    errors = ErrorModel.fitted(likelihood, assumed.z[np.argmax(assumed.log_p)], 0)
    fitted = sample("emcee", errors.density(), 40, 300, 0, moves="differences", start=errors.drawn(40))
    mass = fitted.z[:, 0].std() / assumed.chains[..., 0].std()
    assert 0.9 < mass < 4.0
    assert (np.abs(fitted.z.mean(axis=0) - truth) < 3 * fitted.z.std(axis=0)).all()


def test_the_band_of_other_recordings_holds_them(cartpole, rubbed):
    """Predictions with the truth's parameters, without the friction that the robot has."""
    truth, _, errors = rubbed
    _, other = WrongModel.of(cartpole, "hidden friction").drawn(3)
    band = errors.spread(cartpole.density(other, 1))
    assert band.shape == (2, 100, 4) and (band > 0.5 * cartpole.sigma).all()
    X = cartpole.dynamics.rollout(
        other.x[:, 0], other.u, cartpole.parameters.to_physical(cartpole.parameters.theta(truth))
    )
    residual = ((X - other.x) / cartpole.scale)[:, 1:]
    assert (np.abs(residual) < 1.96 * band).mean() > 0.85
    assert (np.abs(residual) < 1.96 * cartpole.sigma).mean() < 0.85


def test_particles_that_do_not_roll_out_have_no_density(rubbed):
    density = rubbed[2].density()
    log_p, grad = density.log_p_and_grad(np.array([[0.5, -1e9, 0.5], [0.5, 0.5, 0.5]]))
    assert log_p[0] == -np.inf and np.isfinite(log_p[1]) and not grad[0].any() and density.not_finite == 1


def test_likelihoods_that_it_is_not_made_for_are_refused(cartpole):
    truth, data = cartpole.drawn(0)
    with pytest.raises(ValueError, match="whole roll-outs of one robot"):
        ErrorModel.fitted(cartpole.density(data, 5), truth)
