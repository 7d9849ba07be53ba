"""Polled readers: nobody is woken, nothing is lost between takes, and reception is when it was, not when it was read."""

import threading
import time

import pytest

pytest.importorskip("rclpy")

import rclpy
from rclpy.duration import Duration
from rclpy.executors import SingleThreadedExecutor
from rclpy.experimental import EventsExecutor
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import JointState

from nodes.framework.lifecycle import RefitNode
from nodes.framework.polled import create_polled_subscription, take
from nodes.framework.qos import STATE

COUNT, SPACING = 100, 0.005  # of the messages; spacing in s
ACKNOWLEDGED = Duration(seconds=60)


@pytest.fixture
def context():
    context = rclpy.Context()
    context.init()
    yield context
    context.try_shutdown()


@pytest.mark.parametrize("executor_class", [SingleThreadedExecutor, EventsExecutor])
def test_messages_wait_and_keep_their_time_of_reception(context, executor_class):
    node = RefitNode("reader", context=context)
    # From a callback of its own executor, where nodes make their readers.
    made = []
    timer = node.create_timer(
        0.01, lambda: made or made.append(create_polled_subscription(node, JointState, "joint_states", STATE, raw=True))
    )
    publisher = node.create_publisher(JointState, "joint_states", STATE)
    executor = executor_class(context=context)
    executor.add_node(node)
    while not publisher.get_subscription_count():
        executor.spin_once(timeout_sec=0.1)
    node.destroy_timer(timer)
    moments = []  # of each message: before it was sent, and when its reader had acknowledged it [ns]

    def publish():
        for k in range(COUNT):
            begin = time.time_ns()
            publisher.publish(JointState(name=[str(k)]))
            acknowledged = publisher.wait_for_all_acked(ACKNOWLEDGED)
            moments.append((begin, time.time_ns() if acknowledged else 0))
            time.sleep(SPACING)

    thread = threading.Thread(target=publish)
    turns, begin = 0, time.monotonic()
    thread.start()
    while thread.is_alive():
        executor.spin_once(timeout_sec=0.1)
        turns += 1
    thread.join()
    # Time-outs and the node's diagnostics, not one for every message.
    assert turns < COUNT / 4 + (time.monotonic() - begin) / 0.1
    taken = take(made[0])
    assert [deserialize_message(data, JointState).name[0] for data, _ in taken] == [str(k) for k in range(COUNT)]
    assert [info["publication_sequence_number"] for _, info in taken] == list(range(1, COUNT + 1))
    for (_, info), (begin, end) in zip(taken, moments):
        assert begin <= info["received_timestamp"] <= end
    assert take(made[0]) == []
    node.destroy_subscription(made[0])
    assert take(made[0]) == []
    executor.shutdown()
    node.destroy_node()
