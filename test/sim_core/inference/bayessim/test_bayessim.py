"""Conditional densities against closed forms, and a posterior that is known."""

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

from sim_core.articulated import Dynamics, load_model
from sim_core.inference.bayessim import fit
from sim_core.inference.bayessim.densities import FEATURES, ConditionalMixture, FourierFeatures, random_frequencies
from sim_core.inference.likelihood import SingleShooting
from sim_core.inference.limited_parameters import LimitedParameters
from sim_core.inference.samplers import sample
from sim_core.inference.trajectories import Trajectories

PENDULUM = """<mujoco><option timestep="0.01"/><worldbody><body name="link"><joint name="joint" axis="0 1 0"/>
<inertial mass="1" pos="0 0 -1" diaginertia="0.01 0.01 0.01"/></body></worldbody></mujoco>"""


def test_the_mixture_is_a_mixture_of_gaussians():
    torch.manual_seed(0)
    q = ConditionalMixture(torch.nn.Linear(2, 5), 5, 3, 4).double()
    with torch.no_grad():
        q.head.weight.normal_(0, 0.3)
    s, theta = torch.randn(6, 2).double(), torch.rand(6, 3).double()
    log_w, mu, log_diagonal, below = (a.detach().numpy() for a in q.mixture(s))
    for i in range(6):
        p = 0.0
        for k in range(4):
            L = np.diag(np.exp(log_diagonal[i, k]))
            L[np.tril_indices(3, -1)] = below[i, k]
            p += np.exp(log_w[i, k]) * multivariate_normal.pdf(theta[i], mu[i, k], np.linalg.inv(L @ L.T))
        assert q.log_prob(theta, s)[i].item() == pytest.approx(np.log(p))


def test_draws_have_the_mixtures_moments():
    torch.manual_seed(1)
    q = ConditionalMixture(torch.nn.Identity(), 2, 2, 3).double()
    with torch.no_grad():
        q.head.weight.normal_(0, 0.5)
    s = torch.tensor([0.3, -0.7], dtype=torch.float64)
    z = q.sample(s, 200_000, torch.Generator().manual_seed(0)).numpy()
    log_w, mu, log_diagonal, below = (a.detach().numpy()[0] for a in q.mixture(s[None]))
    w, mean, second = np.exp(log_w), 0, 0
    for k in range(3):
        L = np.array([[np.exp(log_diagonal[k, 0]), 0], [below[k, 0], np.exp(log_diagonal[k, 1])]])
        mean = mean + w[k] * mu[k]
        second = second + w[k] * (np.linalg.inv(L @ L.T) + np.outer(mu[k], mu[k]))
    np.testing.assert_allclose(z.mean(0), mean, atol=5e-3)
    np.testing.assert_allclose(np.cov(z.T), second - np.outer(mean, mean), atol=5e-3)


@pytest.mark.parametrize("kernel, value", [
    ("rbf", lambda r: np.exp(-(r**2) / 2)),
    ("matern", lambda r: (1 + np.sqrt(5) * r + 5 * r**2 / 3) * np.exp(-np.sqrt(5) * r)),
])
def test_fourier_features_multiply_to_the_kernel(kernel, value):
    g = torch.Generator().manual_seed(0)
    W = random_frequencies(kernel, 40_000, 3, g, torch.float64)
    phi = FourierFeatures(W, 2 * np.pi * torch.rand(40_000, generator=g, dtype=torch.float64))
    direction = torch.tensor([[1.0, 2.0, -2.0]], dtype=torch.float64) / 3
    for r in (0.0, 0.5, 1.0, 2.0):
        assert float(phi(torch.zeros_like(direction)) @ phi(r * direction).T) == pytest.approx(value(r), abs=0.015)


@pytest.mark.parametrize("features", FEATURES)
def test_a_linear_gaussian_posterior(features):
    # z uniform, s = 4 z + noise of 0.2: the posterior at s = 2 is N(0.5, 0.05^2).
    rng = np.random.default_rng(0)
    z = rng.uniform(size=(2000, 1))
    s = 4 * z + 0.2 * rng.standard_normal(z.shape)
    s[7] = np.nan  # a simulation that flew apart
    fitted = fit(z, s, features, components=3, epochs=100, step=5e-3, seed=1)
    draws = fitted.sample(np.array([2.0]), 4000)
    assert draws.mean() == pytest.approx(0.5, abs=0.015)
    assert draws.std() == pytest.approx(0.05, rel=0.2)
    # On average over the simulations -log q must come near the entropy of the posterior, 0.5 log(2 pi e 0.05^2).
    assert fitted.held_out[fitted.best] == pytest.approx(0.5 * np.log(2 * np.pi * np.e * 0.05**2), abs=0.12)


def pendulum(starts=(1.0,)):
    """Density of a pendulum's length from swings with length 1."""
    model = load_model(PENDULUM)
    dynamics = Dynamics(model)
    x0 = np.stack([starts, np.zeros(len(starts))], 1)
    X = dynamics.rollout(x0, np.zeros((len(starts), 120, 0)), model.parameters.nominal)
    parameters = LimitedParameters(model, {"length": (0.5, 2.0)}, ties={"length": {"link.com.z": -1.0}})
    return SingleShooting(dynamics, parameters, Trajectories(dynamics.dt, X, np.zeros((len(starts), 120, 0))))


def test_a_pendulums_length_through_the_table_of_methods():
    density = pendulum((1.0, 0.5))
    run = [sample("bayessim", density, samples=50, iterations=100, seed=2, simulations=400, step=5e-3) for _ in range(2)]
    assert (run[0].z == run[1].z).all() and run[0].z.shape == (50, 1)
    assert run[0].evaluations == 450
    length = density.theta(run[0].z)
    assert length.mean() == pytest.approx(1.0, abs=0.05) and length.std() < 0.15
    stopped = sample("bayessim", density, samples=5, iterations=50, simulations=100, callback=lambda i, z, log_p: i == 3)
    assert stopped.cancelled and stopped.z.shape == (5, 1)


def test_what_is_wrong_is_said():
    with pytest.raises(ValueError, match="no conditional density 'flow'. Known: mdn"):
        fit(np.zeros((50, 1)), np.zeros((50, 1)), "flow")
    with pytest.raises(ValueError, match="at least 20 finite simulations, found 0"):
        fit(np.zeros((50, 1)), np.full((50, 1), np.inf))
    density = pendulum()
    object.__setattr__(density.trajectories, "y", density.trajectories.x)
    with pytest.raises(ValueError, match="recorded states"):
        sample("bayessim", density)
