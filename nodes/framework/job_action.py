"""An action whose goals are work of minutes: each in a process of its own, cancellable, with feedback on the way."""

from __future__ import annotations

from collections.abc import Callable

from nodes.framework.job_process import JobProcess
from nodes.framework.long_action import LongAction

__all__ = ["JobAction"]

# Time between two looks at the job [s].
POLL_PERIOD = 0.05


class JobAction:
    """One goal at a time, and only while the node is active.

    Args:
        node: RefitNode. kind, name: of the action; its result has `success` and `message`, its feedback `stage`.
        what: the work in a word, for people.
        work, job: JobProcess(work, job(goal)) is what a goal starts.
        refusal: goal -> sentence why it is not accepted, or "".
        result: what `work` returned -> the action's result; called in the node's thread.
        said: called with every feedback that is sent.
    """

    def __init__(
        self,
        node,
        kind,
        name: str,
        what: str,
        work: Callable,
        job: Callable,
        refusal: Callable,
        result: Callable,
        said: Callable = lambda feedback: None,
    ) -> None:
        self._node, self._kind, self._what, self._work, self._job = node, kind, what, work, job
        self._why_not, self._result, self._said = refusal, result, said
        self._process: JobProcess | None = None
        self._goal = None
        self._action = LongAction(node, kind, name, self._begin, self._refusal, self._cancel)
        self._timer = node.create_timer(POLL_PERIOD, self._look, clock=node.steady_clock)

    @property
    def running(self) -> bool:
        return self._process is not None

    def stop(self, why: str) -> None:
        """End the work now; its goal is aborted with the sentence `why`."""
        if self._process is not None:
            self._process.close()
            self._process = None
            self._abort(why)

    def destroy(self) -> None:
        """Free timer and server."""
        self._node.destroy_timer(self._timer)
        self._action.destroy()

    def _refusal(self, goal) -> str:
        if not self._node.is_active:
            return "not active"
        return f"another {self._what} is running" if self._goal is not None else self._why_not(goal)

    def _begin(self, handle) -> None:
        self._goal, self._cancelling, self._feedback = handle, False, self._kind.Feedback(stage="starting")
        self._process = JobProcess(self._work, self._job(handle.request))

    def _cancel(self, handle) -> None:
        self._cancelling = True
        if self._process is not None:
            self._process.cancel()

    def _look(self) -> None:
        """What the job has to say."""
        if self._process is None:
            return
        ended = self._process.take(self._feedback, self._say)
        if ended is not None:
            (kind, content), self._process = ended, None
            if kind == "done":
                self._finish(self._result(content), "succeed")
            else:
                self._node.diagnostics.error(f"{self._what} failed: {content}")
                self._node.get_logger().error(f"{self._what} failed: {content}")
                self._abort(content)

    def _say(self, feedback) -> None:
        self._goal.publish_feedback(feedback)
        self._said(feedback)

    def _abort(self, why: str) -> None:
        self._finish(self._kind.Result(success=False, message=why), "abort")

    def _finish(self, result, outcome: str) -> None:
        handle, self._goal = self._goal, None
        self._action.finish(handle, result, "canceled" if self._cancelling else outcome)
