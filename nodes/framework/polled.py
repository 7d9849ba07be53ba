"""Subscriptions and services that wake nobody: what arrives waits in the middleware until somebody takes it, all at once.

    reader = create_polled_subscription(node, JointState, "joint_states", STATE)
    ...
    for message, info in take(reader):

rclpy's executors wake up for every message, which at 500 Hz costs more than most nodes do with it. The
middleware stamps a message when it arrives (`info["received_timestamp"]`, system time [ns]), so taking
it later changes no time of reception. The reader's depth must hold what arrives between two takes.

A polled service is answered whenever its node knows the answer, which with rclpy's executors takes a thread that
waits, or a coroutine that they poll at the price of a core:

    service = create_polled_service(node, Trigger, "stop")
    ...
    for request, header in take_requests(service):
        ...
        service.send_response(Trigger.Response(success=True), header)  # now or in a later callback
"""

from __future__ import annotations

import contextlib

from rclpy.callback_groups import CallbackGroup
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.service import Service
from rclpy.subscription import Subscription

__all__ = ["Polled", "create_polled_service", "create_polled_subscription", "take", "take_requests"]

InvalidHandle = rclpy_implementation.InvalidHandle


class Polled(CallbackGroup):
    """A group whose subscriptions and services no executor takes from.

    rclpy's events executor knows no groups: `RefitNode.subscriptions` and `RefitNode.services` keep these from it,
    and it still reports their events (losses, offered QoS). The classic executors leave the events alone too: with Fast DDS, waiting
    for a reader's events is being woken by its data.
    """

    def can_execute(self, entity) -> bool:
        return False

    def beginning_execution(self, entity) -> bool:
        return False

    def ending_execution(self, entity) -> None:
        pass


def create_polled_subscription(node, message_type, topic: str, qos, **options) -> Subscription:
    """A subscription for `take`; destroyed like any other. `options` are those of `create_subscription`."""
    return node.create_subscription(message_type, topic, lambda message: None, qos, callback_group=Polled(), **options)


def take(subscription: Subscription) -> list[tuple[object, dict]]:
    """Everything that has arrived since the last take: (message, or its bytes if raw; message info), oldest first."""
    taken: list[tuple[object, dict]] = []
    reader = subscription.handle
    try:  # a bus cycle asks a dozen times: contextlib.suppress is a quarter of what that takes
        with reader:
            while (message := reader.take_message(subscription.msg_type, subscription.raw)) is not None:
                taken.append(message)
    except InvalidHandle:  # destroyed meanwhile
        pass
    return taken


def create_polled_service(node, service_type, name: str, **options) -> Service:
    """A service for `take_requests`; destroyed like any other. `options` are those of `create_service`."""
    return node.create_service(
        service_type, name, lambda request, response: response, callback_group=Polled(), **options
    )


def take_requests(service: Service) -> list[tuple[object, object]]:
    """Everything that was asked since the last take: (request, header for `service.send_response`), oldest first."""
    taken, server = [], service.handle
    with contextlib.suppress(InvalidHandle), server:  # destroyed meanwhile
        while (asked := server.service_take_request(service.srv_type.Request))[0] is not None:
            taken.append(asked)
    return taken
