"""What a bag must say about its run besides the data: robot, seed, versions, every node's parameters."""

from __future__ import annotations

import importlib.metadata
import math
import platform
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from rcl_interfaces.msg import ParameterType
from rcl_interfaces.srv import GetParameters, ListParameters

__all__ = ["ParameterSurvey", "base_run_info", "git_hash"]

# [s] A question not answered by then is asked again: an answer is lost where the node has not yet discovered who asks.
ANSWER_WAIT = 3.0

_VERSIONED = ("mujoco", "numpy", "casadi", "rosbags", "torch", "ros-rclpy", "rclpy")


def git_hash() -> str:
    """Commit of the sources, "-dirty" appended if they were changed since; "unknown" outside git."""

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", "--no-optional-locks", "-C", str(Path(__file__).parent), *arguments],
            check=True,
            capture_output=True,
            text=True,
            timeout=5,
        ).stdout.strip()

    try:
        return git("rev-parse", "HEAD") + ("-dirty" if git("status", "--porcelain", "-uno") else "")
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def base_run_info(profile: str) -> dict:
    """The facts this process knows by itself."""
    versions = {"python": platform.python_version()}
    for name in _VERSIONED:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "robot": "",
        "model_hash": "",
        "seed": None,
        "git_hash": git_hash(),
        "versions": versions,
        "platform": platform.platform(),
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "profile": profile,
        "parameters": {},
    }


class ParameterSurvey:
    """Asks every node of the graph for its parameters, without ever blocking.

    The clients of a node are made once, and asked through again where an answer is lost or the node returns. To
    destroy them with answers under way is what rclpy's events executor does not always survive (a recorder on an
    overloaded machine, whose nodes answered after the patience of three seconds, died of it).

    Args:
        node: asks; its own parameters are included.
        on_found: called as on_found(node_name, {parameter: value}) once per node.
    """

    def __init__(self, node, on_found: Callable[[str, dict], None]) -> None:
        self._node, self._on_found = node, on_found
        self._clients: dict[str, tuple] = {}  # by node's name: for its parameters' names, and for their values
        self._asked: dict[
            str, tuple[float, object]
        ] = {}  # nodes that are there: when [s], and what the answer comes in
        self._answered: set[str] = set()

    def look(self) -> None:
        """Ask the nodes that appeared since the last call; those gone are asked again if they return."""
        present = set()
        prefix = self._node.get_namespace().rstrip("/") + "/"
        for name, namespace in self._node.get_node_names_and_namespaces():
            full = f"{namespace.rstrip('/')}/{name}"
            if name.startswith("_") or not full.startswith(prefix):
                continue  # hidden nodes (command line tools), and other robots' nodes
            present.add(full)
            asked, _ = self._asked.get(full, (-math.inf, None))
            if full not in self._answered and time.monotonic() > asked + ANSWER_WAIT:
                self._ask(full)
        for gone in set(self._asked) - present:
            self._forget(gone)

    def _ask(self, full: str) -> None:
        if full not in self._clients:
            kinds = ((ListParameters, "list_parameters"), (GetParameters, "get_parameters"))
            self._clients[full] = tuple(self._node.create_client(kind, f"{full}/{name}") for kind, name in kinds)
        lister, getter = self._clients[full]
        if not lister.service_is_ready():  # discovered, but not answering yet: next time
            return
        self._forget(full)
        names_of = lister.call_async(ListParameters.Request())
        self._asked[full] = time.monotonic(), names_of

        def on_names(future) -> None:
            if future.result() is None or not self._waits(full, names_of):  # the node went away meanwhile
                return
            names = list(future.result().result.names)
            getter.call_async(GetParameters.Request(names=names)).add_done_callback(
                lambda answer: on_values(names, answer)
            )

        def on_values(names, future) -> None:
            if future.result() is None or not self._waits(full, names_of):
                return
            self._answered.add(full)
            self._on_found(full, {name: _value(v) for name, v in zip(names, future.result().values, strict=True)})

        names_of.add_done_callback(on_names)

    def _waits(self, full: str, names_of: object) -> bool:
        """Whether this is the question that a node's answer is waited for to."""
        return full not in self._answered and self._asked.get(full, (0.0, None))[1] is names_of

    def _forget(self, full: str) -> None:
        """What a node was asked, and what it said: it is asked anew when it is seen again."""
        _, question = self._asked.pop(full, (0.0, None))
        if question is not None and full in self._clients:
            self._clients[full][0].remove_pending_request(question)
        self._answered.discard(full)

    def close(self) -> None:
        """Drop all questions under way."""
        for full in list(self._asked):
            self._forget(full)
        for client in (client for both in self._clients.values() for client in both):
            self._node.destroy_client(client)
        self._clients.clear()


def _value(message):
    """A parameter's value as JSON knows it."""
    T = ParameterType
    field = {
        T.PARAMETER_BOOL: "bool_value",
        T.PARAMETER_INTEGER: "integer_value",
        T.PARAMETER_DOUBLE: "double_value",
        T.PARAMETER_STRING: "string_value",
        T.PARAMETER_BOOL_ARRAY: "bool_array_value",
        T.PARAMETER_INTEGER_ARRAY: "integer_array_value",
        T.PARAMETER_DOUBLE_ARRAY: "double_array_value",
        T.PARAMETER_STRING_ARRAY: "string_array_value",
    }.get(message.type)
    if field is None:
        return None
    value = getattr(message, field)
    return list(value) if "array" in field else value
