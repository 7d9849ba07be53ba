"""Does the choice of trajectories order simulators as it should, where the truth is known?"""

import numpy as np
import pytest

from sim_core.inference.data.trajectories import Trajectories
from sim_core.inference.posterior.metrics import kl_knn, mmd
from sim_core.inference.posterior.predictive import discrepancy, replicas, simulated
from sim_core.inference.shooting.limited_parameters import LimitedParameters
from sim_core.multibody import Dynamics, load_model

LIMITS = {
    "link1.mass": (0.05, 0.5),
    "link2.mass": (0.05, 0.5),
    "joint1.damping": (0.0, 0.05),
    "joint2.damping": (0.0, 0.05),
}
TRUTH = np.array([0.1, 0.1, 1e-3, 1e-4])


@pytest.fixture(scope="module")
def world():
    """Dynamics, parameters, ten windows of a noisy recording, and the same four times each, one sample apart."""
    model = load_model("double_pendulum")
    dynamics, parameters = Dynamics(model), LimitedParameters(model, LIMITS)
    rng = np.random.default_rng(0)
    x0 = rng.uniform([-1.0, -2.0, -3.0, -8.0], [1.0, 2.0, 3.0, 8.0], (10, 4))
    X = dynamics.rollout(x0, np.zeros((10, 203, 0)), parameters.to_physical(TRUTH))
    X = X + 1e-3 * X.std((0, 1)) * rng.standard_normal(X.shape)

    def cut(copies):
        x = np.array([X[r, k : k + 201] for r, k in replicas([(r, 0) for r in range(10)], copies)])
        return Trajectories(dynamics.dt, x, np.zeros((len(x), 200, 0)))

    return dynamics, parameters, cut(1), cut(4)


def particles(spread, bias=1.0, count=12):
    rng = np.random.default_rng(1)
    factor = np.exp(spread * rng.standard_normal((count, 4)))
    return TRUTH * np.array([1.0, bias, bias**3, 1.0]) * factor


def test_replicas():
    assert replicas([("a", 5), ("b", 0)], 3, 2) == [("a", 5), ("a", 7), ("a", 9), ("b", 0), ("b", 2), ("b", 4)]


def test_better_particles_score_better_on_every_metric(world):
    dynamics, parameters, _, recorded = world
    cases = [particles(0.003), particles(0.03), particles(0.03, bias=1.5), particles(0.03, bias=3.0)]
    found = [discrepancy(simulated(dynamics, parameters, theta, recorded), recorded) for theta in cases]
    for name in ("kl_real_sim", "kl_sim_real", "mmd", "rms"):
        values = [getattr(d, name) for d in found]
        assert values == sorted(values), name
    assert found[0].log_p > found[1].log_p > found[3].log_p
    assert all(d.finite == 1.0 for d in found)


def test_a_simulator_that_stands_still_is_not_the_best(world):
    """Simulations in the middle of all recordings: without replicas d_KL(real || sim) prefers them to the truth."""
    dynamics, parameters, bare, recorded = world
    verdicts = {}
    for name, windows in (("bare", bare), ("replicas", recorded)):
        middle = windows.x.mean(0) + 1e-3 * np.random.default_rng(2).standard_normal((1, *windows.x.shape))
        good = discrepancy(simulated(dynamics, parameters, particles(0.01), windows), windows)
        verdicts[name] = discrepancy(middle, windows).kl_real_sim < good.kl_real_sim
    assert verdicts == {"bare": True, "replicas": False}


def test_pooled_sets_would_punish_agreement(world):
    """d_KL(sim || real) over all particles at once: near-perfect particles lose against scattered ones."""
    dynamics, parameters, _, recorded = world
    pooled, ours = [], []
    for theta in (particles(0.003), particles(0.3)):
        X = simulated(dynamics, parameters, theta, recorded)
        flat = (X[:, :, 1:] / recorded.scale).reshape(len(theta) * recorded.count, -1)
        pooled.append(kl_knn(flat, (recorded.x[:, 1:] / recorded.scale).reshape(recorded.count, -1)))
        ours.append(discrepancy(X, recorded).kl_sim_real)
    assert pooled[0] > pooled[1] and ours[0] < ours[1]


def test_simulations_that_fly_apart_are_counted(world):
    dynamics, parameters, _, recorded = world
    X = simulated(dynamics, parameters, particles(0.01, count=4), recorded)
    X[1, 3, 50:] = np.nan
    found = discrepancy(X, recorded)
    assert found.finite == 0.75 and np.isfinite(found.kl_real_sim)
    X[[0, 2], 0, -1] = [np.inf, 0, 0, 0], [1e300, 0, 0, 0]
    found = discrepancy(X, recorded)
    assert found.finite == 0.25 and np.isnan(found.kl_real_sim) and np.isnan(found.mmd)


def test_mmd_of_a_set_with_itself():
    x = np.random.default_rng(0).standard_normal((30, 3))
    assert mmd(x, x, unbiased=False) == pytest.approx(0.0, abs=1e-12)
    assert mmd(x, x + 3, unbiased=False) > 1.0
