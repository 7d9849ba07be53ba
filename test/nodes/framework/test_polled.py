"""Polled readers and services: nobody is woken, nothing is lost between takes, reception is when it was, not when it was
read, and an answer may come later."""

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
from std_srvs.srv import Trigger

from nodes.framework.lifecycle import RefitNode
from nodes.framework.polled import create_polled_service, create_polled_subscription, take, take_requests
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


@pytest.mark.parametrize("executor_class", [SingleThreadedExecutor, EventsExecutor])
def test_requests_wait_and_are_answered_later_in_any_order(context, executor_class):
    node = RefitNode("server", context=context)
    made = []  # from a callback of its own executor, where nodes make their services
    timer = node.create_timer(0.01, lambda: made or made.append(create_polled_service(node, Trigger, "stop")))
    client_node = rclpy.create_node("client", context=context)
    client = client_node.create_client(Trigger, "stop")
    executor = executor_class(context=context)
    executor.add_node(node)
    clients = SingleThreadedExecutor(context=context)
    clients.add_node(client_node)

    def both_until(happened):
        deadline = time.monotonic() + 60.0
        while not happened():
            assert time.monotonic() < deadline
            executor.spin_once(timeout_sec=0.01)
            clients.spin_once(timeout_sec=0.01)

    both_until(client.service_is_ready)
    node.destroy_timer(timer)
    service = made[0]
    answers, headers = [client.call_async(Trigger.Request()) for _ in range(3)], []
    both_until(lambda: headers.extend(header for _, header in take_requests(service)) or len(headers) == 3)
    for _ in range(10):
        executor.spin_once(timeout_sec=0.01)
        clients.spin_once(timeout_sec=0.01)
    assert not any(answer.done() for answer in answers)  # no executor has answered for the node
    for k in (2, 0, 1):
        service.send_response(Trigger.Response(message=str(k)), headers[k])
    both_until(lambda: all(answer.done() for answer in answers))
    assert [answer.result().message for answer in answers] == ["0", "1", "2"]
    node.destroy_service(service)
    assert take_requests(service) == []
    for each in (executor, clients):
        each.shutdown()
    node.destroy_node()
    client_node.destroy_node()
