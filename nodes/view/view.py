"""The live view: a page in the browser that shows the robot while it moves, and has the operator's buttons.

    view --ros-args -p robot:=panda
    ros2 launch refit sim.launch.py view:=true

Nothing is subscribed to and nothing is drawn while nobody looks. Page: docs/nodes/view.md.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rclpy.client import Client
from rclpy.task import Future
from std_srvs.srv import Trigger

from nodes.framework.config import setting
from nodes.framework.lifecycle import RefitNode, spin_main
from nodes.framework.messages import message_class
from nodes.framework.polled import create_polled_subscription, take
from nodes.framework.qos import GLANCE, LEDGER, STATE
from nodes.view.player import Player, robot_shape
from nodes.view.stage.layer import Keep, Want
from nodes.view.stage.page import is_loopback, open_page, url_of

__all__ = ["View", "ViewConfig", "main"]

QOS = {Keep.NEWEST: GLANCE, Keep.COURSE: GLANCE, Keep.EVERY: STATE, Keep.FACTS: LEDGER}
#: [s] between two looks for topics of a type that a layer wants all of
DISCOVERY_PERIOD = 1.0
#: [s] by which a state's stamp may be older than the one before; more is a reset
LATE = 0.5
#: [s] for the supervisor's answer; its own `stop_timeout` is 5 s unless somebody changed it
ANSWER_LIMIT = 15.0


@dataclass(frozen=True)
class ViewConfig:
    """Parameters of `view`."""

    robot: str = setting(
        "panda", "", None, "name in config/robots, or path of a model; empty: none is drawn", read_only=True
    )
    port: int = setting(8080, "", (0, 65535), "of the page; 0: a free one, which the log names", read_only=True)
    host: str = setting(
        "127.0.0.1", "", None, "address to listen on; beyond loopback the page has no buttons", read_only=True
    )
    rate: float = setting(12.0, "Hz", (1.0, 60.0), "how often the page is drawn while somebody looks", read_only=True)
    reference: str = setting(
        "", "", None, "bag of an earlier run, whose tracking error is drawn beside this one's", read_only=True
    )
    extra_layers: tuple[str, ...] = setting((), "", None, "layers of other packages, 'module:Class'", read_only=True)


@dataclass
class _Reader:
    """A topic that is read for a want."""

    want: Want
    topic: str
    subscription: Any
    due: float = 0.0


@dataclass
class _Question:
    """A verb that the supervisor has been asked and has not answered."""

    verb: str
    answered: Callable[[bool, str], None]
    future: Future
    until: float = field(default_factory=lambda: time.monotonic() + ANSWER_LIMIT)


class View(RefitNode):
    """See the module's docstring."""

    name = "view"
    Config = ViewConfig
    _server: Any = None
    _player: Player | None = None
    _timer: Any = None
    _searched = 0.0

    # -- lifecycle ---------------------------------------------------------------------------------

    def configure(self) -> None:
        config = self.config
        self._readers: dict[tuple[Want, str], _Reader] = {}
        self._questions: list[_Question] = []
        self._verbs: dict[str, Client] = {}
        shape = robot_shape(config.robot) if config.robot else None
        self._server = open_page(config.port, f"refit · {shape.name if shape else 'live'}", config.host)
        # Whoever reaches a port of the network is nobody in particular: a robot is not stopped or armed from there.
        operator = self._operate if is_loopback(config.host) else None
        self._player = Player(
            self._server, shape, operator, config.reference, config.extra_layers, self.get_logger().error
        )
        # Made now, so that they have found the supervisor long before somebody presses.
        self._verbs = {
            "stop": self.create_client(Trigger, "stop"),
            "resume": self.create_client(Trigger, "resume"),
            "arm": self.create_client(Trigger, "arm"),
        }
        self._server.on_client_connect(lambda client: self._soon(self._attend))
        self._server.on_client_disconnect(lambda client: self._soon(self._attend))
        url = url_of(config.host, self._server.get_port())
        self.diagnostics.set("url", url)
        self.get_logger().info(f"Live view: {url}")

    def activate(self) -> None:
        self._soon(self._attend)

    def deactivate(self) -> None:
        self._look_away()

    def cleanup(self) -> None:
        self._look_away()
        for client in getattr(self, "_verbs", {}).values():
            self.destroy_client(client)
        self._verbs = {}
        if self._player is not None:
            self._player.close()
            self._player = None
        if self._server is not None:
            self._server.stop()
            self._server = None

    def _soon(self, step: Callable[..., None], *arguments: Any) -> None:
        """Have the executor's thread do something, from any thread."""
        if self.executor is not None:
            self.executor.create_task(step, *arguments)

    # -- watching ----------------------------------------------------------------------------------

    def _attend(self) -> None:
        """Read while somebody looks, and only then."""
        watchers = len(self._server.get_clients()) if self._server is not None else 0
        self.diagnostics.set("watchers", watchers)
        if watchers and self.is_active and self._timer is None:
            self._newest, self._searched = -1e9, 0.0
            assert self._player is not None
            self._player.forget()
            self._timer = self.create_timer(1.0 / self.config.rate, self._draw, clock=self.steady_clock)
        elif not watchers:
            self._look_away()

    def _look_away(self) -> None:
        if self._timer is not None:
            self.destroy_timer(self._timer)
            self._timer = None
        for reader in getattr(self, "_readers", {}).values():
            self.destroy_subscription(reader.subscription)
        self._readers = {}

    def _search(self, now: float) -> None:
        """Subscribe to what is wanted and not yet read."""
        assert self._player is not None
        self._searched = now + DISCOVERY_PERIOD
        present: list[tuple[str, list[str]]] | None = None
        for want in self._player.wants:
            if want.topic != "*":
                self._read(want, want.topic)
                continue
            present = self.get_topic_names_and_types() if present is None else present
            own = self.get_namespace().rstrip("/") + "/"
            for topic, types in present:
                if want.type in types and topic.startswith(own) and self.count_publishers(topic):
                    self._read(want, topic)

    def _read(self, want: Want, topic: str) -> None:
        if (want, topic) not in self._readers:
            reader = create_polled_subscription(self, message_class(want.type), topic, QOS[want.keep])
            own = self.get_namespace().rstrip("/") + "/"
            self._readers[want, topic] = _Reader(want, topic.removeprefix(own) if want.topic == "*" else topic, reader)

    def _draw(self) -> None:
        """Take what has come, and draw it."""
        player, now = self._player, time.monotonic()
        if player is None:
            return
        if now >= self._searched:
            self._search(now)
        for reader in list(self._readers.values()):
            if now < reader.due:
                continue
            for message, info in take(reader.subscription):
                reader.due = now + reader.want.period
                stamp = _stamp(message, 1e-9 * info["received_timestamp"])
                if reader.want.type == "sensor_msgs/msg/JointState":
                    self._keep_time(stamp)
                player.take(reader.want, reader.topic, message, stamp)
        player.refresh()
        self.diagnostics.tick("pictures")

    def _keep_time(self, stamp: float) -> None:
        """Time that goes back is a reset. Simulated time itself is not listened to: it would wake this node all the time."""
        if stamp < self._newest - LATE and self._player is not None:
            self._player.forget()
        self._newest = stamp

    # -- the operator ------------------------------------------------------------------------------

    def _operate(self, verb: str, answered: Callable[[bool, str], None]) -> None:
        """A button was pressed, on a thread of the page's."""
        self._soon(self._ask, verb, answered)

    def _ask(self, verb: str, answered: Callable[[bool, str], None]) -> None:
        self.get_logger().info(f"'{verb}' was pressed in the live view.")
        client = self._verbs.get(verb)
        if client is None or not client.service_is_ready():
            self._answer(
                verb, answered, False, "No supervisor is there to be asked. Use the emergency stop if you must."
            )
            return
        question = _Question(verb, answered, client.call_async(Trigger.Request()))
        self._questions.append(question)
        question.future.add_done_callback(lambda future: self._on_answer(question))

    def _on_answer(self, question: _Question) -> None:
        if question in self._questions:
            self._questions.remove(question)
            answer = question.future.result()
            self._answer(question.verb, question.answered, answer.success, answer.message)

    def _answer(self, verb: str, answered: Callable[[bool, str], None], granted: bool, text: str) -> None:
        # A line of rclpy's logger keeps the severity of its first call, and raises at another one.
        if granted:
            self.get_logger().info(f"Answer to '{verb}': granted. {text}")
        else:
            self.get_logger().warning(f"Answer to '{verb}': not granted. {text}")
        answered(granted, text)

    def diagnose(self) -> None:
        now = time.monotonic()
        for question in [each for each in getattr(self, "_questions", []) if now > each.until]:
            self._questions.remove(question)
            self._answer(
                question.verb,
                question.answered,
                False,
                f"No answer within {ANSWER_LIMIT:g} s: whether it was done is not known. Use the emergency stop if you must.",
            )


def _stamp(message: Any, received: float) -> float:
    """A message's own time, or that of its reception [s]."""
    header = getattr(message, "header", None)
    return received if header is None else header.stamp.sec + 1e-9 * header.stamp.nanosec


def main(args=None) -> int:
    return spin_main(View, args)
