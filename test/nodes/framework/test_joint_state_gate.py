"""Joint states, whole or in parts, are brought into the model's order or refused with a sentence."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from nodes.framework.joint_state_gate import JointStateGate, peek_stamp
from nodes.framework.joint_state_parts import JointStateParts


def joint_state(stamp=1.0, name=("a", "b"), position=(1.0, 2.0), velocity=(3.0, 4.0), effort=(5.0, 6.0)):
    header = SimpleNamespace(stamp=SimpleNamespace(sec=int(stamp), nanosec=round((stamp % 1) * 1e9)))
    return SimpleNamespace(
        header=header, name=list(name), position=list(position), velocity=list(velocity), effort=list(effort)
    )


@pytest.fixture
def gate():
    return JointStateGate(("a", "b"), age_limit=0.1, future_limit=0.05)


def test_order_follows_the_model_not_the_message(gate):
    shuffled = joint_state(name=("x", "b", "a"), position=(9, 2, 1), velocity=(9, 4, 3), effort=(9, 6, 5))
    sample, why = gate.read(shuffled, 1.0)
    assert why == "" and sample.stamp == 1.0
    np.testing.assert_array_equal(sample.position, [1, 2])
    np.testing.assert_array_equal(sample.velocity, [3, 4])
    np.testing.assert_array_equal(sample.effort, [5, 6])


def test_effort_may_be_absent(gate):
    sample, _ = gate.read(joint_state(effort=()), 1.0)
    assert np.all(np.isnan(sample.effort))


@pytest.mark.parametrize(
    "message, now, words",
    [
        (joint_state(name=("a", "c")), 1.0, "joint b is missing from joint_states; received a, c"),
        (joint_state(position=(1.0, np.nan)), 1.0, "position of b is not finite"),
        (joint_state(velocity=(np.inf, 0.0)), 1.0, "velocity of a is not finite"),
        (joint_state(effort=(np.nan, np.nan)), 1.0, "effort of a, b is not finite"),
        (joint_state(velocity=(1.0,)), 1.0, "1 entries in velocity, expected 2"),
        (joint_state(stamp=0.85), 1.0, "0.150 s old, limit 0.100 s"),
        (joint_state(stamp=1.2), 1.0, "0.200 s in the future"),
    ],
)
def test_refusals_say_why(gate, message, now, words):
    sample, why = gate.read(message, now)
    assert sample is None and words in why


def test_a_refusal_is_not_remembered(gate):
    assert gate.read(joint_state(name=("a",), position=(1,), velocity=(1,), effort=(1,)), 1.0)[0] is None
    assert gate.read(joint_state(), 1.0)[0] is not None


def test_age_is_not_checked_without_a_clock(gate):
    assert gate.read(joint_state(stamp=0.0))[0] is not None


def test_a_stamp_is_read_off_the_serialised_message():
    serialization = pytest.importorskip("rclpy.serialization")
    from sensor_msgs.msg import JointState

    message = JointState(name=["a"], position=[1.0])
    message.header.stamp.sec, message.header.stamp.nanosec = 12, 345_678_901
    assert peek_stamp(serialization.serialize_message(message)) == pytest.approx(12.345678901, abs=1e-12)


# -- in parts, from several drivers --------------------------------------------------------------------

JOINTS = ("arm1", "arm2", "arm3", "neck1", "neck2", "hand")
ARM, NECK, HAND = JOINTS[:3], JOINTS[3:5], JOINTS[5:]


def said(stamp, names, effort=True):
    """Every joint of the driver is where its place in JOINTS and the time say: 10 k + stamp."""
    place = [10.0 * JOINTS.index(name) + stamp if name in JOINTS else np.nan for name in names]
    return joint_state(stamp, names, place, [p + 0.5 for p in place], place if effort else ())


@pytest.fixture
def parts():
    return JointStateParts(JOINTS, age_limit=0.1, future_limit=0.05)


def whole(parts, stamp=1.0):
    """All drivers have spoken, the leading one last."""
    for names in (NECK, HAND):
        assert parts.read(said(stamp, names), stamp)[0] is None
    return parts.read(said(stamp, ARM), stamp)


def test_the_leading_driver_tells_a_whole_state_with_what_the_others_said_last(parts):
    sample, why = whole(parts)
    assert why == "" and sample.stamp == 1.0
    assert sample.position == pytest.approx([10.0 * k + 1.0 for k in range(6)])
    assert sample.velocity == pytest.approx(sample.position + 0.5) and sample.effort == pytest.approx(sample.position)
    sample, _ = parts.read(said(1.04, ARM), 1.04)
    assert sample.stamp == 1.04
    assert sample.position == pytest.approx([1.04, 11.04, 21.04, 31.0, 41.0, 51.0])
    assert parts.read(said(1.05, NECK, effort=False), 1.05) == (None, "")
    sample, _ = parts.read(said(1.06, ARM), 1.06)
    assert sample.position[3:] == pytest.approx([31.05, 41.05, 51.0]) and np.isnan(sample.effort[3:5]).all()


def test_in_whatever_order_drivers_come_and_joints_are_named():
    for order in itertools.permutations((ARM[::-1], NECK[::-1], (*HAND, "another robot's"))):
        parts = JointStateParts(JOINTS, 0.1, 0.05)
        told = [parts.read(said(1.0, names), 1.0) for names in order]
        sample, why = parts.read(said(1.01, ARM), 1.01)
        assert why == "" and sample.position[3:] == pytest.approx([31.0, 41.0, 51.0])
        # before all have spoken there is a sentence where the leading one has, and nothing where it has not
        assert all(state is None or k == 2 for k, (state, _) in enumerate(told))


def test_what_no_driver_has_told_is_named(parts):
    parts.read(said(1.0, NECK), 1.0)
    state, why = parts.read(said(1.0, ARM), 1.0)
    assert state is None and why.startswith("joint hand is told by no driver yet")


@pytest.mark.parametrize("silent", [NECK, HAND])
def test_a_driver_that_falls_silent_makes_the_whole_state_stale(parts, silent):
    whole(parts)
    for k in range(1, 40):
        now = 1.0 + 0.01 * k
        for names in (NECK, HAND):
            if names is not silent:
                parts.read(said(now, names), now)
        sample, why = parts.read(said(now, ARM), now)
        assert k == 10 or (sample is None) == (k > 10)  # at the limit itself either is right
    assert why.startswith(f"joint {', '.join(silent)} was told 0.390 s ago, limit 0.100 s: its driver is silent")
    parts.read(said(2.0, NECK), 2.0), parts.read(said(2.0, HAND), 2.0)
    assert parts.read(said(2.0, ARM), 2.0)[0] is not None  # it has come back


def test_a_leading_driver_that_falls_silent_tells_nothing_more(parts):
    whole(parts)
    assert [parts.read(said(1.0 + 0.01 * k, NECK), 1.0 + 0.01 * k) for k in range(1, 50)] == [(None, "")] * 49


def test_two_drivers_of_one_joint_are_an_error_while_both_speak(parts):
    whole(parts)
    state, why = parts.read(said(1.01, ("neck2", "hand")), 1.01)
    assert state is None and "joint neck2 is told by two drivers" in why or "joint hand is told by two drivers" in why
    state, why = parts.read(said(1.02, ARM), 1.02)
    assert state is None and "is told by two drivers" in why  # nobody knows which of them is right
    whole(parts, 1.3)
    assert parts.read(said(1.31, ARM), 1.31)[0] is not None  # the other one has ended


def test_a_driver_that_comes_back_with_other_joints_takes_them_over(parts):
    whole(parts)
    parts.read(said(2.0, (*NECK, *HAND)), 2.0)
    sample, why = parts.read(said(2.0, ARM), 2.0)
    assert why == "" and sample.position[3:] == pytest.approx([32.0, 42.0, 52.0])


def test_a_joint_named_twice_and_what_the_gate_refuses(parts):
    assert "joint neck1 is named twice" in parts.read(said(1.0, ("neck1", "neck1", "neck2")), 1.0)[1]
    assert "0.150 s old" in parts.read(said(0.85, NECK), 1.0)[1]
    broken = said(1.0, NECK)
    broken.position[0] = np.nan
    assert "position of neck1 is not finite" in parts.read(broken, 1.0)[1]
    assert parts.read(said(1.0, ("another robot's",)), 1.0) == (None, "")


def test_one_driver_of_all_joints_needs_no_other(parts):
    sample, why = parts.read(said(1.0, JOINTS), 1.0)
    assert why == "" and sample.position == pytest.approx([10.0 * k + 1.0 for k in range(6)])
