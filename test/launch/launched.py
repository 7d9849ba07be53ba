"""What the launch tests share: what the processes of a launch do, and a probe in their graph.

Waiting has deadlines that are far beyond what an idle machine needs, and nothing else is timed:
tests assert order, counts and contents.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sized
from pathlib import Path

import rclpy
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from launch.actions import GroupAction, IncludeLaunchDescription, RegisterEventHandler, SetLaunchConfiguration
from launch.event_handlers import OnProcessExit, OnProcessIO, OnProcessStart
from launch.launch_description_sources import PythonLaunchDescriptionSource
from lifecycle_msgs.msg import State
from lifecycle_msgs.srv import GetState
from rcl_interfaces.srv import GetParameters, SetParameters
from rclpy.action import ActionClient
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node, NodeNameNonExistentError
from rclpy.parameter import Parameter
from simulation_interfaces.msg import Result, SimulationState
from simulation_interfaces.srv import SetSimulationState

from nodes.framework.qos import STATE

__all__ = [
    *("DEADLINE", "LAUNCH", "SPARING", "SPARING_SERVOS", "Messages", "Probe", "Processes"),
    *("include", "seconds", "settled", "until"),
]

LAUNCH = Path(__file__).resolve().parents[2] / "launch"
DEADLINE = 180.0  # [s] of wall time, for anything that has to happen
#: Settings of an arm's plant in lock-step where no test counts what it says: clock and transforms more seldom than by default, a wrench
#: for every second tick. To say and to hear all of that is half of what such a graph costs.
SPARING = """
/**/sim_plant:
  ros__parameters: {clock_period: 0.04, tf_period: 0.1, wrench_period: 0.004}
"""
#: The same with servos at half their rate, and so half as many joint states: for the UR5e with its scoop; a Panda falls behind like that.
SPARING_SERVOS = SPARING.replace("{", "{tick: 0.004, ")


def include(name: str, **arguments) -> GroupAction:
    """A launch file of the project as an action; arguments as on the command line, True as true."""
    texts = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in arguments.items()}
    return GroupAction(
        [
            IncludeLaunchDescription(
                PythonLaunchDescriptionSource(str(LAUNCH / name)), launch_arguments=list(texts.items())
            )
        ]
    )


def until(condition: Callable[[], object], what: str, deadline: float = DEADLINE):
    """The first true value of `condition()`; AssertionError if there is none in time."""
    end = time.monotonic() + deadline
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"did not happen within {deadline:.0f} s: {what}")


def settled(messages: Sized, still: float = 1.0) -> int:
    """How many there are once none has come for `still` [s]: what was under way has arrived."""
    count, since = len(messages), time.monotonic()

    def rests():
        nonlocal count, since
        if len(messages) != count:
            count, since = len(messages), time.monotonic()
        return time.monotonic() - since > still

    until(rests, f"nothing comes for {still:g} s")
    return count


def seconds(stamp) -> float:
    """A stamp as [s]."""
    return stamp.sec + 1e-9 * stamp.nanosec


def _name(event) -> str:
    """A node's full name, or that of a process which is no node (an emulator)."""
    return getattr(event.action, "node_name", None) or event.process_name


class Processes:
    """Process ids, exit codes and output of what a launch starts, by the node's full name."""

    def __init__(self):
        self.pid: dict[str, int] = {}
        self.exit_code: dict[str, int] = {}
        self._output: dict[str, bytes] = defaultdict(bytes)

    def handlers(self) -> list:
        """To put into the launch description, before everything else."""
        return [
            RegisterEventHandler(OnProcessStart(on_start=self._started)),
            RegisterEventHandler(OnProcessExit(on_exit=self._ended)),
            RegisterEventHandler(OnProcessIO(on_stdout=self._said, on_stderr=self._said)),
            # Nobody is killed for ending slowly: how a node ends is judged, not how soon.
            SetLaunchConfiguration("sigterm_timeout", "60"),
            SetLaunchConfiguration("sigkill_timeout", "60"),
        ]

    def _started(self, event, context):
        self.pid[_name(event)] = event.pid

    def _ended(self, event, context):
        self.exit_code[_name(event)] = event.returncode

    def _said(self, event):
        self._output[_name(event)] += event.text

    def output(self, name: str) -> str:
        """Everything a node has printed."""
        return self._output[name].decode(errors="replace")

    def kill(self, name: str) -> None:
        """SIGKILL, and wait until the launch has noticed."""
        os.kill(self.pid[name], signal.SIGKILL)
        until(lambda: name in self.exit_code, f"{name} ends after SIGKILL")

    def assert_running(self, *but: str) -> None:
        """No process has ended, except those named in `but`, and none printed a traceback."""
        assert not set(self.exit_code) - set(but), f"ended: {self.exit_code}"
        self.assert_clean_output()

    def assert_ended_well(self, *but: str) -> None:
        """Every process has ended with code 0, except those named in `but`, and none printed a traceback."""
        codes = {name: self.exit_code.get(name) for name in self.pid if name not in but}
        assert not any(code != 0 for code in codes.values()), f"exit codes: {codes}"
        self.assert_clean_output()

    def assert_clean_output(self) -> None:
        for name in self._output:
            assert "Traceback" not in self.output(name), f"{name}:\n{self.output(name)}"


def _hears(status: DiagnosticStatus, node: str) -> bool:
    said = {value.key: value.value for value in status.values}
    if status.name != node:
        return False
    # A state of time zero is refused, and heard all the same.
    heard = float(said.get("states", 0)) + float(said.get("states_refused", 0))
    return heard > 0 or "/joint_states" not in said.get("topics_silent", "/joint_states").split(", ")


class Messages:
    """What arrived on one topic, in order."""

    def __init__(self, topic: str):
        self.topic = topic
        self._all: list = []
        self._arrived = threading.Condition()

    def take(self, message) -> None:
        with self._arrived:
            self._all.append(message)
            self._arrived.notify_all()

    def __len__(self) -> int:
        return len(self._all)

    def __getitem__(self, index):
        return self._all[index]

    def wait(
        self, condition: Callable = lambda message: True, after: int = 0, deadline: float = DEADLINE, what: str = ""
    ):
        """The first message from number `after` on that fulfils the condition."""
        end, checked = time.monotonic() + deadline, after
        with self._arrived:
            while True:
                for message in self._all[checked:]:
                    if condition(message):
                        return message
                checked = max(after, len(self._all))
                if not self._arrived.wait(max(0.0, end - time.monotonic())) and time.monotonic() >= end:
                    last = self._all[-1] if self._all else "nothing at all"
                    raise AssertionError(
                        f"{self.topic}: {what or 'no such message'} within {deadline:.0f} s; "
                        f"{len(self._all) - after} arrived, the last is {last}"
                    )

    def wait_next(self, condition: Callable = lambda message: True, **options):
        """The first message that arrives from now on and fulfils the condition."""
        return self.wait(condition, after=len(self._all), **options)


class Probe:
    """A node of the test in the graph under test, spun by a thread of its own.

    Args:
        domain: ROS domain.
    """

    def __init__(self, domain: int):
        self._context = rclpy.Context()
        rclpy.init(context=self._context, domain_id=domain)
        self.node = Node("probe", context=self._context)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self.node)
        self._watched: dict[str, Messages] = {}
        self._clients: dict[str, object] = {}
        self._thread = threading.Thread(target=self._spin, name="probe", daemon=True)
        self._thread.start()

    def _spin(self) -> None:
        try:
            self._executor.spin()
        except ExternalShutdownException:
            pass

    def close(self) -> None:
        self._executor.shutdown(timeout_sec=1.0)  # first: a context that ends meanwhile fails whoever begins to wait
        self._thread.join()
        self.node.destroy_node()
        self._context.try_shutdown()

    def watch(self, kind, topic: str, qos) -> Messages:
        """All messages of a topic from now on; the same object when asked again."""
        if topic not in self._watched:
            messages = self._watched[topic] = Messages(topic)
            self.node.create_subscription(kind, topic, messages.take, qos)
        return self._watched[topic]

    def _client(self, name: str, make: Callable, is_ready: Callable, deadline: float):
        """A client that is connected both ways, made at its first use."""
        if name not in self._clients:
            client = make()
            until(lambda: is_ready(client), f"{name} appears", deadline)
            self._introduce(name, deadline)
            self._clients[name] = client
        return self._clients[name]

    def _introduce(self, name: str, deadline: float) -> None:
        """Wait until the node that offers a service or action knows our newest client of it.

        The client knows the server, but the server drops an answer whose reader it does not know, and nothing tells
        whether it does. A process hears of our readers in the order in which they were made, though: once a younger
        client has an answer from it, it knows the older ones.
        """
        service = self.node.resolve_service_name(name)
        owner = until(lambda: self._owner({service, f"{service}/_action/send_goal"}), f"{name} has a node", deadline)
        younger = self.node.create_client(GetParameters, f"{owner}/get_parameters")
        until(younger.service_is_ready, f"{owner} appears", deadline)
        asked: list = []

        def answered() -> bool:
            if not asked or time.monotonic() > asked[-1][0] + 1.0:
                asked.append((time.monotonic(), self._sent(lambda: younger.call_async(GetParameters.Request()))))
            return any(future.done() for _, future in asked)

        until(answered, f"{owner} answers", deadline)
        self._sent(lambda: self.node.destroy_client(younger))

    def _owner(self, services: set[str]) -> str | None:
        """Full name of the node that offers one of these."""
        for name, namespace in self.node.get_node_names_and_namespaces():
            try:
                offered = self.node.get_service_names_and_types_by_node(name, namespace)
            except NodeNameNonExistentError:  # it has just ended
                continue
            if services & {service for service, _ in offered}:
                return f"{namespace.rstrip('/')}/{name}"
        return None

    def call(self, kind, service: str, request=None, deadline: float = DEADLINE):
        """A service's response."""
        client = self._client(
            service, lambda: self.node.create_client(kind, service), lambda client: client.service_is_ready(), deadline
        )
        return self._result(
            self._sent(lambda: client.call_async(request or kind.Request())), f"service {service} answers", deadline
        )

    def set_state(self, state: int) -> None:
        """Let time run, or stand still: one of SimulationState's."""
        request = SetSimulationState.Request(state=SimulationState(state=state))
        result = self.call(SetSimulationState, "set_simulation_state", request).result
        assert result.result == Result.RESULT_OK, result.error_message

    def set_pace(self, factor: float) -> None:
        """Simulated per wall time, 0: as fast as possible. Where nothing moves the plant need not take a core from whoever computes."""
        request = SetParameters.Request(parameters=[Parameter("real_time_factor", value=factor).to_parameter_msg()])
        answer = self.call(SetParameters, "sim_plant/set_parameters", request).results[0]
        assert answer.successful, answer.reason

    def forget(self) -> None:
        """Make clients anew at their next use: those of a graph that has ended may lose the next one's answers."""
        for client in self._clients.values():
            client.destroy() if isinstance(client, ActionClient) else self.node.destroy_client(client)
        self._clients.clear()

    def wait_active(self, *nodes: str) -> None:
        """Until the lifecycle nodes of these names are active."""
        for node in nodes:
            until(lambda: self._is_active(node), f"{node} is active")

    def _is_active(self, node: str) -> bool:
        try:  # an answer may be lost while processes come and go, but this question can be repeated
            return self.call(GetState, f"{node}/get_state", deadline=5.0).current_state.id == State.PRIMARY_STATE_ACTIVE
        except AssertionError:
            return False

    def wait_hears(self, *nodes: str) -> None:
        """Until these, refit worker or recorder, have heard a joint state: what is said before that may be lost."""
        said = self.watch(DiagnosticArray, "diagnostics", STATE)
        for node in nodes:
            said.wait(lambda message: any(_hears(status, node) for status in message.status), what=f"{node} hears")

    def send_goal(self, kind, action: str, goal, feedback=None, deadline: float = DEADLINE):
        """The handle of an accepted goal."""
        client = self._client(
            action, lambda: ActionClient(self.node, kind, action), lambda client: client.server_is_ready(), deadline
        )
        handle = self._result(
            self._sent(lambda: client.send_goal_async(goal, feedback_callback=feedback)),
            f"action {action} answers",
            deadline,
        )
        assert handle.accepted, f"{action} refused its goal"
        return handle

    def result(self, handle, deadline: float = DEADLINE):
        """The result of a goal; its status is not judged."""
        return self._result(self._sent(handle.get_result_async), "the goal's result", deadline).result

    def end(self, publisher) -> None:
        """Destroy a publisher of `node`: where the spinning thread does not wait for its events, which would end that thread."""
        self._sent(lambda: self.node.destroy_publisher(publisher))

    def _sent(self, make: Callable):
        """The future of a request that the spinning thread sends: rclpy drops an answer that comes before it is noted."""
        task = self._executor.create_task(make)
        until(task.done, "a request is sent")
        return task.result()

    def _result(self, future, what: str, deadline: float):
        until(future.done, what, deadline)
        return future.result()
