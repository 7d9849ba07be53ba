"""Trajectory likelihoods: values against a plain second implementation, gradients against central differences."""

import numpy as np
import pytest
from pendulum import central_differences, dynamics, lengths, noisy, simulated
from scipy.stats import norm

from sim_core.codegen.library import Library
from sim_core.inference.data.trajectories import Trajectories
from sim_core.inference.shooting.likelihood import MultipleShooting, SingleShooting
from sim_core.inference.shooting.limited_parameters import LimitedParameters
from sim_core.inference.shooting.observation import frame_positions
from sim_core.multibody import Dynamics, load_model

TRUTHS = [[1.5, 2.0], [1.2, 1.7]]


@pytest.fixture(scope="module")
def pendulum():
    d = dynamics()
    return d, lengths(d.model), noisy(simulated(d, lengths(d.model), TRUTHS, steps=200))


def plain_log_p(d, parameters, data, theta, windows=1, sigma_obs=0.2, sigma_def=0.1):
    """log p_ms of each trajectory (R,) by roll-outs and scipy's normal density, windows starting at measured states."""
    h, scale = data.steps // windows, data.x.reshape(-1, d.nx).std(0)
    total = np.zeros(data.count)
    for r in range(data.count):
        for s in range(windows):
            X = d.rollout(data.x[r, s * h], data.u[r, s * h : (s + 1) * h], parameters.to_physical(theta))
            measured = data.x[r, s * h : (s + 1) * h + 1]
            total[r] += norm.logpdf(measured[1:] / scale, X[1:] / scale, sigma_obs).sum()
            if s + 1 < windows:
                total[r] += norm.logpdf(measured[-1] / scale, X[-1] / scale, sigma_def).sum()
    return total


@pytest.mark.parametrize("windows", [1, 5])
def test_values_equal_a_plain_implementation(pendulum, windows):
    d, parameters, data = pendulum
    theta = np.array([1.4, 1.9])
    each = plain_log_p(d, parameters, data, theta, windows)
    for combine, expected in (("product", each.sum()), ("sum", np.logaddexp(*each) - np.log(2))):
        density = MultipleShooting(d, parameters, data, windows, combine=combine)
        assert density.log_p(density.z(theta)[None])[0] == pytest.approx(expected, rel=1e-10)


def relative_error(found, expected):
    return np.abs(found - expected).max() / np.abs(expected).max()


@pytest.mark.parametrize(
    "options",
    [
        {"windows": 1},
        {"windows": 1, "combine": "product"},
        {"windows": 10},
        {"windows": 10, "loss": "huber"},
        {"windows": 5, "combine": "product", "observe": True},
    ],
    ids=str,
)
def test_gradients_of_the_pendulum_on_twenty_points(pendulum, options):
    d, parameters, data = pendulum
    if options.get("observe"):
        options = {**options, "observe": frame_positions(d.model, "link2")}
    density = MultipleShooting(d, parameters, data, **options)
    z = np.random.default_rng(0).uniform(0.1, 0.9, (20, 2))
    log_p, grad = density.log_p_and_grad(z)
    numeric = central_differences(density.log_p, z)
    assert all(relative_error(grad[i], numeric[i]) < 1e-4 for i in range(20))
    assert np.array_equal(log_p, density.log_p(z))


def test_gradients_of_the_shooting_states(pendulum):
    d, parameters, data = pendulum
    density = MultipleShooting(d, parameters, data, windows=4).extended()
    rng = np.random.default_rng(1)
    z = np.hstack([rng.uniform(0.1, 0.3, (5, 2)), rng.uniform(0.45, 0.55, (5, density.n - 2))])
    assert density.n == 2 + 2 * 3 * 4
    _, grad = density.log_p_and_grad(z)
    assert relative_error(grad, central_differences(density.log_p, z)) < 1e-6


@pytest.mark.parametrize("form", ["vector", "squared"])
def test_pull_of_the_multipliers(pendulum, form):
    """d/d(z, starts) of lambda' g + c/2 |g|^2 by central differences, and the defects themselves."""
    d, parameters, data = pendulum
    density = MultipleShooting(d, parameters, data, windows=4, combine="product")
    rng = np.random.default_rng(2)
    z, starts = rng.uniform(0.1, 0.3, (1, 2)), 0.02 * rng.standard_normal((1, *density.starts_shape))
    lam = rng.standard_normal(starts.shape if form == "vector" else starts.shape[:-1])

    def penalty(both):
        both = both.reshape(len(both), -1)
        defects = density.evaluate(both[:, :2], both[:, 2:].reshape(-1, *density.starts_shape)).defects
        g = defects if form == "vector" else (defects**2).sum(-1)
        return (lam * g + 0.35 * g**2).reshape(len(both), -1).sum(1)

    now = density.evaluate(z, starts, lam, 0.7, form)
    numeric = central_differences(penalty, np.hstack([z, starts.reshape(1, -1)]))
    assert relative_error(np.hstack([now.penalty_grad, now.penalty_grad_starts.reshape(1, -1)]), numeric) < 1e-6
    without = density.evaluate(z, starts)
    assert np.allclose(now.grad, without.grad, rtol=1e-12) and np.array_equal(now.log_p, without.log_p)


def test_gradients_of_the_panda_on_twenty_points():
    model = load_model("panda")
    d = Dynamics(model, dt=0.01)
    parameters = LimitedParameters(
        model,
        {
            "hand.mass": (0.3, 3.0),
            "hand.com.z": (0.0, 0.15),
            "link5.I_com.yy": (0.01, 0.1),
            "joint4.damping": (0.0, 2.0),
        },
    )
    rng = np.random.default_rng(3)
    U = 3 * rng.standard_normal((1, 60, model.nu)) + np.array([0, -20, 0, 20, 0, 2, 0])[: model.nu]
    x0 = np.r_[model.q_home, np.zeros(model.nv)]
    X = d.rollout(x0[None], U, parameters.to_physical([1.0, 0.06, 0.03, 0.5]))
    data = Trajectories(d.dt, X, U)
    z = rng.uniform(0.1, 0.9, (20, 4))
    for windows in (1, 3):
        density = MultipleShooting(d, parameters, data, windows)
        numeric = central_differences(density.log_p, z, 1e-5)
        grad = density.log_p_and_grad(z)[1]
        assert all(relative_error(grad[i], numeric[i]) < 1e-4 for i in range(20))


def test_the_loops_without_a_compiler_say_the_same(pendulum, monkeypatch):
    d, parameters, data = pendulum
    for substeps in (1, 2):
        fine = dynamics(substeps=substeps)
        density = MultipleShooting(fine, parameters, data.slice(0, 20), windows=4)
        rng = np.random.default_rng(4)
        z, starts = rng.uniform(0.1, 0.4, (3, 2)), 0.01 * rng.standard_normal((3, *density.starts_shape))
        lam = rng.standard_normal(starts.shape)
        compiled = [density.evaluate(z, starts, lam), density.joint(z, starts)]
        kernel = density.kernel
        kernel._libraries = {k: Library(v.name, v.functions, "float64", 1, None) for k, v in kernel._libraries.items()}
        slow = [density.evaluate(z, starts, lam), density.joint(z, starts)]
        for a, b in zip([*vars(compiled[0]).values(), *compiled[1]], [*vars(slow[0]).values(), *slow[1]]):
            assert np.allclose(a, b, rtol=1e-9, atol=1e-9)


def test_particles_that_diverge_are_masked_and_counted_and_disturb_nobody(pendulum):
    d, _, data = pendulum
    # Negative damping without bound feeds energy in until the state overflows.
    wild = LimitedParameters(d.model, {"joint1.damping": (-1e4, 1.0), "link1.mass": (0.5, 2.0)})
    density = SingleShooting(d, wild, data)
    good = density.z(np.array([[0.0, 1.0], [0.5, 0.8], [0.2, 1.5]]))
    expected = density.log_p_and_grad(good)
    z = np.vstack([good[0], density.z([-9e3, 1.0]), good[1], [np.nan, 0.5], good[2]])
    log_p, grad = density.log_p_and_grad(z)
    assert list(np.isfinite(log_p)) == [True, False, True, False, True] and (log_p[[1, 3]] == -np.inf).all()
    assert (grad[[1, 3]] == 0).all() and density.not_finite == 2
    assert np.array_equal(log_p[::2], expected[0]) and np.array_equal(grad[::2], expected[1])


def test_huber_forgives_an_outlier(pendulum):
    d, parameters, data = pendulum
    x = data.x.copy()
    x[0, 50] += 3.0
    spoilt = Trajectories(data.dt, x, data.u).pick([0])
    at = lambda loss: SingleShooting(d, parameters, spoilt, scale=data.scale, loss=loss)
    truth = at("gaussian").z(TRUTHS[:1])
    assert at("huber").log_p(truth)[0] > at("gaussian").log_p(truth)[0] + 100
    assert at("huber").log_p(truth + 0.2)[0] > at("gaussian").log_p(truth + 0.2)[0]


def test_what_does_not_fit_is_said(pendulum):
    d, parameters, data = pendulum
    with pytest.raises(ValueError, match="'sum' or 'product', found 'mean'"):
        SingleShooting(d, parameters, data, combine="mean")
    with pytest.raises(ValueError, match="resample"):
        SingleShooting(d, parameters, Trajectories(0.02, data.x, data.u))
    with pytest.raises(ValueError, match="expected between 1 and 200 windows"):
        MultipleShooting(d, parameters, data, windows=201)
    with pytest.raises(ValueError, match="expected 2 coordinates"):
        SingleShooting(d, parameters, data).log_p(np.zeros((3, 5)))
    with pytest.raises(ValueError, match="'vector' or 'squared'"):
        MultipleShooting(d, parameters, data).evaluate(np.full((1, 2), 0.5), form="cubic")


def test_local_maxima_vanish_with_windows():
    """Figure 4.2: on a 50 x 50 grid of lengths, 8 local maxima of single shooting, 1 of ten windows, both beside the truth."""
    from scipy.ndimage import maximum_filter

    d = dynamics()
    parameters = lengths(d.model)
    data = simulated(d, parameters, [[1.5, 2.0]])
    axis = np.linspace(0.5, 5.0, 50)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    counts = []
    for windows in (1, 10):
        density = MultipleShooting(d, parameters, data, windows)
        log_p = density.log_p(density.z(grid)).reshape(50, 50)
        counts.append(int((log_p == maximum_filter(log_p, 3, mode="constant", cval=-np.inf)).sum()))
        assert np.abs(grid[np.argmax(log_p)] - [1.5, 2.0]).max() < axis[1] - axis[0]
    assert counts[0] >= 5 * counts[1]


def test_curvature_is_the_hessian_where_the_model_fits():
    """Central differences of the gradient of -log p_obs + c/2 |d|^2 in theta and all shooting states, at residuals of zero."""
    d = dynamics()
    parameters = lengths(d.model)
    density = MultipleShooting(d, parameters, simulated(d, parameters, [[1.5, 2.0]], steps=60), 4)
    z, c = density.z(np.array([[1.5, 2.0]])), 0.7
    curvature = density.curvature(z, damping=c)

    def gradient(v):
        starts = v[:, 2:].reshape(len(v), *density.starts_shape)
        e = density.evaluate(v[:, :2], starts, np.zeros_like(starts), c)
        return np.c_[e.penalty_grad - e.grad, (e.penalty_grad_starts - e.grad_starts).reshape(len(v), -1)]

    K = curvature.starts.shape[-1]
    step = 1e-6 * np.eye(2 + K)
    at = np.r_[z[0], np.zeros(K)]
    hessian = (gradient(at + step) - gradient(at - step)) / 2e-6
    found = np.block([[curvature.theta[0], curvature.mixed[0, 0].T], [curvature.mixed[0, 0], curvature.starts[0, 0]]])
    assert np.allclose(found, hessian, atol=1e-6 * np.abs(hessian).max())
    # Condensed: the Schur complement, and shooting states that go where the quadratic model has its minimum.
    force = np.random.default_rng(0).standard_normal((1, *density.starts_shape))
    at, by = curvature.follow(force)
    inverse = np.linalg.inv(found)
    assert np.allclose(curvature.condensed(by)[0], np.linalg.inv(inverse[:2, :2]), rtol=1e-5)
    assert np.allclose(found[2:, 2:] @ at[0, 0], force.ravel(), atol=1e-6) and np.allclose(
        found[2:, 2:] @ by[0, 0], -found[2:, :2], rtol=1e-6, atol=1e-4
    )
