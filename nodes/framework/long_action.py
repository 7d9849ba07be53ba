"""Actions that last: a server whose result comes later, and a client that does not wait for ever.

rclpy's executors poll a pending coroutine as fast as they can, which costs a whole core for as long
as an `async` execute callback waits. Here nothing waits: an accepted goal is kept, and executed,
in rclpy's sense, in the moment its result is known.
"""

from __future__ import annotations

from collections.abc import Callable

from rclpy.action import ActionClient, ActionServer, CancelResponse, GoalResponse

__all__ = ["LongAction", "Request"]

OUTCOMES = ("succeed", "abort", "canceled")


class LongAction:
    """An action server for one goal at a time.

    Args:
        node, kind, name: as for rclpy's ActionServer.
        begin: called with the goal handle of every accepted goal; returns at once.
        refusal: goal request -> sentence why it is not accepted, or "".
        cancel: called when a client asks to cancel; None: goals cannot be cancelled.
    """

    def __init__(
        self,
        node,
        kind,
        name: str,
        begin: Callable,
        refusal: Callable = lambda goal: "",
        cancel: Callable | None = None,
    ) -> None:
        self._node, self._refusal, self._cancel = node, refusal, cancel
        self._endings: dict[bytes, tuple] = {}
        self._server = ActionServer(
            node,
            kind,
            name,
            self._execute,
            goal_callback=self._judge,
            handle_accepted_callback=begin,
            cancel_callback=self._on_cancel,
        )

    def finish(self, handle, result, outcome: str = "succeed") -> None:
        """Give a goal its result; outcome is one of OUTCOMES."""
        self._endings[bytes(handle.goal_id.uuid)] = result, outcome
        handle.execute()

    def destroy(self) -> None:
        """Free the server."""
        self._server.destroy()

    def _judge(self, goal) -> GoalResponse:
        why = self._refusal(goal)
        if why:
            self._node.get_logger().warning(f"goal refused: {why}")
        return GoalResponse.REJECT if why else GoalResponse.ACCEPT

    def _on_cancel(self, handle) -> CancelResponse:
        if self._cancel is None:
            return CancelResponse.REJECT
        # After this callback rclpy marks the goal as cancelling; ending it must wait until then.
        self._node.executor.create_task(self._cancel, handle)
        return CancelResponse.ACCEPT

    def _execute(self, handle):
        result, outcome = self._endings.pop(bytes(handle.goal_id.uuid))
        getattr(handle, outcome)()
        return result


class Request:
    """One goal, sent as soon as the server is there.

    `done(result)` is called exactly once, with None if nothing came within `timeout` [s, wall].
    """

    def __init__(self, node, client: ActionClient, goal, timeout: float, done: Callable) -> None:
        self._node, self._client, self._goal, self._done = node, client, goal, done
        self._timers = [
            node.create_timer(timeout, lambda: self._end(None), clock=node.steady_clock),
            node.create_timer(0.02, self._send, clock=node.steady_clock),
        ]
        self._send()

    def _send(self) -> None:
        if len(self._timers) > 1 and self._client.server_is_ready():
            self._node.destroy_timer(self._timers.pop())
            self._client.send_goal_async(self._goal).add_done_callback(self._on_answer)

    def _on_answer(self, future) -> None:
        handle = future.result()
        if handle is None or not handle.accepted:
            self._end(None)
        else:
            handle.get_result_async().add_done_callback(lambda future: self._end(future.result().result))

    def _end(self, result) -> None:
        if self._done is None:
            return
        done, self._done = self._done, None
        while self._timers:
            self._node.destroy_timer(self._timers.pop())
        done(result)
