"""Base of controllers of an arm that feels a wrench at its wrist and does one deed at a time: a placement, a scoop.

    class ScoopArmController(ArmController):
        deed_word, tool_word, outcomes = "scoop", "the scoop", Outcome

        def configure(self):
            self.arm, self.felt = ScoopArm(model, ...), FeltWrench(model, ...)
            self.control(model.joint_names)
            self.serve(LongAction(self, ExecuteScoop, "scoop/execute", self.begin, self.refusal, self.cancel))

A deed is an object of `sim_core` that knows how it goes: `ended`, `outcome`, `why`, `cancel(why)`, `stop(why)`. Whatever
happens it ends by itself, with the tool where it harms nobody, and only then the goal has its result: but for a halt that lasts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from geometry_msgs.msg import WrenchStamped
from std_srvs.srv import Trigger

from nodes.control.arm_messages import wrench_of
from nodes.control.joint_controller import JointController, JointControllerConfig
from nodes.framework.config import setting
from nodes.framework.joint_state_gate import JointSample, seconds
from nodes.framework.long_action import LongAction
from nodes.framework.polled import create_polled_subscription, take
from nodes.framework.qos import SENSOR
from sim_core.telepresence.avatar import Motion

__all__ = ["CALLED_BACK", "WRIST", "ArmController", "ArmControllerConfig"]

#: site of the robot's model that a force-torque sensor sits at
WRIST = "wrist"
#: [s] of wall time between two feedbacks of a goal
FEEDBACK_PERIOD = 0.1
CALLED_BACK = "it was called back"


@dataclass(frozen=True)
class ArmControllerConfig(JointControllerConfig):
    """Parameters of every such controller."""

    gap_limit: float = setting(
        0.1, "s", (0.02, 5.0), "a longer pause between two joint states counts as a stop of the arm", read_only=True
    )
    wrench_age_limit: float = setting(
        0.05, "s", (0.005, 0.5), "after so long without a wrench the force is not known", read_only=True
    )
    halt_patience: float = setting(
        5.0, "s", (0.1, 600.0), "of a halt, after which a goal ends before the tool is back", read_only=True
    )


class ArmController(JointController):
    """See the module's docstring.

    Attributes:
        arm: with `start_at`, `stop`, `cycle`, `pose`, `busy`. felt: with `feel`, `forget` and `at`.
        order: what the goal asks for. deed: that is under way for it; None: there is none, or it has not begun.
    """

    Config = ArmControllerConfig
    #: how a deed and the tool are called; how deeds end, with ARM_STOPPED and CANCELLED among them
    deed_word, tool_word = "deed", "the tool"
    outcomes: type[Enum]
    #: of the outcomes, the one where nothing moved
    unreachable: Enum
    arm: Any = None
    felt: Any = None
    _action: LongAction | None = None

    # -- what each controller says for itself ------------------------------------------------------

    def order_of(self, goal) -> Any:
        """What a goal asks for. Raises ValueError: it makes no sense."""
        raise NotImplementedError

    def start_deed(self, order) -> Any:
        """Begin it from where the arm is; the sentence why not, where it cannot be done at all."""
        raise NotImplementedError

    def is_over(self, deed) -> bool:
        """Whether it has ended, and the goal with it."""
        return deed.ended

    def look_after(self, deed) -> None:
        """After each cycle, and twenty times a second on the wall clock, while it is under way."""

    def result_of(self, outcome: Enum, why: str, deed) -> tuple[Any, bool]:
        """The goal's result, and whether it succeeded; `deed` is None where nothing moved."""
        raise NotImplementedError

    def feedback_of(self, phase: str, deed) -> Any:
        """Of a goal; `deed` is None before it begins."""
        raise NotImplementedError

    def phase_of(self, deed) -> str:
        """What a deed is doing, in words."""
        raise NotImplementedError

    def force(self) -> float:
        """That is felt now [N]; NaN: it is not known."""
        raise NotImplementedError

    # -- lifecycle ---------------------------------------------------------------------------------

    def control(self, joints: Sequence[str]) -> None:
        self._goal = self.order = self.deed = None
        self._halted: float | None = None  # wall time since when nothing may move [s]
        self._told_goal = -np.inf
        super().control(joints)
        self._wrenches = create_polled_subscription(self, WrenchStamped, "wrench", SENSOR)
        self.keep(self._wrenches)

    def serve(self, action: LongAction) -> None:
        """By which deeds are asked for."""
        self._action = action
        self.keep(action)

    def activate(self) -> None:
        super().activate()
        take(self._wrenches)  # what was felt before does not count

    def forget(self) -> None:
        super().forget()
        self._wrench_refusal = ""
        self.felt.forget()

    def stop(self) -> None:
        # The declared stop state is the receiver's: it enters it when commands cease.
        if self._action is not None:
            self.end(self.outcomes["ARM_STOPPED"], f"the node {self.name} is not active any more")

    def cleanup(self) -> None:
        super().cleanup()
        self.arm = self._action = None

    def start_over(self) -> None:
        self.end(self.outcomes["ARM_STOPPED"], "time went back, and the robot with it")
        super().start_over()

    # -- what people ask for -----------------------------------------------------------------------

    def answer(self, begin: Callable[[], str], done: str, response: Trigger.Response) -> Trigger.Response:
        """To somebody who asked for a way of the arm.

        Args:
            begin: begins it; "" or the sentence why not. done: what is said where it began.
        """
        why = self.unready() or ("" if self.started else "No joint states have come yet.") or begin()
        response.success, response.message = not why, why or done
        return response

    def unready(self) -> str:
        """Why nothing can be asked for; "": it can."""
        return self.halt_reason if self.is_active else f"The node {self.name} is not active."

    def refusal(self, goal) -> str:
        """Why a goal is not accepted; "": it is."""
        if why := self.unready():
            return why
        if self._goal is not None:
            return f"another {self.deed_word} is under way: wait for its end, or cancel it"
        if self.arm.busy:
            return f"the arm is still on its way back from the last {self.deed_word}"
        try:
            self.order_of(goal)
        except ValueError as error:
            return str(error)
        return ""

    def begin(self, handle) -> None:
        """A goal was accepted."""
        self._goal, self.deed = handle, None
        self.order = self.order_of(handle.request)
        if self.started:  # else with the first joint state
            self._do()

    def _do(self) -> None:
        """From where the arm is, if it can be done at all."""
        begun = self.start_deed(self.order)
        if isinstance(begun, str):
            self.end(self.unreachable, begun)
        else:
            self.deed = begun

    def cancel(self, handle) -> None:
        """A client calls a goal back."""
        if self._goal is not handle:
            return
        if self.deed is None:
            self.end(self.outcomes["CANCELLED"], CALLED_BACK)
        else:
            self.deed.cancel(CALLED_BACK)

    def permission_changed(self) -> None:
        super().permission_changed()
        why = self.halt_reason
        self._halted = time.monotonic() if why else None
        if why:
            self.arm.stop(why)

    # -- the cycle ---------------------------------------------------------------------------------

    def respond(self, state: JointSample, since: float) -> Motion | None:
        self._feel()
        if self.halt_reason:
            return None
        if not self.started:
            self.arm.start_at(state.position)
            self.started, since = True, 0.0
            if self._goal is not None and self.deed is None:
                self._do()
        elif since > self.config.gap_limit:
            self.arm.start_at(state.position, f"no joint states came for {since:.2f} s")
            since = 0.0
        return self.arm.cycle(state.position, state.velocity, self.felt.at(self.beat.stamp), since)

    def _feel(self) -> None:
        """All wrenches since the last cycle."""
        rotation = None
        for message, _ in take(self._wrenches):
            frame = message.header.frame_id
            if not frame.endswith(WRIST):
                self._wrench_refusal = f"expected a wrench in the frame '{WRIST}', found '{frame}'"
                self.diagnostics.tick("wrenches_refused")
                self.diagnostics.warn(self._wrench_refusal)
                continue
            if rotation is None:
                rotation = self.arm.pose(self.position).rotation
            self._wrench_refusal = ""
            self.felt.feel(wrench_of(message), rotation, seconds(message.header.stamp))

    # -- the goal ----------------------------------------------------------------------------------

    def attend(self) -> None:
        """End a goal that has come to its end."""
        deed = self.deed
        if self._goal is None:
            return
        if deed is not None:
            self.look_after(deed)
            if self.is_over(deed):
                self.end(deed.outcome, deed.why)
                return
        if self._halted is not None and time.monotonic() - self._halted > self.config.halt_patience:
            late, why, outcome = "", self.halt_reason, self.outcomes["ARM_STOPPED"]
            if deed is not None:
                late = f"; {self.tool_word} is not back yet, and will be once it may"
                why, outcome = deed.why, deed.outcome
            self.end(outcome, why.rstrip(".") + late)

    def end(self, outcome: Enum, why: str) -> None:
        """Give the goal its result, if there is one."""
        goal, deed = self._goal, self.deed
        self._goal = self.deed = None
        if goal is None:
            return
        if deed is not None:
            deed.stop(why)
        result, good = self.result_of(outcome, why, deed)
        self.diagnostics.tick(outcome.name.lower())
        self.get_logger().info(result.message)
        state = "succeed" if good else "canceled" if goal.is_cancel_requested else "abort"
        self._action.finish(goal, result, state)

    def watch(self) -> None:
        """On the wall clock, in a halt too: whoever sent the goal wants to know that somebody still cares for it."""
        if not self.is_active:
            return
        self.attend()
        deed, now = self.deed, time.monotonic()
        if self._goal is None or now - self._told_goal < FEEDBACK_PERIOD - 0.01:
            return
        self._told_goal = now
        phase = "waiting for joint states" if deed is None else self.phase_of(deed)
        self._goal.publish_feedback(self.feedback_of(self.halt_reason or phase, deed))

    # -- what it says ------------------------------------------------------------------------------

    def tracking_error(self) -> float:
        return float(np.linalg.norm(self.arm.target.position - self.arm.pose(self.position).position))

    def diagnose(self) -> None:
        super().diagnose()
        if self.arm is None:
            return
        say, force = self.diagnostics.set, self.force()
        say("arm", self.doing())
        say("force", f"{force:.2f}")
        say("wrench", self._wrench_refusal or ("heard" if np.isfinite(force) else "silent"))
