"""Cost terms: values, gradients, references, refusals; rewards of the cart-poles."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from toy_systems import linear_system

from sim_core.control.cost import ControlTerm, Cost, FeatureTerm, FrameOrientation, FramePosition, LimitTerm, StateTerm
from sim_core.control.tasks import cartpole_swing_up, figure_eight, frame_tracking, swing_up_reward
from sim_core.multibody import load_model
from sim_core.multibody.model import build


@pytest.fixture(scope="module")
def panda():
    return load_model("panda")


@pytest.fixture(scope="module")
def arm_cost(panda):
    return Cost(
        panda,
        [
            StateTerm(0.1),
            ControlTerm(1e-3),
            FramePosition("hand_site", [1.0, 2.0, 3.0], 30.0),
            FrameOrientation("hand_site", 0.7),
            LimitTerm(position=5.0, velocity=3.0, margin=0.5),
        ],
    )


def random_point(model, cost, seed):
    rng = np.random.default_rng(seed)
    q = rng.uniform(0.9 * model.q_lower, 0.9 * model.q_upper)  # beyond the margin: hinges active
    x = np.r_[q, rng.uniform(-1, 1, model.nv) * model.v_limit]
    r = cost.reference(1, orientation=Rotation.random(random_state=seed).as_matrix().ravel())[0]
    return x, rng.uniform(-5, 5, model.nu), model.parameters.nominal, r


def test_gradients_agree_with_central_differences(panda, arm_cost):
    f = arm_cost.functions()
    w, wf, h = arm_cost.stage_weights, arm_cost.final_weights, 1e-6
    for seed in range(3):
        x, u, p, r = random_point(panda, arm_cost, seed)
        lx, lu, *_ = (np.array(a) for a in f["stage_quad"](x, u, p, r, w))
        numeric = [
            (float(f["stage"](x + d, u, p, r, w)) - float(f["stage"](x - d, u, p, r, w))) / (2 * h)
            for d in h * np.eye(panda.nx)
        ]
        np.testing.assert_allclose(lx.ravel(), numeric, rtol=1e-6, atol=1e-6)
        numeric = [
            (float(f["stage"](x, u + d, p, r, w)) - float(f["stage"](x, u - d, p, r, w))) / (2 * h)
            for d in h * np.eye(panda.nu)
        ]
        np.testing.assert_allclose(lu.ravel(), numeric, rtol=1e-6, atol=1e-9)
        lx, _ = (np.array(a) for a in f["final_quad"](x, p, r, wf))
        numeric = [
            (float(f["final"](x + d, p, r, wf)) - float(f["final"](x - d, p, r, wf))) / (2 * h)
            for d in h * np.eye(panda.nx)
        ]
        np.testing.assert_allclose(lx.ravel(), numeric, rtol=1e-6, atol=1e-5)


def test_curvature_is_gauss_newton(panda, arm_cost):
    """Positive, although the pose's own curvature is not."""
    x, u, p, r = random_point(panda, arm_cost, 0)
    _, _, lxx, lux, luu = (np.array(a) for a in arm_cost.functions()["stage_quad"](x, u, p, r, arm_cost.stage_weights))
    assert np.linalg.eigvalsh(lxx).min() > 0.19  # the state term alone gives 2 * 0.1
    np.testing.assert_allclose(lxx, lxx.T, atol=1e-12)
    np.testing.assert_array_equal(lux, 0)
    np.testing.assert_allclose(luu, 2e-3 * np.eye(7))


def test_orientation_residual_is_the_chordal_distance(panda):
    cost = Cost(panda, [FrameOrientation("hand_site", 1.0)])
    _, R = build.frame_pose(panda, "hand_site")(panda.q_home, panda.parameters.nominal)
    for angle in (0.0, 0.3, 2.0, 3.1):
        turned = np.array(R) @ Rotation.from_rotvec([0, angle * 0.6, angle * 0.8]).as_matrix()
        value = cost.functions()["stage"](
            np.r_[panda.q_home, np.zeros(7)], np.zeros(7), panda.parameters.nominal, turned.ravel(), cost.stage_weights
        )
        assert float(value) == pytest.approx(8 * np.sin(angle / 2) ** 2, abs=1e-12)


def test_hinges_are_silent_inside_their_margin_and_quadratic_beyond(panda):
    cost = Cost(panda, [LimitTerm(position=4.0, velocity=0.0, margin=0.9)])
    stage = cost.functions()["stage"]
    middle, half = (panda.q_upper + panda.q_lower) / 2, (panda.q_upper - panda.q_lower) / 2

    def value(q):
        return float(stage(np.r_[q, np.zeros(7)], np.zeros(7), panda.parameters.nominal, [], cost.stage_weights))

    assert value(middle + 0.89 * half) == 0.0
    q = middle.copy()
    q[1] -= half[1]
    assert value(q) == pytest.approx(4.0 * (0.1 * half[1]) ** 2)


def test_references_by_name():
    model, *_ = linear_system()
    cost = Cost(model, [StateTerm(1.0), FeatureTerm(lambda x, u, p: x[0] * u, [3.0, 4.0], 1.0, 0.0, "product")])
    r = cost.reference(2, state=np.arange(12).reshape(3, 4))
    np.testing.assert_array_equal(r[:, cost.slices["state"]], np.arange(12).reshape(3, 4))
    np.testing.assert_array_equal(r[:, cost.slices["product"]], [[3, 4]] * 3)
    with pytest.raises(ValueError, match="no cost term named 'position'; terms: state, product"):
        cost.reference(2, position=0.0)


def test_nonsense_is_refused():
    model, *_ = linear_system()
    with pytest.raises(ValueError, match="expected 1 or 4 weights, found 3"):
        Cost(model, [StateTerm([1.0, 2.0, 3.0])])
    with pytest.raises(ValueError, match="finite and >= 0"):
        Cost(model, [ControlTerm(-1.0)])
    with pytest.raises(ValueError, match="different names"):
        Cost(model, [StateTerm(1.0), StateTerm(2.0)])


# -- tasks -----------------------------------------------------------------------------------------


def test_swing_up_features_are_those_of_the_specification():
    """Double cart-pole: weights on (p, p', sin, cos of absolute angles, rates); zero cost upright."""
    model = load_model("double_cartpole")
    cost = cartpole_swing_up(model).cost
    stage, p = cost.functions()["stage"], model.parameters.nominal
    r = cost.reference(1)[0]

    def value(x, u=0.0):
        return float(stage(np.array(x, float), u, p, r, cost.stage_weights))

    assert value(np.zeros(6)) == 0.0
    assert value(np.zeros(6), 100.0) == pytest.approx(1e-5 * 100**2)
    a, b = 0.7, -0.4  # second pole at a + b from upright
    expected = (
        3 * 0.5**2
        + 0.3 * 2**2
        + 10 * (np.sin(a) ** 2 + (1 - np.cos(a)) ** 2)
        + 10 * (np.sin(a + b) ** 2 + (1 - np.cos(a + b)) ** 2)
        + 0.3 * (1.1**2 + 0.6**2)
    )
    assert value([0.5, a, b, 2.0, 1.1, 0.6]) == pytest.approx(expected)
    np.testing.assert_allclose(cost.final_weights, 30 * np.r_[3, 0.3, [10] * 4, [0.3] * 2])


def test_single_pole_pays_for_acceleration():
    model = load_model("cartpole")
    task = cartpole_swing_up(model)
    accel = build.accel(model)
    stage, p, r = task.cost.functions()["stage"], model.parameters.nominal, task.cost.reference(1)[0]
    qdd = float(accel([0, 0], [0, 0], 50.0, p)[1])
    assert float(stage(np.zeros(4), 50.0, p, r, task.cost.stage_weights)) == pytest.approx(1e-4 * qdd**2 + 1e-4 * 50**2)
    assert task.ilqr.horizon == 20 and task.ilqr.substeps == 2 and task.ilqr.dt == 0.02


def test_starts_are_zero_and_four_sines():
    starts = cartpole_swing_up(load_model("cartpole")).starts()
    peaks = [s[np.argmax(np.abs(s))][0] for s in starts]
    assert len(starts) == 5 and np.all(starts[0] == 0)
    np.testing.assert_allclose(np.abs(peaks[1:]), [200, 200, 60, 60])
    np.testing.assert_allclose(starts[1], -starts[2])


def test_reward_by_hand():
    assert swing_up_reward(np.zeros(4)) == 1.0
    assert swing_up_reward([0, np.pi, 0, 0]) == pytest.approx(0.0)
    assert swing_up_reward([2.0, 0, 0, 0]) == pytest.approx(0.55)  # 0.1 at the margin, lifted to (1 + 0.1) / 2
    assert swing_up_reward([0, 0, 0, 5.0]) == pytest.approx(0.55)
    # two poles: mean height of absolute angles, the faster joint counts
    x = [0, np.pi / 2, np.pi / 2, 0, 1.0, 5.0]
    assert swing_up_reward(x) == pytest.approx((0.5 + 0.0) / 2 * 0.55)


def test_path_starts_at_rest_in_its_centre():
    path = figure_eight(centre=(0.4, 0.1, 0.5), ramp=1.0)
    np.testing.assert_allclose(path(0.0), [0.4, 0.1, 0.5])
    assert np.linalg.norm(path(1e-3) - path(0.0)) < 1e-6
    h = 1e-6  # no jump in speed where the ramp ends
    np.testing.assert_allclose((path(1 - h) - path(1 - 2 * h)) / h, (path(1 + 2 * h) - path(1 + h)) / h, atol=1e-4)


def test_tracking_error_is_the_distance_of_the_site(panda):
    here = np.array(build.frame_position(panda, "hand_site")(panda.q_home, panda.parameters.nominal)).ravel()
    task = frame_tracking(panda, lambda t: here + [0.0, 0.03, 0.04])
    assert task.error(np.r_[panda.q_home, np.zeros(7)], 0.0) == pytest.approx(0.05)
    a = build.accel(panda)(panda.q_home, np.zeros(7), task.starts()[0][0], panda.parameters.nominal)
    assert np.abs(np.array(a)).max() < 1e-9  # the start holds the arm still


def test_wrong_robot_for_the_task():
    with pytest.raises(ValueError, match="expected a cart with one or two poles"):
        cartpole_swing_up(load_model("panda"))
