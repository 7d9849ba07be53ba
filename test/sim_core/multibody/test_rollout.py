"""Roll-outs and their derivatives: against MuJoCo, complex steps, each other, and the interpreted loops."""

import warnings

import articulated_models as zoo
import mujoco
import numpy as np
import pytest

from sim_core.codegen import graph
from sim_core.multibody import Dynamics

MODELS = ["panda", "double_cartpole", "zoo"]


def problem(model, batch, steps, seed=0):
    """x0 (batch, nx), U (batch, steps, nu) and one p (np_,) near the nominal."""
    rng = np.random.default_rng(seed)
    q, v, _ = zoo.random_states(model, batch, seed, spread=0.3)
    U = np.stack([zoo.random_states(model, steps, seed + 1 + i)[2].T for i in range(batch)])
    p = model.parameters.nominal
    return np.concatenate([q, v]).T, 0.3 * U, p * (1 + 0.05 * rng.uniform(-1, 1, p.shape))


@pytest.fixture(scope="module")
def dynamics():
    """dynamics(model, **options), with its compiled kernels, once per module."""
    made = {}

    def get(model, **options):
        key = (model.name, *sorted(options.items()))
        if key not in made:
            made[key] = Dynamics(model, **options)
        return made[key]

    return get


def complex_rollout(step, x, U, p):
    """Final state for complex arguments: the step's graph interpreted by numpy, a second implementation."""
    g = graph.read(step)
    operations = {
        "add": np.add,
        "sub": np.subtract,
        "mul": np.multiply,
        "div": np.divide,
        "neg": np.negative,
        "sq": np.square,
        "twice": lambda a: a + a,
        "inv": lambda a: 1 / a,
        "sin": np.sin,
        "cos": np.cos,
        "tanh": np.tanh,
        "fmin": lambda a, b: np.where(a.real < b.real, a, b),
        "fmax": lambda a, b: np.where(a.real > b.real, a, b),
        "le": lambda a, b: (a.real <= b.real) + 0.0,
        "lt": lambda a, b: (a.real < b.real) + 0.0,
        "not": lambda a: (a == 0) + 0.0,
        "if_else_zero": lambda a, b: np.where(a != 0, b, 0),
    }
    for u in np.moveaxis(U, -2, 0):
        arguments, values = (x, u, p), []
        for value in g.values:
            if value.op == "input":
                values.append(arguments[value.args[0]][..., value.args[1]])
            elif value.op == "const":
                values.append(np.array(float(value.args[0])))
            else:
                values.append(operations[value.op](*(values[a] for a in value.args)))
        x = np.stack(np.broadcast_arrays(*(values[i] for i in g.outputs[0])), axis=-1)
    return x


def total(bars, directions):
    """Sum over arguments of <gradient, direction>, per robot."""
    return sum((bar * d).reshape(len(bar), -1).sum(1) for bar, d in zip(bars, directions))


@pytest.mark.parametrize("name", ["panda", "cartpole", "double_cartpole", "zoo", "floating"])
def test_rollouts_follow_mujoco(load, dynamics, name):
    model = load(name)
    x0, U, _ = problem(model, 3, 100)
    X = dynamics(model).rollout(x0, U, model.parameters.nominal)
    plant = zoo.without_constraints(model)
    data = mujoco.MjData(plant)
    for b in range(len(x0)):
        mujoco.mj_resetData(plant, data)
        data.qpos, data.qvel = x0[b, : model.nq], x0[b, model.nq :]
        states = []
        for u in U[b]:
            if model.nu:
                data.ctrl = u
            mujoco.mj_step(plant, data)
            states.append(np.concatenate([data.qpos, data.qvel]))
        assert np.abs(X[b, 1:] - states).max() <= 1e-9 * np.abs(states).max()


@pytest.mark.parametrize("name", ["double_cartpole", "zoo"])
@pytest.mark.parametrize("substeps", [1, 3])
def test_compiled_loops_equal_the_interpreted_ones(load, dynamics, monkeypatch, name, substeps):
    model = load(name)
    options = {"substeps": substeps, "dt": substeps * model.timestep}
    compiled = dynamics(model, **options)
    monkeypatch.setenv("REFIT_CC", "none")
    plain = Dynamics(model, **options)
    monkeypatch.undo()
    rng = np.random.default_rng(5)
    x0, U, p = problem(model, 5, 4)
    P = p * (1 + 0.01 * rng.random((5, 1)))
    D = np.zeros((model.np_, 6))
    D[2:9] = rng.normal(size=(7, 6))

    def results(d):
        X = d.rollout(x0, U, P)
        Xbar = np.cos(np.arange(X.size)).reshape(X.shape)
        return X, *d.rollout_vjp(x0, U, P, X, Xbar), *d.rollout_sensitivity(x0, U, P, D), *d.linearize(x0, U[:, 0], P)

    found = results(compiled)
    monkeypatch.setenv("REFIT_CC", "none")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = results(plain)
    for one, other in zip(found, want):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10 * np.abs(other).max(initial=1e-300))


@pytest.mark.parametrize("name", MODELS)
def test_gradients_of_a_hundred_steps_equal_complex_steps(load, dynamics, name):
    model = load(name)
    d = dynamics(model)
    x0, U, p = problem(model, 2, 100)
    rng = np.random.default_rng(6)
    weight = rng.normal(size=(2, model.nx))
    X = d.rollout(x0, U, p)
    Xbar = np.zeros_like(X)
    Xbar[:, -1] = weight
    bars = d.rollout_vjp(x0, U, p, X, Xbar)
    tiny = 1e-30
    for kind in range(3):  # x0, U and p apart, so that none hides behind another
        directions = [np.zeros_like(x0), np.zeros_like(U), np.zeros((2, model.np_))]
        directions[kind] = rng.normal(size=directions[kind].shape) * (np.abs(p) if kind == 2 else 1)
        moved = [a + 1j * tiny * t for a, t in zip((x0, U, np.tile(p, (2, 1))), directions)]
        end = complex_rollout(d._step, *moved)
        np.testing.assert_allclose(end.real, X[:, -1], rtol=1e-8, atol=1e-8)
        exact = (weight * end.imag / tiny).sum(1)
        np.testing.assert_allclose(total(bars, directions), exact, rtol=1e-8)


def test_every_parameter_gradient_equals_central_differences(load, dynamics):
    """Independent of CasADi's derivatives and of complex arithmetic; one parameter per robot of a batch."""
    model = load("panda")
    d = dynamics(model)
    x0, U, p = problem(model, 1, 20)
    x0, U = x0[0], U[0]
    X = d.rollout(x0, U, p)
    weight = np.random.default_rng(7).normal(size=X.shape)
    *_, pbar = d.rollout_vjp(x0, U, p, X, weight)
    h = 1e-3 * np.maximum(np.abs(p), 1e-2)

    def losses(P):
        return (d.rollout(x0, U, P) * weight).sum((-2, -1))

    # fourth-order central differences
    near, far = (losses(p + s * np.diag(h)) - losses(p - s * np.diag(h)) for s in (1, 2))
    numeric = (8 * near - far) / (12 * h)
    np.testing.assert_allclose(pbar, numeric, rtol=1e-6, atol=1e-6 * np.abs(numeric).max())


@pytest.mark.parametrize("name", MODELS)
def test_sensitivities_and_reverse_sweep_tell_the_same(load, dynamics, name):
    model = load(name)
    d = dynamics(model)
    x0, U, p = problem(model, 5, 30)
    rng = np.random.default_rng(8)
    D = np.zeros((model.np_, 5))
    D[[0, 3, model.np_ - 1]] = rng.normal(size=(3, 5))
    X, S = d.rollout_sensitivity(x0, U, p, D)
    np.testing.assert_allclose(X, d.rollout(x0, U, p), rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(S[:, 0], np.tile(np.eye(model.nx, model.nx + 5), (5, 1, 1)))
    Xbar = rng.normal(size=X.shape)
    x0bar, _, pbar = d.rollout_vjp(x0, U, p, X, Xbar)
    forward = np.einsum("bki,bkij->bj", Xbar, S)
    np.testing.assert_allclose(forward, np.concatenate([x0bar, pbar @ D], axis=1), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_jacobians_equal_casadis_and_chain_over_substeps(load, dynamics, name):
    import casadi as ca

    model = load(name)
    x0, U, p = problem(model, 6, 1)
    d = dynamics(model)
    x, u, q = d._step.sx_in()
    exact = ca.Function("J", [x, u, q], [ca.jacobian(d._step(x, u, q), s) for s in (x, u, q)])
    for found, of in zip(d.sensitivity(x0, U[:, 0], p), range(3)):
        want = np.stack([np.array(exact(x0[b], U[b, 0], p)[of]) for b in range(6)])
        np.testing.assert_allclose(found, want, rtol=1e-9, atol=1e-9 * np.abs(want).max())
    A, B = d.linearize(x0, U[:, 0], p)
    twice = dynamics(model, dt=2 * model.timestep, substeps=2)
    A2, B2 = twice.linearize(x0, U[:, 0], p)
    middle = d.step(x0, U[:, 0], p)
    A_m, B_m = d.linearize(middle, U[:, 0], p)
    np.testing.assert_allclose(A2, A_m @ A, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(B2, A_m @ B + B_m, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(twice.step(x0, U[:, 0], p), d.step(middle, U[:, 0], p), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("batch", [1, 2, 3, 5, 7, 8, 9])
def test_remainders_threads_and_neighbours_change_nothing(load, dynamics, batch):
    model = load("double_cartpole")
    x0, U, p = problem(model, 9, 20)
    X = dynamics(model).rollout(x0, U, p)
    bars = dynamics(model).rollout_vjp(x0, U, p, X, X)
    for threads in (1, 2, 5):
        d = dynamics(model, threads=threads)
        part = d.rollout(x0[:batch], U[:batch], p)
        got = part, *d.rollout_vjp(x0[:batch], U[:batch], p, X[:batch], X[:batch])
        for a, b in zip(got, (X, *bars)):
            if batch > 1:
                np.testing.assert_array_equal(a, b[:batch])
            else:  # one robot alone takes the scalar kernels: other rounding
                np.testing.assert_allclose(a, b[:1], rtol=1e-9, atol=1e-9)


def test_a_diverging_robot_stays_alone_and_visible(load, dynamics):
    model = load("double_cartpole")
    d = dynamics(model)
    x0, U, p = problem(model, 6, 20)
    clean = d.rollout(x0, U, p)
    P = np.tile(p, (6, 1))
    P[2, model.parameters.index("gravity.z")] = 1e308
    X = d.rollout(x0, U, P)
    assert not np.isfinite(X[2, -1]).any()
    np.testing.assert_array_equal(np.delete(X, 2, axis=0), np.delete(clean, 2, axis=0))


def test_single_precision_follows_double(load, dynamics):
    model = load("panda")
    x0, U, p = (a.astype(np.float32) for a in problem(model, 11, 50))
    small, large = dynamics(model, dtype="float32"), dynamics(model)
    X, X64 = small.rollout(x0, U, p), large.rollout(*(a.astype(float) for a in (x0, U, p)))
    assert X.dtype == np.float32
    assert np.abs(X - X64).max() < 2e-5 * np.abs(X64).max()
    bars = small.rollout_vjp(x0, U, p, X, np.ones_like(X))
    bars64 = large.rollout_vjp(*(a.astype(float) for a in (x0, U, p)), X64, np.ones_like(X64))
    for bar, bar64 in zip(bars, bars64):
        assert np.abs(bar - bar64).max() < 2e-4 * np.abs(bar64).max()


def test_batch_dimensions_broadcast(load, dynamics):
    model = load("double_cartpole")
    d = dynamics(model)
    x0, U, p = problem(model, 6, 7)
    X = d.rollout(x0.reshape(2, 3, -1), U.reshape(2, 3, 7, -1), p)
    assert X.shape == (2, 3, 8, model.nx)
    np.testing.assert_array_equal(X.reshape(6, 8, -1), d.rollout(x0, U, np.tile(p, (6, 1))))
    one = d.rollout(x0[0], U[0], p)
    assert one.shape == (8, model.nx)
    np.testing.assert_allclose(one, X[0, 0], rtol=1e-9, atol=1e-12)
    fan = d.rollout(x0[0], U[0], p * np.linspace(0.9, 1.1, 5)[:, None])
    np.testing.assert_allclose(fan[2], one, rtol=1e-9, atol=1e-12)
    assert d.rollout(x0[:0], U[:0], p).shape == (0, 8, model.nx)
    assert d.rollout(x0, U[:, :0], p).shape == (6, 1, model.nx)


def test_sensitivity_kernels_grow_with_the_parameters_asked_for(load):
    model = load("double_cartpole")
    d = Dynamics(model)
    x0, U, p = problem(model, 3, 5)
    everything = np.eye(model.np_)
    first = d.rollout_sensitivity(x0, U, p, everything[:, [4, 1]])[1]
    d.rollout_sensitivity(x0, U, p, everything[:, [1]])
    assert d._active == (1, 4)
    none = d.rollout_sensitivity(x0, U, p, np.zeros((model.np_, 2)))[1]
    assert not none[..., model.nx :].any()
    full = d.rollout_sensitivity(x0, U, p, everything)[1]
    np.testing.assert_allclose(first[..., model.nx :], full[..., model.nx :][..., [4, 1]], rtol=1e-10, atol=1e-14)


def test_wrong_arguments_say_what_was_found(load, dynamics):
    model = load("cartpole")
    d = dynamics(model)
    x0, U, p = problem(model, 2, 5)
    with pytest.raises(ValueError, match=r"rollout, argument x0: expected shape \(..., 4\), found \(2, 3\)"):
        d.rollout(x0[:, :3], U, p)
    with pytest.raises(ValueError, match=r"argument U: expected shape \(..., H, 1\), found \(2, 5\)"):
        d.rollout(x0, U[..., 0], p)
    with pytest.raises(ValueError, match=r"argument p: expected shape \(..., \d+\), found"):
        d.rollout(x0, U, p[:-1])
    with pytest.raises(ValueError, match=r"argument X: expected shape \(..., 6, 4\), found \(2, 5, 4\)"):
        d.rollout_vjp(x0, U, p, np.zeros((2, 5, 4)), np.zeros((2, 6, 4)))
    with pytest.raises(ValueError, match="argument dpdxi: expected shape"):
        d.rollout_sensitivity(x0, U, p, np.zeros((3, 2)))
    with pytest.raises(TypeError, match="argument U: expected float64, found float32"):
        d.rollout(x0, U.astype(np.float32), p)
    bad = U.copy()
    bad[1, 3, 0] = np.nan
    with pytest.raises(ValueError, match=r"rollout, argument U: expected finite numbers, found nan at \(1, 3, 0\)"):
        d.rollout(x0, bad, p)
    with pytest.raises(ValueError, match="argument x: expected finite numbers, found inf"):
        d.step(np.array([0, 0, np.inf, 0]), np.zeros(1), p)
    with pytest.raises(ValueError, match="substeps"):
        Dynamics(model, substeps=0)
