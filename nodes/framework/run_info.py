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

    Args:
        node: asks; its own parameters are included.
        on_found: called as on_found(node_name, {parameter: value}) once per node.
    """

    def __init__(self, node, on_found: Callable[[str, dict], None]) -> None:
        self._node, self._on_found = node, on_found
        self._asked: dict[str, list] = {}  # clients kept until answered
        self._unanswered: dict[str, float] = {}  # since when [s]

    def look(self) -> None:
        """Ask the nodes that appeared since the last call; those gone are asked again if they return."""
        present = set()
        prefix = self._node.get_namespace().rstrip("/") + "/"
        for name, namespace in self._node.get_node_names_and_namespaces():
            full = f"{namespace.rstrip('/')}/{name}"
            if name.startswith("_") or not full.startswith(prefix):
                continue  # hidden nodes (command line tools), and other robots' nodes
            present.add(full)
            if time.monotonic() > self._unanswered.get(full, math.inf) + ANSWER_WAIT:
                self._forget(full)
            if full not in self._asked:
                self._ask(full)
        for gone in set(self._asked) - present:
            self._forget(gone)

    def _ask(self, full: str) -> None:
        lister = self._node.create_client(ListParameters, f"{full}/list_parameters")
        getter = self._node.create_client(GetParameters, f"{full}/get_parameters")
        if not lister.service_is_ready():  # discovered, but not answering yet: next time
            self._node.destroy_client(lister)
            self._node.destroy_client(getter)
            return
        self._asked[full] = [lister, getter]
        self._unanswered[full] = time.monotonic()

        def on_names(future) -> None:
            if future.result() is None or full not in self._asked:  # the node went away meanwhile
                return
            names = list(future.result().result.names)
            getter.call_async(GetParameters.Request(names=names)).add_done_callback(
                lambda answer: on_values(names, answer)
            )

        def on_values(names, future) -> None:
            if future.result() is None or self._unanswered.pop(full, None) is None:
                return
            values = {name: _value(v) for name, v in zip(names, future.result().values, strict=True)}
            self._on_found(full, values)

        lister.call_async(ListParameters.Request()).add_done_callback(on_names)

    def _forget(self, full: str) -> None:
        self._unanswered.pop(full, None)
        for client in self._asked.pop(full):
            self._node.destroy_client(client)

    def close(self) -> None:
        """Drop all questions under way."""
        for full in list(self._asked):
            self._forget(full)


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
