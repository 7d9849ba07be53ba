"""One launched ROS graph and the operator who drives it: start, wait until ready, reset, run, stop.

    with Graph("panda", run / "with refit", refit=True, paused=True) as graph:
        graph.play()
        graph.run_until(13.0, on_time)

The graph lives in a process group and a ROS domain of its own; leaving the block ends all of it,
however the block is left.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import rclpy
from action_msgs.msg import GoalStatus
from lifecycle_msgs.msg import State, Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rclpy.action import ActionClient
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from refit_interfaces.action import RunEpisode
from refit_interfaces.msg import ControllerStatus, SupervisorStatus
from simulation_interfaces.msg import Result, SimulationState
from simulation_interfaces.srv import ResetSimulation, SetSimulationState

from nodes.devices.robot_devices import robot_devices
from nodes.framework.polled import create_polled_subscription, take
from nodes.framework.qos import COMMAND, LEDGER

__all__ = ["Graph", "GraphError"]

START_TIMEOUT = 120.0  # [s] for processes to start, kernels to load and nodes to be active
ANSWER_TIMEOUT = 30.0  # [s] for one service
LOOK_PERIOD = 0.05  # [s] between two looks at the controller's status
SETTLE = 0.05  # [s] between a reset's answer and the next goal: its state must arrive first


class GraphError(RuntimeError):
    """The graph did not do its part; the text ends with the last lines of its log."""


class Graph:
    """See the module's docstring.

    Args:
        robot: name in config/robots.
        folder: run directory of this graph: bag, parameter revisions, log.
        launch: launch file that runs it.
        **arguments: of that launch file; bools and numbers are written as launch wants them.

    Attributes:
        halted: the supervisor's sentence while it halts, else "".
    """

    def __init__(self, robot: str, folder: Path, launch: str = "sim.launch.py", **arguments):
        self.folder, self.log = Path(folder), Path(folder) / "graph.log"
        self.refit = bool(arguments.get("refit", True))
        # Drivers that somebody has to bring up: switching the robot on lets its time run.
        self._drivers = (
            robot_devices(robot, arguments.get("devices", "")) if arguments.get("drivers") == "by_hand" else []
        )
        self._words = [
            launch,
            *(
                f"{name}:={_text(value)}"
                for name, value in {"robot": robot, "record": True, "run_directory": self.folder, **arguments}.items()
                if value != ""
            ),
        ]
        # Its own domain, so that whatever else runs on this machine neither hears nor disturbs it.
        self._domain = int(os.environ.get("ROS_DOMAIN_ID", 1 + os.getpid() % 100))
        self._time, self._origin = 0.0, 0.0
        self.halted = ""

    # -- beginning and end -------------------------------------------------------------------------

    def __enter__(self) -> Graph:
        self.folder.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, "ROS_DOMAIN_ID": str(self._domain), "PYTHONUNBUFFERED": "1"}
        environment.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
        os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
        with self.log.open("wb") as log:
            # A session of its own: Ctrl-C reaches this process alone, which ends the graph in order.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "cli.main", "launch", *self._words],
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
            )
        try:
            self._connect()
            self._wait_until_active()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        """End every process of the graph; a second Ctrl-C cannot leave one behind."""
        previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGINT)
            for patience, stronger in ((20.0, signal.SIGTERM), (5.0, signal.SIGKILL)):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(patience)
                    break
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, stronger)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)  # whoever outlived the launch process
            if getattr(self, "_node", None) is not None:
                self._executor.shutdown(timeout_sec=1.0)
                self._node.destroy_node()
                rclpy.try_shutdown(context=self._context)
                self._node = None
        finally:
            signal.signal(signal.SIGINT, previous)

    def _connect(self) -> None:
        self._context = Context()
        rclpy.init(context=self._context, domain_id=self._domain, signal_handler_options=SignalHandlerOptions.NO)
        self._node = node = Node("demo", context=self._context)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(node)
        self._status = create_polled_subscription(node, ControllerStatus, "controller/status", COMMAND)
        node.create_subscription(SupervisorStatus, "supervisor/status", self._on_supervisor, LEDGER)
        self._reset = node.create_client(ResetSimulation, "reset_simulation")
        self._set_state = node.create_client(SetSimulationState, "set_simulation_state")
        self._episodes = ActionClient(node, RunEpisode, "run_episode")

    def _wait_until_active(self) -> None:
        names = ["recorder", "adaptive_mpc", "supervisor", "sim_plant", *(["refit_worker"] if self.refit else [])]
        deadline = time.monotonic() + START_TIMEOUT
        for name in names:
            self._wait_for_state(name, State.PRIMARY_STATE_ACTIVE, deadline)
        for driver in self._drivers:
            self._transition(driver.path, Transition.TRANSITION_CONFIGURE, State.PRIMARY_STATE_INACTIVE, deadline)
        # Active is not yet connected: what is said before discovery is complete is lost.
        if self._drivers:  # commands are read by a driver once it is active
            readers = {"joint_states": len(names) - 1, "joint_command": 2, "controller/status": 3}
        else:
            readers = {"joint_states": len(names) - 1, "joint_command": 3, "controller/status": 3}
        while any(self._node.count_subscribers(topic) < count for topic, count in readers.items()):
            self._executor.spin_once(timeout_sec=0.05)
            self._check_alive("while its nodes found each other")
            if time.monotonic() > deadline:
                raise self._error(f"the nodes did not find each other within {START_TIMEOUT:.0f} s")
        time.sleep(0.5)

    def _wait_for_state(
        self, name: str, state: int, deadline: float, request: Callable[[], None] = lambda: None
    ) -> None:
        """Until a node is in a lifecycle state; `request` is made whenever it is found in another."""
        client = self._node.create_client(GetState, f"{name}/get_state")
        while True:
            if client.wait_for_service(timeout_sec=0.2):
                answer = self._spin(client.call_async(GetState.Request()), 5.0)
                if answer is not None and answer.current_state.id == state:
                    break
                if answer is not None:
                    request()
            self._check_alive(f"while waiting for {name}")
            if time.monotonic() > deadline:
                raise self._error(f"node {name} is not in state {state} after {START_TIMEOUT:.0f} s")
            time.sleep(0.05)
        self._node.destroy_client(client)

    def _transition(self, name: str, transition: int, state: int, deadline: float) -> None:
        client = self._node.create_client(ChangeState, f"{name}/change_state")
        # An answer may be lost while the graph is still being discovered: the state itself tells.
        self._wait_for_state(
            name,
            state,
            deadline,
            lambda: (
                client.wait_for_service(timeout_sec=0.2)
                and self._spin(client.call_async(ChangeState.Request(transition=Transition(id=transition))), 20.0)
            ),
        )
        self._node.destroy_client(client)

    # -- what an operator does ---------------------------------------------------------------------

    def play(self) -> None:
        """Let time run: press play, or switch the robot's devices on, those that move it last."""
        if self._drivers:
            self._origin = None  # of real time: the first state the controller answers
            for driver in self._drivers:
                self._transition(
                    driver.path,
                    Transition.TRANSITION_ACTIVATE,
                    State.PRIMARY_STATE_ACTIVE,
                    time.monotonic() + ANSWER_TIMEOUT,
                )
            return
        answer = self._call(
            self._set_state, SetSimulationState.Request(state=SimulationState(state=SimulationState.STATE_PLAYING))
        )
        self._check_result(answer.result, "set_simulation_state")

    def reset_state(self) -> None:
        """Robot back to its (scattered) start; time and hidden changes stay."""
        self._check_result(
            self._call(self._reset, ResetSimulation.Request(scope=ResetSimulation.Request.SCOPE_STATE)).result, "reset"
        )
        time.sleep(SETTLE)

    def run_until(self, t: float, on_time: Callable[[float], None] = lambda t: None) -> None:
        """Spin until the controller has answered a state of time t [s].

        Raises:
            GraphError: the supervisor halted, or time came to a stop.
        """
        last, moved = self._time, time.monotonic()
        while self._time < t:
            self._executor.spin_once(timeout_sec=LOOK_PERIOD)
            self._look()
            self._check_alive(f"at t = {self._time:.2f} s")
            if self.halted:
                raise self._error(f"the supervisor halted the robot at t = {self._time:.2f} s: {self.halted}")
            if self._time != last:
                last, moved = self._time, time.monotonic()
                on_time(last)
            elif time.monotonic() - moved > ANSWER_TIMEOUT:
                raise self._error(f"the controller has been silent for {ANSWER_TIMEOUT:.0f} s at t = {last:.2f} s")

    def episode(self, refit_at_end: bool) -> RunEpisode.Result:
        """Reset the robot and run one episode; returns the controller's own account of it."""
        self.reset_state()
        if not self._episodes.wait_for_server(timeout_sec=ANSWER_TIMEOUT):
            raise self._error("the controller offers no run_episode")
        handle = self._spin(self._episodes.send_goal_async(RunEpisode.Goal(refit_at_end=refit_at_end)), ANSWER_TIMEOUT)
        if handle is None or not handle.accepted:
            raise self._error("the controller refused the episode")
        answer = self._spin(handle.get_result_async(), 300.0)
        if answer is None or answer.status != GoalStatus.STATUS_SUCCEEDED:
            raise self._error(f"the episode failed: {answer.result.message if answer else 'no answer'}")
        return answer.result

    # -- internals ---------------------------------------------------------------------------------

    def _look(self) -> None:
        for message, _ in take(self._status):
            if message.state == ControllerStatus.STATE_TRACKING:
                stamp = message.header.stamp.sec + 1e-9 * message.header.stamp.nanosec
                self._origin = stamp if self._origin is None else self._origin
                self._time = stamp - self._origin

    def _on_supervisor(self, message: SupervisorStatus) -> None:
        self.halted = message.message if message.state == SupervisorStatus.STATE_HALTED else ""

    def _call(self, client, request):
        if not client.wait_for_service(timeout_sec=ANSWER_TIMEOUT):
            raise self._error(f"service {client.srv_name} is not there")
        answer = self._spin(client.call_async(request), ANSWER_TIMEOUT)
        if answer is None:
            raise self._error(f"service {client.srv_name} did not answer within {ANSWER_TIMEOUT:.0f} s")
        return answer

    def _spin(self, future, timeout: float):
        """The future's result, or None after `timeout`; notices if the graph dies."""
        deadline = time.monotonic() + timeout
        while not future.done() and time.monotonic() < deadline:
            self._executor.spin_until_future_complete(future, timeout_sec=0.2)
            self._check_alive("while waiting for an answer")
        return future.result() if future.done() else None

    def _check_result(self, result: Result, what: str) -> None:
        if result.result != Result.RESULT_OK:
            raise self._error(f"{what}: {result.error_message}")

    def _check_alive(self, when: str) -> None:
        if self._process.poll() is not None:
            raise self._error(f"the graph ended {when} (exit code {self._process.returncode})")

    def _error(self, text: str) -> GraphError:
        with contextlib.suppress(OSError):
            lines = self.log.read_text(errors="replace").splitlines()
            # The nodes' own complaints first; without any, whatever was said last.
            said = [line for line in lines if "ERROR" in line or "WARN" in line or "Error" in line] or lines
            text += f"\n  log {self.log}, last lines:\n" + "\n".join(f"    {line[:200]}" for line in said[-6:])
        return GraphError(text)


def _text(value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
