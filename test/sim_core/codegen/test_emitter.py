"""Emitted C against CasADi's own evaluation: every operation, every lane width, NaN and infinity."""

import warnings

import casadi as ca
import numpy as np
import pytest

from sim_core.codegen import UnsupportedOperation, compile_library, count_operations, emit, graph

UNARY = [(name, op) for op, (name, arity) in graph.OPERATIONS.items() if arity == 1]
BINARY = [(name, op) for op, (name, arity) in graph.OPERATIONS.items() if arity == 2]
SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, 1e-300, 1e300, -2.0, 3.0]
LANES = [1, 2, 4, 8]


def every_operation():
    x, y = ca.SX.sym("x"), ca.SX.sym("y")
    terms = [ca.SX.unary(op, x) for _, op in UNARY] + [ca.SX.binary(op, x, y) for _, op in BINARY]
    return ca.Function("f", [x, y], [ca.vertcat(*terms)])


def pairs(dtype=float):
    rng = np.random.default_rng(1)
    x, y = np.meshgrid(SPECIAL, SPECIAL)
    x = np.concatenate([x.ravel(), rng.normal(size=200), 100 * rng.normal(size=200), rng.normal(size=50) * 1e7])
    y = np.concatenate([y.ravel(), rng.normal(size=450)])
    with np.errstate(over="ignore"):
        return x[:, None].astype(dtype), y[:, None].astype(dtype)


def expected(function, x, y):
    values = np.array(function.map(len(x))(x.T, y.T)).T
    for k, (name, _) in enumerate(BINARY, start=len(UNARY)):
        if name in ("fmin", "fmax"):  # the one difference on purpose: NaN is not clipped away
            values[np.isnan(x[:, 0]) | np.isnan(y[:, 0]), k] = np.nan
    return values


@pytest.mark.parametrize("lanes", LANES)
def test_every_operation_agrees_with_casadi_including_nan_and_infinity(lanes):
    f = every_operation()
    x, y = pairs()
    (found,) = compile_library(f"ops{lanes}", {"f": f}, lanes=lanes).call("f", x, y)
    want = expected(f, x, y)
    for k, (name, _) in enumerate(UNARY + BINARY):
        # libmvec promises 4 units in the last place
        np.testing.assert_allclose(found[:, k], want[:, k], rtol=1e-14, atol=1e-300, err_msg=name)


def test_float32_agrees_to_single_precision():
    f = every_operation()
    x, y = pairs(np.float32)
    keep = (np.abs(x) < 50)[:, 0] & (np.abs(y) < 50)[:, 0] & (np.abs(x) > 1e-30)[:, 0]
    x, y = x[keep], y[keep]
    (found,) = compile_library("ops32", {"f": f}, dtype="float32").call("f", x, y)
    want = expected(f, x.astype(float), y.astype(float))
    with np.errstate(over="ignore"):
        want = want.astype(np.float32)
    for k, (name, _) in enumerate(UNARY + BINARY):
        tolerance = 1e-3 if name in ("tan", "fmod", "remainder") else 2e-6  # near poles and jumps
        np.testing.assert_allclose(found[:, k], want[:, k], rtol=tolerance, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("dtype, limit, ulp", [("float64", 1e6, 2.3e-16), ("float32", 6e3, 1.2e-7)])
def test_sine_and_cosine_of_one_angle_are_good_to_about_one_unit_in_the_last_place(dtype, limit, ulp):
    x = ca.SX.sym("x")
    library = compile_library("trig", {"f": ca.Function("f", [x], [ca.vertcat(ca.sin(x), ca.cos(x))])}, dtype=dtype)
    rng = np.random.default_rng(2)
    angles = np.concatenate(
        [
            rng.uniform(-4, 4, 4000),
            rng.uniform(-limit, limit, 4000),
            np.arange(-200, 200) * np.pi / 2,
            [np.nan, np.inf, 2e9],
        ]
    ).astype(dtype)[:, None]
    (found,) = library.call("f", angles)
    exact = angles.astype(np.longdouble)
    with np.errstate(invalid="ignore"):
        want = np.concatenate([np.sin(exact), np.cos(exact)], axis=1)
    assert np.isnan(found[-3:-1]).all()
    error = np.abs(found.astype(np.longdouble) - want)[np.isfinite(angles[:, 0])]
    assert error.max() < ulp


def random_function(operations, seed, inputs=(5, 3)):
    """A deep random graph with shared parts, matrices, structural zeros and repeated denominators."""
    rng = np.random.default_rng(seed)
    arguments = [ca.SX.sym(f"a{i}", n) for i, n in enumerate(inputs)]
    pool = list(ca.vertsplit(ca.vertcat(*arguments)))
    makers = [
        lambda a, b: a + b,
        lambda a, b: a - b,
        lambda a, b: a * b,
        lambda a, b: a / (2 + b * b),
        lambda a, b: ca.sin(a),
        lambda a, b: ca.cos(a),
        lambda a, b: ca.tanh(b),
        lambda a, b: ca.if_else(a < b, a, b),
        lambda a, b: ca.fmin(a, b),
        lambda a, b: -a,
        lambda a, b: ca.sqrt(1 + a * a),
        lambda a, b: a / (2 + pool[0] ** 2),
        lambda a, b: ca.fabs(b),
    ]
    for _ in range(operations):
        a, b = (pool[int(i)] for i in rng.integers(max(0, len(pool) - 60), len(pool), 2))
        pool.append(0.7 * makers[rng.integers(len(makers))](a, b) + 0.1)
    matrix = ca.SX(4, 3)
    for i, j in ((0, 1), (2, 0), (3, 2), (1, 1)):
        matrix[i, j] = pool[-1 - i - 4 * j]
    return ca.Function("f", arguments, [ca.vertcat(*pool[-20:]), matrix, ca.SX(2, 2)])


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("batch", [1, 3, 5, 8, 13])
def test_random_graphs_cut_into_parts_agree_with_casadi_for_any_batch(lanes, batch):
    f = random_function(900, seed=3)
    assert "f_part2" in emit("f", f)
    rng = np.random.default_rng(batch)
    a, b = rng.normal(size=(batch, 5)), rng.normal(size=3)
    vector, matrix, zeros = compile_library(f"random{lanes}", {"f": f}, lanes=lanes).call("f", a, b)
    for i in range(batch):
        want = f(a[i], b)
        np.testing.assert_allclose(vector[i], np.array(want[0])[:, 0], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(matrix[i], np.array(want[1]), rtol=1e-12, atol=1e-12)
    assert matrix.shape == (batch, 4, 3) and not zeros.any()


def test_results_do_not_depend_on_threads_or_neighbours():
    library = compile_library("random4", {"f": random_function(900, seed=3)}, lanes=4)
    rng = np.random.default_rng(4)
    a, b = rng.normal(size=(37, 5)), rng.normal(size=(37, 3))
    one = library.call("f", a, b)[0]
    for threads in (2, 3, 64):
        np.testing.assert_array_equal(library.call("f", a, b, threads=threads)[0], one)
    order = rng.permutation(37)
    np.testing.assert_array_equal(library.call("f", a[order], b[order])[0], one[order])
    a[5] = np.nan
    np.testing.assert_array_equal(np.delete(library.call("f", a, b)[0], 5, axis=0), np.delete(one, 5, axis=0))


def test_scalar_functions_live_beside_vector_ones():
    f = random_function(300, seed=5)
    library = compile_library("mixed", {"wide": f, "narrow": f}, scalar=["narrow"], lanes=4)
    rng = np.random.default_rng(6)
    a, b = rng.normal(size=(9, 5)), rng.normal(size=3)
    for wide, narrow in zip(library.call("wide", a, b), library.call("narrow", a, b, threads=2)):
        np.testing.assert_allclose(wide, narrow, rtol=1e-12, atol=1e-13)


def test_equal_values_are_computed_once():
    x, y = ca.SX.sym("x"), ca.SX.sym("y")
    f = ca.Function("f", [x, y], [ca.sin(x * y), ca.sin(y * x) * (x * y)])
    assert count_operations(f) == 3


def test_what_cannot_be_printed_is_named():
    x = ca.SX.sym("x")
    with pytest.raises(UnsupportedOperation, match="OP_ERFINV.*OPERATIONS"):
        emit("f", ca.Function("f", [x], [ca.erfinv(x)]))
    with pytest.raises(ValueError, match="free variables.*x"):
        emit("f", ca.Function("f", [], [x], {"allow_free": True}))
    with pytest.raises(ValueError, match="not a C identifier"):
        emit("2f", ca.Function("f", [x], [x]))
    m = ca.MX.sym("m")
    solver = ca.rootfinder("r", "newton", {"x": m, "g": m * m - 2})
    with pytest.raises(UnsupportedOperation, match="OP_CALL"):
        emit("f", ca.Function("f", [m], [solver(m, [])]))


def test_mx_functions_are_expanded():
    m = ca.MX.sym("m", 2, 3)
    library = compile_library("mx", {"f": ca.Function("f", [m], [m @ m.T])})
    a = np.arange(6.0).reshape(2, 3)
    np.testing.assert_allclose(library.call("f", a)[0], a @ a.T)


def test_batches_broadcast_and_wrong_arguments_say_what_was_found():
    x, m = ca.SX.sym("x", 3), ca.SX.sym("m", 2, 3)
    library = compile_library("shapes", {"f": ca.Function("f", [x, m], [m @ x])})
    rng = np.random.default_rng(7)
    X, M = rng.normal(size=(4, 1, 3)), rng.normal(size=(5, 2, 3))
    np.testing.assert_allclose(library.call("f", X, M)[0], np.einsum("nij,bj->bni", M, X[:, 0]), rtol=1e-13)
    assert library.call("f", [1, 2, 3], M[0])[0].shape == (2,)
    assert library.call("f", np.empty((0, 3)), M[0])[0].shape == (0, 2)
    np.testing.assert_array_equal(
        library.call("f", X[::2, 0, ::-1], M[0])[0], library.call("f", X[::2, 0, ::-1].copy(), M[0])[0]
    )
    with pytest.raises(ValueError, match=r"f, argument 0: expected shape \(..., 3\), found \(4,\)"):
        library.call("f", np.zeros(4), M)
    with pytest.raises(ValueError, match=r"argument 1: expected shape \(..., 2, 3\), found \(3,\)"):
        library.call("f", np.zeros(3), np.zeros(3))
    with pytest.raises(TypeError, match="argument 0: expected float64, found float32"):
        library.call("f", np.zeros(3, np.float32), M)
    with pytest.raises(TypeError, match="takes 2 arguments, got 1"):
        library.call("f", np.zeros(3))
    with pytest.raises(ValueError):
        library.call("f", np.zeros((3, 3)), np.zeros((5, 2, 3)))


def test_without_a_compiler_the_same_calls_run_on_the_virtual_machine(monkeypatch):
    f = random_function(300, seed=5)
    rng = np.random.default_rng(8)
    a, b = rng.normal(size=(2, 3, 5)), rng.normal(size=3)
    compiled = compile_library("fallback", {"f": f})
    monkeypatch.setenv("REFIT_CC", "none")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = compile_library("fallback", {"f": f})
    assert compiled.compiled and not plain.compiled
    for one, other in zip(compiled.call("f", a, b), plain.call("f", a, b)):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)
    with pytest.raises(RuntimeError, match="needs a C compiler"):
        plain.symbol("call_f")
