"""The tracking loss counts what it says, and an arm waits in the posture that its bias prefers."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from sim_core.multibody import load_model
from sim_core.telepresence.arm_ik import QpIk
from sim_core.telepresence.arm_kinematics import ArmKinematics
from sim_core.telepresence.arm_tracking import settle, track
from sim_core.telepresence.clutch import Pose
from sim_core.telepresence.mom_ik import MomIk
from sim_core.telepresence.operator_motion import OperatorMotion
from sim_core.telepresence.posture_bias import NeutralBias


@pytest.fixture(scope="module")
def arm():
    return ArmKinematics(load_model("panda"), "hand_site")


class Still:
    """Inverse kinematics of an arm that stays where it is."""

    def __init__(self, kinematics):
        self.kinematics = kinematics

    def step(self, target, q, bias=None):
        return q


def beside(arm, offsets, turns):
    """A motion that is so far from the hand at home [m] and turned away from it so far [rad], step by step."""
    now, axis = arm.at(arm.home), np.array([0.6, 0.0, 0.8])
    positions = now.position + np.array(offsets)[:, None] * axis
    return OperatorMotion("A", 0.008, positions, Rotation.from_rotvec(np.outer(turns, axis)).as_matrix() @ now.rotation)


def test_the_loss_is_the_share_of_steps_beyond_either_limit(arm):
    offsets, turns = [0.0, 0.049, 0.051, 0.049, 0.0, 0.2, 0.0, 0.0], [0.0, 0.29, 0.0, 0.31, 0.29, 1.0, 3.0, 0.301]
    motion = beside(arm, offsets, turns)
    found = track(Still(arm), NeutralBias(arm.neutral), motion, arm.home)
    np.testing.assert_allclose(found.distance, offsets, atol=1e-12)
    np.testing.assert_allclose(found.angle, turns, atol=1e-7)
    assert found.lost.tolist() == [False, False, True, True, False, True, True, True] and found.loss == 5 / 8
    assert (found.q == arm.home).all() and (found.start == arm.home).all() and (found.seconds >= 0.0).all()
    np.testing.assert_allclose(found.manipulability, arm.manipulability(arm.home))


@pytest.mark.parametrize("method", [QpIk, MomIk])
def test_a_slow_motion_within_reach_is_followed(arm, method):
    share = np.linspace(0.0, 1.0, 500)
    found = track(method(arm), NeutralBias(arm.neutral), beside(arm, 0.1 * share, 0.4 * share), arm.home)
    assert found.loss == 0.0 and found.distance.max() < 0.02 and found.angle.max() < 0.05


def test_a_motion_out_of_reach_is_lost_until_it_comes_back(arm):
    share = np.sin(np.linspace(0.0, np.pi, 1500)) ** 2
    found = track(QpIk(arm), NeutralBias(arm.neutral), beside(arm, 1.5 * share, 0.0 * share), arm.home)
    assert not found.lost[0] and found.lost[750] and not found.lost[-1] and 0.4 < found.loss < 0.9


def test_a_waiting_arm_is_as_near_to_its_bias_as_it_can_be(arm):
    """At the hand's pose at home; among postures that many other starts find, none is nearer."""
    target = arm.at(arm.home).pose
    ik, rng = QpIk(arm, period=np.inf), np.random.default_rng(9)
    for posture in (arm.neutral, arm.home + np.array([0.5, 0.0, -0.5, 0.0, 0.5, 0.0, 0.0])):
        q = settle(arm, target, NeutralBias(posture))
        assert np.linalg.norm(arm.at(q).position - target.position) < 0.01
        for start in rng.uniform(arm.lower, arm.upper, (6, len(posture))):
            for _ in range(200):
                start = ik.step(target, start, posture)
            if np.linalg.norm(arm.at(start).position - target.position) < 0.01:
                assert np.sum((start - posture) ** 2) > np.sum((q - posture) ** 2) - 0.05


def test_a_waiting_arm_is_away_from_singularities_if_asked_to(arm):
    target = arm.at(arm.home).pose
    most = settle(arm, target, NeutralBias(arm.neutral), least=np.inf)
    enough = settle(arm, target, NeutralBias(arm.neutral), least=2.0)
    assert arm.manipulability(most) >= arm.manipulability(enough) >= 2.0


def test_an_arm_waits_as_near_as_it_can_where_the_target_is_out_of_reach(arm):
    target = Pose(np.array([1.5, 0.0, 0.5]), arm.at(arm.home).rotation)
    q = settle(arm, target, NeutralBias(arm.neutral), starts=3)
    position = arm.at(q).position
    assert 0.7 < position[0] < 1.0 and abs(position[1]) < 0.05
