"""Joint states are brought into the model's order or refused with a sentence."""

from types import SimpleNamespace

import numpy as np
import pytest

from nodes.framework.joint_state_gate import JointStateGate, peek_stamp


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
