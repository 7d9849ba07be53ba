"""Steps divided by how often their values change: same values, and the dear ones computed once."""

import casadi as ca
import numpy as np
import pytest

from sim_core.codegen.dense import DenseBlock
from sim_core.codegen.graph import read
from sim_core.codegen.stages import DEAR, stages
from sim_core.multibody import load_model
from sim_core.multibody.model import build


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def pair(f, columns=2):
    """A step f(x, u, theta) and its reverse over some columns."""
    x, u, theta = inputs = [ca.SX.sym(name, n) for name, n in (("x", 3), ("u", 1), ("theta", 2))]
    step = ca.Function("step", inputs, [f(*inputs)])
    after = ca.SX.sym("after", 3, columns)
    before, share = ca.vertsplit(ca.jtimes(step(*inputs), ca.vertcat(x, theta), after, True), [0, 3, 5])
    total = ca.SX.sym("total", 2, columns)
    return step, ca.Function("reverse", [*inputs, after, total], [before, total + share])


def smooth(x, u, theta):
    angle = ca.exp(theta[0]) * x[0]
    return ca.vertcat(
        x[0] / (theta[1] + theta[0]), ca.sin(angle) * x[1] / (1 + x[2] ** 2), x[2] / (1 + x[2] ** 2) + ca.cos(angle) * u
    )


@pytest.mark.parametrize("columns", [1, 2])
def test_values_stay(columns, rng):
    step, reverse = pair(smooth, columns)
    prepare, ahead, back = stages(step, reverse)
    x, u, theta, *others = [rng.uniform(0.2, 1.0, reverse.size_in(i)) for i in range(reverse.n_in())]
    after, kept = ahead(x, u, theta, prepare(theta))
    np.testing.assert_allclose(after, step(x, u, theta), rtol=1e-15)
    for found, expected in zip(back(x, u, theta, prepare(theta), kept, *others), reverse(x, u, theta, *others)):
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-13)


def test_what_is_dear_is_computed_once():
    prepare, ahead, back = stages(*pair(smooth))
    dear = lambda f: [v.op for v in read(f).values if v.op in DEAR]
    assert sorted(dear(prepare)) == ["exp", "inv"] and not dear(back)
    assert (
        set(dear(ahead)) == {"sin", "cos", "div", "inv"} and ahead.numel_out(1) == 3
    )  # sine, cosine, 1 / (1 + x[2]^2)


def test_a_robots_step(rng):
    model = load_model("double_pendulum")
    p = ca.SX.sym("p", model.np_)
    f = build.step(model, 0.01)
    x, u = ca.SX.sym("x", model.nx), ca.SX.sym("u", model.nu)
    step = ca.Function("step", [x, u, p], [f(x, u, p)])
    after = ca.SX.sym("after", model.nx)
    reverse = ca.Function(
        "reverse",
        [x, u, p, after],
        [ca.jtimes(step(x, u, p), x, after, True), ca.jtimes(step(x, u, p), p, after, True)],
    )
    prepare, ahead, back = stages(step, reverse)
    at, u0, lam = rng.normal(size=model.nx), np.zeros(model.nu), rng.normal(size=model.nx)
    theta = model.parameters.nominal
    c = prepare(theta)
    after0, kept = ahead(at, u0, theta, c)
    np.testing.assert_allclose(after0, step(at, u0, theta), rtol=1e-14)
    for found, expected in zip(back(at, u0, theta, c, kept, lam), reverse(at, u0, theta, lam)):
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-14)


def test_functions_that_call_blocks_are_left_alone(rng):
    block = DenseBlock((2, 3, 1), ("tanh", "identity"), (True, True))
    weights = lambda theta: ca.repmat(theta, block.n_weights)[: block.n_weights]
    f = lambda x, u, theta: ca.vertcat(x[0], x[1], block.function(x[:2], weights(theta)))
    step, reverse = pair(f)
    prepare, ahead, back = stages(step, reverse)
    assert prepare.numel_out(0) == 0 and ahead.numel_out(1) == 0
    x, u, theta = rng.normal(size=3), rng.normal(size=1), rng.normal(size=2)
    np.testing.assert_array_equal(ahead(x, u, theta, [])[0], step(x, u, theta))
