"""A client of a running graph: a node with a thread of its own, and waits that end with a sentence."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import rclpy
from lifecycle_msgs.msg import State, Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rcl_interfaces.srv import GetParameters, SetParameters
from rclpy.action import ActionClient
from rclpy.context import Context
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node, NodeNameNonExistentError
from rclpy.parameter import Parameter, parameter_value_to_python
from rclpy.qos import QoSProfile
from rclpy.signals import SignalHandlerOptions

from config.network import enclose
from nodes.framework.polled import create_polled_subscription
from scripting.errors import GraphError

__all__ = ["ANSWER_TIMEOUT", "GraphClient", "LIFECYCLE_STATES"]

ANSWER_TIMEOUT = 30.0  # [s] for one service
ATTEMPT_TIMEOUT = 5.0  # [s] after which a question that may be repeated is: an answer may be lost during discovery
INTRODUCTION_TIMEOUT = 1.0  # [s] for the answer to a question whose answer may well be lost
LOOK_PERIOD = 0.02  # [s] between two looks at what is waited for

LIFECYCLE_STATES = {
    State.PRIMARY_STATE_UNKNOWN: "unknown",
    State.PRIMARY_STATE_UNCONFIGURED: "unconfigured",
    State.PRIMARY_STATE_INACTIVE: "inactive",
    State.PRIMARY_STATE_ACTIVE: "active",
    State.PRIMARY_STATE_FINALIZED: "finalized",
}


class GraphClient:
    """See the module's docstring. Names are relative to the namespace. Any thread may call.

    Args:
        domain: ROS domain. namespace: of the robot.
        check: called as check(when) during every wait; raises if waiting has become senseless.
        error: makes the error for a text.

    Attributes:
        node: the rclpy node, for publishers and subscriptions of one's own.
        check, error: as given.
    """

    def __init__(
        self,
        domain: int,
        namespace: str = "",
        check: Callable[[str], None] = lambda when: None,
        error: Callable[[str], GraphError] = GraphError,
    ) -> None:
        self.error, self.check = error, check
        self._clients: dict[tuple[type, str], Any] = {}
        self._introduced: set[str] = set()  # services and actions whose server knows the client here
        self._lock = threading.Lock()  # of the table of clients
        self._closing = threading.Lock()
        self._context = Context()
        enclose(os.environ)
        rclpy.init(context=self._context, domain_id=domain, signal_handler_options=SignalHandlerOptions.NO)
        self.node = Node(f"script_{os.getpid()}", context=self._context, namespace=namespace or None)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self.node)
        self._thread: threading.Thread | None = threading.Thread(target=self._spin, name="graph client", daemon=True)
        self._thread.start()

    def _spin(self) -> None:
        with contextlib.suppress(ExternalShutdownException):
            self._executor.spin()

    def close(self) -> None:
        """Leave the graph. May be called again, and from any thread but the client's own."""
        with self._closing:
            if self._thread is None:
                return
            self._executor.shutdown(timeout_sec=1.0)
            self._thread.join(2.0)
            self.node.destroy_node()
            rclpy.try_shutdown(context=self._context)
            self._thread = None

    # -- waiting -----------------------------------------------------------------------------------

    def until(self, condition: Callable[[], object], timeout: float, when: str) -> bool:
        """Whether `condition()` becomes true within `timeout` [s].

        Args:
            when: what is waited for, as in "while its nodes found each other".

        Raises:
            GraphError: what was launched ended.
        """
        deadline = time.monotonic() + timeout
        while not condition():
            self.check(when)
            if time.monotonic() > deadline:
                return False
            time.sleep(LOOK_PERIOD)
        return True

    def wait(self, future: Any, timeout: float, when: str = "while waiting for an answer") -> Any:
        """The result of a ROS future, or None after `timeout` [s]."""
        done = threading.Event()
        future.add_done_callback(lambda _: done.set())
        deadline = time.monotonic() + timeout
        while not done.wait(min(0.2, max(0.0, deadline - time.monotonic()))):
            self.check(when)
            if time.monotonic() >= deadline:
                return None
        return future.result()

    def send(self, make: Callable[[], Any]) -> Any:
        """The future of a request, sent by the client's own thread.

        rclpy notes a request after it has sent it, and drops an answer that another thread reads in between.

        Args:
            make: sends, and returns rclpy's future: `lambda: client.call_async(request)`.

        Raises:
            GraphError: the client has been closed.
        """
        sent = threading.Event()
        task = self._executor.create_task(make)
        task.add_done_callback(lambda _: sent.set())
        if not sent.wait(ANSWER_TIMEOUT):
            raise self.error("a request could not be sent, because the client has been closed")
        return task.result()

    def introduce(self, name: str, timeout: float = ANSWER_TIMEOUT) -> None:
        """Wait until the node that offers a service or action knows the client of it that was made here.

        A client knows when it has found a server; whether the server has found the client nothing tells, and until then it
        drops its answers, which a request that may not be repeated does not bear. A process hears of the readers here in
        the order in which they were made, though. So a harmless question is asked through a younger client, again and again:
        who has answered that knows all older ones.

        Args:
            timeout: [s]; who does not answer until then is left to its luck.
        """
        service = self.node.resolve_service_name(name)
        if service in self._introduced:
            return
        owner = self._owner({service, f"{service}/_action/send_goal"})
        if owner is None:
            return
        deadline, when = time.monotonic() + timeout, f"while {owner} took notice of this script"
        younger = self.node.create_client(GetParameters, f"{owner}/get_parameters")
        try:
            if self.until(younger.service_is_ready, timeout, when):
                answer = None
                while answer is None and time.monotonic() < deadline:
                    answer = self.wait(
                        self.send(lambda: younger.call_async(GetParameters.Request())), INTRODUCTION_TIMEOUT, when
                    )
        finally:
            self._executor.create_task(lambda: self.node.destroy_client(younger))
        self._introduced.add(service)

    def _owner(self, services: set[str]) -> str | None:
        """Full name of the node that offers one of these."""
        for name, namespace in self.node.get_node_names_and_namespaces():
            with contextlib.suppress(NodeNameNonExistentError):  # it has just ended
                offered = self.node.get_service_names_and_types_by_node(name, namespace)
                if services & {service for service, _ in offered}:
                    return f"{namespace.rstrip('/')}/{name}"
        return None

    # -- services, actions, parameters -------------------------------------------------------------

    def _client(self, kind: type, name: str) -> Any:
        with self._lock:
            if (kind, name) not in self._clients:
                self._clients[kind, name] = self.node.create_client(kind, name)
            return self._clients[kind, name]

    def action(self, kind: type, name: str) -> ActionClient:
        """The client of an action; the same one when asked again."""
        with self._lock:
            if (kind, name) not in self._clients:
                self._clients[kind, name] = ActionClient(self.node, kind, name)
            return self._clients[kind, name]

    def has_service(self, kind: type, name: str, timeout: float = 0.0) -> bool:
        """Whether somebody offers it."""
        client = self._client(kind, name)
        return self.until(client.service_is_ready, timeout, f"while looking for service {name}")

    def call(self, kind: Any, name: str, request: Any = None, timeout: float = ANSWER_TIMEOUT) -> Any:
        """A service's response.

        Raises:
            GraphError: nobody offers it, or it did not answer in time.
        """
        client = self._client(kind, name)
        if not self.until(client.service_is_ready, timeout, f"while looking for service {name}"):
            raise self.error(f"service {client.srv_name} is not there after {timeout:g} s; is its node running?")
        self.introduce(name, timeout)
        answer = self.wait(
            self.send(lambda: client.call_async(request or kind.Request())), timeout, f"while asking service {name}"
        )
        if answer is None:
            raise self.error(f"service {client.srv_name} did not answer within {timeout:g} s")
        return answer

    def lifecycle_state(self, node: str) -> int | None:
        """One of lifecycle_msgs/State's; None if the node is not there or did not answer (ask again)."""
        client = self._client(GetState, f"{node}/get_state")
        if not client.service_is_ready():
            return None
        answer = self.wait(
            self.send(lambda: client.call_async(GetState.Request())), ATTEMPT_TIMEOUT, f"while waiting for {node}"
        )
        return None if answer is None else int(answer.current_state.id)

    def change_state(
        self, node: str, transition: int, state: int, timeout: float, gone: Callable[[], bool] = lambda: False
    ) -> None:
        """Bring a lifecycle node into a state by a transition; nothing is done if it is there already.

        Args:
            transition, state: of lifecycle_msgs/Transition and /State. timeout: [s].
            gone: whether the node has ended, so that waiting is senseless.

        Raises:
            GraphError: it is not there in time.
        """
        deadline = time.monotonic() + timeout
        client = self._client(ChangeState, f"{node}/change_state")
        while (found := self.lifecycle_state(node)) != state:
            # The answer may be lost while the graph is still being discovered: the state itself tells.
            if found is not None and client.service_is_ready():
                request = ChangeState.Request(transition=Transition(id=transition))
                self.wait(
                    self.send(lambda request=request: client.call_async(request)),
                    20.0,
                    f"while {node} changed its state",
                )
            self.check(f"while waiting for {node}")
            if gone():
                raise self.error(f"node {node} ended before it was {LIFECYCLE_STATES[state]}; its log says why")
            if time.monotonic() > deadline:
                raise self.error(
                    f"node {node} is {_state(found)} after {timeout:g} s, not {LIFECYCLE_STATES[state]}; its log says why"
                )
            time.sleep(LOOK_PERIOD)

    def parameters(self, node: str, names: Sequence[str], timeout: float = ANSWER_TIMEOUT) -> dict[str, Any]:
        """Values of a node's parameters by name.

        Raises:
            GraphError: the node is not there.
        """
        deadline, service = time.monotonic() + timeout, f"{node}/get_parameters"
        client = self._client(GetParameters, service)
        while True:
            self.has_service(GetParameters, service, max(0.0, deadline - time.monotonic()))
            request = GetParameters.Request(names=list(names))
            answer = self.wait(self.send(lambda request=request: client.call_async(request)), ATTEMPT_TIMEOUT)
            if answer is not None:
                return dict(zip(names, map(parameter_value_to_python, answer.values)))
            if time.monotonic() > deadline:
                raise self.error(f"node {node} did not tell its parameters within {timeout:g} s")

    def set_parameter(self, node: str, name: str, value: Any) -> str:
        """Change a parameter; the reason why it was refused, or "".

        Raises:
            GraphError: the node is not there.
        """
        request = SetParameters.Request(parameters=[Parameter(name, value=value).to_parameter_msg()])
        result = self.call(SetParameters, f"{node}/set_parameters", request).results[0]
        return "" if result.successful else result.reason or "no reason given"

    # -- topics and nodes --------------------------------------------------------------------------

    def subscribe(self, kind: type, topic: str, callback: Callable[[Any], None], qos: QoSProfile) -> None:
        """Have `callback` called with every message, on the client's thread."""
        self.node.create_subscription(kind, topic, callback, qos)

    def poll(self, kind: type, topic: str, qos: QoSProfile) -> Any:
        """A subscription for `nodes.framework.polled.take`, which wakes nobody."""
        return create_polled_subscription(self.node, kind, topic, qos)

    def release(self, subscription: Any) -> None:
        """Destroy a subscription, by the own thread of the client, which would end with an error if it waited for events of what is gone."""
        self._executor.create_task(lambda: self.node.destroy_subscription(subscription))

    def node_names(self) -> list[str]:
        """Nodes of this namespace and below, as paths relative to it, without this client."""
        prefix = self.node.get_namespace().rstrip("/") + "/"
        paths = {f"{space.rstrip('/')}/{name}" for name, space in self.node.get_node_names_and_namespaces()}
        mine = self.node.get_fully_qualified_name()
        return sorted(path.removeprefix(prefix) for path in paths if path.startswith(prefix) and path != mine)


def _state(found: int | None) -> str:
    return "not there" if found is None else LIFECYCLE_STATES.get(found, "between two states")
