"""What the world does to an end effector: forces that are known, and motion in which nothing is felt."""

import numpy as np
import pytest
from rehearsal import REST
from scipy.spatial.transform import Rotation

from sim_core.multibody import build, load_model
from sim_core.telepresence.arm_kinematics import ArmKinematics
from sim_core.telepresence.clutch import Pose
from sim_core.telepresence.effector_wrench import CueLimits, EffectorWrench
from sim_core.telepresence.model_forces import ModelForces

MOUNT = Pose(np.array([0.0, 0.2, 1.2]), Rotation.from_euler("yz", [2.0, 0.5]).as_matrix())
TOOL = Pose(np.array([0.1, -0.02, 0.15]), Rotation.from_euler("y", 1.0).as_matrix())


@pytest.fixture(scope="module")
def arm():
    return ArmKinematics(load_model("panda"), "flange")


def test_torques_of_a_known_wrench_give_it_back(arm):
    # J' w by virtual work: central differences of the end effector's point and of its rotation
    q, step = arm.home, 1e-6
    w = np.array([10.0, -20.0, 5.0, 0.5, -0.3, 0.8])

    def effector(q):
        at = arm.at(q).pose
        R = MOUNT.rotation @ at.rotation
        return MOUNT.position + MOUNT.rotation @ at.position + R @ TOOL.position, R

    tau = []
    for d in step * np.eye(7):
        (ahead, R1), (behind, R2) = effector(q + d), effector(q - d)
        turn = Rotation.from_matrix(R1 @ R2.T).as_rotvec()
        tau.append(np.concatenate([ahead - behind, turn]) @ w / (2 * step))
    felt = EffectorWrench(arm, MOUNT, TOOL, cutoff=3.0)
    for _ in range(400):
        felt.feel(q, np.array(tau), 0.008)
    assert felt.seen == pytest.approx(felt.wrench, rel=1e-6)
    assert felt.wrench == pytest.approx(w, rel=0.03, abs=0.5)
    assert felt.force == pytest.approx(np.linalg.norm(w[:3]), rel=0.03)


def test_the_low_pass_is_of_the_first_order(arm):
    felt = EffectorWrench(arm, MOUNT, TOOL, cutoff=3.0)
    tau = felt.jacobian(arm.home).T @ np.array([20.0, 0, 0, 0, 0, 0])
    assert np.isnan(felt.force)
    for k in range(1, 20):
        felt.feel(arm.home, tau, 0.008)
        share = 1.0 - np.exp(-2.0 * np.pi * 3.0 * 0.008 * k)
        assert felt.wrench == pytest.approx(share * felt.seen)
    felt.feel(arm.home, np.full(7, np.nan), 0.008)
    assert np.isnan(felt.force)


def test_a_cue_rises_between_two_forces():
    limits = CueLimits(5.0, 25.0)
    assert [limits.cue(force) for force in (0.0, 5.0, 10.0, 25.0, 90.0)] == [0.0, 0.0, 0.25, 1.0, 1.0]
    assert limits.cue(float("nan")) == 0.0
    for least, most in ((5.0, 5.0), (-1.0, 3.0), (5.0, float("inf"))):
        with pytest.raises(ValueError, match="between two rising forces"):
            CueLimits(least, most)


def test_the_compiled_forces_are_those_of_the_model(avatar_model):
    model, rng = avatar_model, np.random.default_rng(0)
    q, v, a = model.q_home + 0.1 * rng.standard_normal(model.nv), *rng.standard_normal((2, model.nv))
    p = model.parameters.nominal
    tau = build.inverse_dynamics(model)(q, v, a, p) - build.joint_force(model)(q, v, np.zeros(model.nu), p)
    assert ModelForces(model)(q, v, a) == pytest.approx(np.asarray(tau).ravel(), abs=1e-9)


@pytest.mark.parametrize(
    "k, side, force", [(0, "right", (0.0, 0.0, 20.0)), (0, "right", (4.0, 18.0, -9.0)), (1, "left", (-15.0, 0.0, 0.0))]
)
def test_a_known_push_is_felt_within_15_percent(rehearsal, k, side, force):
    rehearsal.run(0.2)
    assert rehearsal.avatar.wrenches[k].force < 1.0
    rehearsal.push = (f"{side}_palm", list(force))
    rehearsal.run(0.8)
    felt = rehearsal.avatar.wrenches[k]
    assert felt.force == pytest.approx(np.linalg.norm(force), rel=0.15)
    assert felt.wrench[:3] == pytest.approx(np.array(force), abs=0.15 * np.linalg.norm(force))
    assert rehearsal.avatar.wrenches[1 - k].force < 1.5


def test_nothing_is_felt_at_the_greatest_speed(rehearsal):
    # Hands that jump to and fro lead the arms as fast as they may go, with the hardest starts and stops that there are.
    rehearsal.clutch, most = [True, True], [0.0, 0.0]

    def move(t):
        for k, way in ((0, 1.0), (1, -1.0)):
            there = np.sign(np.sin(2.0 * np.pi * 0.6 * t))
            rehearsal.hands[k] = REST[k] + 0.08 * there * np.array([1.0, 0.3 * way, 0.7])
            most[k] = max(most[k], np.nan_to_num(rehearsal.avatar.wrenches[k].force))

    rehearsal.run(2.6, move=move)
    print(most)
    assert max(most) < CueLimits().least, most


def test_without_efforts_or_after_a_pause_nothing_is_known(rehearsal):
    avatar = rehearsal.avatar
    assert np.isfinite(avatar.wrenches[0].force)
    avatar.cycle(None, rehearsal.q, rehearsal.v, {}, rehearsal.now + 0.008)
    assert np.isnan(avatar.wrenches[0].force)
    avatar.cycle(None, rehearsal.q, rehearsal.v, {}, rehearsal.now + 0.016, effort=rehearsal.effort)
    assert np.isfinite(avatar.wrenches[0].force)
    avatar.cycle(None, rehearsal.q, rehearsal.v, {}, rehearsal.now + 0.5, effort=rehearsal.effort)
    assert np.isnan(avatar.wrenches[0].force)
