"""Networks whose weights a batch shares: one row read by all lanes, one gradient, the same numbers."""

import numpy as np
import pytest
from hybrids import STATE, TORQUES, blueprint

from sim_core.augmentation import Blueprint, Network, augment
from sim_core.codegen import emit
from sim_core.control.cost import ControlTerm, Cost, StateTerm
from sim_core.control.ilqr import BoxIlqr
from sim_core.control.plan import IlqrConfig
from sim_core.multibody import Dynamics


@pytest.fixture(scope="module")
def hybrid(pendulum):
    """Two networks as blocks, layers that fill a vector and such that do not; one of them called for each joint."""
    rng = np.random.default_rng(1)
    nets = [
        Blueprint("both", TORQUES, STATE, Network((13, 9), "tanh", evaluation="dense")),
        Blueprint(
            "each",
            "*.actuator_torque",
            ("*.position", "*.control"),
            Network((17,), "elu", evaluation="dense", biases=(True, False)),
        ),
    ]
    return augment(pendulum, [b.with_weights(0.3 * rng.normal(size=b.n_weights)) for b in nets])


def motions(hybrid, rng, B, steps=30):
    return rng.uniform(-1, 1, (B, 4)), rng.uniform(-1, 1, (B, steps, 2)), hybrid.parameters.nominal


@pytest.mark.parametrize("B", [2, 8, 19])
@pytest.mark.parametrize("dtype, tolerance", [("float64", 1e-13), ("float32", 1e-4)])
def test_one_row_for_all_equals_a_copy_for_each(hybrid, rng, B, dtype, tolerance):
    """States to rounding; the gradient is the sum of the robots', whatever fills up the last block."""
    f = Dynamics(hybrid, substeps=2, dtype=dtype)
    x0, U, p = (a.astype(dtype) for a in motions(hybrid, rng, B))
    own = np.tile(p, (B, 1))
    own[:, -1] += np.finfo(dtype).eps * np.abs(p[-1]) * np.arange(B)  # not the same: the kernel with a copy for each
    X, expected = f.rollout(x0, U, p), f.rollout(x0, U, own)
    np.testing.assert_allclose(X, expected, rtol=0, atol=100 * tolerance)
    Xbar = rng.normal(size=X.shape).astype(dtype)
    together, each = f.rollout_vjp(x0, U, p, X, Xbar, summed=True), f.rollout_vjp(x0, U, p, X, Xbar)
    assert together[2].shape == p.shape and each[2].shape == own.shape
    for found, expected in zip(together, (*each[:2], each[2].sum(axis=0))):
        np.testing.assert_allclose(found, expected, rtol=0, atol=10 * tolerance * np.abs(expected).max())


def test_the_sum_has_its_gradient(hybrid, rng):
    """Central differences of the batch's loss in every weight of a layer and some directions."""
    f = Dynamics(hybrid)
    x0, U, p = motions(hybrid, rng, 11, 60)
    X = f.rollout(x0, U, p)
    Xbar = rng.normal(size=X.shape)
    pbar = f.rollout_vjp(x0, U, p, X, Xbar, summed=True)[2]
    loss = lambda p: float(np.sum(f.rollout(x0, U, p) * Xbar))
    directions = [*np.eye(p.size)[-20:], *rng.normal(size=(5, p.size))]
    for direction in directions:
        slope = (loss(p + 1e-6 * direction) - loss(p - 1e-6 * direction)) / 2e-6
        assert slope == pytest.approx(pbar @ direction, rel=1e-5, abs=1e-7 * np.abs(pbar).max())


def test_sums_depend_on_no_thread(hybrid, rng):
    x0, U, p = motions(hybrid, rng, 50)
    found = []
    for threads in (1, 2, 3):
        f = Dynamics(hybrid, threads=threads)
        X = f.rollout(x0, U, p)
        found.append((X, *f.rollout_vjp(x0, U, p, X, X, summed=True)))
    for other in found[1:]:
        for a, b in zip(found[0], other):
            np.testing.assert_array_equal(a, b)


def test_physics_may_differ_where_weights_do_not(hybrid, rng):
    """Particles around one set of networks: they are recognised, and only what differs has a lane of its own."""
    f = Dynamics(hybrid)
    x0, U, p = motions(hybrid, rng, 13)
    particles = np.tile(p, (13, 1))
    damping = hybrid.parameters.index("joint1.damping")
    particles[:, damping] *= rng.uniform(0.5, 2, 13)
    X = f.rollout(x0, U, particles)
    assert ("rollout", False, True, None) in f._libraries and ("rollout", False, False, None) not in f._libraries
    D = np.eye(p.size)[:, [damping]]
    S = f.rollout_sensitivity(x0, U, particles, D)[1]
    for k in (0, 5, 12):
        np.testing.assert_allclose(X[k], f.rollout(x0[k], U[k], particles[k]), rtol=0, atol=1e-11)
        np.testing.assert_allclose(S[k], f.rollout_sensitivity(x0[k], U[k], particles[k], D)[1], rtol=0, atol=1e-9)


def test_a_robot_that_diverges_is_alone_but_in_the_sum(hybrid, rng):
    f = Dynamics(hybrid)
    x0, U, p = motions(hybrid, rng, 11)
    X = f.rollout(x0, U, p)
    Xbar = np.ones_like(X)
    Xbar[10, 3] = np.nan  # the last one, which also fills up the block
    x0bar, _, pbar = f.rollout_vjp(x0, U, p, X, Xbar, summed=True)
    assert np.isfinite(x0bar[:10]).all() and not np.isfinite(x0bar[10]).any() and not np.isfinite(pbar).all()


def test_different_weights_have_no_common_gradient(hybrid, rng):
    f = Dynamics(hybrid)
    x0, U, p = motions(hybrid, rng, 3)
    own = np.tile(p, (3, 1))
    X = f.rollout(x0, U, own)
    with pytest.raises(ValueError, match="one p .* for the whole batch"):
        f.rollout_vjp(x0, U, own, X, X, summed=True)


def test_the_same_without_a_compiler_and_without_blocks(hybrid, pendulum, rng, monkeypatch):
    x0, U, p = motions(hybrid, rng, 5, 8)
    f = Dynamics(hybrid)
    X = f.rollout(x0, U, p)
    compiled = f.rollout_vjp(x0, U, p, X, X, summed=True)
    small = augment(pendulum, blueprint())
    g = Dynamics(small)
    Y = g.rollout(x0, U, small.parameters.nominal)
    each = g.rollout_vjp(x0, U, small.parameters.nominal, Y, Y)[2]
    np.testing.assert_allclose(
        g.rollout_vjp(x0, U, small.parameters.nominal, Y, Y, summed=True)[2], each.sum(axis=0), rtol=1e-12
    )
    monkeypatch.setenv("REFIT_CC", "none")
    interpreted = Dynamics(hybrid)
    np.testing.assert_allclose(interpreted.rollout(x0, U, p), X, rtol=1e-10, atol=1e-12)
    for found, expected in zip(interpreted.rollout_vjp(x0, U, p, X, X, summed=True), compiled):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11)


def test_the_text_reads_one_row(hybrid):
    text = emit("step", Dynamics(hybrid)._step, shared=2)
    assert text.count("_shared(") == 3 and "(const S *)in[3]" in text
    assert "_shared(" not in emit("step", Dynamics(hybrid)._step)


def test_mpc_plans_with_blocks_as_with_networks_written_out(pendulum, rng):
    """Also on two particles whose weights differ, and for prediction: what is shared is a particle's, not the solver's."""
    weights = 0.3 * rng.normal(size=(2, blueprint(hidden=(12, 9)).n_weights))
    found = []
    for evaluation in ("inlined", "dense"):
        model = augment(pendulum, blueprint(hidden=(12, 9), evaluation=evaluation))
        cost = Cost(model, [StateTerm(np.ones(4), 10 * np.ones(4)), ControlTerm(1e-2)])
        mpc = BoxIlqr(
            model,
            cost,
            IlqrConfig(12, 0.02, substeps=2, max_iterations=5),
            particles=2,
            u_lower=np.full(2, -5.0),
            u_upper=np.full(2, 5.0),
        )
        p = np.c_[np.tile(pendulum.parameters.nominal, (2, 1)), weights]
        x0 = np.array([0.5, -0.3, 0.2, 0.1])
        plan = mpc.solve(x0, p=p)
        found.append((plan.U, plan.X, plan.K, mpc.advance(x0, plan.U[0], p)))
    for a, b in zip(*found):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10)
    assert np.abs(found[0][3][0] - found[0][3][1]).max() > 1e-4  # the particles do differ
