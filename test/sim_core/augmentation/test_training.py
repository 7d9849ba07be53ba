"""Gradients through roll-outs, training, discovery, basin hopping."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hybrids import STATE, TORQUES, blueprint

from sim_core.augmentation import (
    Blueprint,
    Network,
    Stage,
    TrajectoryError,
    attached,
    augment,
    fit,
    weight_slice,
)
from sim_core.augmentation.basin_hopping import basin_hopping, local_minimum
from sim_core.augmentation.group_lasso import discover, pruned
from sim_core.inference.data.trajectories import Trajectories
from sim_core.inference.shooting.limited_parameters import LimitedParameters
from sim_core.multibody import Dynamics


def swings(model, p, rng, count=3, steps=120):
    """Free and driven motion of a model with parameters p."""
    x0 = rng.uniform(-1, 1, (count, 4)) * [np.pi, np.pi, 3, 3]
    U = rng.uniform(-1, 1, (count, steps, 2))
    return Trajectories(model.timestep, Dynamics(model).rollout(x0, U, p), U)


@pytest.mark.parametrize("evaluation", ["inlined", "dense"])
def test_gradients_of_a_hundred_steps_equal_central_differences(pendulum, rng, evaluation):
    """State, controls, physics and every weight to 1e-4."""
    b = blueprint(hidden=(8, 6), evaluation=evaluation)
    hybrid = augment(pendulum, b.with_weights(0.3 * rng.normal(size=b.n_weights)))
    dynamics, p = Dynamics(hybrid), hybrid.parameters.nominal
    x0, U = rng.uniform(-1, 1, 4), rng.uniform(-1, 1, (100, 2))
    X = dynamics.rollout(x0, U, p)
    Xbar = rng.normal(size=X.shape)
    x0bar, Ubar, pbar = dynamics.rollout_vjp(x0, U, p, X, Xbar)

    def differences(name, size, h):
        """Central differences by every coordinate of x0, U or p, all in one batch."""
        arguments = {"x0": x0, "U": U, "p": p}
        a = arguments[name]
        steps = np.concatenate([np.eye(size), -np.eye(size)]).reshape(2 * size, *a.shape) * h
        values = {key: np.broadcast_to(v, (2 * size, *v.shape)).copy() for key, v in arguments.items()}
        values[name] += steps
        L = np.sum(dynamics.rollout(values["x0"], values["U"], values["p"]) * Xbar, axis=(1, 2))
        return (L[:size] - L[size:]) / (2 * h)

    for name, bar in (("x0", x0bar), ("U", Ubar.ravel()), ("p", pbar)):
        expected = differences(name, bar.size, 1e-5)
        np.testing.assert_allclose(bar, expected, rtol=1e-5, atol=1e-7 * np.abs(expected).max(), err_msg=name)


@pytest.mark.parametrize("evaluation", ["inlined", "dense"])
@pytest.mark.parametrize("integrator", ["semi_implicit_euler", "mujoco_euler"])
def test_linearisation_of_a_hybrid_equals_central_differences(pendulum, rng, evaluation, integrator):
    """What the MPC works with; the implicit scheme treats networks explicitly, and so do its Jacobians."""
    b = blueprint(evaluation=evaluation)
    hybrid = augment(pendulum, b.with_weights(0.3 * rng.normal(size=b.n_weights)))
    dynamics, p, h = Dynamics(hybrid, integrator=integrator), hybrid.parameters.nominal, 1e-6
    x, u = rng.normal(size=4), rng.normal(size=2)
    A, B = dynamics.linearize(x, u, p)
    z, steps = np.r_[x, u], h * np.eye(6)
    ahead, behind = (dynamics.step((z + s * steps)[:, :4], (z + s * steps)[:, 4:], p) for s in (1, -1))
    np.testing.assert_allclose(np.c_[A, B], (ahead - behind).T / (2 * h), rtol=1e-6, atol=1e-8)


def test_trajectory_error_is_the_mean_square_and_has_its_gradient(pendulum, rng):
    hybrid = augment(pendulum, blueprint().initialised(1, 0.5))
    recording = swings(pendulum, pendulum.parameters.nominal, rng)
    error, p = TrajectoryError(Dynamics(hybrid), recording), hybrid.parameters.nominal
    loss, pbar = error(p, horizon=30)
    X = Dynamics(hybrid).rollout(recording.windows(4).x[:, 0], recording.windows(4).u, p)
    measured = recording.windows(4).x
    # the mean over all states of a window but its first, which is exact
    np.testing.assert_allclose(loss, np.mean(((X - measured)[:, 1:] / recording.scale) ** 2), rtol=1e-12)
    assert error.value(p, 30) == pytest.approx(loss, rel=1e-12)
    direction, h = rng.normal(size=p.size), 1e-6
    slope = (error.value(p + h * direction, 30) - error.value(p - h * direction, 30)) / (2 * h)
    assert slope == pytest.approx(pbar @ direction, rel=1e-5)


def test_errors_of_the_training_set_are_named(pendulum, rng):
    recording = swings(pendulum, pendulum.parameters.nominal, rng, 1, 5)
    with pytest.raises(ValueError, match="period 0.01 s, found 0.002 s"):
        TrajectoryError(Dynamics(pendulum, dt=0.01), recording)
    with pytest.raises(ValueError, match="no networks to train"):
        fit(pendulum, recording)
    with pytest.raises(ValueError, match='"adam" or "lbfgs"'):
        Stage(1, optimiser="sgd")


def test_linear_networks_recover_damping(pendulum, rng):
    """Item 5: tau_i <- qd_i, frictions 0.2 and 0.1, dt 1/500 s, 5 s: within 2 %, here exactly."""
    p = pendulum.parameters.values({"joint1.damping": 0.2, "joint2.damping": 0.1})
    U = np.zeros((1, 2500, 2))
    recording = Trajectories(0.002, Dynamics(pendulum).rollout(np.array([[1.5, 0.5, 0, 0]]), U, p), U)
    without = pendulum.parameters.values({"joint1.damping": 0.0, "joint2.damping": 0.0})
    nets = [
        Blueprint(f"f{i}", f"joint{i}.passive_torque", f"joint{i}.velocity", Network((), biases=False)) for i in (1, 2)
    ]
    hybrid = augment(pendulum, nets)
    hybrid.parameters.nominal[: without.size] = without
    found = fit(hybrid, recording, stages=(Stage(1, 20, "lbfgs"), Stage(250, 20, "lbfgs"), Stage(None, 20, "lbfgs")))
    np.testing.assert_allclose([b.weights[0] for b in attached(found.model)], [-0.2, -0.1], rtol=1e-4)


def test_physics_comes_first_and_the_network_learns_the_rest(pendulum, rng):
    """Hidden: a heavier second link, and a torque -0.3 tanh(3 v) in the first joint that no parameter describes."""
    law = Blueprint(
        "law",
        "joint1.passive_torque",
        "joint1.velocity",
        Network((), "identity", "tanh", biases=False),
        input_scale=1 / 3,
        output_scale=0.3,
        weights=[-1.0],
    )
    truth = augment(pendulum, law)
    physics = LimitedParameters(pendulum, {"link2.mass": (0.5, 2.0)})
    true = np.r_[physics.to_physical([1.3]), truth.parameters.nominal[weight_slice(truth)]]
    recording = swings(truth, true, rng, count=4, steps=150)
    hybrid = augment(
        pendulum, Blueprint("net", "joint1.passive_torque", "joint1.velocity", Network((6,), "tanh"), input_scale=2.0)
    )
    rows = []
    found = fit(
        hybrid,
        recording,
        physics,
        (Stage(1, 150, "lbfgs"), Stage(50, 40, "adam", 5e-3)),
        ridge=1e-9,
        callback=rows.append,
    )
    stages = [row["stage"] for row in rows]
    assert stages[0] == "physics" and stages[-1] == "adam" and rows == found.history and not found.diverged
    error = TrajectoryError(Dynamics(hybrid), recording)
    without = hybrid.parameters.nominal.copy()
    without[weight_slice(hybrid)] = 0
    assert error.value(found.p) < 0.02 * error.value(without)
    assert found.p[hybrid.parameters.index("link2.mass")] == pytest.approx(1.3, abs=0.1)


def test_training_survives_divergence(pendulum, rng):
    """Steps far too large: roll-outs that are not finite are counted, and the best weights kept."""
    recording = swings(pendulum, pendulum.parameters.nominal, rng, 2, 100)
    hybrid = augment(pendulum, blueprint("net", (4,), activation="relu"))
    found = fit(hybrid, recording, stages=(Stage(None, 25, "adam", rate=300.0),))
    losses = [row["loss"] for row in found.history]
    assert found.diverged > 0 and np.isfinite(found.p).all()
    assert TrajectoryError(Dynamics(found.model), recording)(found.p)[0] == pytest.approx(min(losses))


def test_bounds_hold(pendulum, rng):
    p = pendulum.parameters.values({"joint1.damping": 1.0, "joint2.damping": 1.0})
    recording = swings(pendulum, p, rng, 2, 50)
    net = Blueprint("f", "*.passive_torque", "*.velocity", Network((), biases=False, weight_bound=0.1))
    for stage in (Stage(1, 30, "lbfgs"), Stage(1, 60, "adam", 0.05)):
        found = fit(augment(pendulum, net), recording, stages=(stage,))
        assert found.p[weight_slice(found.model)] == pytest.approx([-0.1])


def test_discovery_finds_what_the_torques_depend_on(pendulum, rng):
    """Items 11: all of q and v for both torques; exactly the joint's own velocity survives, exact zeros elsewhere."""
    p = pendulum.parameters.values({"joint1.damping": 0.25, "joint2.damping": 0.12})
    recording = swings(pendulum, p, rng, 4, 60)
    nets = [
        Blueprint(f"f{i}", TORQUES[i], STATE, Network((3,), "tanh"), input_scale=recording.scale).initialised(i, 1.0)
        for i in (0, 1)
    ]
    found = discover(augment(pendulum, nets), recording)
    assert found.surviving == {"f0": ("joint1.velocity",), "f1": ("joint2.velocity",)}
    assert found.settled <= 15
    first = attached(found.model)[0].weights[:12].reshape(3, 4)
    assert np.count_nonzero(first.any(axis=0)) == 1
    smaller = pruned(found.model)
    assert [b.inputs for b in attached(smaller)] == [("joint1.velocity",), ("joint2.velocity",)]
    x = rng.normal(size=(7, 4))
    np.testing.assert_allclose(attached(smaller)[1](x[:, 3:]), attached(found.model)[1](x), rtol=1e-12)


def test_discovery_says_when_there_is_nothing_to_find(pendulum, rng):
    recording = swings(pendulum, pendulum.parameters.nominal, rng, 1, 20)
    with pytest.raises(ValueError, match="need no network"):
        discover(augment(pendulum, blueprint()), recording)


def waves(x):
    """Many minima; the least, 0, at (1, -1)."""
    d = x - [1.0, -1.0]
    return float(np.sum(d**2 + 1 - np.cos(6 * d))), 2 * d + 6 * np.sin(6 * d)


def test_hopping_leaves_local_minima_and_repeats():
    lower, upper = np.full(2, -5.0), np.full(2, 5.0)
    x, cost, _ = local_minimum(waves, lower, upper, np.array([4.0, 4.0]))
    assert cost > 1
    found = basin_hopping(waves, lower, upper, start=[4.0, 4.0], sigma=0.3, cost_limit=1e-6, seed=1)
    np.testing.assert_allclose(found.x, [1, -1], atol=1e-3)
    assert found.history == sorted(found.history, reverse=True) and found.cost <= 1e-6
    with ThreadPoolExecutor(3) as executor:
        again = basin_hopping(
            waves, lower, upper, start=[4.0, 4.0], sigma=0.3, cost_limit=1e-6, seed=1, executor=executor
        )
    np.testing.assert_array_equal(again.x, found.x)
    assert again.evaluations == found.evaluations


def test_hopping_counts_what_is_not_finite_as_infinite():
    def cliff(x):
        return (np.nan, np.full(1, np.nan)) if x[0] < 0 else (float((x[0] - 0.5) ** 2), 2 * (x - 0.5))

    found = basin_hopping(cliff, [-1.0], [1.0], start=[-0.9], rounds=5, seed=0)
    assert found.x == pytest.approx([0.5], abs=1e-4)
    with pytest.raises(ValueError, match="start inside"):
        basin_hopping(waves, [0, 0], [1, 1], start=[2, 2])
    with pytest.raises(ValueError, match="lower < upper"):
        basin_hopping(waves, [0, 0], [0, 1])
