"""iLQR over any System against the compiled solver, which is the same algorithm: the same plans to rounding."""

import casadi as ca
import numpy as np
import pytest
from toy_systems import box_qp_by_enumeration, cartpole

from sim_core.control.box_qp import box_qp, solve_free
from sim_core.control.cost import ControlTerm, Cost, FeatureTerm
from sim_core.control.ilqr import BoxIlqr
from sim_core.control.plan import IlqrConfig, IlqrStatus
from sim_core.control.solver import solver_for
from sim_core.control.system_ilqr import SystemIlqr
from sim_core.control.tasks import figure_eight, frame_tracking
from sim_core.multibody import Dynamics, load_model

HANGING = np.array([0.0, np.pi, 0.0, 0.0])
H = 40


def features(x, u, p):
    return ca.vertcat(x[0], ca.sin(x[1]), ca.cos(x[1]), x[2:])


def both(smoothness=0.0, particles=1, **config):
    """The cart-pole's two solvers."""
    model, step = cartpole(15.0)
    weights, final = [1.0, 5, 5, 0.1, 0.1], [10.0, 100, 100, 10, 10]
    cost = Cost(model, [FeatureTerm(features, [0, 0, 1, 0, 0], weights, final), ControlTerm(1e-3)], smoothness)
    system = Dynamics(model, dt=0.02, step=step)
    config = IlqrConfig(H, 0.02, **{"max_iterations": 30, **config})
    compiled = solver_for(system, cost, config, particles=particles)
    assert isinstance(compiled, BoxIlqr)
    return compiled, SystemIlqr(system, cost, config, particles=particles)


def sine(amplitude=5.0):
    return amplitude * np.sin(2 * np.pi * np.arange(H) / H)[:, None]


def agree(a, b, tolerance=1e-8):
    assert (a.status, a.iterations) == (b.status, b.iterations)
    assert a.cost == pytest.approx(b.cost, rel=1e-11) and a.gradient == pytest.approx(b.gradient, rel=1e-6, abs=1e-12)
    for name in ("X", "U", "K", "k"):
        expected = getattr(a, name)
        assert np.abs(getattr(b, name) - expected).max() <= tolerance * max(1.0, np.abs(expected).max()), name


@pytest.mark.parametrize("smoothness", [0.0, 0.01])
@pytest.mark.parametrize("particles", [1, 3])
def test_a_cart_poles_plans_agree_from_a_cold_and_a_warm_start(smoothness, particles):
    compiled, generic = both(smoothness, particles)
    p = compiled.nominal * np.linspace(1.0, 1.3, particles)[:, None]
    first = [
        s.solve(HANGING, sine(), p=p if particles > 1 else p[0], u_previous=np.ones(1)) for s in (compiled, generic)
    ]
    agree(*first)
    assert (np.abs(first[0].U) >= 15.0).any()  # the box binds
    for s in (compiled, generic):
        s.shift()
    agree(*(s.solve(first[0].X[1] + 0.01, iterations=2) for s in (compiled, generic)))
    u = np.array([0.5])
    assert np.allclose(compiled.predict(HANGING, u), generic.predict(HANGING, u), rtol=1e-12)


def test_the_pandas_plan_agrees():
    model = load_model("panda")
    task = frame_tracking(model, figure_eight(), horizon=12, integrator="semi_implicit_euler", max_iterations=3)
    system = Dynamics(model, dt=task.ilqr.dt, integrator="semi_implicit_euler")
    config = IlqrConfig(12, task.ilqr.dt, max_iterations=3, mu_init=1e-6)
    compiled, generic = solver_for(system, task.cost, config), SystemIlqr(system, task.cost, config)
    assert isinstance(compiled, BoxIlqr)
    x0 = np.r_[model.q_home, np.zeros(model.nv)]
    agree(*(s.solve(x0, task.starts()[0], reference=task.reference(0.3)) for s in (compiled, generic)), 1e-6)


def test_they_end_alike_when_something_is_wrong():
    compiled, generic = both()
    for s in (compiled, generic):
        assert s.solve(HANGING * np.nan).status is IlqrStatus.BAD_INPUT
        s.p = s.nominal * np.nan
        assert s.solve(HANGING).status is IlqrStatus.BAD_INPUT
        assert s.solve(HANGING, sine(), p=np.array([1e-300, 1e-300, 0.5, 9.81])).status is IlqrStatus.DIVERGED
        assert np.isfinite(s.U).all() and not s.K.any()
        limited = s.solve(HANGING, sine(), p=s.nominal, time_budget=1e-9)
        assert limited.status is IlqrStatus.TIME_LIMIT and limited.iterations == 1
        best = s.solve_best_of(HANGING, [a * sine() for a in (0.0, 0.2, 1.0)])
        assert np.array_equal(best.U, s.U)
    for s in (compiled, generic):
        s.cost.stage_weights[:] = -1.0  # not reachable through Cost, which refuses them
    ends = [s.solve(HANGING, np.zeros((H, 1))) for s in (compiled, generic)]
    assert ends[0].status is ends[1].status


def test_the_quadratic_program_is_solved_and_refused_like_by_enumeration():
    rng = np.random.default_rng(0)
    for _ in range(200):
        n = rng.integers(1, 5)
        J, g = rng.standard_normal((n, n)), 2 * rng.standard_normal(n)
        hessian = J @ J.T + 0.1 * np.eye(n)
        lower, upper = -rng.uniform(0.1, 1.0, n), rng.uniform(0.1, 1.0, n)
        d, free = box_qp(hessian, g, lower, upper, rng.standard_normal(n))
        expected, expected_free = box_qp_by_enumeration(hessian, g, lower, upper)
        assert np.allclose(d, expected, atol=1e-9) and (free == expected_free).all()
        rows = rng.standard_normal((n, 3))
        solved = solve_free(hessian, rows, free)
        assert not solved[~free].any() and np.allclose(hessian[np.ix_(free, free)] @ solved[free], rows[free])
    for bad in (-np.eye(2), np.full((2, 2), np.nan), np.zeros((2, 2))):
        assert box_qp(bad, np.zeros(2), -np.ones(2), np.ones(2), np.zeros(2)) is None


def test_settings_that_contradict_the_system_are_refused():
    model, step = cartpole()
    cost, system = Cost(model, [ControlTerm(1.0)]), Dynamics(model, dt=0.02, step=step)
    with pytest.raises(ValueError, match="expected knots every 0.02 s"):
        solver_for(system, cost, IlqrConfig(5, 0.01))
    with pytest.raises(ValueError, match="integrates by .* in 1 substeps"):
        solver_for(system, cost, IlqrConfig(5, 0.02, substeps=3))
    with pytest.raises(ValueError, match="particles must be at least 1"):
        SystemIlqr(system, cost, IlqrConfig(5, 0.02), particles=0)
    with pytest.raises(ValueError, match="u_lower < u_upper"):
        SystemIlqr(system, cost, IlqrConfig(5, 0.02), u_lower=np.ones(1), u_upper=np.ones(1))
