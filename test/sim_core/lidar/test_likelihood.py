"""A scan's likelihood: the sum that it is, its gradient and curvature, and samplers that find the spread that repeated scans have."""

import numpy as np
import pytest

from sim_core.inference.data.density import LogDensity
from sim_core.inference.samplers import sample
from sim_core.lidar.fit import fit
from sim_core.lidar.likelihood import ScanLikelihood
from sim_core.lidar.material import MIRROR, Material
from sim_core.lidar.scan import Lidar
from sim_core.lidar.scene import Body, Scene
from sim_core.lidar.shapes import panel, room

pytestmark = pytest.mark.pure
POSE = ("sensor.x", "sensor.y", "sensor.yaw")
BOX = Scene((Body("walls", room((1.85, 0.92, 0.28), "wall")),), {"wall": Material(0.6)})
LIMITS = {"sensor.x": (-0.02, 0.02), "sensor.y": (-0.03, 0.02), "sensor.yaw": (-0.05, 0.04)}
SIGMA = 0.01


def scanned(seed=0):
    lidar = Lidar(BOX)
    return lidar, lidar.scan().range + np.random.default_rng(seed).normal(0.0, SIGMA, 682)


def test_it_is_the_sum_over_beams_and_invalid_ones_count_nothing():
    lidar, ranges = scanned()
    ranges[100:150] = np.nan
    density = ScanLikelihood(lidar, ranges, LIMITS, SIGMA)
    assert isinstance(density, LogDensity) and density.beams == 632
    theta = np.array([0.01, -0.02, 0.03])
    found = lidar.scan(dict(zip(POSE, theta))).range
    assert density.log_p(density.z(theta)[None])[0] == pytest.approx(
        -0.5 * np.nansum(((found - ranges) / SIGMA) ** 2), rel=1e-12
    )
    hot = ScanLikelihood(lidar, ranges, LIMITS, SIGMA, temperature=4.0)
    assert hot.log_p(density.z(theta)[None])[0] == pytest.approx(density.log_p(density.z(theta)[None])[0] / 4.0)
    # Scans of one place add up.
    both = ScanLikelihood(lidar, np.array([ranges, ranges]), LIMITS, SIGMA)
    assert both.log_p(density.z(theta)[None])[0] == pytest.approx(2.0 * density.log_p(density.z(theta)[None])[0])


@pytest.mark.parametrize("loss", ["gaussian", "huber"])
@pytest.mark.parametrize("what", ["sensor", "mirror"])
def test_gradients_are_those_of_central_differences(loss, what):
    if what == "sensor":
        lidar, ranges = scanned()
        limits = LIMITS
    else:
        mirror = Body("mirror", panel(0.4, 0.28, "mirror"), (0.5, 0.05, 0, 0, 0, 0.3), soft=True)
        lidar = Lidar(
            Scene((*BOX.bodies, mirror), {"wall": Material(0.6), "mirror": MIRROR}), values={"sensor.x": -0.3}
        )
        ranges = lidar.scan().range + np.random.default_rng(1).normal(0.0, SIGMA, 682)
        limits = {"mirror.x": (0.45, 0.55), "mirror.yaw": (0.2, 0.4), "wall.albedo": (0.5, 0.7)}
    ranges[:20] += 0.5  # outliers
    density = ScanLikelihood(lidar, ranges, limits, SIGMA, loss)
    z = np.random.default_rng(2).uniform(0.3, 0.7, (2, density.n))
    value, gradient = density.log_p_and_grad(z)
    assert np.allclose(value, density.log_p(z))
    h = 1e-7
    for k, e in enumerate(np.eye(density.n)):
        numeric = (density.log_p(z + h * e) - density.log_p(z - h * e)) / (2.0 * h)
        assert gradient[:, k] == pytest.approx(numeric, rel=2e-3, abs=1e-3 * np.abs(gradient).max())


def test_curvature_is_that_of_least_squares():
    lidar, ranges = scanned()
    density = ScanLikelihood(lidar, ranges, LIMITS, SIGMA)
    found = fit(lidar, ranges, dict.fromkeys(POSE, 0.0))
    at = np.array(list(found.values.values()))
    curvature = density.curvature(density.z(at)[None])
    information = curvature.theta[0] / np.outer(density.width, density.width)
    spread = 2.0 * found.cost / (682 - 3)
    assert np.linalg.inv(information) * spread / SIGMA**2 == pytest.approx(found.covariance, rel=1e-3)
    assert curvature.condensed(curvature.follow(np.zeros((1, 1, 0, 1)))[1])[0] == pytest.approx(curvature.theta[0])


def test_particles_have_the_spread_of_repeated_scans():
    ends, told = [], []
    for seed in range(6):
        lidar, ranges = scanned(seed)
        density = ScanLikelihood(lidar, ranges, {n: (-0.01, 0.01) for n in POSE}, SIGMA)
        samples = sample("csvgd", density, samples=16, iterations=10, seed=seed)
        theta = density.theta(samples.z)
        ends.append(theta.mean(0))
        told.append(theta.std(0, ddof=1))
    told = np.mean(told, 0)
    exact = np.sqrt(np.diag(fit(lidar, ranges, dict.fromkeys(POSE, 0.0)).covariance))
    assert told == pytest.approx(exact, rel=0.25)
    assert (np.abs(ends) < 3.5 * told).all() and np.std(ends, 0) == pytest.approx(told, rel=0.7)


def test_what_makes_no_likelihood_is_refused():
    lidar, ranges = scanned()
    with pytest.raises(KeyError, match=r"sensor\.height"):
        ScanLikelihood(lidar, ranges, {"sensor.height": (0.0, 1.0)})
    for given, options, said in (
        (np.full(682, np.nan), {}, "0 of them measured"),
        (ranges[:5], {}, "682 beams"),
        (ranges, {"sigma": 0.0}, "positive"),
        (ranges, {"loss": "cauchy"}, "huber"),
    ):
        with pytest.raises(ValueError, match=said):
            ScanLikelihood(lidar, given, LIMITS, **options)
    with pytest.raises(ValueError, match="lower < upper"):
        ScanLikelihood(lidar, ranges, {"sensor.x": (1.0, 0.0)})
