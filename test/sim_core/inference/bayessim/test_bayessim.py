"""Conditional densities against closed forms, and a posterior that is known."""

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

from sim_core.inference.bayessim import fit, simulate
from sim_core.inference.bayessim.densities import FEATURES, ConditionalMixture, FourierFeatures, random_frequencies
from sim_core.inference.bayessim.mixture import log_mixture
from sim_core.inference.data.trajectories import Trajectories
from sim_core.inference.samplers import sample
from sim_core.inference.shooting.likelihood import SingleShooting
from sim_core.inference.shooting.limited_parameters import LimitedParameters
from sim_core.multibody import Dynamics, load_model

PENDULUM = """<mujoco><option timestep="0.01"/><worldbody><body name="link"><joint name="joint" axis="0 1 0"/>
<inertial mass="1" pos="0 0 -1" diaginertia="0.01 0.01 0.01"/></body></worldbody></mujoco>"""


def test_the_mixture_is_a_mixture_of_gaussians():
    torch.manual_seed(0)
    q = ConditionalMixture(torch.nn.Identity(), torch.nn.Linear(2, 5), 5, 3, 4).double()
    with torch.no_grad():
        q.head.weight.normal_(0, 0.3)
    s, theta = torch.randn(6, 2).double(), torch.rand(6, 3).double()
    for i in range(6):
        w, mu, L = (a.numpy() for a in q.mixture(s[i]))
        assert (L == np.tril(L)).all() and w.sum() == pytest.approx(1)
        p = sum(w[k] * multivariate_normal.pdf(theta[i], mu[k], np.linalg.inv(L[k] @ L[k].T)) for k in range(4))
        assert q.log_prob(theta, s)[i].item() == pytest.approx(np.log(p))


def test_the_mixtures_gradient():
    g = torch.Generator().manual_seed(0)
    raw = torch.randn(3, 1 + 8 + 6, 5, generator=g, dtype=torch.float64)
    raw[0, 5, 2], raw[1, 6, 1] = -4.0, 8.0  # beyond the diagonal's bounds, where nothing pulls
    theta = torch.rand(4, 5, generator=g, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda r: log_mixture(r, theta), raw.requires_grad_(), rtol=1e-5)
    log_mixture(raw, theta).sum().backward()
    assert raw.grad[0, 5, 2] == raw.grad[1, 6, 1] == 0


def test_draws_have_the_mixtures_moments():
    torch.manual_seed(1)
    q = ConditionalMixture(torch.nn.Identity(), torch.nn.Identity(), 2, 2, 3).double()
    with torch.no_grad():
        q.head.weight.normal_(0, 0.5)
    s = torch.tensor([0.3, -0.7], dtype=torch.float64)
    z = q.sample(s, 200_000, torch.Generator().manual_seed(0)).numpy()
    w, mu, L = (a.numpy() for a in q.mixture(s))
    mean = w @ mu
    second = sum(w[k] * (np.linalg.inv(L[k] @ L[k].T) + np.outer(mu[k], mu[k])) for k in range(3))
    np.testing.assert_allclose(z.mean(0), mean, atol=5e-3)
    np.testing.assert_allclose(np.cov(z.T), second - np.outer(mean, mean), atol=5e-3)


@pytest.mark.parametrize(
    "kernel, value",
    [
        ("rbf", lambda r: np.exp(-(r**2) / 2)),
        ("matern", lambda r: (1 + np.sqrt(5) * r + 5 * r**2 / 3) * np.exp(-np.sqrt(5) * r)),
    ],
)
def test_fourier_features_multiply_to_the_kernel(kernel, value):
    g = torch.Generator().manual_seed(0)
    W = random_frequencies(kernel, 40_000, 3, g, torch.float64)
    phi = FourierFeatures(W, 2 * np.pi * torch.rand(40_000, generator=g, dtype=torch.float64))
    direction = torch.tensor([[1.0, 2.0, -2.0]], dtype=torch.float64) / 3
    for r in (0.0, 0.5, 1.0, 2.0):
        assert float(phi(torch.zeros_like(direction)) @ phi(r * direction).T) == pytest.approx(value(r), abs=0.015)


@pytest.mark.parametrize("features", FEATURES)
def test_a_linear_gaussian_posterior(features):
    # z uniform, s = A z + noise of 0.2: well inside the limits the posterior is N(C A' s / 0.2^2, C), C^-1 = A'A / 0.2^2.
    rng = np.random.default_rng(0)
    z, A = rng.uniform(size=(4000, 2)), np.array([[4.0, 0.0], [2.0, 3.0], [0.0, -3.0]])
    s = z @ A.T + 0.2 * rng.standard_normal((4000, 3))
    s[7] = np.nan  # a simulation that flew apart
    fitted = fit(z, s, features, components=3, epochs=60, step=1e-2, seed=1)
    C = np.linalg.inv(A.T @ A / 0.2**2)
    asked = A @ [0.45, 0.55] + [0.05, -0.1, 0.1]
    draws = fitted.sample(asked, 4000)
    std = np.sqrt(np.diag(C))
    np.testing.assert_allclose((draws.mean(0) - C @ A.T @ asked / 0.2**2) / std, 0, atol=0.35)
    np.testing.assert_allclose(draws.std(0) / std, 1, atol=0.2)
    assert np.corrcoef(draws.T)[0, 1] == pytest.approx(C[0, 1] / std.prod(), abs=0.2)
    # On average over the simulations -log q must come near the entropy of the posterior (limits cut a little of it off).
    assert fitted.held_out[fitted.best] == pytest.approx(0.5 * np.log(np.linalg.det(2 * np.pi * np.e * C)), abs=0.15)


def test_training_is_the_same_for_the_same_seed():
    rng = np.random.default_rng(0)
    z = rng.uniform(size=(200, 2))
    s = np.sin(3 * z @ rng.standard_normal((2, 4)))
    one, same, other = (fit(z, s, "mdrff-matern", components=2, epochs=5, seed=seed) for seed in (3, 3, 4))
    assert (one.held_out == same.held_out).all() and (one.sample(s[0], 9) == same.sample(s[0], 9)).all()
    assert not (one.held_out == other.held_out).any()


def test_training_ends_without_improvement_and_keeps_the_best():
    rng = np.random.default_rng(0)
    fitted = fit(
        rng.uniform(size=(60, 1)), rng.standard_normal((60, 3)), epochs=2000, patience=10, step=2e-2
    )  # nothing to learn
    assert len(fitted.held_out) == fitted.best + 11 < 2000
    assert fitted.held_out[fitted.best] == fitted.held_out.min()


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
    run = [
        sample("bayessim", density, samples=50, iterations=100, seed=2, simulations=400, step=5e-3) for _ in range(2)
    ]
    assert (run[0].z == run[1].z).all() and run[0].z.shape == (50, 1)
    assert run[0].evaluations == 450
    length = density.theta(run[0].z)
    assert length.mean() == pytest.approx(1.0, abs=0.05) and length.std() < 0.15
    stopped = sample(
        "bayessim", density, samples=5, iterations=50, simulations=100, callback=lambda i, z, log_p: i == 3
    )
    assert stopped.cancelled and stopped.z.shape == (5, 1)


def test_what_is_wrong_is_said():
    with pytest.raises(ValueError, match="no conditional density 'flow'. Known: mdn"):
        fit(np.zeros((50, 1)), np.zeros((50, 1)), "flow")
    with pytest.raises(ValueError, match="at least 20 finite simulations, found 0"):
        fit(np.zeros((50, 1)), np.full((50, 1), np.inf))
    with pytest.raises(ValueError, match="SingleShooting density over recordings"):
        sample("bayessim", pendulum().extended())
    with pytest.raises(ValueError, match="expected simulations with 'summary', found downsampled"):
        sample(
            "bayessim",
            pendulum(),
            statistics="summary",
            simulations=simulate(pendulum(), np.full((30, 1), 0.5), ("downsampled",)),
        )
