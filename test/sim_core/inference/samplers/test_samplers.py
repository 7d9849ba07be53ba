"""Every method against densities of known moments, and on ordinary bad days."""

import numpy as np
import pytest
from density_targets import BANANA_MEAN, BANANA_STD, COV, MEAN, banana, gaussian, two_modes, with_hole
from scipy.stats import truncnorm

from sim_core.inference.samplers import METHODS, sample
from sim_core.inference.samplers.cem import Mixture
from sim_core.inference.samplers.limits import logit, reflect, sigmoid, sigmoid_log_slope
from sim_core.inference.samplers.sampler import Tail

OWN = ("cem", "sgld", "nuts", "emcee", "cma-es")
SHORT = {
    "nuts": {"iterations": 60, "max_tree_depth": 5},
    "sgld": {"iterations": 300, "step": 1e-3},
    "emcee": {"iterations": 40},
    "cem": {"iterations": 15},
    "cma-es": {"iterations": 15},
}
# Enough draws that a moment's own error is a fifth of the tolerance.
LONG = {
    "nuts": {"samples": 1500, "iterations": 1800, "warmup": 300},
    "emcee": {"samples": 4000, "iterations": 200},
    "plain": {"samples": 50_000, "iterations": 1500, "chains": 50, "step": 3e-4, "precondition": False},
    # With a long memory the preconditioner is a constant, and the stationary density the target.
    "preconditioned": {"samples": 50_000, "iterations": 1500, "chains": 50, "step": 3e-3, "beta": 0.999},
}


def long(name, target):
    return sample(name if name in METHODS else "sgld", target, seed=1, **LONG[name]).z


@pytest.mark.parametrize("name", LONG)
def test_moments_of_a_gaussian(name):
    z = long(name, gaussian())
    assert z.shape == (LONG[name]["samples"], 2)
    np.testing.assert_allclose(z.mean(0), MEAN, atol=0.01)
    np.testing.assert_allclose(np.cov(z.T), COV, rtol=0.2)


# Not the preconditioned variant: where curvature varies it lacks a term, and rests in the wrong place.
@pytest.mark.parametrize("name", ["nuts", "emcee", "plain"])
def test_moments_of_a_banana(name):
    z = long(name, banana())
    np.testing.assert_allclose(z.mean(0), BANANA_MEAN, atol=0.012)
    np.testing.assert_allclose(z.std(0), BANANA_STD, rtol=0.12)


@pytest.mark.parametrize("name", ["nuts", "emcee", "plain"])
def test_a_density_that_rises_towards_a_limit_is_cut_there(name):
    z = long(name, gaussian(np.array([1.05, 0.5]), np.diag([0.01, 0.01])))
    assert (z >= 0).all() and (z <= 1).all()
    cut = truncnorm((0 - 1.05) / 0.1, (1 - 1.05) / 0.1, 1.05, 0.1)
    assert z[:, 0].mean() == pytest.approx(cut.mean(), abs=0.006)
    assert z[:, 0].std() == pytest.approx(cut.std(), rel=0.1)


def test_an_ensemble_weighs_two_modes_alike():
    z = sample("emcee", two_modes(), samples=1000, iterations=200).z
    near = np.linalg.norm(z - 0.25, axis=1) < 0.25
    assert 0.35 < near.mean() < 0.65
    assert (near | (np.linalg.norm(z - 0.75, axis=1) < 0.25)).mean() > 0.99


@pytest.mark.parametrize("name", ["cem", "cma-es"])
def test_optimisers_find_the_mode(name):
    found = sample(name, gaussian(), samples=50, iterations=60)
    np.testing.assert_allclose(found.z[np.argmax(found.log_p)], MEAN, atol=2e-3)
    at_a_limit = sample(name, gaussian(np.array([1.3, 0.5]), COV), samples=50, iterations=60)
    assert at_a_limit.z[np.argmax(at_a_limit.log_p), 0] == pytest.approx(1.0, abs=2e-3)


def test_the_mixture_of_cem_has_room_for_two_modes():
    z = sample("cem", two_modes(), samples=200, iterations=4).z
    near = np.linalg.norm(z - 0.25, axis=1) < 0.25
    assert 0.1 < near.mean() < 0.9


def test_a_mixture_is_fitted_as_it_was_drawn():
    rng = np.random.default_rng(0)
    true = Mixture(np.array([0.3, 0.7]), np.array([[0.2, 0.2], [0.7, 0.6]]), np.array([np.diag([4e-3, 1e-3]), COV]))
    x = true.draw(5000, rng)
    fitted = Mixture.fit(x, 2, rng, 1e-6, sweeps=40)
    order = np.argsort(fitted.weights)
    np.testing.assert_allclose(fitted.weights[order], true.weights, atol=0.02)
    np.testing.assert_allclose(fitted.means[order], true.means, atol=0.01)
    np.testing.assert_allclose(fitted.covariances[order], true.covariances, atol=6e-4)


@pytest.mark.parametrize("name", OWN)
def test_same_seed_same_draws_and_a_true_count(name):
    state = np.random.get_state()[1].copy()
    runs = []
    for seed in (3, 3, 4):
        target = gaussian()
        run = sample(name, target, samples=20, seed=seed, **SHORT[name])
        assert run.evaluations == target.count == run.trace.evaluations[-1]
        assert run.z.shape == (20, 2) and run.log_p.shape == (20,)
        np.testing.assert_allclose(run.log_p, gaussian().log_p(run.z), atol=1e-9)
        assert len(run.trace.iteration) == SHORT[name]["iterations"] and (np.diff(run.trace.best) >= 0).all()
        runs.append(run.z)
    assert (runs[0] == runs[1]).all() and (runs[0] != runs[2]).any()
    assert (np.random.get_state()[1] == state).all(), "the global generator was used"


@pytest.mark.parametrize("name", OWN)
def test_regions_without_a_number_are_survived_and_counted(name):
    run = sample(name, with_hole(), samples=20, **SHORT[name])
    assert run.not_finite > 0
    inside = run.z[np.isfinite(run.log_p)]
    assert len(inside) >= 10 and (inside[:, 0] >= 0.4).all()
    assert np.isfinite(run.z).all() and not np.isnan(run.log_p).any()


@pytest.mark.parametrize("name", ["sgld", "nuts", "cma-es"])
def test_a_start_of_zero_density_is_left(name):
    far = gaussian(np.array([0.8, 0.8]), np.eye(2) * 4e-3)
    whole = far._function
    far._function = lambda z: (np.where(z[:, 0] < 0.6, -np.inf, whole(z)[0]), whole(z)[1])
    run = sample(name, far, samples=20, **SHORT[name])
    assert np.linalg.norm(run.z[np.isfinite(run.log_p)].mean(0) - 0.8) < 0.15


def test_zero_everywhere_is_said():
    nowhere = gaussian()
    nowhere._function = lambda z: (np.full(len(z), -np.inf), np.zeros(z.shape))
    with pytest.raises(ValueError, match="check the limits"):
        sample("nuts", nowhere, samples=5, **SHORT["nuts"])


@pytest.mark.parametrize("name", OWN)
def test_a_callback_ends_a_run(name):
    seen = []
    run = sample(name, gaussian(), samples=20, callback=lambda i, z, log_p: seen.append(z) or i == 4, **SHORT[name])
    assert run.cancelled and len(seen) == 5 == len(run.trace.iteration)
    np.testing.assert_array_equal(run.z, seen[-1][-len(run.z) :])


def test_what_is_wrong_is_said():
    with pytest.raises(ValueError, match="no sampling method 'hmc'. Known: .*nuts"):
        sample("hmc", gaussian())
    with pytest.raises(ValueError, match="at least one"):
        sample("cem", gaussian(), samples=0)


def test_limits():
    np.testing.assert_allclose(reflect(np.array([-0.2, 0.3, 1.2, 2.4, -1.1])), [0.2, 0.3, 0.8, 0.4, 0.9])
    z, v = reflect(np.array([1.2, 2.4]), np.array([1.0, 1.0]))
    np.testing.assert_allclose([*z, *v], [0.8, 0.4, -1, 1])
    y = np.linspace(-30, 30, 13)
    np.testing.assert_allclose(sigmoid(logit(np.array([0.1, 0.9]))), [0.1, 0.9])
    log_slope, slope = sigmoid_log_slope(y)
    h = 1e-5
    np.testing.assert_allclose(np.exp(log_slope), (sigmoid(y + h) - sigmoid(y - h)) / (2 * h), atol=1e-9)
    np.testing.assert_allclose(slope, (sigmoid_log_slope(y + h)[0] - sigmoid_log_slope(y - h)[0]) / (2 * h), atol=1e-9)


def test_the_tail_of_a_chain():
    tail = Tail(5, 1)
    for k in range(4):
        tail.push(np.array([[2.0 * k], [2.0 * k + 1]]), np.array([2.0 * k, 2.0 * k + 1]))
        np.testing.assert_array_equal(tail.points()[1], np.arange(2 * k + 2)[-5:])
    tail.push(np.arange(9.0)[:, None], np.arange(9.0))
    np.testing.assert_array_equal(tail.points()[0][:, 0], [4, 5, 6, 7, 8])
