"""Networks: shape, start values, bounds; the two ways of evaluating them against each other and against torch."""

import casadi as ca
import numpy as np
import pytest
from hybrids import DOUBLE_PENDULUM, blueprint

from sim_core.augmentation import Network, augment
from sim_core.codegen import compile_library, emit
from sim_core.codegen.dense import ACTIVATIONS, DenseBlock
from sim_core.multibody import Dynamics, load_model
from sim_core.multibody.rollout.cuda_rollout import compile_kernels

torch = pytest.importorskip("torch")
TORCH = {
    "identity": lambda z: z,
    "tanh": torch.tanh,
    "sin": torch.sin,
    "relu": torch.relu,
    "softplus": torch.nn.functional.softplus,
    "elu": torch.nn.functional.elu,
    "sigmoid": torch.sigmoid,
    "softsign": torch.nn.functional.softsign,
}


@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
def test_values_and_gradients_against_torch(activation, rng):
    """Both forms, compiled, for one robot and for a batch: layers that fill fours and such that do not."""
    block = DenseBlock((3, 6, 5, 2), (activation, activation, "identity"), (True, False, True))
    n, x, w, seed = (
        block.n_weights,
        rng.normal(size=(9, 3)),
        rng.normal(size=(9, block.n_weights)),
        rng.normal(size=(9, 2)),
    )
    tx, tw = (torch.from_numpy(a).requires_grad_() for a in (x, w))
    h, at = tx, 0
    for k, (rows, cols, bias) in enumerate(((6, 3, True), (5, 6, False), (2, 5, True))):
        h = torch.einsum("nij,nj->ni", tw[:, at : at + rows * cols].reshape(-1, rows, cols), h)
        at += rows * cols
        if bias:
            h, at = h + tw[:, at : at + rows], at + rows
        h = TORCH[activation](h) if k < 2 else h
    h.backward(torch.from_numpy(seed))
    functions = {}
    for form, apply in (("inlined", block.forward), ("dense", block.function)):
        sx, sw, s = ca.SX.sym("x", 3), ca.SX.sym("w", n), ca.SX.sym("s", 2)
        y = apply(sx, sw)
        gradient = ca.jtimes(y, ca.vertcat(sx, sw), s, True)
        functions[form] = ca.Function(form, [sx, sw, s], [y, gradient[:3], gradient[3:]])
    for lanes in ("auto", 1):
        library = compile_library(f"test_net_{activation}_{lanes}", functions, lanes=lanes)
        for form in functions:
            for found, expected in zip(library.call(form, x, w, seed), (h.detach(), tx.grad, tw.grad)):
                np.testing.assert_allclose(found, expected.numpy(), rtol=1e-11, atol=1e-12, err_msg=f"{form}, {lanes}")


@pytest.mark.parametrize("activation", sorted(set(ACTIVATIONS) - {"relu"}))
def test_slope_at_zero_is_right_in_both_forms(activation):
    """Where networks start: with all weights zero every sum is exactly zero."""
    z = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    TORCH[activation](z).backward()
    block = DenseBlock((1, 1), (activation,), (False,))
    for apply in (block.forward, block.function):
        x, w = ca.SX.sym("x"), ca.SX.sym("w")
        slope = ca.Function("slope", [x, w], [ca.jacobian(apply(x, w), x)])
        (found,) = compile_library(f"test_slope_{activation}", {"slope": slope}, lanes=1).call(
            "slope", np.zeros((1, 1)), np.ones((1, 1))
        )
        np.testing.assert_allclose(found.ravel(), z.grad.numpy(), atol=1e-15)


def test_a_call_in_forward_mode_and_without_a_compiler(rng, monkeypatch):
    """Jacobians by the inputs take tangents through the block; the virtual machine runs the same graph."""
    block = DenseBlock((3, 8, 2), ("elu", "identity"), (True, True))
    x, w = ca.SX.sym("x", 3), ca.SX.sym("w", block.n_weights)
    f = {
        form: ca.Function("f", [x, w], [ca.densify(ca.jacobian(apply(ca.sin(x), w), x))])
        for form, apply in (("inlined", block.forward), ("dense", block.function))
    }
    values = rng.normal(size=(5, 3)), rng.normal(size=block.n_weights)
    expected = compile_library("test_jac", {"f": f["inlined"]}).call("f", *values)[0]
    np.testing.assert_allclose(
        compile_library("test_jac_dense", {"f": f["dense"]}).call("f", *values)[0], expected, rtol=1e-12
    )
    monkeypatch.setenv("REFIT_CC", "none")
    np.testing.assert_allclose(
        compile_library("test_jac_vm", {"f": f["dense"]}).call("f", *values)[0], expected, rtol=1e-12
    )


def test_weight_gradients_of_several_calls_are_summed_in_place(rng):
    """A reverse step's text has no addition per weight; the sum is right where the calls share weights."""
    block = DenseBlock((2, 40, 2), ("tanh", "identity"), (True, True))
    n = block.n_weights
    x, p, seed, pbar = ca.SX.sym("x", 2), ca.SX.sym("p", n + 3), ca.SX.sym("s", 2), ca.SX.sym("pbar", n + 3)

    def reverse(apply):
        y = apply(apply(x, p[2 : 2 + n]) * p[0], p[2 : 2 + n]) + p[n + 2]
        return ca.Function("f", [x, p, seed, pbar], [pbar + ca.jtimes(y, p, seed, True)])

    dense = reverse(block.function)
    assert emit("f", dense).count("\n") < n / 2
    values = [rng.normal(size=(7, k)) for k in (2, n + 3, 2, n + 3)]
    found, expected = (
        compile_library(f"test_sum{i}", {"f": f}).call("f", *values)[0]
        for i, f in enumerate((dense, reverse(block.forward)))
    )
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)


def test_the_text_compiles_for_a_gpu():
    """Needs no GPU; values on one are tested where the roll-out's are."""
    from sim_core.codegen import cuda

    try:
        cuda._Nvrtc()
    except cuda.CudaUnavailable as missing:
        pytest.skip(str(missing))
    hybrid = augment(load_model(DOUBLE_PENDULUM), blueprint(hidden=(6,), activation="softplus", evaluation="dense"))
    assert compile_kernels(Dynamics(hybrid), "sm_80").exists()


def test_counts_of_the_source():
    """The swimmer's 10-32-32-5 and 12-32-32-5 networks; two-layer ELU networks of five units without outer biases."""
    assert Network((32, 32)).block(12, 5).n_weights == 1637
    assert Network((32, 32)).block(10, 5).n_weights == 1573
    assert Network((102,)).block(10, 5).n_weights == 1637
    assert Network((5, 5), biases=(False, True, False)).block(3, 1).n_weights == 15 + 25 + 5 + 5


def test_xavier(rng):
    net = Network((200,), weight_bound=0.1)
    w = net.xavier(100, 50, seed=3)
    layers = net.block(100, 50).layers
    first = w[: 200 * 100]
    assert np.all(np.abs(w) <= 0.1) and np.abs(first).max() == pytest.approx(0.1)
    assert not w[layers[0][3] : layers[0][3] + 200].any()
    free = Network((200,)).xavier(100, 50, seed=3)[: 200 * 100]
    assert np.std(free) == pytest.approx(np.sqrt(2 / 300), rel=0.02)
    np.testing.assert_array_equal(Network((4,)).xavier(2, 1, 5), Network((4,)).xavier(2, 1, 5))


@pytest.mark.parametrize(
    "change", [{"activation": "gelu"}, {"hidden": (0,)}, {"biases": (True,)}, {"evaluation": "fast"}, {"bias_bound": 0}]
)
def test_networks_check_themselves(change):
    with pytest.raises(ValueError, match="Expected|No activation"):
        Network(**{"hidden": (5, 5), **change})
