"""The graph of a demonstration from its start to its end, and goals that a person would wait for.

with demo_graph(scene.launch, dict(robot=robot, seed=seed), NODES, folder, START_TIMEOUT, progress, view) as client:
    handle = begin_goal(client, RunExam, "auscultation/run_exam", goal, "the exam", START_TIMEOUT)
    answer = end_goal(client, handle, "the exam", REGION_TIMEOUT, "while the robot listened")
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cli.demo.live import NO_VIEW, LiveView
from reporting.progress import SilentProgress
from scripting.client import GraphClient
from scripting.launched import LaunchedGraph
from scripting.own_domain import given_or_own_domain
from scripting.readiness import wait_until_active

__all__ = ["IN_STEP", "begin_goal", "demo_graph", "end_goal"]

#: arguments of a launch file with a simulated robot: time goes as fast as everybody keeps step
IN_STEP = {"lockstep": True, "real_time_factor": 0.0}


@contextlib.contextmanager
def demo_graph(
    launch: str,
    arguments: Mapping[str, object],
    nodes: Sequence[str],
    folder: Path,
    timeout: float,
    progress=SilentProgress(),
    view: LiveView = NO_VIEW,
) -> Iterator[GraphClient]:
    """A client of a graph whose nodes are active; leaves a bag in `folder`/bag.

    Args:
        launch, arguments: the launch file, and what it is told besides run directory, recording and view.
        nodes: that have to become active. timeout: until they are [s].

    Raises:
        scripting.ScriptError: the graph failed.
    """
    whole = {**arguments, "record": True, "run_directory": folder, **view.arguments()}
    with given_or_own_domain() as domain:
        graph = LaunchedGraph(launch, whole, domain, folder)
        client = GraphClient(domain, "", graph.check_alive, graph.error)
        try:
            with progress.stage("starting nodes", None):
                wait_until_active(client, nodes, timeout, graph.dead_nodes)
            yield client
        finally:
            graph.close()
            client.close()


def begin_goal(
    client: GraphClient,
    kind: type,
    name: str,
    goal: Any,
    what: str,
    timeout: float,
    heard: Callable[[Any], None] | None = None,
) -> Any:
    """The handle of a goal that was accepted.

    Args:
        kind, name: of the action. what: is begun, in a sentence. timeout: for each answer [s]. heard: is told of each feedback.

    Raises:
        scripting.ScriptError: nobody serves the action, or the goal was refused.
    """
    action = client.action(kind, name)
    if not client.until(action.server_is_ready, timeout, f"while looking for action {name}"):
        raise client.error(f"nobody serves {name}")
    client.introduce(name)
    told = None if heard is None else lambda message: heard(message.feedback)
    handle = client.wait(client.send(lambda: action.send_goal_async(goal, told)), timeout)
    if handle is None or not handle.accepted:
        raise client.error(f"{what} was not begun; the log says why")
    return handle


def end_goal(client: GraphClient, handle: Any, what: str, timeout: float, when: str) -> Any:
    """How a goal ended: its `status` and its `result`.

    Args:
        what, when: does not end, and meanwhile, in sentences. timeout: for its end [s].

    Raises:
        scripting.ScriptError: it did not end.
    """
    answer = client.wait(client.send(handle.get_result_async), timeout, when)
    if answer is None:
        raise client.error(f"{what} did not end within {timeout:g} s")
    return answer
