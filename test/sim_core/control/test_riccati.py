"""The compiled backward sweep and its box QP against closed forms and a plain numpy sweep."""

import ctypes

import casadi as ca
import numpy as np
import pytest
import scipy.linalg
from toy_systems import box_qp_by_enumeration, linear_system

from sim_core.control.cost import ControlTerm, Cost, StateTerm
from sim_core.control.ilqr import BoxIlqr, _Task
from sim_core.control.plan import IlqrConfig, IlqrStatus


def pointer(a):
    return a.ctypes.data_as(ctypes.c_void_p)


def quadratic(model, step, H, smoothness=0.0, **config):
    cost = Cost(model, [StateTerm(1.0, 3.0), ControlTerm(0.5)], smoothness)
    return BoxIlqr(model, cost, IlqrConfig(H, 0.02, **config), step=step)


def lqr_recursion(A, B, Q, R, S, H):
    """Finite-horizon Riccati recursion: gains K[k] with u = K x, and the value matrix at knot 0."""
    P, gains = S, []
    for _ in range(H):
        K = -np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A)
        P = Q + A.T @ P @ (A + B @ K)
        gains.append(K)
    return np.array(gains[::-1]), P


def test_linear_quadratic_problem_is_solved_in_one_iteration():
    model, step, A, B = linear_system()
    solver = quadratic(model, step, 30)
    x0 = np.array([1.0, -2.0, 0.5, 1.0])
    result = solver.solve(x0)
    gains, P = lqr_recursion(A, B, np.eye(4), 0.5 * np.eye(2), 3 * np.eye(4), 30)
    np.testing.assert_allclose(result.K, gains, rtol=1e-10, atol=1e-12)
    assert result.cost == pytest.approx(x0 @ P @ x0, rel=1e-12)
    assert result.status is IlqrStatus.CONVERGED and result.iterations <= 2
    np.testing.assert_allclose(result.U[0], gains[0] @ x0, rtol=1e-9)


def test_long_horizon_gain_is_that_of_the_algebraic_riccati_equation():
    model, step, A, B = linear_system(seed=3)
    P = scipy.linalg.solve_discrete_are(A, B, np.eye(4), 0.5 * np.eye(2))
    K = -np.linalg.solve(0.5 * np.eye(2) + B.T @ P @ B, B.T @ P @ A)
    result = quadratic(model, step, 300).solve(np.ones(4))
    np.testing.assert_allclose(result.K[0], K, rtol=1e-9)


def test_box_qp_finds_the_minimiser_and_the_free_set():
    model, step, *_ = linear_system(nu=3, bound=1.0)
    qp = quadratic(model, step, 2).lib.symbol("box_qp", [ctypes.c_void_p] * 6)
    rng = np.random.default_rng(0)
    active = 0
    for _ in range(300):
        M = rng.standard_normal((3, 3))
        H = M @ M.T + 0.05 * np.eye(3)
        g, lower = 3 * rng.standard_normal(3), -rng.random(3)
        upper = lower + rng.random(3) * 2
        d, free = rng.standard_normal(3), np.zeros(3, np.int32)
        assert qp(*map(pointer, (H, g, lower, upper, d, free)))
        expected, expected_free = box_qp_by_enumeration(H, g, lower, upper)
        np.testing.assert_allclose(d, expected, atol=1e-9)
        np.testing.assert_array_equal(free.astype(bool), expected_free)
        active += 3 - free.sum()
    assert active > 100  # the bounds took part


def test_box_qp_refuses_an_indefinite_matrix():
    model, step, *_ = linear_system(nu=3, bound=1.0)
    qp = quadratic(model, step, 2).lib.symbol("box_qp", [ctypes.c_void_p] * 6)
    H, g = -np.eye(3), np.zeros(3)
    box, d, free = np.ones(3), np.zeros(3), np.zeros(3, np.int32)
    lower = -box
    assert not qp(*map(pointer, (H, g, lower, box, d, free)))


# -- one sweep against numpy -------------------------------------------------------------------

BLOCKS = ("A", "B", "lxx", "lux", "luu", "lx", "lu")


def random_knots(rng, H, nx, nu):
    knots = []
    for _ in range(H + 1):
        M = rng.standard_normal((nx + nu, nx + nu))
        l = M @ M.T / 4 + 0.1 * np.eye(nx + nu)
        knots.append(
            dict(
                A=np.eye(nx) + 0.3 * rng.standard_normal((nx, nx)),
                B=rng.standard_normal((nx, nu)),
                lxx=l[:nx, :nx],
                lux=l[nx:, :nx],
                luu=l[nx:, nx:],
                lx=rng.standard_normal(nx),
                lu=3 * rng.standard_normal(nu),
            )
        )
    return knots


def plain_sweep(knots, U, u_before, lower, upper, s, mu):
    """Box-DDP backward sweep on the augmented state z = [x; u_previous], written out in full."""
    H, (nu, nx) = len(U), knots[0]["lux"].shape
    nz = nx + nu
    V, v = np.zeros((nz, nz)), np.zeros(nz)
    V[:nx, :nx], v[:nx] = knots[H]["lxx"], knots[H]["lx"]
    gains, steps, linear, quadratic_ = [], [], 0.0, 0.0
    S = np.diag(s)
    for t in reversed(range(H)):
        k = knots[t]
        change = U[t] - (U[t - 1] if t else u_before)
        A, B = np.zeros((nz, nz)), np.vstack([k["B"], np.eye(nu)])
        A[:nx, :nx] = k["A"]
        lzz, luz = np.zeros((nz, nz)), np.hstack([k["lux"], -2 * S])
        lzz[:nx, :nx], lzz[nx:, nx:] = k["lxx"], 2 * S
        Qz = np.r_[k["lx"], -2 * S @ change] + A.T @ v
        Qu = k["lu"] + 2 * S @ change + B.T @ v
        Qzz, Quz, Quu = lzz + A.T @ V @ A, luz + B.T @ V @ A, k["luu"] + 2 * S + B.T @ V @ B
        step, free = box_qp_by_enumeration(Quu + mu * np.eye(nu), Qu, lower - U[t], upper - U[t])
        K = np.zeros((nu, nz))
        K[free] = -np.linalg.solve((Quu + mu * np.eye(nu))[np.ix_(free, free)], Quz[free])
        v = Qz + K.T @ Quu @ step + K.T @ Qu + Quz.T @ step
        V = Qzz + K.T @ Quu @ K + K.T @ Quz + Quz.T @ K
        gains.append(K)
        steps.append(step)
        linear, quadratic_ = linear + step @ Qu, quadratic_ + 0.5 * step @ Quu @ step
    return np.array(gains[::-1]), np.array(steps[::-1]), linear, quadratic_


@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize("nq, nu", [(1, 1), (2, 3), (3, 2)])
def test_sweep_agrees_with_numpy(nq, nu, smooth):
    model, step, *_ = linear_system(nq=nq, nu=nu, bound=1.0)
    nx, H, clamped = 2 * nq, 8, 0
    solver = quadratic(model, step, H, smoothness=0.7 if smooth else 0.0)
    sweep = solver.lib.symbol("sweep", [ctypes.POINTER(_Task), ctypes.c_void_p, ctypes.c_void_p])
    rng = np.random.default_rng(7)
    for mu in (0.0, 0.0, 0.3, 2.0):
        knots = random_knots(rng, H, nx, nu)
        solver.U[:] = rng.uniform(-1, 1, (H, nu))
        solver._u_previous[:] = rng.uniform(-1, 1, nu)
        task, expected = solver._prepared(), np.zeros(2)
        task.mu = mu
        flat = np.concatenate([k[b].ravel() for k in knots for b in BLOCKS])
        solver.k[:] = 0
        assert sweep(task, pointer(flat), pointer(expected)) == -1
        K, k, linear, quadratic_ = plain_sweep(
            knots, solver.U, solver._u_previous, model.u_lower, model.u_upper, solver.cost.smoothness, mu
        )
        scale = np.abs(K).max()
        np.testing.assert_allclose(solver.K, K if smooth else K[..., :nx], atol=1e-8 * scale)
        np.testing.assert_allclose(solver.k, k, atol=1e-8)
        np.testing.assert_allclose(expected, [linear, quadratic_], rtol=1e-8)
        clamped += np.sum(np.all(K == 0, axis=-1))
    assert clamped > 3


def test_smoothness_is_counted_between_knots_and_from_the_last_control():
    """The smoothed linear problem is one big least-squares problem."""
    model, step, A, B = linear_system(seed=5)
    H, s, x0, u_before = 12, 2.0, np.array([1.0, 0, -1, 2]), np.array([0.3, -0.7])
    result = quadratic(model, step, H, smoothness=s).solve(x0, u_previous=u_before)
    U = ca.SX.sym("U", 2, H)
    x, J, previous = ca.DM(x0), 0, ca.DM(u_before)
    for k in range(H):
        change = U[:, k] - previous
        J += ca.sumsqr(x) + 0.5 * ca.sumsqr(U[:, k]) + s * ca.sumsqr(change)
        previous, x = U[:, k], A @ x + B @ U[:, k]
    J += 3 * ca.sumsqr(x)
    hessian, gradient = ca.hessian(J, ca.vec(U))
    at_zero = [np.array(ca.evalf(ca.substitute(e, U, 0))) for e in (hessian, gradient)]
    best = np.linalg.solve(at_zero[0], -at_zero[1]).reshape(H, 2)
    np.testing.assert_allclose(result.U, best, atol=1e-8)
