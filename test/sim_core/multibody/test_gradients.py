"""Exact Jacobians of a step against central differences: state, control and each physical parameter."""

import articulated_models as zoo
import casadi as ca
import numpy as np
import pytest

from sim_core.multibody import load_model
from sim_core.multibody.model import build


def central(f, x, h):
    """Fourth-order central differences: truncation h^4, so a step large enough for round-off is small enough."""
    columns = []
    for k in range(len(x)):
        step = np.zeros(len(x))
        step[k] = h * max(1.0, abs(x[k]))
        columns.append((8 * (f(x + step) - f(x - step)) - (f(x + 2 * step) - f(x - 2 * step))) / (12 * step[k]))
    return np.column_stack(columns) if columns else np.zeros((len(f(x)), 0))


def assert_close(exact, numeric):
    """Relative 1e-6, column by column: a parameter with little influence is held to it as well.

    The floor of 1e-10 is the differences' own round-off, 1e-15 |x| / h.
    """
    scale = np.maximum(np.abs(exact).max(axis=0), 1e-4)
    assert (np.abs(exact - numeric).max(axis=0) / scale).max() < 1e-6


CASES = {
    "cartpole": lambda: load_model("cartpole"),
    "double_cartpole": lambda: load_model(
        "double_cartpole", friction=True, friction_law="smooth", friction_velocity=0.05
    ),
    "panda": lambda: load_model(
        "panda", friction=True, geometry=True, joint_limits=True, friction_law="smooth", friction_velocity=0.05
    ),
    "zoo": lambda: load_model(zoo.ZOO, geometry=True, friction=True, friction_law="smooth", friction_velocity=0.05),
}


@pytest.mark.parametrize("name", CASES)
def test_jacobians_of_a_step(name):
    model = CASES[name]()
    x, u, p = ca.SX.sym("x", model.nx), ca.SX.sym("u", model.nu), ca.SX.sym("p", model.np_)
    step = build.step(model, model.timestep)
    y = step(x, u, p)
    jacobians = ca.Function("J", [x, u, p], [ca.densify(ca.jacobian(y, z)) for z in (x, u, p)])
    p0 = model.parameters.values({n: 0.3 for n in model.parameters.names if n.endswith(".frictionloss")})
    for q0, v0, u0 in zip(*(a.T for a in zoo.random_states(model, 3, seed=1, spread=0.3))):
        x0 = np.r_[model.q_home + q0, v0]
        A, B, C = (J.full() for J in jacobians(x0, u0, p0))
        assert_close(A, central(lambda z: step(z, u0, p0).full()[:, 0], x0, 3e-5))
        assert_close(B, central(lambda z: step(x0, z, p0).full()[:, 0], u0, 1e-3))
        assert_close(C, central(lambda z: step(x0, u0, z).full()[:, 0], p0, 1e-5))


def test_gradient_through_a_hundred_steps():
    """d x_100 / d (x_0, p) of the double cart-pole: one second of free motion from near upright."""
    model = load_model("double_cartpole")
    x, p, U = ca.MX.sym("x", model.nx), ca.MX.sym("p", model.np_), np.zeros((1, 100))
    unroll = build.step(model, 0.01).mapaccum("unroll", 100)
    last = unroll(x, U, ca.repmat(p, 1, 100))[:, -1]
    f = ca.Function("last", [x, p], [last])
    J = ca.Function("J", [x, p], [ca.jacobian(last, x), ca.jacobian(last, p)])
    x0, p0 = np.array([0.0, 0.1, 0.05, 0.0, 0.2, -0.1]), model.parameters.nominal
    A, C = (j.full() for j in J(x0, p0))
    assert_close(A, central(lambda z: f(z, p0).full()[:, 0], x0, 1e-4))
    assert_close(C, central(lambda z: f(x0, z).full()[:, 0], p0, 1e-5))


def test_every_parameter_of_p_matters():
    """Nothing in p is silently without influence, except what cannot have any: listed here with the reason."""
    model = load_model("panda")
    x, u, p = ca.SX.sym("x", model.nx), ca.SX.sym("u", model.nu), ca.SX.sym("p", model.np_)
    C = ca.Function("C", [x, u, p], [ca.jacobian(build.step(model, 0.002)(x, u, p), p)])
    rng = np.random.default_rng(3)
    total = sum(
        np.abs(C(rng.normal(size=14), rng.normal(size=7), model.parameters.nominal).full()).sum(axis=0)
        for _ in range(5)
    )
    silent = {n for n, c in zip(model.parameters.names, total) if c == 0}
    # The first joint turns about a fixed vertical axis through link1's origin: of link1 only I_zz can show. Link2
    # turns about the same, fixed, point: its mass has no lever, and h.z lies along the horizontal second axis.
    link1 = ("mass", "h.x", "h.y", "h.z", "I.xx", "I.yy", "I.xy", "I.xz", "I.yz")
    assert silent == {f"link1.{field}" for field in link1} | {"link2.mass", "link2.h.z"}
