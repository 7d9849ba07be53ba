"""Simulations seen through an observation map: against single roll-outs, and a posterior in closed form."""

import casadi as ca
import numpy as np
import pytest

from sim_core.inference.bayessim import simulate, simulations
from sim_core.inference.data.trajectories import Trajectories
from sim_core.inference.samplers import sample
from sim_core.inference.shooting.likelihood import SingleShooting
from sim_core.inference.shooting.limited_parameters import LimitedParameters
from sim_core.multibody import Dynamics, load_model

FALLING = """<mujoco><option timestep="0.01" integrator="Euler"/><worldbody><body name="ball">
<joint name="z" type="slide" axis="0 0 1"/><inertial mass="2" pos="0 0 0" diaginertia="0.01 0.01 0.01"/></body></worldbody></mujoco>"""
STEPS, SIGMA, SCALE = 100, 0.3, np.array([0.5, 0.5, 2.0])


def falling(starts=((0.0, 3.0),), noise: float = 0.0):
    """Density of gravity [m/s^2] in -13..-7 from a ball thrown upwards; observed: z, -2 z, and z plus a tenth of m times v."""
    model = load_model(FALLING)
    dynamics = Dynamics(model)
    x, p = ca.SX.sym("x", 2), ca.SX.sym("p", model.np_)
    observe = ca.Function(
        "h", [x, p], [ca.vertcat(x[0], -2 * x[0], x[0] + p[model.parameters.index("ball.mass")] * x[1] / 10)]
    )
    U = np.zeros((len(starts), STEPS, 0))
    X = dynamics.rollout(np.array(starts), U, model.parameters.nominal)
    z, v = X[..., 0], X[..., 1]
    Y = np.stack([z, -2 * z, z + 0.2 * v], -1)
    Y = Y + noise * SCALE * np.random.default_rng(5).standard_normal(Y.shape)
    parameters = LimitedParameters(model, {"gravity.z": (-13.0, -7.0)})
    return SingleShooting(dynamics, parameters, Trajectories(dynamics.dt, X, U, Y), SIGMA, observe=observe, scale=SCALE)


def seen(gravity: float, start) -> np.ndarray:
    """Observations (STEPS, 3) in units of their scale: semi-implicit Euler in closed form."""
    k = np.arange(1, STEPS + 1)
    z = start[0] + start[1] * k * 0.01 + gravity * 1e-4 * k * (k + 1) / 2
    return np.stack([z, -2 * z, z + 0.2 * (start[1] + gravity * 0.01 * k)], 1) / SCALE


def test_summaries_of_what_is_observed(monkeypatch):
    starts = ((0.0, 3.0), (1.0, -1.0))
    density = falling(starts)
    z = np.array([[0.1], [0.4], [0.9]])
    found = simulate(density, z, ("downsampled", "signature"), every=25, depth=2)
    for i, gravity in enumerate((-12.4, -10.6, -7.6)):
        for r, start in enumerate(starts):
            y = seen(gravity, start)
            np.testing.assert_allclose(found.summaries["downsampled"][i, r], y[::25].ravel(), atol=1e-12)
            np.testing.assert_allclose(found.summaries["signature"][i, r, :3], y[-1] - y[0], atol=1e-12)
    np.testing.assert_allclose(found.recorded["downsampled"][1], seen(-9.81, starts[1])[::25].ravel(), atol=1e-12)
    monkeypatch.setattr(simulations, "CHUNK", 1)  # one by one
    np.testing.assert_allclose(
        simulate(density, z, ("downsampled",), every=25).summaries["downsampled"],
        found.summaries["downsampled"],
        atol=1e-12,
    )


def test_noise_has_the_observations_scale():
    density = falling()
    z = np.full((4000, 1), 0.5)
    y = simulate(density, z, ("downsampled",), every=50, noise=0.3, seed=1).summaries["downsampled"][:, 0]
    np.testing.assert_allclose(y.mean(0), seen(-10.0, (0.0, 3.0))[::50].ravel(), atol=0.03)
    np.testing.assert_allclose(np.cov(y.T), 0.3**2 * np.eye(6), atol=0.01)


def test_noise_that_lasts():
    z = np.full((4000, 1), 0.5)
    y = (
        simulate(falling(), z, ("downsampled",), every=10, noise=0.3, lasting=15.0)
        .summaries["downsampled"]
        .reshape(4000, 10, 3)
    )
    C = np.cov(y[:, :, 0].T)  # samples 10 apart: 0.3^2 exp(-10 |i - j| / 15)
    i = np.arange(10)
    np.testing.assert_allclose(C, 0.3**2 * np.exp(-np.abs(i[:, None] - i) * 10 / 15), atol=0.01)


@pytest.mark.parametrize("features", ["mdn", "mdrff-matern"])
def test_a_linear_gaussian_posterior_through_the_table_of_methods(features):
    # Every observation is linear in gravity with slope a, so that the posterior is normal with variance sigma^2 / a'a.
    density = falling(noise=SIGMA)
    draws = sample(
        "bayessim",
        density,
        2000,
        60,
        seed=3,
        features=features,
        simulations=4000,
        components=2,
        step=1e-2,
        every=33,
        noise=SIGMA,
    )
    start = (0.0, 3.0)
    b = seen(0.0, start)[::33].ravel()
    a = seen(1.0, start)[::33].ravel() - b
    y = density.measured[0, 1:][::33].ravel() / np.tile(SCALE, 4)
    mean, std = a @ (y - b) / (a @ a), SIGMA / np.sqrt(a @ a)
    gravity = density.theta(draws.z)[:, 0]
    assert gravity.mean() == pytest.approx(mean, abs=0.35 * std)
    assert gravity.std() == pytest.approx(std, rel=0.2)
    assert draws.evaluations == 6000 and np.isfinite(draws.log_p).all()


def test_variants_share_simulations():
    density = falling(noise=SIGMA)
    z = np.linspace(0, 1, 300)[:, None]
    shared = simulate(density, z, ("downsampled", "difference"), every=10)
    draws = [
        sample("bayessim", density, 20, 5, statistics=name, simulations=shared)
        for name in ("downsampled", "difference", "downsampled")
    ]
    assert (draws[0].z == draws[2].z).all() and (draws[0].z != draws[1].z).any()
