"""One episode of a controller in mode `episode`."""

from __future__ import annotations

import threading
import time
from typing import Any

from action_msgs.msg import GoalStatus
from rclpy.action.client import ClientGoalHandle
from refit_interfaces.action import RunEpisode

from scripting.client import ANSWER_TIMEOUT, GraphClient
from scripting.monitor import Monitor
from scripting.motion import Motion
from scripting.results import EpisodeResult, Outcome
from scripting.world import World

__all__ = ["run_episode"]

SETTLE = 0.05  # [s] between a reset's answer and the goal: the state after it must arrive first
LESSON_TIMEOUT = 5.0  # [s] for the parameter sets of an episode to arrive after its result
LOOK_PERIOD = 0.01  # [s] between two looks whether the result is there


def run_episode(
    client: GraphClient,
    monitor: Monitor,
    motion: Motion,
    world: World | None,
    steps: int,
    refit_at_end: bool,
    timeout: float,
    cancelled: threading.Event,
) -> EpisodeResult:
    """Reset a simulated robot, then run one episode; see Robot.run_episode.

    Raises:
        GraphError: the graph ended, or there is no result in time.
    """
    if world is not None:
        world.reset()
        time.sleep(SETTLE)
    action = client.action(RunEpisode, "run_episode")
    if not client.until(action.server_is_ready, ANSWER_TIMEOUT, "while looking for run_episode"):
        raise client.error("the controller offers no run_episode; is it active?")
    client.introduce("run_episode")
    goal = RunEpisode.Goal(steps=steps, refit_at_end=refit_at_end)
    handle = client.wait(client.send(lambda: action.send_goal_async(goal)), ANSWER_TIMEOUT)
    if handle is None:
        raise client.error(f"the controller did not say within {ANSWER_TIMEOUT:g} s whether it accepts the episode")
    if not handle.accepted:
        return EpisodeResult(Outcome.REFUSED, "the controller refused the episode")
    stood, lessons = motion.stands(), monitor.lessons
    try:
        if stood:
            motion.go()
        answer = _wait(client, handle, timeout, cancelled)
    except BaseException:  # Ctrl-C too: nobody is there any more to take the result
        handle.cancel_goal_async()
        raise
    if stood:
        motion.stand()
    # What was learnt comes from the refit, the result from the controller: either may come first.
    taught = lessons + int(answer.result.refits)
    client.until(lambda: monitor.lessons >= taught, LESSON_TIMEOUT, "while what was learnt arrived")
    return _result(answer)


def _wait(client: GraphClient, handle: ClientGoalHandle, timeout: float, cancelled: threading.Event) -> Any:
    """The answer to a goal, which is asked to end early when that is wanted."""
    result, deadline, canceling = client.send(handle.get_result_async), time.monotonic() + timeout, None
    while not result.done():
        client.check("during an episode")
        if cancelled.is_set() and canceling is None:
            canceling = client.send(handle.cancel_goal_async)
        if time.monotonic() > deadline:
            raise client.error(f"the episode has no result after {timeout:g} s")
        time.sleep(LOOK_PERIOD)
    return result.result()


def _result(answer: Any) -> EpisodeResult:
    told = answer.result
    outcome = {
        GoalStatus.STATUS_SUCCEEDED: Outcome.SUCCEEDED,
        GoalStatus.STATUS_CANCELED: Outcome.CANCELED,
    }.get(answer.status, Outcome.HALTED if told.message.startswith("halted") else Outcome.INTERRUPTED)
    return EpisodeResult(outcome, told.message, told.score, told.total_cost, told.up_time, int(told.refits))
