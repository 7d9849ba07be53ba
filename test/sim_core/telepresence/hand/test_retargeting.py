"""From a glove to the motors of a hand: what a calibration makes of a person, and what biased targets change."""

import numpy as np
import pytest

from sim_core.telepresence.hand.calibration import GloveCalibration
from sim_core.telepresence.hand.poses import CALIBRATION_POSES, FINGERS, MOTORS, MOTORS_OF, REACH, for_hand, over_closed
from sim_core.telepresence.hand.retargeting import METHODS, NominalHand, fit_hand, snapshots
from sim_core.telepresence.hand.synthetic_operator import CHANNELS, JOINTS, SyntheticOperator, Variation, joints_of

ZERO = np.zeros(6)
EXACT = Variation(0.2, 0.3, 0.05, 0.0, (0.0, 0.1), (0.0, 0.0), 0.0)
GRASP = np.array([0.93, 0.2, 0.2, 0.2, 0.28, 1.75])


def calibration_of(operator):
    poses = {pose.name: operator.readings(np.array(pose.angles), 20, 0) for pose in CALIBRATION_POSES}
    return GloveCalibration("Ada", poses)


@pytest.fixture(scope="module")
def ada():
    return SyntheticOperator(3)


@pytest.fixture(scope="module")
def calibration(ada):
    return calibration_of(ada)


def test_fifteen_poses_count_for_every_finger_and_move_every_motor():
    assert len(CALIBRATION_POSES) == len({pose.name for pose in CALIBRATION_POSES}) == 15
    assert (len(JOINTS), len(CHANNELS), len(MOTORS)) == (21, 20, 6)
    for finger in FINGERS:
        angles = np.array([pose.angles for pose in CALIBRATION_POSES if finger in pose.counts])
        for motor in MOTORS_OF[finger]:
            assert len(angles) >= 10 and np.ptp(angles[:, motor]) > 0.6 * REACH[motor]
    for pose in CALIBRATION_POSES:
        assert (np.array(pose.angles) >= 0.0).all() and (np.array(pose.angles) <= REACH).all()
        assert set(pose.contact) <= set(pose.counts) <= set(FINGERS)


@pytest.mark.parametrize("method", METHODS)
def test_an_operator_without_errors_is_understood_whatever_his_glove(method):
    # Scales, offsets and cross-talk are the glove's own; the pose was not among those of the calibration.
    errors = []
    for seed in range(5):
        operator = SyntheticOperator(seed, EXACT)
        hand = fit_hand(calibration_of(operator), method, ZERO, REACH, over_close=0.0)
        errors.append(np.abs(hand(operator.readings(GRASP, 1, 1)[0]) - GRASP).mean())
    assert np.mean(errors) < 0.08


@pytest.mark.parametrize("method", METHODS)
def test_all_fingers_at_once_are_the_five_regressions(calibration, ada, method):
    hand = fit_hand(calibration, method, ZERO, REACH)
    glove = ada.readings(GRASP, 1, 1)[0]
    single = np.concatenate([hand.fits[finger](glove[4 * k : 4 * k + 4]) for k, finger in enumerate(FINGERS)])
    assert hand(glove) == pytest.approx(np.clip(single, ZERO, REACH), abs=1e-12)
    assert "Ada" in hand.said and method in hand.said and "over-closed by 0.25 rad" in hand.said


def test_a_finger_is_learnt_from_the_poses_in_which_it_counts(calibration):
    changed = dict(calibration.readings)
    changed["index pinch"] = changed["index pinch"].copy()
    changed["index pinch"][:, 8:12] += 0.5  # the ring finger, which does not count in it
    a = fit_hand(calibration, "kernel ridge", ZERO, REACH)
    b = fit_hand(GloveCalibration("Ada", changed), "kernel ridge", ZERO, REACH)
    glove = calibration.readings["tripod"][0]
    assert a(glove) == pytest.approx(b(glove), abs=1e-12)


def test_over_closing_bends_what_touches():
    pinch = next(pose for pose in CALIBRATION_POSES if pose.name == "index pinch")
    assert over_closed(pinch, 0.25) - np.array(pinch.angles) == pytest.approx([0.25, 0, 0, 0, 0.25, 0])
    flat = next(pose for pose in CALIBRATION_POSES if pose.name == "open")
    assert over_closed(flat, 0.25) == pytest.approx(np.array(flat.angles))


@pytest.mark.parametrize("method", METHODS)
def test_biased_targets_squeeze_in_a_grasp_and_little_in_an_open_hand(method):
    more = []
    for seed in range(4):
        operator = SyntheticOperator(seed)
        calibration = calibration_of(operator)
        plain, biased = (fit_hand(calibration, method, ZERO, REACH, over) for over in (0.0, 0.25))
        gloves = [operator.readings(angles, 5, 1).mean(0) for angles in (GRASP, np.full(6, 0.1))]
        more.append([biased(glove) - plain(glove) for glove in gloves])
    pinched, flat = np.mean(more, axis=0)
    assert pinched[[0, 4]].min() > 0.1  # index and thumb flexion
    assert abs(flat[0]) < 0.05 and abs(flat[4]) < 0.1


def test_a_hand_of_another_reach_is_led_through_its_own(calibration):
    lower, upper = np.full(6, 0.1), 0.1 + 0.5 * REACH
    hand = fit_hand(calibration, "kernel ridge", lower, upper, 0.0)
    mine = fit_hand(calibration, "kernel ridge", ZERO, REACH, 0.0)
    glove = calibration.readings["hook"][0]
    assert hand(glove) == pytest.approx(for_hand(mine(glove), lower, upper), abs=1e-9)
    for _ in range(3):
        wild = hand(10.0 * np.sin(np.arange(20.0)))
        assert (wild >= lower).all() and (wild <= upper).all()


def test_who_is_not_calibrated_is_taken_for_average():
    hand = NominalHand(ZERO, REACH)
    for share in (0.0, 0.5, 1.0):
        glove = np.delete(joints_of(share * REACH), JOINTS.index("thumb root turning"))
        assert hand(glove)[:4] == pytest.approx(share * REACH[:4], abs=0.15)
    assert hand(np.full(20, -3.0)) == pytest.approx(ZERO) and "no calibration" in hand.said


def test_snapshots_are_means_in_their_order():
    rows = np.arange(7.0)[:, None] * np.ones(20)
    assert snapshots(rows)[:, 0] == pytest.approx([0.5, 2.5, 4.0, 5.0, 6.0])
    assert snapshots(rows[:2]) == pytest.approx(rows[:2])


def test_another_method_is_refused(calibration):
    with pytest.raises(ValueError, match="expected one of the methods gaussian process, kernel ridge, found 'nearest'"):
        fit_hand(calibration, "nearest", ZERO, REACH)


def test_the_same_operator_does_the_same_again_and_another_attempt_differs(ada):
    again = SyntheticOperator(3)
    assert ada.readings(GRASP, 4, 1) == pytest.approx(again.readings(GRASP, 4, 1))
    assert np.abs(ada.hand(GRASP, 1) - ada.hand(GRASP, 2)).max() > 0.05
    assert np.abs(ada.hand(GRASP, 1) - SyntheticOperator(4).hand(GRASP, 1)).max() > 0.05


def test_a_hand_that_closes_bends_every_joint_of_its_fingers():
    flexions = np.array([joints_of(share * REACH)[:16].reshape(4, 4)[:, :3] for share in np.linspace(0, 1, 6)])
    assert (np.diff(flexions, axis=0) > 0.0).all()
