"""Interactive differentiable simulation: what its experiments are made of, against closed forms and differences."""

import mujoco
import numpy as np
import pytest

from experiments.problems.ids_arm import end_points, random_arm, random_motion, rank, recovered

pytestmark = pytest.mark.pure


def test_an_arm_without_twists_is_a_planar_one():
    theta = np.array([0.1, 0.2, 1.0, 0.5, 0.0, 0.0])
    q = np.array([[0.3, 0.4], [-1.0, 2.0]])
    points, _ = end_points(theta, q)
    first, second = q[:, 0], q.sum(axis=1)
    x, y = np.cos(first) + 0.5 * np.cos(second), np.sin(first) + 0.5 * np.sin(second)
    np.testing.assert_allclose(points, np.stack([x, y, np.full(2, 0.3)], axis=1), atol=1e-14)


def test_derivatives_of_an_arm_equal_central_differences():
    rng = np.random.default_rng(1)
    theta, q, h = random_arm(rng), random_motion(rng, steps=5), 1e-6
    _, J = end_points(theta, q)
    for k in range(12):
        step = h * (np.arange(12) == k)
        difference = (end_points(theta + step, q)[0] - end_points(theta - step, q)[0]) / (2 * h)
        np.testing.assert_allclose(J[:, :, k], difference, atol=1e-9)


def test_an_arm_is_found_again_and_its_last_twist_is_not():
    rng = np.random.default_rng(2)
    theta, q = random_arm(rng), random_motion(rng)
    points, J = end_points(theta, q)
    assert rank(theta, q) == 11
    np.testing.assert_array_equal(J[:, :, 11], 0.0)
    found = recovered(theta + 0.05 * rng.standard_normal(12), q, points)
    assert found.errors[0] > 0.01 and found.errors[-1] < 1e-5
    with pytest.raises(ValueError, match="joint angles"):
        end_points(theta, q[:, :3])


@pytest.fixture(scope="module")
def pendulum():
    """Two links with ball joints, whose lengths and damping are free."""
    pytest.importorskip("torch").set_num_threads(1)
    from experiments.problems.ids_layer import chain_layer

    return chain_layer(2, 0.04, (0.1, 2.0), "ball", 0.3)


def test_the_layer_follows_mujoco_and_has_the_gradient_of_differences(pendulum):
    import torch

    from experiments.problems.ids_layer import chain

    model = mujoco.MjModel.from_xml_string(chain([0.7, 0.5], "ball", 0.05))
    data = mujoco.MjData(model)
    data.qpos[:] = np.array([0.8, 0.6, 0.0, 0.0, 0.8, 0.0, -0.6, 0.0])
    x0 = torch.from_numpy(np.concatenate([data.qpos, data.qvel]))[None]
    theta = torch.tensor([0.7, 0.5, 0.05], dtype=torch.float64, requires_grad=True)
    X = pendulum(x0, theta, 5)
    mujoco.mj_step(model, data, 40)
    np.testing.assert_allclose(X[0, -1].detach().numpy(), np.concatenate([data.qpos, data.qvel]), atol=1e-3)
    X.square().sum().backward()
    for k, h in enumerate(np.eye(3) * 1e-6):
        up, down = (pendulum(x0, theta.detach() + s * torch.from_numpy(h), 5).square().sum().item() for s in (1, -1))
        assert theta.grad[k].item() == pytest.approx((up - down) / 2e-6, rel=1e-5)


def test_lengths_of_a_filmed_pendulum_are_found(pendulum):
    import torch

    from experiments.problems.ids_pendulum import filmed, found_by_adam, headings

    q = torch.from_numpy(np.array([np.cos(0.5), np.sin(0.5), 0.0, 0.0, np.cos(0.25), np.sin(0.25), 0.0, 0.0]))
    wanted = [[0.0, np.sin(1.0), -np.cos(1.0)], [0.0, np.sin(1.5), -np.cos(1.5)]]
    np.testing.assert_allclose(headings(q).numpy(), wanted, atol=1e-14)
    data = filmed((0.7, 0.5), 0.1, 8, 0.0, np.random.default_rng(0))
    found = found_by_adam(pendulum, data, np.array([0.6, 0.6, 0.0]), 120)
    np.testing.assert_allclose(found.theta[-1, :2], [0.7, 0.5], rtol=0.01)
    np.testing.assert_allclose(found.theta[-1, 2], 0.1, rtol=0.1)
    assert found.loss[-1] < 1e-3 * found.loss[0]


def test_energy_of_a_chain_is_mujocos_and_stays():
    pytest.importorskip("torch")
    from experiments.problems.ids_forecasts import energy
    from experiments.problems.ids_images import LENGTH, seen
    from experiments.problems.ids_layer import chain

    x = seen(np.array([0.9, 0.5, -0.4]), 40, drawn=False).x
    found = energy(x, np.full(3, LENGTH))
    np.testing.assert_allclose(found, found[0], rtol=1e-5)
    model = mujoco.MjModel.from_xml_string(chain([LENGTH] * 3))
    model.opt.enableflags |= mujoco.mjtEnableBit.mjENBL_ENERGY
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    rest = data.energy.sum()
    data.qpos[:], data.qvel[:] = np.split(x[30], 2)
    mujoco.mj_forward(model, data)
    assert found[30] == pytest.approx(data.energy.sum() - rest, rel=1e-9)


def test_networks_without_mechanics_learn_a_linear_system_and_the_graph_only_from_neighbours():
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    from experiments.problems.ids_forecasts import ChainNetwork, PlainNetwork, forecast, taught

    angle = 0.1 * np.arange(400)[:, None] * np.array([1.0, 1.7])
    x = np.concatenate([np.cos(angle), -np.sin(angle)], axis=1) * 0.5
    for kind in (ChainNetwork, PlainNetwork):
        model = taught(kind, x, seed=0, steps=400, batch=64)
        assert np.abs(forecast(model, x[:20], 10)[:, -1] - x[10:30]).max() < 0.1
    graph, nodes = ChainNetwork(4), torch.randn(1, 4, 3, generator=torch.Generator().manual_seed(0))
    changed = nodes.clone()
    changed[0, 3] += 1.0
    moved = (graph(changed) - graph(nodes)).abs().amax(dim=2)[0] > 0.0
    assert moved.tolist() == [False, False, True, True]


def test_a_mixture_draws_from_its_kernels_and_finds_what_was_observed():
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    from experiments.problems.ids_mixture import Mixture, learnt_online

    means = np.array([[0.0, 1.0], [3.0, 2.0], [6.0, 0.0]])
    mixture = Mixture(means, 1e-3)
    drawn = mixture.draws(20000, torch.Generator().manual_seed(0)).detach().numpy()
    # A third of the draws comes from each kernel, and none lies between two.
    distance = np.linalg.norm(drawn[:, None] - means, axis=2)
    assert distance.min(axis=1).max() < 0.01
    np.testing.assert_allclose(np.bincount(distance.argmin(axis=1)) / len(drawn), 1.0 / 3.0, atol=0.02)
    observed = torch.tensor([[2.0, 1.0]], dtype=torch.float64).expand(20, 2)
    epochs = learnt_online(Mixture(means, 0.5), lambda draws, k: draws, observed, 80, seed=0)
    np.testing.assert_allclose(epochs.shares[-1] @ epochs.means[-1], [2.0, 1.0], atol=0.05)
    assert epochs.sigmas[-1].mean() < 0.5 * epochs.sigmas[0].mean()
    np.testing.assert_allclose(epochs.shares.sum(axis=1), 1.0)


def test_kernels_that_explain_the_same_keep_their_shares():
    """Of two quantities only the product is observed, so that what lies between two explanations is none."""
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    from experiments.problems.ids_mixture import Mixture, learnt_online

    observed, means = torch.ones(20, 1, dtype=torch.float64), np.array([[0.5, 1.8], [1.1, 1.0], [2.2, 0.5]])
    found = [
        learnt_online(Mixture(means, 0.1), lambda draws, k: draws.prod(dim=1, keepdim=True), observed, 80, seed)
        for seed in range(2)
    ]
    assert min(np.sort(one.shares[-1])[-2] for one in found) > 0.1  # blends would leave 0.05
    assert np.abs(np.array([one.means[-1].prod(axis=1) for one in found]) - 1.0).max() < 0.03
