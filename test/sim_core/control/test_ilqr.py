"""Whole solves: optimality against IPOPT, descent, derivatives, bounds, bad input."""

import ctypes

import casadi as ca
import numpy as np
import pytest
from toy_systems import cartpole, linear_system

from sim_core.control.cost import ControlTerm, Cost, FeatureTerm, StateTerm
from sim_core.control.ilqr import BoxIlqr, _Task
from sim_core.control.plan import IlqrConfig, IlqrStatus

WEIGHTS, FINAL, R = np.array([1.0, 5, 5, 0.1, 0.1]), np.array([10.0, 100, 100, 10, 10]), 1e-3
HANGING = np.array([0.0, np.pi, 0.0, 0.0])


def features(x, u, p):
    return ca.vertcat(x[0], ca.sin(x[1]), ca.cos(x[1]), x[2:])


def swing_up(H=40, bound=20.0, lanes="auto", smoothness=0.0, substeps=1, **config):
    model, step = cartpole(bound, 0.02 / substeps)
    cost = Cost(model, [FeatureTerm(features, [0, 0, 1, 0, 0], WEIGHTS, FINAL), ControlTerm(R)], smoothness)
    config = {"max_iterations": 200, **config}
    return BoxIlqr(model, cost, IlqrConfig(H, 0.02, substeps=substeps, **config), step=step, lanes=lanes)


def sine(H, amplitude=5.0):
    return amplitude * np.sin(2 * np.pi * np.arange(H) / H)[:, None]


def horizon_cost(solver, x0, U):
    """J of controls U, by CasADi's own interpreter."""
    _, step = cartpole()
    x, J = ca.DM(x0), 0.0
    goal = np.array([0, 0, 1, 0, 0])
    for u in U:
        e = np.array(features(x, u, None)).ravel() - goal
        J += WEIGHTS @ e**2 + R * u @ u
        x = step(x, u, solver.p)
    e = np.array(features(x, 0, None)).ravel() - goal
    return J + FINAL @ e**2


def ipopt(x0, U0, bound, p):
    _, step = cartpole()
    H = len(U0)
    U, x, J = ca.MX.sym("U", H), ca.MX(x0), 0
    for k in range(H):
        e = features(x, None, None) - ca.DM([0, 0, 1, 0, 0])
        J += ca.dot(WEIGHTS, e**2) + R * U[k] ** 2
        x = step(x, U[k], p)
    J += ca.dot(FINAL, (features(x, None, None) - ca.DM([0, 0, 1, 0, 0])) ** 2)
    solver = ca.nlpsol(
        "nlp", "ipopt", {"x": U, "f": J}, {"print_time": False, "ipopt": {"print_level": 0, "sb": "yes", "tol": 1e-10}}
    )
    found = solver(x0=U0.ravel(), lbx=-bound, ubx=bound)
    return np.array(found["x"]).reshape(H, 1), float(found["f"])


@pytest.mark.parametrize("bound", [20.0, 6.0])
def test_the_optimum_is_ipopts(bound):
    """From a start near the same valley both find the same minimum, bounds active."""
    solver = swing_up(bound=bound, tolerance=1e-12)
    x0 = np.array([0.3, 0.8, 0.0, -0.5])
    result = solver.solve(x0)
    U, J = ipopt(x0, result.U + 0.1, bound, solver.p)
    assert np.sum(np.abs(result.U) > bound - 1e-9) >= 3
    assert result.cost == pytest.approx(J, rel=1e-6)
    np.testing.assert_allclose(result.U, U, atol=2e-2)


def test_plan_is_consistent_with_the_model_and_its_cost():
    solver = swing_up()
    result = solver.solve(HANGING, sine(40))
    for k in range(40):
        np.testing.assert_allclose(solver.predict(result.X[k], result.U[k]), result.X[k + 1], atol=1e-12)
    assert result.cost == pytest.approx(horizon_cost(solver, HANGING, result.U), rel=1e-12)


def test_cost_never_rises_from_one_iteration_to_the_next():
    solver = swing_up()
    costs = [horizon_cost(solver, HANGING, sine(40))]
    result = solver.solve(HANGING, sine(40), iterations=1)
    while len(costs) < 60:
        assert result.cost <= costs[-1]
        costs.append(result.cost)
        result = solver.solve(HANGING, iterations=1)
    assert costs[-1] < 0.7 * costs[0]


def test_model_derivatives_give_the_gradient_of_the_horizon_cost():
    solver = swing_up(H=12, substeps=2)
    rng = np.random.default_rng(1)
    x0, U = np.array([0.1, 2.0, -0.3, 1.0]), rng.uniform(-5, 5, (12, 1))
    nominal = solver.solve(x0, U, iterations=1)
    U = nominal.U  # X belongs to these
    _nx, size = 4, 2 * 16 + 2 * 4 + 1 + 5
    flat = np.zeros((13, size))
    linearise = solver.lib.symbol("linearise", [ctypes.POINTER(_Task), ctypes.c_void_p], None)
    linearise(solver._prepared(), flat.ctypes.data_as(ctypes.c_void_p))
    A, B = flat[:, :16].reshape(-1, 4, 4), flat[:, 16:20]
    lx, lu = flat[:, -5:-1], flat[:, -1]
    gradient, adjoint = np.zeros(12), lx[12]
    for k in reversed(range(12)):
        gradient[k] = lu[k] + B[k] @ adjoint
        adjoint = lx[k] + A[k].T @ adjoint

    def J(U):
        x, total = x0, 0.0
        for u in U:
            e = np.array(features(x, u, None)).ravel() - [0, 0, 1, 0, 0]
            total += WEIGHTS @ e**2 + R * u @ u
            x = solver.predict(x, u)
        e = np.array(features(x, 0, None)).ravel() - [0, 0, 1, 0, 0]
        return total + FINAL @ e**2

    h = 1e-5
    numeric = [(J(U + h * d[:, None]) - J(U - h * d[:, None])) / (2 * h) for d in np.eye(12)]
    np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-7 * np.abs(numeric).max())


def test_swing_up_within_the_box():
    solver = swing_up(H=80, bound=15.0)
    best = solver.solve_best_of(HANGING, [a * sine(80) for a in (0, 1, -1, 2)])
    assert np.all(np.abs(best.U) <= 15.0)
    assert np.cos(best.X[-1, 1]) > 0.99
    np.testing.assert_array_equal(solver.U, best.U)  # the plan kept is the best one


def test_feedback_holds_the_unstable_upright_pole():
    solver = swing_up(H=60)
    result = solver.solve(np.array([0.2, 0.1, 0.0, 0.0]))
    x = result.X[0] + np.array([0.02, -0.02, 0.0, 0.05])
    open_loop = x
    for k in range(60):
        x = solver.predict(x, np.clip(result.U[k] + result.K[k] @ (x - result.X[k]), -20, 20))
        open_loop = solver.predict(open_loop, result.U[k])
    assert np.abs(x - result.X[-1]).max() < 0.02 < np.abs(open_loop - result.X[-1]).max()


def test_answer_depends_neither_on_lanes_nor_on_repetition():
    results = [swing_up(lanes=lanes).solve(HANGING, sine(40)) for lanes in ("auto", "auto", 1, 2)]
    np.testing.assert_array_equal(results[0].U, results[1].U)
    for other in results[2:]:
        assert other.iterations == results[0].iterations
        np.testing.assert_allclose(other.U, results[0].U, atol=1e-6)


def test_shifted_plan_is_a_good_start_one_knot_later():
    solver = swing_up(H=60)
    first = solver.solve(np.array([0.2, 0.3, 0.0, 0.0]))
    solver.shift()
    np.testing.assert_array_equal(solver.U[:-1], first.U[1:])
    second = solver.solve(first.X[1], iterations=1)
    cold = swing_up(H=60).solve(first.X[1], iterations=1)
    best = swing_up(H=60).solve(first.X[1])
    assert second.cost - best.cost < 1e-3 * (cold.cost - best.cost)


def test_shift_fills_with_the_held_control_or_zero():
    for fill, last in (("hold", 1.5), ("zero", 0.0)):
        solver = swing_up(H=3, fill=fill)
        solver.reset(np.array([[0.5], [1.0], [1.5]]))
        solver.shift()
        assert solver.U[:, 0].tolist() == [1.0, 1.5, last]


def test_time_budget_ends_the_solve_after_one_iteration_with_a_better_plan():
    solver = swing_up()
    result = solver.solve(HANGING, sine(40), time_budget=1e-9)
    assert result.status is IlqrStatus.TIME_LIMIT and result.status.usable and result.iterations == 1
    assert result.cost < horizon_cost(solver, HANGING, sine(40))


@pytest.mark.parametrize("what", ["x0", "p", "reference", "U0", "u_previous"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_bad_numbers_are_refused_and_the_plan_survives(what, bad):
    solver = swing_up(H=10)
    good = solver.solve(HANGING, sine(10))
    inputs = dict(
        x0=HANGING.copy(), p=solver.p.copy(), reference=solver.cost.reference(10), U0=sine(10), u_previous=np.zeros(1)
    )
    inputs[what].flat[0] = bad
    result = solver.solve(**inputs)
    assert result.status is IlqrStatus.BAD_INPUT and not result.status.usable
    np.testing.assert_array_equal(result.X, good.X)
    np.testing.assert_array_equal(result.U, good.U)
    again = solver.solve(HANGING)  # nothing bad was kept
    assert again.status.usable and again.cost <= good.cost


def test_a_model_that_explodes_ends_as_diverged_with_finite_numbers():
    solver = swing_up()
    p = solver.p.copy()
    p[0] = p[1] = 1e-300
    result = solver.solve(HANGING, sine(40), p=p)
    assert result.status is IlqrStatus.DIVERGED
    assert np.all(np.isfinite(result.U)) and np.all(np.isfinite(result.K))


def test_negative_curvature_is_regularised_or_reported():
    model, step, *_ = linear_system(nu=1, bound=1.0)
    cost = Cost(model, [StateTerm(0.0), ControlTerm(0.0)])
    solver = BoxIlqr(model, cost, IlqrConfig(5, 0.02, mu_max=1e3), step=step)
    cost.stage_weights[:] = -1.0  # not reachable through Cost, which refuses them
    result = solver.solve(np.ones(4), np.zeros((5, 1)))
    assert np.all(np.isfinite(result.U)) and np.all(np.abs(result.U) <= 1.0)


def test_wrong_shapes_and_settings_say_what_was_expected():
    solver = swing_up(H=5)
    for inputs, text in (
        (dict(x0=np.zeros(3)), "x0: expected shape (4,)"),
        (dict(x0=HANGING, U0=np.zeros((4, 1))), "U0: expected shape (5, 1)"),
        (dict(x0=HANGING, p=np.zeros(3)), "p: expected shape (4,)"),
        (dict(x0=HANGING, reference=np.zeros((5, 6))), "reference: expected shape (6, 6)"),
    ):
        with pytest.raises(ValueError) as error:
            solver.solve(**inputs)
        assert text in str(error.value)
    for settings in (
        dict(horizon=0),
        dict(horizon=5, substeps=0),
        dict(horizon=5, fill="last"),
        dict(horizon=5, mu_init=-1.0),
    ):
        with pytest.raises(ValueError):
            IlqrConfig(dt=0.02, **settings)
    model, step = cartpole()
    cost = Cost(model, [StateTerm(1.0), ControlTerm(1.0)])
    with pytest.raises(ValueError, match="u_lower < u_upper"):
        BoxIlqr(model, cost, IlqrConfig(5, 0.02), step=step, u_lower=[1.0], u_upper=[1.0])
