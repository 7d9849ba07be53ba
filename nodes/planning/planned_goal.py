"""The goal of a planner: one at a time, which lasts minutes, goes on step by step, is told of, and comes to a declared end.

    self.goal = PlannedGoal(self, CollectSample, "scoop/collect_sample", "a search", self._begin, self._refusal, period=0.05)

    def _begin(self, request):
        ...                                          # or self.goal.fail(result), where it cannot even begin
        self.goal.go_on_with(self._whole_search())

    def _whole_search(self):
        ...                                          # `yield` wherever it waits for somebody
        self.goal.end(result, "canceled" if self.goal.cancelled else "succeed")

Steps are those of a generator, since a planner waits for an arm, a camera or a thread most of the time, and its node must answer
others meanwhile. A planner that is called by whom it waits for gives no steps and no period.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from nodes.framework.long_action import LongAction

__all__ = ["Interrupted", "PlannedGoal", "Stopped"]


class Interrupted(RuntimeError):
    """The steps of a goal cannot go on; the text says why."""


class Stopped(Exception):
    """Somebody cancelled the goal, and what the arm was doing for it has ended."""


class PlannedGoal:
    """See the module's docstring.

    Args:
        node: a RefitNode that plans. kind, name: of the action; its results have `success` and `message`.
        what: a goal is called in sentences, with its article.
        begin: called with the request of every accepted goal.
        refusal: request -> sentence why it is not accepted, or ""; asked only while the node is active and no goal is under way.
        cancel: called when a client calls the goal back, after `cancelled` has become true.
        period: between two steps, wall time [s]; None: there are no steps.

    Attributes:
        cancelled: a client has called back the goal that is under way, or the last one.
    """

    def __init__(
        self,
        node,
        kind,
        name: str,
        what: str,
        begin: Callable[[Any], None],
        refusal: Callable[[Any], str],
        cancel: Callable[[], None] = lambda: None,
        period: float | None = None,
    ) -> None:
        self._node, self._what = node, what
        self._begin, self._why_not, self._cancel = begin, refusal, cancel
        self._handle: Any = None
        self._steps: Iterator[None] | None = None
        self.cancelled = False
        self._timer = None if period is None else node.create_timer(period, self._step, clock=node.steady_clock)
        self._action = LongAction(node, kind, name, self._take, self._refusal, self._on_cancel)

    def destroy(self) -> None:
        """Free server and timer."""
        self._action.destroy()
        if self._timer is not None:
            self._node.destroy_timer(self._timer)

    @property
    def under_way(self) -> bool:
        """Whether one was accepted and has not ended."""
        return self._handle is not None

    def doing(self, phase: str) -> str:
        """What diagnostics say, of a phase in words; "": it is not known."""
        return phase or "under way" if self.under_way else "none"

    def go_on_with(self, steps: Iterator[None]) -> None:
        """What is left to do; it pauses wherever it waits for somebody, and ends the goal at last."""
        self._steps = steps

    def tell(self, feedback: Any) -> None:
        """Feedback to whoever sent the goal; nothing where none is under way."""
        if self.under_way:
            self._handle.publish_feedback(feedback)

    def end(self, result: Any, outcome: str) -> None:
        """Say the result's message and give the goal its result; outcome is one of `LongAction`'s."""
        log = self._node.get_logger()
        log.info(result.message) if result.success else log.warning(result.message)
        self._finish(result, outcome)

    def fail(self, result: Any) -> None:
        """The goal cannot even begin: say why, and abort it."""
        self._node.get_logger().error(result.message)
        self._finish(result, "abort")

    def _finish(self, result: Any, outcome: str) -> None:
        handle, self._handle, self._steps = self._handle, None, None
        self._action.finish(handle, result, outcome)

    def _refusal(self, request: Any) -> str:
        if not self._node.is_active:
            return "the node is not active; activate it first"
        if self.under_way:
            return f"{self._what} is under way; wait for its end or cancel it"
        return self._why_not(request)

    def _take(self, handle: Any) -> None:
        self._handle, self.cancelled = handle, False
        self._begin(handle.request)

    def _on_cancel(self, handle: Any) -> None:
        self.cancelled = True
        self._cancel()

    def _step(self) -> None:
        """On the wall clock: the goal goes on as far as it can."""
        if self._steps is None:
            return
        try:
            next(self._steps)
        except StopIteration:
            self._steps = None
