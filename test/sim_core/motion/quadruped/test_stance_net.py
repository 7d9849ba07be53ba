"""The network: equal to torch, kept in a file, asked only where it was trained, and replaced in the same cycle."""

from dataclasses import replace

import numpy as np
import pytest

from sim_core.motion.quadruped.imitation import Dataset, imitation_error, train
from sim_core.motion.quadruped.observation import SIZE, SLICES, Observation
from sim_core.motion.quadruped.robot import QuadrupedRobot
from sim_core.motion.quadruped.stance import GuardedNetStance, QpStance
from sim_core.motion.quadruped.stance_net import StanceNet


@pytest.fixture(scope="module")
def robot():
    return QuadrupedRobot.load("quadruped")


def dataset(robot, count=400, seed=0):
    """Observations around a trot; torques that a linear map makes of them, zero for swinging legs."""
    rng = np.random.default_rng(seed)
    X = np.zeros((count, SIZE))
    for x in X:
        o = Observation(x)
        o.velocity[:], o.angular_velocity[:] = rng.normal(0, 0.1, (2, 3))
        o.orientation[:2] = rng.normal(0, 0.03, 2)
        o.contacts[:] = [[1, 0, 0, 1], [0, 1, 1, 0], [1, 1, 1, 1]][rng.integers(3)]
        o.feet[:] = robot.feet(robot.home + rng.uniform(-0.1, 0.1, (4, 3)))
        o.friction[:], o.desired_position[2] = 0.45, 0.27
    Y = 3 * X @ rng.normal(size=(SIZE, 12)) * np.repeat(X[:, SLICES["contacts"]], 3, 1)
    return Dataset(X, Y, np.arange(count) // 100)


@pytest.fixture(scope="module")
def net(robot):
    return train(dataset(robot), hidden=(24, 24), epochs=60, batch=64)


def test_training_learns_and_folds_the_scaling(robot, net):
    data = dataset(robot)
    assert net.meta["held_out_rms"] < 0.4 * np.sqrt(np.mean(data.torques**2))

    # The same network written out in double precision, with the exact ELU.
    def elu(h):
        return np.where(h > 0, h, np.expm1(np.minimum(h, 0)))

    h = data.observations
    for W, b in zip(net.weights[:-1], net.biases[:-1]):
        h = elu(h @ W.T.astype(float) + b)
    expected = h @ net.weights[-1].T.astype(float) + net.biases[-1]
    np.testing.assert_allclose([net.evaluate(x) for x in data.observations], expected, atol=1e-3)


def test_it_is_torchs_network(net):
    torch = pytest.importorskip("torch")
    Linear, ELU = torch.nn.Linear, torch.nn.ELU
    model = torch.nn.Sequential(Linear(41, 24), ELU(), Linear(24, 24), ELU(), Linear(24, 12))
    with torch.no_grad():
        for layer, W, b in zip(model[::2], net.weights, net.biases):
            layer.weight.copy_(torch.tensor(W))
            layer.bias.copy_(torch.tensor(b))
        x = (net.lower + net.upper) / 2
        np.testing.assert_allclose(net.evaluate(x), model(torch.tensor(x, dtype=torch.float32)), atol=1e-4)


@pytest.mark.parametrize("hidden, parameters", [((192, 192), 47_436), ((192, 192, 192), 84_492)])
def test_sizes_are_the_published_ones(robot, hidden, parameters):
    assert train(dataset(robot, 200), hidden, epochs=1).parameters == parameters


def test_same_seed_same_network(robot, net):
    again = train(dataset(robot), hidden=(24, 24), epochs=60, batch=64)
    assert all((a == b).all() for a, b in zip(net.weights, again.weights))


def test_a_file_gives_the_network_back(net, tmp_path):
    net.save(tmp_path / "net.safetensors")
    back = StanceNet.load(tmp_path / "net.safetensors")
    x = (net.lower + net.upper) / 2
    assert (back.evaluate(x) == net.evaluate(x)).all() and back.meta == net.meta
    assert (back.lower == net.lower).all() and (back.patterns == net.patterns).all()


def test_a_file_that_is_none_says_what_to_do(net, tmp_path):
    with pytest.raises(ValueError, match="Cannot read the stance network .*refit experiment"):
        StanceNet.load(tmp_path / "missing.safetensors")
    (tmp_path / "cut.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0{")
    with pytest.raises(ValueError, match="Cannot read the stance network"):
        StanceNet.load(tmp_path / "cut.safetensors")
    with pytest.raises(ValueError, match="41 inputs to 12 outputs"):
        replace(net, weights=net.weights[1:], biases=net.biases[1:])


def inside(net):
    o = Observation((net.lower + net.upper) / 2)
    o.contacts[:] = [1, 0, 0, 1]
    return o


def spoilt(net, what):
    o = inside(net)
    if what == "velocity.x is not finite":
        o.velocity[0] = np.nan
    elif what.startswith("desired_velocity.y = 9"):
        o.desired_velocity[1] = 9.0
    elif what.startswith("the network never saw FL"):
        o.contacts[:] = [1, 0, 0, 0]
    return o


@pytest.mark.parametrize(
    "reason",
    [
        "velocity.x is not finite",
        "desired_velocity.y = 9 is outside the training range",
        "the network never saw FL standing alone",
        "the network's output is not finite",
    ],
)
def test_the_programme_answers_in_the_same_cycle(robot, net, reason):
    solver = GuardedNetStance(robot, net)
    assert solver.solve(inside(net)).solver == "neural" and solver.fallbacks == 0
    if reason.startswith("the network's output"):
        solver.net = replace(net, biases=(*net.biases[:-1], np.full(12, np.inf, np.float32)))
    stance = solver.solve(spoilt(net, reason))
    assert stance.solver == "osqp" and stance.reason.startswith(reason) and solver.fallbacks == 1
    # What was finite is asked as it is, what was not as it last was.
    clean = spoilt(net, reason).vector
    clean = np.where(np.isfinite(clean), clean, inside(net).vector)
    np.testing.assert_allclose(stance.torques, QpStance(robot).solve(Observation(clean)).torques, atol=0.5)
    solver.net = net
    assert solver.solve(inside(net)).solver == "neural"


def test_nan_from_the_first_cycle_on_is_refused(robot, net):
    with pytest.raises(ValueError, match="holds NaN"):
        GuardedNetStance(robot, net).solve(spoilt(net, "velocity.x is not finite"))


def test_torques_are_clamped_and_swinging_legs_get_none(robot, net):
    loud = replace(net, biases=(*net.biases[:-1], np.full(12, 1e4, np.float32)))
    torques = GuardedNetStance(robot, loud).solve(inside(net)).torques
    assert (torques[[0, 3]] == 33.5).all() and (torques[[1, 2]] == 0).all()


def test_the_imitation_error_is_that_of_standing_legs(robot, net):
    """A torque that is 2 N m off everywhere is 2 N m off, whatever swinging legs are asked for."""
    X = dataset(robot, 20).observations
    torques = np.array([net.evaluate(x) for x in X]) + 2.0
    torques[np.repeat(X[:, SLICES["contacts"]] == 0, 3, axis=1)] = 99.0
    assert imitation_error(net, X, torques) == pytest.approx(2.0, rel=1e-6)


def test_data_that_cannot_be_learnt_from_are_refused(robot):
    data = dataset(robot, 10)
    with pytest.raises(ValueError, match="NaN or infinity"):
        Dataset(data.observations * np.nan, data.torques, data.episode)
    with pytest.raises(ValueError, match=r"expected observations \(N, 41\)"):
        Dataset(data.observations[:, :40], data.torques, data.episode)
