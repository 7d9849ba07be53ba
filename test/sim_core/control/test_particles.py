"""Planning on several hypotheses: the mean cost over particles that share their controls."""

import casadi as ca
import numpy as np
import pytest
from toy_systems import ToyModel, cartpole

from sim_core.control.ampc import AdaptiveMpc, AmpcConfig, CommandSource
from sim_core.control.cost import ControlTerm, Cost, StateTerm
from sim_core.control.ilqr import BoxIlqr
from sim_core.control.plan import IlqrConfig, IlqrStatus
from sim_core.control.tasks import cartpole_swing_up, figure_eight, frame_tracking
from sim_core.multibody import load_model

H = 12


def scaled_linear_system(nq=2, nu=2, seed=0):
    """x' = p1 A x + p2 B u."""
    rng = np.random.default_rng(seed)
    n = 2 * nq
    A, B = np.eye(n) + 0.1 * rng.standard_normal((n, n)), rng.standard_normal((n, nu))
    model = ToyModel(nq, nu, np.ones(2), np.full(nu, -np.inf), np.full(nu, np.inf))
    x, u, p = ca.SX.sym("x", n), ca.SX.sym("u", nu), ca.SX.sym("p", 2)
    return model, ca.Function("step", [x, u, p], [p[0] * (A @ x) + p[1] * (B @ u)]), A, B


@pytest.mark.parametrize("smoothness", [0.0, 0.7])
def test_mean_quadratic_cost_is_minimised_in_one_step(smoothness):
    """Against the normal equations over all shared controls at once."""
    model, step, A, B = scaled_linear_system()
    Q, R, S = 1.0, 0.5, 3.0
    particles = np.array([[1.0, 1.0], [0.9, 1.6], [1.05, 0.4]])
    cost = Cost(model, [StateTerm(Q, S), ControlTerm(R)], smoothness)
    solver = BoxIlqr(model, cost, IlqrConfig(H, 0.02), step=step, particles=3)
    x0, before = np.array([1.0, -2.0, 0.5, 1.0]), np.array([0.3, -0.2])
    result = solver.solve(x0, p=particles, u_previous=before)
    n, nu = B.shape
    rows, rhs = [], []
    for a, b in particles:
        weight = 1 / np.sqrt(len(particles))
        for k in range(1, H + 1):
            row = np.hstack(
                [np.linalg.matrix_power(a * A, k - 1 - j) @ (b * B) if j < k else np.zeros((n, nu)) for j in range(H)]
            )
            w = weight * np.sqrt(S if k == H else Q)
            rows.append(w * row)
            rhs.append(-w * np.linalg.matrix_power(a * A, k) @ x0)
    rows.append(np.sqrt(R) * np.eye(H * nu))
    rhs.append(np.zeros(H * nu))
    change = np.eye(H * nu) - np.eye(H * nu, k=-nu)
    rows.append(np.sqrt(smoothness) * change)
    rhs.append(np.sqrt(smoothness) * np.r_[before, np.zeros((H - 1) * nu)])
    U, *_ = np.linalg.lstsq(np.vstack(rows), np.concatenate(rhs), rcond=None)
    np.testing.assert_allclose(result.U.ravel(), U, rtol=1e-8, atol=1e-10)
    assert result.status is IlqrStatus.CONVERGED and result.iterations <= 2
    # The policy's gain: how the best first control moves with the state that all particles see.
    moved = solver.solve(x0 + [0.1, 0, 0, 0], p=particles, u_previous=before)
    np.testing.assert_allclose(moved.U[0] - result.U[0], result.K[0] @ [0.1, 0, 0, 0], rtol=1e-6, atol=1e-9)


def test_states_may_differ_between_the_particles():
    model, step, A, B = scaled_linear_system()
    solver = BoxIlqr(
        model, Cost(model, [StateTerm(1.0), ControlTerm(0.5)]), IlqrConfig(H, 0.02), step=step, particles=2
    )
    x0 = np.array([[1.0, 0, 0, 0], [-1.0, 0, 0, 0]])
    assert np.abs(solver.solve(x0).U).max() < 1e-12  # opposite wishes of equal weight
    assert np.abs(solver.solve(x0[0]).U).max() > 0.1


@pytest.mark.parametrize("smoothness", [0.0, 1e-3])
def test_identical_particles_plan_as_one_model(smoothness):
    """A swing-up with the force at its bounds, two iterations at a time: plan, gains and cost at every step."""
    model, step = cartpole(bound=6.0)
    cost = Cost(model, [StateTerm([1, 10, 0.1, 0.1], [30, 300, 3, 3]), ControlTerm(1e-3)], smoothness)
    config = IlqrConfig(30, 0.02, max_iterations=2, mu_init=1e-6)
    one, three = (BoxIlqr(model, cost, config, step=step, particles=n) for n in (1, 3))
    x = np.array([0.0, np.pi, 0.0, 0.0])
    for _k in range(25):
        a, b = one.solve(x), three.solve(x)
        assert (a.status, a.iterations) == (b.status, b.iterations)
        assert b.cost == pytest.approx(a.cost, rel=1e-9)
        np.testing.assert_allclose(b.U, a.U, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(b.X, a.X, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(b.K, a.K, rtol=1e-5, atol=1e-5)
        three.U[:], three.X[:] = one.U, np.tile(one.X, (1, 3))  # rounding does not pile up over a swing-up
        three.K[:, :, :12] = np.tile(one.K[:, :, :4] / 3, (1, 1, 3))
        x = one.predict(x, a.U[0])
        one.shift(), three.shift()
    assert np.abs(one.U).max() == 6.0


def mean_cost(solver, task, U, particles, x0, reference, before):
    """By a plain roll-out of every particle, from the cost's own functions."""
    stage, final = (task.cost.functions()[name] for name in ("stage", "final"))
    total = len(particles) * np.sum(task.cost.smoothness * np.diff(U, axis=0, prepend=before[None]) ** 2)
    for p in particles:
        x = x0
        for u, r in zip(U, reference):
            total += float(stage(x, u, p, r, task.cost.stage_weights))
            x = solver.advance(x, u, p)
        total += float(final(x, p, reference[-1], task.cost.final_weights))
    return total / len(particles)


def test_two_payloads_are_carried_better_on_average_than_by_either_plan():
    """A Panda that holds nothing or 3 kg."""
    model = load_model("panda")
    task = frame_tracking(model, figure_eight())
    light = model.parameters.nominal.copy()
    heavy = light.copy()
    heavy[model.parameters.index("hand.mass")] += 3.0
    both, x0, reference = np.array([light, heavy]), np.r_[model.q_home, np.zeros(model.nv)], task.reference(0.0)
    solver = BoxIlqr(model, task.cost, task.ilqr, particles=2)
    holding = task.starts()[0]
    plans = [
        solver.solve(x0, holding, p=p, reference=reference, iterations=60, u_previous=holding[0])
        for p in (light, heavy, both)
    ]
    costs = [mean_cost(solver, task, plan.U, both, x0, reference, holding[0]) for plan in plans]
    assert plans[2].cost == pytest.approx(costs[2], rel=1e-9)
    assert costs[2] < 0.9 * min(costs[:2])


def test_a_controller_on_particles():
    model = load_model("cartpole")
    task = cartpole_swing_up(model)
    mpc = AdaptiveMpc(task, AmpcConfig(delay_steps=1, particles=4))
    one = AdaptiveMpc(task, AmpcConfig(delay_steps=1))
    nominal = model.parameters.nominal
    x = np.r_[0.0, np.pi, np.zeros(2)]
    mpc.set_parameters(np.tile(nominal, (4, 1)), 3)
    a, b = mpc.command(x, 0.0), one.command(x, 0.0)
    assert (a.revision, a.source) == (3, CommandSource.PLAN)
    assert a.cost == pytest.approx(b.cost, rel=1e-6)
    particles = np.tile(nominal, (4, 1))
    particles[:, model.parameters.index("pole.mass")] *= [0.5, 0.8, 1.2, 2.0]
    mpc.set_parameters(particles, 4)
    second = mpc.command(x, 0.02)
    assert second.revision == 4 and np.isfinite(second.cost) and not second.cost == pytest.approx(a.cost, rel=1e-3)
    np.testing.assert_allclose(mpc.revision.mean, particles.mean(0))
    with pytest.raises(ValueError, match="expected shape"):
        mpc.set_parameters(particles[:3], 5)
    particles[2, model.parameters.index("pole.mass")] = np.nan
    with pytest.raises(ValueError, match="pole.mass"):
        mpc.set_parameters(particles, 5)
    mpc.set_parameters(nominal, 6)  # one set for all: as without particles
    assert mpc.command(x, 0.04).revision == 6
