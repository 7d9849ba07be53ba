"""A bead on a hill, written in numpy alone, through iLQR, adaptive MPC, CSVGD and refit."""

from dataclasses import replace

import numpy as np
import pytest
from checks import central_differences, check_batches, check_derivatives, check_plan
from height_field import HeightField, energy, pushed

from sim_core.control.ampc import AdaptiveMpc, AmpcConfig, CommandSource
from sim_core.control.cost import ControlTerm, Cost, StateTerm
from sim_core.control.plan import IlqrConfig, IlqrStatus
from sim_core.control.refit import Refit, RefitConfig
from sim_core.control.refit_online import OnlineConfig, OnlineRefit
from sim_core.control.solver import solver_for
from sim_core.control.system_ilqr import SystemIlqr
from sim_core.control.tasks import Task
from sim_core.inference.data.parameters import ParameterBox
from sim_core.inference.data.trajectories import Trajectories
from sim_core.inference.data.window import Window, contiguous_windows
from sim_core.inference.samplers import sample
from sim_core.inference.shooting.likelihood import MultipleShooting
from sim_core.inference.shooting.system_shooting import SystemShooting
from sim_core.system import Derivatives, MissingDerivativesError, System

GOAL = np.array([0.8, 0.2, 0.0, 0.0])


@pytest.fixture
def hill():
    return HeightField()


def cost_to(system, goal=GOAL):
    return Cost(system, [StateTerm([5.0, 5.0, 0.1, 0.1], [500.0, 500.0, 20.0, 20.0]), ControlTerm(1e-3)], 1e-4), goal


def test_it_is_a_system_and_conserves_energy_without_push_and_drag():
    assert isinstance(HeightField(), System)
    lost = []
    for dt in (0.01, 0.0025):
        system = HeightField(dt)
        p = system.nominal.copy()
        p[4] = 0.0
        X = system.rollout([-0.5, 0.1, 2.0, 0.3], np.zeros((round(1.0 / dt), 2)), p)
        lost.append(np.ptp(energy(X, p)) / energy(X[0], p))
    assert lost[0] < 0.03 and lost[1] < 0.3 * lost[0]  # a scheme of first order


def test_derivatives_and_batches(hill):
    X, U = pushed(hill, hill.nominal)
    check_derivatives(hill, X[0, 5], U[0, 5], U[0, :15], hill.nominal)
    check_batches(hill, X, U, hill.nominal)


def test_the_plan_goes_over_the_hill_and_is_scipys_optimum(hill):
    cost, goal = cost_to(hill)
    cost = Cost(hill, cost.terms)  # scipy's objective here knows no smoothness
    solver = solver_for(hill, cost, IlqrConfig(60, hill.dt, max_iterations=100, tolerance=1e-12))
    assert isinstance(solver, SystemIlqr)
    result = check_plan(solver, np.array([-0.8, 0.0, 0, 0]), np.zeros((60, 2)), cost.reference(60, state=goal))
    assert np.abs(result.X[-1, :2] - goal[:2]).max() < 0.02 and np.abs(result.X[-1, 2:]).max() < 0.1
    x = result.X[0] + np.array([0.01, -0.01, 0.05, 0.0])
    for k in range(60):
        x = solver.predict(x, np.clip(result.U[k] + result.K[k] @ (x - result.X[k]), -10, 10))
    assert np.abs(x - result.X[-1]).max() < 0.02


def test_bad_input_and_divergence_end_as_in_the_compiled_solver(hill):
    cost, goal = cost_to(hill)
    solver = solver_for(hill, cost, IlqrConfig(20, hill.dt))
    good = solver.solve(np.zeros(4), reference=cost.reference(20, state=goal))
    bad = solver.solve(np.array([0, np.nan, 0, 0]))
    assert bad.status is IlqrStatus.BAD_INPUT and np.array_equal(bad.U, good.U)
    far = solver.solve(np.array([0, 0, 1e200, 0]))
    assert far.status is IlqrStatus.DIVERGED and np.isfinite(far.U).all() and np.isfinite(far.K).all()
    with pytest.raises(ValueError, match="x0: expected shape"):
        solver.solve(np.zeros(3))
    with pytest.raises(ValueError, match="expected knots every 0.02 s"):
        solver_for(hill, cost, IlqrConfig(20, 0.01))
    with pytest.raises(ValueError, match="belong to hill"):
        solver_for(hill, cost, IlqrConfig(20, 0.02, substeps=2))


def test_adaptive_mpc_drives_it_and_takes_new_parameters(hill):
    cost, goal = cost_to(hill)
    H = 30
    task = Task(
        "over the hill",
        hill,
        cost,
        IlqrConfig(H, hill.dt, max_iterations=3),
        np.full(4, 1e-3),
        lambda t: cost.reference(H, state=goal),
        lambda: [np.zeros((H, 2))],
    )
    real = hill.nominal * np.array([1.2, 1, 1, 1, 2.0])
    mpc = AdaptiveMpc(task, AmpcConfig(start_iterations=20))
    x = np.array([-0.8, 0.0, 0.0, 0.0])
    for k in range(120):
        command = mpc.command(x, k * hill.dt)
        assert command.source is CommandSource.PLAN
        x = hill.step(x, command.applied, real)
        if k == 20:
            mpc.set_parameters(real, 1)
    assert command.revision == 1 and command.prediction_error < 1e-6 and np.abs(x - goal)[:2].max() < 0.03
    with pytest.raises(ValueError, match=r"expected shape \(5,\) for hill"):
        mpc.set_parameters(real[:3], 2)


LIMITS = {"height": (0.1, 0.8), "width": (0.3, 0.9), "drag": (0.0, 1.0)}
TRUTH = np.array([0.5, 0.6, 0.45])


def density_of(hill, windows=4, noise=0.05, **options):
    parameters = ParameterBox(hill, LIMITS)
    X, U = pushed(hill, parameters.to_physical(TRUTH))
    rng = np.random.default_rng(3)
    observe = options.get("observe")
    p = parameters.to_physical(np.broadcast_to(TRUTH, (*X.shape[:2], 3)))
    data = Trajectories(hill.dt, X, U, None if observe is None else observe(X, p))
    e = noise * data.scale * rng.standard_normal(X.shape)
    e[:, 0] = 0
    options = {"sigma_obs": noise, "combine": "product", **options}
    return MultipleShooting(hill, parameters, replace(data, x=X + e), windows, **options)


class Ranging:
    """Distances from two beacons, and the height under the bead."""

    beacons = np.array([[-1.0, 0.5], [1.5, -0.5]])

    def __call__(self, x, p):
        ranges = [np.sqrt(((x[..., :2] - b) ** 2).sum(-1) + 0.01) for b in self.beacons]
        off = (x[..., :2] - p[..., 1:3]) / p[..., 3:4]
        return np.stack([*ranges, p[..., 0] * np.exp(-0.5 * (off**2).sum(-1))], -1)

    def jacobian(self, x, p):
        args = np.broadcast_to(x, x.shape), np.broadcast_to(p, (*x.shape[:-1], p.shape[-1]))
        flat = [a.reshape(-1, a.shape[-1]) for a in args]
        out = []
        for i in range(2):
            columns = []
            for k in range(flat[i].shape[1]):
                moved = [a.astype(complex) for a in flat]
                moved[i][:, k] += 1e-30j
                columns.append(self(*moved).imag / 1e-30)
            out.append(np.stack(columns, -1).reshape(*x.shape[:-1], 3, -1))
        return tuple(out)


@pytest.mark.parametrize("observe", [None, Ranging()])
def test_gradients_of_the_likelihood(hill, observe):
    options = {"observe": observe, "scale": np.ones(3)} if observe else {}
    density = density_of(hill, **options)
    assert isinstance(density.kernel, SystemShooting)
    rng = np.random.default_rng(0)
    z = rng.uniform(0.3, 0.7, (2, 3))
    log_p, grad = density.log_p_and_grad(z)
    assert np.allclose(log_p, density.log_p(z), rtol=1e-12)
    for i in range(2):
        numeric = central_differences(lambda a: density.log_p(a[None])[0], z[i])
        assert np.abs(grad[i] - numeric).max() < 1e-6 * np.abs(numeric).max()
    extended = density.extended()
    at = np.concatenate([z[0], np.full(extended.n - 3, 0.51)])
    numeric = central_differences(lambda a: extended.log_p(a[None])[0], at)
    assert np.abs(extended.log_p_and_grad(at[None])[1][0] - numeric).max() < 1e-6 * np.abs(numeric).max()
    # Where noise-free data fit, the Hessian of -log p is the Gauss-Newton matrix.
    exact = density_of(hill, windows=1, noise=1e-9, sigma_obs=0.05, **options)
    zt = exact.z(TRUTH)
    numeric = -central_differences(lambda a: exact.log_p_and_grad(a[None])[1][0], zt)
    found = exact.curvature(zt[None]).theta[0]
    assert np.abs(found - numeric).max() < 1e-4 * np.abs(numeric).max()


def test_csvgd_recovers_the_hill_within_its_spread(hill):
    density = density_of(hill)
    found = sample("csvgd", density, 24, iterations=40, seed=0)
    theta = density.theta(found.z)
    assert found.trace.extra["defect"][-1] < 2.0 and found.trace.extra["violation"][-1] < 0.01
    assert (np.abs(theta.mean(0) - TRUTH) < 3 * theta.std(0) + 1e-3).all()
    assert (theta.std(0) < 0.15 * density.width).all() and (theta.std(0) > 0).all()


def test_without_derivatives_it_is_sampled_by_methods_that_ask_for_none(hill):
    hill.derivatives = Derivatives.NONE
    density = density_of(hill, windows=1)
    found = sample("cem", density, 40, iterations=15, seed=0)
    assert np.abs(density.theta(found.z[found.log_p.argmax()]) - TRUTH).max() < 0.06
    for ask in (
        lambda: density.log_p_and_grad(found.z),
        lambda: solver_for(hill, cost_to(hill)[0], IlqrConfig(5, hill.dt)),
        lambda: Refit(hill, ParameterBox(hill, LIMITS)),
    ):
        with pytest.raises(MissingDerivativesError, match="hill has none"):
            ask()


def window_of(hill, p, seconds=1.6, noise=(1e-4, 1e-3), seed=0):
    X, U = pushed(hill, p, seconds=seconds, trajectories=1, seed=seed)
    X = X[0] + np.random.default_rng(seed).standard_normal(X[0].shape) * np.repeat(noise, 2)
    return hill.dt * np.arange(len(X)), X[:, :2], X[:, 2:], U[0]


CONFIG = RefitConfig(segment_length=8, time_budget=np.inf)


def test_refit_finds_a_change_and_gates_what_is_wrong(hill):
    parameters = ParameterBox(hill, LIMITS, prior={"drag": (0.3, 0.3)})
    refit = Refit(hill, parameters, CONFIG)
    t, q, v, u = window_of(hill, parameters.to_physical(TRUTH))
    result = refit.fit(Window(t, q, v, u))
    assert result.accepted and not result.unexcited
    std = np.sqrt(np.diag(result.covariance))
    assert (np.abs(result.xi - TRUTH) < 4 * std + 1e-3).all() and (std < 0.05).all()
    assert [e.name for e in result.estimates] == list(LIMITS) and "x.rate" in result.terms
    again = refit.fit(Window(t, q, v, u), result.xi)
    assert not again.accepted or np.allclose(again.xi, result.xi, atol=1e-3)
    flipped = refit.fit(Window(t, q, -v, u))
    assert not flipped.accepted and "corrupted batch" in flipped.reason
    late = refit.fit(Window(2 * t, q, v / 2, u))
    assert not late.accepted and "expected samples every 0.02 s as hill steps" in late.reason


def test_refit_refuses_a_window_of_nan(hill):
    t, q, v, u = window_of(hill, hill.nominal)
    with pytest.raises(ValueError, match="window q is not finite"):
        Window(t, q * np.nan, v, u)
    refit = Refit(hill, ParameterBox(hill, LIMITS), CONFIG)
    result = refit.fit(contiguous_windows(t, q * np.nan, v, u, hill.dt))
    assert not result.accepted and "no usable data" in result.reason
    assert np.array_equal(result.xi, refit.spec.prior_mean)


def test_the_running_refit_notices_a_change(hill):
    parameters = ParameterBox(hill, {"drag": (0.0, 2.0)})
    online = OnlineRefit(hill, parameters, OnlineConfig(refit=CONFIG))
    p, x = hill.nominal.copy(), np.array([0.0, -0.4, 0.0, 0.0])
    rng = np.random.default_rng(1)
    for k in range(150):
        if k == 75:
            p[4] = 1.2
        u = 3 * np.array([np.sin(0.2 * k), np.cos(0.23 * k)])
        x = hill.step(x, u, p)
        seen = x + rng.standard_normal(4) * np.repeat([1e-5, 1e-4], 2)
        online.append(k * hill.dt, seen[:2], seen[2:], u)
        if online.due(k * hill.dt):
            online.update()
    assert online.revision >= 1 and online.xi[0] == pytest.approx(1.2, abs=0.05)
