"""The node `bucket_arm` as a planner asks it, and what it says of its bucket.

answer = yield from arm.move(MoveBucket.Goal.LIFT)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from refit_interfaces.action import MoveBucket
from refit_interfaces.msg import BucketState
from std_msgs.msg import String

from nodes.framework.qos import LATCHED, STATE
from nodes.planning.arm_client import ArmClient

__all__ = ["BucketClient"]


class BucketClient:
    """See the module's docstring.

    Args:
        node: that asks. patience: see `ArmClient`.

    Attributes:
        let_go: see `ArmClient`.
        where: the bucket is, in the arm's words; "": it has not said. state: that it said last; None: none yet.
    """

    def __init__(self, node, patience: float) -> None:
        self._client = ArmClient(node, MoveBucket, "bucket/move", "bucket_arm", patience)
        self._node, self.let_go = node, self._client.let_go
        self.where, self.state = "", None
        self._readers = [
            node.create_subscription(String, "bucket/where", self._on_where, LATCHED),
            node.create_subscription(BucketState, "bucket/state", self._on_state, STATE),
        ]

    def destroy(self) -> None:
        """Free what it asks and listens with."""
        self._client.destroy()
        for reader in self._readers:
            self._node.destroy_subscription(reader)

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
        goal = MoveBucket.Goal(motion=motion, pose=[float(number) for number in pose])
        return (yield from self._client.call(goal, lambda told: say(told.force, told.phase), stop, f"motion {motion}"))

    def _on_where(self, message: String) -> None:
        self.where = message.data

    def _on_state(self, message: BucketState) -> None:
        self.state = message
