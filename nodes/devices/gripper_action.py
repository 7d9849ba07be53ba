"""control_msgs/action/GripperCommand over any gripper: one goal at a time, a new one takes over from the old."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from control_msgs.action import GripperCommand

from nodes.devices.guard import Guard
from nodes.framework.long_action import LongAction

__all__ = ["GripperAction", "GripperReading"]

PERIOD = 0.02  # [s] between two looks at a goal


@dataclass(frozen=True)
class GripperReading:
    """What a gripper last said: the newest command that this answers; width [m]; force [N]; whether the fingers move;
    whether an object keeps them from where they were to go; whether they are stopped, rather than going anywhere."""

    command: int
    width: float
    force: float
    moving: bool
    stalled: bool
    stopped: bool


@dataclass
class _Goal:
    handle: object
    width: float
    command: int
    deadline: float
    cancelled: bool = False


class GripperAction:
    """Goals in metres and newtons; an effort of 0 asks for the node's own.

    A goal ends when the gripper says that its fingers arrived (reached_goal), or that an object stops them (stalled).
    It is aborted by trouble, as the guard closes, by a newer goal, after `goal_timeout`; a cancelled one ends when the fingers are read to be stopped.

    Args:
        node: with a `config` that has goal_tolerance [m], goal_timeout [s] and allow_stalling.
        name: of the action.
        stroke: widest opening [m].
        go_to: (width [m], effort [N]) -> number of the command.
        halt: () -> number of the command that stops the fingers.
        reading: () -> the newest GripperReading, or None.
        trouble: () -> why the gripper cannot do anything now, or "".
        guard: of the fingers; anybody may command while it is open.
    """

    def __init__(
        self,
        node,
        name: str,
        stroke: float,
        go_to: Callable,
        halt: Callable,
        reading: Callable,
        trouble: Callable,
        guard: Guard,
    ) -> None:
        self._node, self._stroke, self._guard = node, stroke, guard
        self._go_to, self._halt, self._reading, self._trouble = go_to, halt, reading, trouble
        self._goal: _Goal | None = None
        self._action = LongAction(node, GripperCommand, name, self._begin, self._refusal, self._cancel)
        self._timer = node.create_timer(PERIOD, self._look, clock=node.steady_clock)
        self._timer.cancel()  # runs while there is a goal

    def abort(self, sentence: str) -> None:
        """End the present goal, if any."""
        if self._goal is not None:
            self._end("abort", sentence)

    def destroy(self) -> None:
        """Free timer and server."""
        self.abort("the node is being cleaned up")
        self._node.destroy_timer(self._timer)
        self._action.destroy()

    # -- goals -------------------------------------------------------------------------------------
    def _refusal(self, goal) -> str:
        width, effort = goal.command.position, goal.command.max_effort
        if not math.isfinite(width) or not math.isfinite(effort) or effort < 0.0:
            return f"position {width} m and effort {effort} N are not both finite, and the effort not negative"
        slack = self._node.config.goal_tolerance
        if not -slack <= width <= self._stroke + slack:
            return self._guard.out_of_reach(
                f"position {width:.4f} m is outside 0 to {self._stroke:.3f} m, the gap between the fingers in metres"
            )
        return self._guard.refusal(self._guard.positions(self._within(width))) or self._trouble()

    def _within(self, width: float) -> float:
        return min(max(width, 0.0), self._stroke)

    def _begin(self, handle) -> None:
        self.abort("a newer goal took over")
        command = handle.request.command
        width = self._within(command.position)
        deadline = time.monotonic() + self._node.config.goal_timeout
        self._goal = _Goal(handle, width, self._go_to(width, command.max_effort), deadline)
        self._timer.reset()

    def _cancel(self, handle) -> None:
        if self._goal is not None and self._goal.handle is handle:
            self._goal.cancelled, self._goal.command = True, self._halt()

    def _look(self) -> None:
        goal, reading, config = self._goal, self._reading(), self._node.config
        if goal is None:
            self._timer.cancel()
        elif sentence := self._guard.closed() or self._trouble():
            self._end("abort", sentence)
        elif time.monotonic() > goal.deadline:
            self._end("abort", f"the fingers did not arrive within {config.goal_timeout:g} s")
        elif reading is None or reading.command < goal.command:
            return
        elif goal.cancelled:
            if reading.stopped:
                self._end("canceled", "")
        elif reading.moving:
            goal.handle.publish_feedback(
                GripperCommand.Feedback(position=reading.width, effort=reading.force, stalled=False, reached_goal=False)
            )
        elif self._reached(goal, reading) or (reading.stalled and config.allow_stalling):
            self._end("succeed", "")
        elif reading.stalled:
            self._end("abort", f"an object stopped the fingers at {reading.width:.4f} m")
        else:
            self._end("abort", f"the fingers ended at {reading.width:.4f} m instead of {goal.width:.4f} m")

    def _reached(self, goal: _Goal, reading: GripperReading) -> bool:
        return abs(reading.width - goal.width) <= self._node.config.goal_tolerance

    def _end(self, outcome: str, sentence: str) -> None:
        goal, reading, self._goal = self._goal, self._reading(), None
        self._timer.cancel()
        if sentence:
            self._node.get_logger().warning(f"gripper goal ended: {sentence}")
        answered = reading is not None and reading.command >= goal.command
        result = GripperCommand.Result(
            position=reading.width if reading else math.nan,
            effort=reading.force if reading else math.nan,
            stalled=answered and reading.stalled,
            reached_goal=answered and not reading.moving and not goal.cancelled and self._reached(goal, reading),
        )
        self._action.finish(goal.handle, result, outcome)
