"""The node `bucket_arm` as a planner asks it: one motion at a time, which ends in a declared way or in a sentence why nobody answers.

    answer = yield from arm.move(MoveBucket.Goal.LIFT)

What waits is a generator, which is asked again and again and never holds the node up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from action_msgs.msg import GoalStatus
from rclpy.action import ActionClient
from refit_interfaces.action import MoveBucket
from refit_interfaces.msg import BucketState
from std_msgs.msg import String

from nodes.framework.qos import LATCHED, STATE

__all__ = ["ArmRefused", "ArmSilent", "BucketClient"]


class ArmRefused(RuntimeError):
    """The arm did not take a motion; the text says which."""


class ArmSilent(RuntimeError):
    """The arm says nothing any more; the text says for how long."""


class BucketClient:
    """See the module's docstring.

    Args:
        node: that asks. patience: without a word after which the arm is said to be silent, wall time [s].

    Attributes:
        where: the bucket is, in the arm's words; "": it has not said. state: that it said last; None: none yet.
    """

    def __init__(self, node, patience: float) -> None:
        self._node, self.patience = node, patience
        self.where, self.state = "", None
        self._asked = None
        self._heard = 0.0
        self._client = ActionClient(node, MoveBucket, "bucket/move")
        self._readers = [
            node.create_subscription(String, "bucket/where", self._on_where, LATCHED),
            node.create_subscription(BucketState, "bucket/state", self._on_state, STATE),
        ]

    def destroy(self) -> None:
        """Free what it listens with."""
        self._client.destroy()
        for reader in self._readers:
            self._node.destroy_subscription(reader)

    def let_go(self) -> None:
        """Have the motion that is under way end, without waiting for that; also one that the arm has not taken yet."""
        if self._asked is not None:
            self._asked.add_done_callback(_cancel)
            self._asked = None

    def move(
        self,
        motion: int,
        pose: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0),
        say: Callable[[float, str], None] = lambda force, phase: None,
        stop: Callable[[], object] = lambda: False,
    ) -> Iterator[None]:
        """One motion; returns the arm's MoveBucket.Result.

        Args:
            motion, pose: see MoveBucket. say: is told of the force [N] and the phase. stop: whether to cancel it.

        Raises:
            ArmRefused, ArmSilent: see there.
        """
        yield from self._until(self._client.server_is_ready, "the node bucket_arm serves no action bucket/move")
        self._heard, phase = time.monotonic(), "nothing"

        def on_feedback(message) -> None:
            nonlocal phase
            self._heard, phase = time.monotonic(), message.feedback.phase
            say(message.feedback.force, phase)

        goal = MoveBucket.Goal(motion=motion, pose=[float(number) for number in pose])
        self._asked = asked = self._client.send_goal_async(goal, feedback_callback=on_feedback)
        yield from self._until(asked.done, "the node bucket_arm does not answer")
        handle = asked.result()
        if handle is None or not handle.accepted:
            raise ArmRefused(f"the arm refused motion {motion}; the node bucket_arm says why")
        ended, cancelled = handle.get_result_async(), False
        while not ended.done():
            if time.monotonic() - self._heard > self.patience:
                self.let_go()
                raise ArmSilent(f"the node bucket_arm has said nothing for {self.patience:g} s, the last: {phase}")
            if not cancelled and stop():
                handle.cancel_goal_async()
                cancelled, self._heard = True, time.monotonic()
            yield
        self._asked = None
        answer = ended.result()
        if answer is None or answer.status == GoalStatus.STATUS_UNKNOWN:
            raise ArmSilent("the node bucket_arm has gone")
        return answer.result

    def _until(self, is_so: Callable[[], object], otherwise: str) -> Iterator[None]:
        began = time.monotonic()
        while not is_so():
            if time.monotonic() - began > self.patience:
                raise ArmSilent(f"{otherwise} (waited {self.patience:g} s)")
            yield

    def _on_where(self, message: String) -> None:
        self.where = message.data

    def _on_state(self, message: BucketState) -> None:
        self.state = message


def _cancel(asked) -> None:
    if (handle := asked.result()) is not None and handle.accepted:
        handle.cancel_goal_async()
