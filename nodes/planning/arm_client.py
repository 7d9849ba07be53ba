"""The controller of an arm as a planner asks it: one deed at a time, which ends in a declared way or in a sentence why nobody answers.

    arm = ArmClient(node, ExecuteScoop, "scoop/execute", "scoop_arm", patience=30.0)
    answer = yield from arm.call(goal, heard=lambda feedback: ..., stop=lambda: cancelled)

What waits is a generator, which is asked again and again and never holds the node up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from action_msgs.msg import GoalStatus
from rclpy.action import ActionClient

from nodes.framework.permission import Permission

__all__ = ["ArmClient", "ArmRefused", "ArmSilent"]

WORD = 0.5  # that the supervisor's word may come after the arm's refusal, which it brought about, wall time [s]


class ArmRefused(RuntimeError):
    """The arm did not take what it was asked for; the text says what, and why if the supervisor lets nobody move."""


class ArmSilent(RuntimeError):
    """The arm says nothing any more; the text says for how long."""


class ArmClient:
    """See the module's docstring.

    Args:
        node: that asks. action, name: type and name of the controller's action. arm: name of the controller's node.
        patience: without a word after which the arm is said to be silent, wall time [s].
    """

    def __init__(self, node, action: type, name: str, arm: str, patience: float) -> None:
        self.patience = patience
        self._name, self._arm = name, arm
        self._asked = None
        self._client = ActionClient(node, action, name)
        self._permission = Permission(node, lambda: None)  # of the arm: a refused goal brings no reason

    def destroy(self) -> None:
        """Free what it asks with."""
        self._client.destroy()
        self._permission.destroy()

    def let_go(self) -> None:
        """Have the deed that is under way end, without waiting for that; also one that the arm has not taken yet."""
        if self._asked is not None:
            self._asked.add_done_callback(_cancel)
            self._asked = None

    def call(
        self,
        goal: Any,
        heard: Callable[[Any], None] = lambda feedback: None,
        stop: Callable[[], object] = lambda: False,
        what: str = "it",
    ) -> Iterator[None]:
        """One deed; returns the action's result.

        Args:
            heard: is told of each feedback. stop: whether to call it back. what: it is called, in a sentence.

        Raises:
            ArmRefused, ArmSilent: see there.
        """
        yield from self.until(self._client.server_is_ready, f"the node {self._arm} serves no action {self._name}")
        last, phase = time.monotonic(), "nothing"

        def on_feedback(message) -> None:
            nonlocal last, phase
            last, phase = time.monotonic(), message.feedback.phase
            heard(message.feedback)

        self._asked = asked = self._client.send_goal_async(goal, feedback_callback=on_feedback)
        yield from self.until(asked.done, f"the node {self._arm} does not answer")
        handle = asked.result()
        if handle is None or not handle.accepted:
            self._asked = None
            yield from self._wait(self._denied, WORD)
            raise ArmRefused(f"the arm refused {what}: {self._denied() or f'the node {self._arm} says why'}")
        ended, cancelled = handle.get_result_async(), False
        while not ended.done():
            if time.monotonic() - last > self.patience:
                self.let_go()
                raise ArmSilent(f"the node {self._arm} has said nothing for {self.patience:g} s, the last: {phase}")
            if not cancelled and stop():
                handle.cancel_goal_async()
                cancelled, last = True, time.monotonic()
            yield
        self._asked = None
        answer = ended.result()
        if answer is None or answer.status == GoalStatus.STATUS_UNKNOWN:
            raise ArmSilent(f"the node {self._arm} has gone")
        return answer.result

    def until(self, is_so: Callable[[], object], otherwise: str) -> Iterator[None]:
        """Wait until something is so. Raises ArmSilent: it does not come to be."""
        yield from self._wait(is_so, self.patience)
        if not is_so():
            raise ArmSilent(f"{otherwise} (waited {self.patience:g} s)")

    def _denied(self) -> str:
        """Why the supervisor lets nobody move; "": it does, or has not said."""
        self._permission.attend()
        return self._permission.denied

    @staticmethod
    def _wait(is_so: Callable[[], object], longest: float) -> Iterator[None]:
        """Until something is so, or so long [s] on the wall clock."""
        began = time.monotonic()
        while not is_so() and time.monotonic() - began <= longest:
            yield


def _cancel(asked) -> None:
    if (handle := asked.result()) is not None and handle.accepted:
        handle.cancel_goal_async()
