"""A ROS graph of its own for each test module, and the check that nodes are documented."""

import ast
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

#: where a transition leads
REACHED = {
    "configure": "inactive",
    "activate": "active",
    "deactivate": "inactive",
    "cleanup": "unconfigured",
    "shutdown": "finalized",
}
#: [s] of wall time for anything that has to happen, far beyond what an idle machine needs; no test is about how long
PATIENCE = 120.0
ENTRY = "import sys; from nodes.framework.entry import {name} as main; sys.exit(main())"


class Diagnostics:
    """What a node has said once a second, the newest by calling: (level, message, {key: value}).

    Args:
        name: of the node, with its namespace.
        messages: a list that fills with what comes on its topic, from whomever.
    """

    def __init__(self, name, messages):
        self._name, self._messages = name, messages

    def __call__(self):
        return next(self._backwards(), (None, "", {}))

    @property
    def count(self):
        """Messages so far."""
        return sum(1 for _ in self._backwards())

    def said(self, text):
        """Whether any message so far held this text: what is said once may have been followed by another message."""
        return any(text in message for _, message, _ in self._backwards())

    def _backwards(self):
        for message in reversed(self._messages):
            status = message.status[0]
            if status.name == self._name:
                yield status.level[0], status.message, {v.key: v.value for v in status.values}


class NodeProcess(subprocess.Popen):
    """A node that never waits for a reader of what it says, and can be asked what it said while it runs."""

    def __init__(self, name, arguments):
        self.name = name
        self._said = tempfile.TemporaryFile()
        super().__init__(
            [sys.executable, "-c", ENTRY.format(name=name), "--ros-args", *arguments],
            cwd=ROOT,
            stdout=self._said,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"},
        )

    def output(self):
        """All it said so far."""
        return os.pread(self._said.fileno(), os.fstat(self._said.fileno()).st_size, 0).decode(errors="replace")

    def communicate(self, timeout=None):
        """As Popen's, of what has gone into the file: (output, None) once it has ended."""
        self.wait(timeout)
        return self.output(), None

    def __str__(self):
        state = "runs" if self.poll() is None else f"ended with {self.returncode}"
        return f"{self.name} {state} and last said:\n{self.output()[-2000:]}"


class Ros:
    """A client in the graph: starts nodes as processes, calls, listens, waits."""

    def __init__(self):
        import rclpy
        from rclpy.executors import SingleThreadedExecutor

        self.rclpy = rclpy
        self.context = rclpy.Context()
        self.context.init()
        self.node = rclpy.create_node("test_client", context=self.context)
        self._executor = SingleThreadedExecutor(context=self.context)
        self._executor.add_node(self.node)
        self.processes = []

    # ---- processes -------------------------------------------------------------------------
    def start(self, name, *arguments, **parameters):
        """A node as its own process; keywords are its parameters, arguments raw --ros-args."""
        given = [x for key, value in parameters.items() for x in ("-p", f"{key}:={_yaml(value)}")]
        process = NodeProcess(name, [*arguments, *given])
        self.processes.append(process)
        return process

    def finish(self, process, number=signal.SIGINT, timeout=PATIENCE):
        """Signal a process; returns (exit code, seconds it took, its output).

        A node that does not end within its own ENDING_LIMIT ends itself with another code than 0: that is the check
        that it ends promptly, and the seconds, which count what the machine withheld, are none.
        """
        start = time.monotonic()
        process.send_signal(number)
        output, _ = process.communicate(timeout=timeout)
        self.processes.remove(process)
        return process.returncode, time.monotonic() - start, output

    def up(self, node):
        """Configure and activate a lifecycle node."""
        self.transition(node, "configure")
        self.transition(node, "activate")

    def transition(self, node, label):
        """One lifecycle transition; fails the test if it is refused."""
        assert self.try_transition(node, label), f"{node} could not {label}"

    def try_transition(self, node, label, timeout=PATIENCE):
        """Whether the transition succeeded; by the node's own state where the answer is lost, as launch does it."""
        from lifecycle_msgs.msg import Transition
        from lifecycle_msgs.srv import ChangeState, GetState

        change, state = (
            self.node.create_client(kind, f"{node}/{name}")
            for kind, name in ((ChangeState, "change_state"), (GetState, "get_state"))
        )
        try:
            self.until(lambda: change.service_is_ready() and state.service_is_ready(), timeout, f"services of {node}")
            answer = change.call_async(ChangeState.Request(transition=Transition(label=label)))
            asked, asked_at, end = None, time.monotonic(), time.monotonic() + timeout
            while not answer.done():
                assert time.monotonic() < end, f"{node} did not {label} within {timeout:g} s"
                if time.monotonic() > asked_at + 1.0:
                    asked, asked_at = state.call_async(GetState.Request()), time.monotonic()
                self.spin(0.02)
                if asked is not None and asked.done() and asked.result().current_state.label == REACHED.get(label):
                    return True
            return answer.result().success
        finally:
            for client in (change, state):
                self.node.destroy_client(client)

    # ---- communication ---------------------------------------------------------------------
    def call(self, kind, name, /, timeout=PATIENCE, **fields):
        """A service's response."""
        client = self.node.create_client(kind, name)
        try:
            self.until(client.service_is_ready, timeout, f"service {name}")
            future = client.call_async(kind.Request(**fields))
            self.until(future.done, timeout, f"answer of {name}")
            return future.result()
        finally:
            self.node.destroy_client(client)

    def parameters(self, node, *names, timeout=PATIENCE):
        """Values of a node's parameters. An answer is lost if the node has not yet heard of who asks: then they are asked for again."""
        from rcl_interfaces.srv import GetParameters

        client = self.node.create_client(GetParameters, f"{node}/get_parameters")
        asked: list = []
        try:
            self.until(client.service_is_ready, timeout, f"service {node}/get_parameters")
            end = time.monotonic() + timeout
            while not any(future.done() for future in asked):
                assert time.monotonic() < end, f"{node} did not tell its parameters within {timeout:g} s"
                asked.append(client.call_async(GetParameters.Request(names=names)))
                again = time.monotonic() + 5.0
                while time.monotonic() < again and not any(future.done() for future in asked):
                    self.spin(0.02)
            return next(future.result() for future in asked if future.done()).values
        finally:
            self.node.destroy_client(client)

    def set_parameter(self, node, name, value):
        """rcl_interfaces/SetParametersResult of one live change."""
        from rcl_interfaces.srv import SetParameters
        from rclpy.parameter import Parameter

        return self.call(
            SetParameters, f"{node}/set_parameters", parameters=[Parameter(name, value=value).to_parameter_msg()]
        ).results[0]

    def listen(self, kind, topic, qos=100, into=None):
        """A list that fills with the messages of a topic."""
        messages = [] if into is None else into
        self.node.create_subscription(kind, topic, messages.append, qos)
        return messages

    def diagnostics(self, node):
        """The `Diagnostics` of a node from now on."""
        from diagnostic_msgs.msg import DiagnosticArray

        namespace = node.rpartition("/")[0]
        topic = f"{namespace}/diagnostics" if namespace else "diagnostics"
        return Diagnostics(node.lstrip("/"), self.listen(DiagnosticArray, topic))

    def spin(self, seconds):
        """Handle what arrives for so long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._executor.spin_once(timeout_sec=max(0.0, min(0.05, end - time.monotonic())))

    def until(self, condition, timeout=PATIENCE, what="condition"):
        """Handle what arrives until `condition()`; fails the test after `timeout` seconds."""
        end = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < end, f"{what} did not come within {timeout:g} s; {self._processes_say()}"
            self._executor.spin_once(timeout_sec=0.02)

    def _processes_say(self):
        """Each node's state and last lines: who waited in vain looks there first."""
        return "\n".join(str(process) for process in self.processes) or "no node was started"

    def close(self):
        # Asked to end first: whoever is killed haunts the graph, and the next test, until its lease is over.
        for process in self.processes:
            process.send_signal(signal.SIGINT)
        for process in self.processes:
            try:
                process.communicate(timeout=30)
            except Exception:
                process.kill()
                process.wait()
        self._executor.shutdown()
        self.node.destroy_node()
        self.context.try_shutdown()


def _yaml(value):
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_yaml(v) for v in value) + "]"
    return f"'{value}'" if isinstance(value, str) else str(value)


@pytest.fixture
def ros():
    """A `Ros` of this test's own; all its processes are gone afterwards."""
    pytest.importorskip("rclpy")
    client = Ros()
    yield client
    client.close()


@pytest.fixture(scope="module")
def shared_ros():
    """A `Ros` for all tests of a module, where starting nodes anew would cost more than it shows."""
    pytest.importorskip("rclpy")
    client = Ros()
    yield client
    client.close()


class Documentation:
    """What a node's page must mention: each parameter with its unit, each topic and service."""

    @staticmethod
    def missing(page, config_class, *sources):
        """Names that docs/nodes/<page> does not have; parameters are rows `| `name` | unit | ...`.

        Args:
            page: file name in docs/nodes.
            config_class: the node's configuration dataclass.
            sources: Python files whose create_publisher, create_subscription, create_service,
                create_client and ActionServer/ActionClient calls name topics and services.
        """
        from nodes.framework.config import settings

        text = (ROOT / "docs" / "nodes" / page).read_text()
        missing = []
        for item in settings(config_class).values():
            row = next((line for line in text.splitlines() if line.startswith(f"| `{item.name}` |")), None)
            if row is None or item.unit and item.unit not in row:
                missing.append(f"parameter {item.name} [{item.unit}]")
        for source in sources:
            names = topic_names(ROOT / source)
            missing += [f"name {name}" for name in names if f"`{name}`" not in text]
        return missing


CREATORS = {
    "create_publisher",
    "create_subscription",
    "create_polled_subscription",
    "create_service",
    "create_client",
    "publisher",
    "create_lifecycle_publisher",
    "ActionServer",
    "ActionClient",
}


def topic_names(path):
    """Literal names in calls that create publishers, subscriptions, services, clients and actions."""
    names = set()
    for call in ast.walk(ast.parse(path.read_text())):
        if isinstance(call, ast.Call):
            function = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            if function in CREATORS:
                names |= {a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)}
        elif isinstance(call, ast.Tuple) and len(call.elts) == 3 and isinstance(call.elts[1], ast.Constant):
            # Tables of (type, name, callback), as simulation_interfaces has them.
            if isinstance(call.elts[0], ast.Name) and isinstance(call.elts[2], ast.Attribute):
                names.add(call.elts[1].value)
    return names


@pytest.fixture
def documentation():
    """The check that a node's page names all its parameters, topics and services."""
    return Documentation
