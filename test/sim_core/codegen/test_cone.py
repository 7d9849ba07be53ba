"""Friction cones as a block: its loops tell what CasADi's own derivatives of the iterations tell."""

import casadi as ca
import numpy as np
import pytest

from sim_core.codegen import compile_library, cuda
from sim_core.codegen.cone import ConeBlock

N, NV = 3, 5


def problems(count, seed=0):
    """Jt, Y (count, NV, 3 N), b, cfm, mu, touching of random mechanisms."""
    rng = np.random.default_rng(seed)
    Jt = rng.normal(size=(count, NV, 3 * N))
    inverse_mass = rng.uniform(0.2, 1.0, (count, NV, 1)) * np.eye(NV) + 0.05
    return (
        Jt,
        inverse_mass @ Jt,
        rng.normal(size=(count, 3 * N)),
        rng.uniform(0.01, 0.5, (count, N)),
        rng.uniform(0.2, 0.8, (count, N)),
        np.where(rng.random((count, N)) < 0.8, 1.0, 0.0),
    )


@pytest.fixture(scope="module")
def functions():
    """Value, reverse (every input times a weight) and forward (directions) of a graph that calls the block twice."""
    shapes = {"Jt": (NV, 3 * N), "Y": (NV, 3 * N), "b": (3 * N,), "cfm": (N,), "mu": (N,), "touching": (N,)}
    Jt, Y, b, cfm, mu, touching = given = [ca.SX.sym(name, *shape) for name, shape in shapes.items()]
    f = ConeBlock(N, NV, 20).function
    p = f(*given)
    p = f(Jt, Y, b + 0.1 * p, cfm, mu * 1.1, touching)
    x, weights = ca.veccat(*given[:-1]), ca.SX.sym("weights", 3 * N)
    direction = ca.SX.sym("direction", x.numel())
    return {
        "value": ca.Function("value", given, [p]),
        "reverse": ca.Function("reverse", [*given, weights], [ca.jtimes(p, x, weights, True)]),
        "forward": ca.Function("forward", [*given, direction], [ca.jtimes(p, x, direction)]),
    }


@pytest.mark.parametrize("lanes", [1, "auto"])
def test_loops_equal_the_virtual_machine(functions, lanes):
    library = compile_library("cone_test", functions, lanes=lanes)
    if not library.compiled:
        pytest.skip("no C compiler")
    given, rng = problems(11), np.random.default_rng(1)
    seeds = {"value": (), "reverse": (rng.normal(size=(11, 9)),), "forward": (rng.normal(size=(11, 105)),)}
    for name, f in functions.items():
        (ours,) = library.call(name, *given, *seeds[name])
        theirs = np.stack([f(*(a[i] for a in (*given, *seeds[name]))).full().ravel() for i in range(11)])
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-11, err_msg=name)


def test_derivatives_equal_central_differences(functions):
    given, weights, e = [a[0] for a in problems(1, seed=4)], np.random.default_rng(2).normal(size=3 * N), 1e-6
    gradient = functions["reverse"](*given, weights).full().ravel()
    loss = lambda given: float(weights @ functions["value"](*given).full().ravel())
    at = 0
    for i, a in enumerate(given[:-1]):
        for k in range(a.size):
            step = (e * np.eye(a.size)[k]).reshape(a.shape, order="F")  # CasADi's columns first
            up, down = ([*given[:i], a + side * step, *given[i + 1 :]] for side in (1, -1))
            assert (loss(up) - loss(down)) / (2 * e) == pytest.approx(gradient[at + k], rel=1e-6, abs=1e-8)
        at += a.size


def test_nan_stays_visible_and_alone(functions):
    library = compile_library("cone_test", functions)
    *given, b, cfm, mu, touching = problems(6)
    b[2, 0] = np.nan
    (p,) = library.call("value", *given, b, cfm, mu, np.ones_like(touching))
    assert np.isnan(p[2]).any() and np.isfinite(np.delete(p, 2, 0)).all()


def test_nvrtc_compiles_the_block(functions, tmp_path):
    try:
        cuda._Nvrtc()
    except cuda.CudaUnavailable as reason:
        pytest.skip(str(reason))
    source = tmp_path / "cone.cu"
    source.write_text(
        'extern "C" __global__ void all(const S *x, S *y) {\n'
        "  const S *in[] = {x, x + 45, x + 90, x + 99, x + 102, x + 105, x + 108}; S *out[] = {y}; value(in, out, NULL); reverse(in, out, NULL); }\n"
    )
    path = cuda.compile_cuda("cone", {n: functions[n] for n in ("value", "reverse")}, source, architecture="sm_80")
    assert b".text.all" in path.read_bytes()
