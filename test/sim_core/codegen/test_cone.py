"""Friction cones as a block: its loops tell what CasADi's own derivatives of the iterations tell."""

import casadi as ca
import numpy as np
import pytest

from sim_core.codegen import compile_library, cuda
from sim_core.codegen.cone import ConeBlock

N = 3


def problems(count, seed=0):
    rng = np.random.default_rng(seed)
    J = rng.normal(size=(count, 3 * N, 3 * N))
    A = J @ J.swapaxes(1, 2) / (3 * N) + 0.3 * np.eye(3 * N)
    return A, rng.normal(size=(count, 3 * N)), rng.uniform(0.2, 0.8, (count, N)), np.where(rng.random((count, N)) < 0.8, 1.0, 0.0)


@pytest.fixture(scope="module")
def functions():
    """Value, reverse (every input times a weight) and forward (directions) of a graph that calls the block twice."""
    A, b, mu, touching = (ca.SX.sym(n, *shape) for n, shape in zip(("A", "b", "mu", "touching"), [(9, 9), (9,), (3,), (3,)]))
    f = ConeBlock(N, 20).function
    p = f(A, b, mu, touching)
    p = f(A, b + 0.1 * p, mu * 1.1, touching)
    x, weights, direction = ca.veccat(A, b, mu), ca.SX.sym("weights", 9), ca.SX.sym("direction", 93)
    return {"value": ca.Function("value", [A, b, mu, touching], [p]),
            "reverse": ca.Function("reverse", [A, b, mu, touching, weights], [ca.jtimes(p, x, weights, True)]),
            "forward": ca.Function("forward", [A, b, mu, touching, direction], [ca.jtimes(p, x, direction)])}


@pytest.mark.parametrize("lanes", [1, "auto"])
def test_loops_equal_the_virtual_machine(functions, lanes):
    library = compile_library("cone_test", functions, lanes=lanes)
    if not library.compiled:
        pytest.skip("no C compiler")
    given, rng = problems(11), np.random.default_rng(1)
    seeds = {"value": (), "reverse": (rng.normal(size=(11, 9)),), "forward": (rng.normal(size=(11, 93)),)}
    for name, f in functions.items():
        (ours,) = library.call(name, *given, *seeds[name])
        theirs = np.stack([f(*(a[i] for a in (*given, *seeds[name]))).full().ravel() for i in range(11)])
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-11, err_msg=name)


def test_derivatives_equal_central_differences(functions):
    A, b, mu, touching = (a[0] for a in problems(1, seed=4))
    weights, e = np.random.default_rng(2).normal(size=9), 1e-6
    gradient = functions["reverse"](A, b, mu, touching, weights).full().ravel()
    loss = lambda b, mu: float(weights @ functions["value"](A, b, mu, touching).full().ravel())
    for k in range(9):
        step = e * np.eye(9)[k]
        assert (loss(b + step, mu) - loss(b - step, mu)) / (2 * e) == pytest.approx(gradient[81 + k], rel=1e-6, abs=1e-8)
    for k in range(3):
        step = e * np.eye(3)[k]
        assert (loss(b, mu + step) - loss(b, mu - step)) / (2 * e) == pytest.approx(gradient[90 + k], rel=1e-6, abs=1e-8)


def test_nan_stays_visible_and_alone(functions):
    library = compile_library("cone_test", functions)
    A, b, mu, touching = problems(6)
    b[2, 0] = np.nan
    (p,) = library.call("value", A, b, mu, np.ones_like(touching))
    assert np.isnan(p[2]).any() and np.isfinite(np.delete(p, 2, 0)).all()


def test_nvrtc_compiles_the_block(functions, tmp_path):
    try:
        cuda._Nvrtc()
    except cuda.CudaUnavailable as reason:
        pytest.skip(str(reason))
    source = tmp_path / "cone.cu"
    source.write_text('extern "C" __global__ void all(const S *a, const S *b, const S *c, const S *d, const S *e, S *y) {\n'
                      "  const S *in[] = {a, b, c, d, e}; S *out[] = {y}; value(in, out, NULL); reverse(in, out, NULL); }\n")
    path = cuda.compile_cuda("cone", {n: functions[n] for n in ("value", "reverse")}, source, architecture="sm_80")
    assert b".text.all" in path.read_bytes()
