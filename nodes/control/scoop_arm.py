"""The controller of an arm that scoops: out of the ground where it is told to, then to where the load is measured, and to the bin.

A joint state arrives, the newest wrenches are taken, and one command for all joints leaves. The algorithms are
`sim_core/scooping`: the arm (`scoop_arm.py`), the force (`felt_wrench.py`) and the scoop itself (`execution.py`).

Page: docs/nodes/scoop_arm.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from geometry_msgs.msg import PoseStamped
from refit_interfaces.action import ExecuteScoop
from std_msgs.msg import String
from std_srvs.srv import Trigger

from config.description import Scoop
from config.robot import load_robot
from nodes.control.arm_controller import WRIST, ArmController, ArmControllerConfig
from nodes.control.arm_messages import WORLD, pose_message
from nodes.control.scoop_messages import action_of, place_in_words, result_of
from nodes.framework.config import setting
from nodes.framework.lifecycle import spin_main
from nodes.framework.long_action import LongAction
from nodes.framework.qos import LATCHED, STATE
from sim_core.multibody import load_model
from sim_core.scooping.arm.blade_path import Place
from sim_core.scooping.arm.execution import ExecutionConfig, Outcome, ScoopExecution
from sim_core.scooping.arm.felt_wrench import FeltWrench
from sim_core.scooping.arm.primitive import PrimitiveConfig, ScoopAction
from sim_core.scooping.arm.scoop_arm import BLADE, ArmPlaces, ScoopArm

__all__ = ["ScoopArmController", "ScoopArmControllerConfig", "main"]

#: [s] after the last command of a scoop, in which the joints come to where they were told to be
SETTLING = 0.3
RESTING = "coming to rest"


@dataclass(frozen=True)
class ScoopArmControllerConfig(ArmControllerConfig):
    """Parameters of `scoop_arm`."""

    robot: str = setting("ur5e_scoop", description="model in config/robots, whose task is scoop", read_only=True)
    force_limit: float = setting(
        80.0, "N", (5.0, 120.0), "of the ground on the scoop, at which it stops and comes up", read_only=True
    )
    transit: float = setting(0.3, "m/s", (0.02, 0.3), "in the air, at most", read_only=True)
    turning: float = setting(1.2, "rad/s", (0.1, 1.2), "in the air, at most", read_only=True)
    digging: float = setting(0.08, "m/s", (0.005, 0.08), "of the edge in the ground, at most", read_only=True)
    rising: float = setting(0.2, "m/s", (0.01, 0.2), "out of the ground, at most", read_only=True)

    def execution(self, measuring: Place) -> ExecutionConfig:
        """Settings of scoops, with the place where loads are measured."""
        return ExecutionConfig(
            primitive=PrimitiveConfig(speed=self.digging),
            transit=self.transit,
            turning=self.turning,
            rising=self.rising,
            limit=self.force_limit,
            measuring=measuring,
        )


class ScoopArmController(ArmController):
    """See the module's docstring."""

    name = "scoop_arm"
    Config = ScoopArmControllerConfig
    deed_word, tool_word, outcomes, unreachable = "scoop", "the scoop", Outcome, Outcome.OUT_OF_REACH

    def configure(self) -> None:
        config = self.config
        task = load_robot(config.robot).task_as(Scoop)
        model = load_model(config.robot)
        closed = PrimitiveConfig().closing
        measuring, over_bin = (_outwards(np.array(place), closed) for place in (task.measuring, task.bin))
        self.arm = ScoopArm(
            model, config.execution(measuring), period=config.control_period, places=ArmPlaces(over_bin)
        )
        self.felt = FeltWrench(model, WRIST, BLADE, patience=config.wrench_age_limit)
        self._errand, self._said, self._settled = "", "", np.inf
        self.control(model.joint_names)
        self.state_topic = self.create_lifecycle_publisher(String, "scoop/state", LATCHED)
        self.blade_topic = self.create_lifecycle_publisher(PoseStamped, "scoop/blade", STATE)
        self.serve(LongAction(self, ExecuteScoop, "scoop/execute", self.begin, self.refusal, self.cancel))
        self.keep(
            self.state_topic,
            self.blade_topic,
            self.create_service(Trigger, "scoop/empty", self._on_empty),
            self.create_service(Trigger, "scoop/measure_pose", self._on_measure_pose),
            self.create_service(Trigger, "scoop/home", self._on_home),
        )

    def forget(self) -> None:
        super().forget()
        self._said = ""

    def start_over(self) -> None:
        super().start_over()
        self.arm.execution = None

    # -- what people ask for -----------------------------------------------------------------------

    def _on_empty(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        return self._go(self.arm.empty, "emptying the scoop", "The scoop is emptied.", response)

    def _on_measure_pose(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        way = "on the way to the measuring pose"
        return self._go(self.arm.measure, way, "The scoop goes to the measuring pose.", response)

    def _on_home(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        return self._go(self.arm.go_home, "on the way home", "The arm goes home.", response)

    def _go(self, way: Callable[[], None], errand: str, done: str, response: Trigger.Response) -> Trigger.Response:
        def begin() -> str:
            if why := self._under_way():
                return f"{why[0].upper()}{why[1:]}."
            way()
            self._errand = errand
            self._said = ""  # whoever asked hears where the arm is from now on, also if that is where it was
            return ""

        return self.answer(begin, done, response)

    def _under_way(self) -> str:
        """Why nothing else is begun now; "": it may be. A load that is carried past another place is a load lost."""
        if self.arm.busy or self.deed is not None:
            return "a scoop is under way: cancel it, or wait for its end"
        return f"the arm is {self._errand}: wait until it is there" if self.arm.moving else ""

    def refusal(self, goal: ExecuteScoop.Goal) -> str:
        return super().refusal(goal) or self._under_way()

    # -- the goal ----------------------------------------------------------------------------------

    def order_of(self, goal: ExecuteScoop.Goal) -> ScoopAction:
        return action_of(goal)

    def start_deed(self, order: ScoopAction) -> ScoopExecution | str:
        self._settled = np.inf
        return self.arm.out_of_reach(order) or self.arm.scoop(order)

    def is_over(self, deed: ScoopExecution) -> bool:
        return self._rests()

    def _rests(self) -> bool:
        """Whether the last scoop is long enough ago for the joints to be where they were told to be: its load can be measured."""
        execution = self.arm.execution
        if execution is not None and execution.ended:
            self._settled = min(self._settled, self.beat.stamp + SETTLING)
        return execution is None or self.beat.stamp >= self._settled

    def result_of(self, outcome: Outcome, why: str, deed: ScoopExecution | None) -> tuple[ExecuteScoop.Result, bool]:
        self._say_state()  # before the result, whose hearer may ask for the next way at once
        blade = self.arm.target if self.position is None else self.arm.pose(self.position)
        result = result_of(outcome, why, deed, blade, self.config.control_period)
        return result, result.outcome == ExecuteScoop.Result.SCOOPED

    def feedback_of(self, phase: str, deed: ScoopExecution | None) -> ExecuteScoop.Feedback:
        return ExecuteScoop.Feedback(phase=phase, force=self.force())

    # -- what it says ------------------------------------------------------------------------------

    def attend(self) -> None:
        if self._errand and not self.arm.moving:
            if self.arm.why:
                self.get_logger().warning(f"While {self._errand} {self.arm.why}: it stays there.")
                self.diagnostics.tick("ways_given_up")
            self._errand = ""
        super().attend()
        self._say_state()

    def tell(self, stamp) -> None:
        message = PoseStamped(pose=pose_message(self.arm.pose(self.position)))
        message.header.stamp, message.header.frame_id = stamp, WORLD
        self.blade_topic.publish(message)

    def _say_state(self) -> None:
        said = "halted" if self.halt_reason else self.doing()
        if said != self._said:
            self._said = said
            self.state_topic.publish(String(data=said))

    def phase_of(self, deed: ScoopExecution) -> str:
        return RESTING if deed.ended else deed.stage.value

    def force(self) -> float:
        return float(np.linalg.norm(self.felt.at(self.beat.stamp)[:3]))

    def doing(self) -> str:
        if self.deed is not None or self.arm.busy:
            return self.phase_of(self.arm.execution)
        if self.arm.moving:
            return self._errand
        if not self.started:
            return "waiting for joint states"
        return place_in_words(self.arm, self.arm.pose(self.position)) if self._rests() else RESTING


def _outwards(place: np.ndarray, angle: float) -> Place:
    """A place of the edge (3,) [m] with the blade pointing away from the arm's axis, at an angle [rad]."""
    return Place(place, float(np.arctan2(place[1], place[0])), angle)


def main(args=None) -> int:
    return spin_main(ScoopArmController, args)
