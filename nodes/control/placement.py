"""The controller of an arm that listens: places a stethoscope where it is told to, and holds it while a microphone records.

A joint state arrives, the newest wrenches are taken, and one command for all joints leaves. The algorithms are
`sim_core/auscultation`: the arm (`listening_arm.py`), the force (`pressing_force.py`) and the placement itself (`placement.py`).

Page: docs/nodes/placement.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from rclpy.action import ActionClient
from refit_interfaces.action import PlaceAndRecord, RecordAudio
from std_srvs.srv import Trigger

from config.description import Listen
from config.robot import load_robot
from nodes.control.arm_controller import WRIST, ArmController, ArmControllerConfig
from nodes.control.placement_messages import DURATIONS, Order, order_of, result_of
from nodes.control.sound_request import SoundRequest
from nodes.framework.config import setting
from nodes.framework.lifecycle import spin_main
from nodes.framework.long_action import LongAction
from sim_core.auscultation.listening_arm import ListeningArm
from sim_core.auscultation.placement import Outcome, Phase, Placement, PlacementConfig
from sim_core.auscultation.pressing_force import PressingForce, wrist_load
from sim_core.multibody import load_model

__all__ = ["PlacementController", "PlacementControllerConfig", "main"]

#: [s] of the robot's time for which the stethoscope stays on the body at most, after a recording should have come
OVERTIME = 60.0


@dataclass(frozen=True)
class PlacementControllerConfig(ArmControllerConfig):
    """Parameters of `placement`."""

    robot: str = setting(
        "panda_stethoscope", description="model in config/robots, whose task is listen", read_only=True
    )
    tool_compensated: bool = setting(
        False,
        description="the wrench comes without the stethoscope's weight, from a driver that knows it",
        read_only=True,
    )
    force: float = setting(7.0, "N", (1.0, 10.0), "with which the stethoscope is pressed", read_only=True)
    abort: float = setting(11.0, "N", (2.0, 15.0), "force at which it comes back", read_only=True)
    duration: float = setting(10.0, "s", DURATIONS, "of a recording whose goal names none", read_only=True)
    standoff: float = setting(0.08, "m", (0.03, 0.2), "before the point, in the air", read_only=True)
    transit: float = setting(0.065, "m/s", (0.005, 0.065), "in the air, at most", read_only=True)
    turning: float = setting(1.0, "rad/s", (0.05, 1.0), "in the air, at most", read_only=True)
    approach: float = setting(0.03, "m/s", (0.003, 0.03), "towards the body, at most", read_only=True)
    past: float = setting(
        0.03, "m", (0.005, 0.05), "beyond the point without contact, at which it comes back", read_only=True
    )
    patience: float = setting(8.0, "s", (1.0, 30.0), "of contact within which the force is steady", read_only=True)
    record: str = setting("stethoscope/record", description="action of the microphone's node", read_only=True)
    record_directory: str = setting(
        "runs/auscultation", description="of recordings whose goal names no file", read_only=True
    )
    sound_patience: float = setting(
        5.0,
        "s",
        (0.5, 30.0),
        "for the microphone's node to begin, and for its recording to come after its end",
        read_only=True,
    )

    def __post_init__(self):
        self.placement(self.duration)

    def placement(self, duration: float) -> PlacementConfig:
        """Of a recording of so many seconds."""
        same = {name: getattr(self, name) for name in ("force", "abort", "standoff", "transit", "turning", "approach")}
        return PlacementConfig(duration=duration, overtime=OVERTIME, past=self.past, patience=self.patience, **same)


class PlacementController(ArmController):
    """See the module's docstring."""

    name = "placement"
    Config = PlacementControllerConfig
    deed_word, tool_word, outcomes = "placement", "the stethoscope", Outcome
    unreachable = Outcome.OUT_OF_REACH
    _sound: SoundRequest | None = None

    def configure(self) -> None:
        config = self.config
        frame = load_robot(config.robot).task_as(Listen).frame
        model = load_model(config.robot)
        self.arm = ListeningArm(model, frame, config=config.placement(config.duration), period=config.control_period)
        load = wrist_load(model, WRIST, frame, config.tool_compensated)
        self.felt = PressingForce(load, patience=config.wrench_age_limit)
        self.control(model.joint_names)
        self.serve(
            LongAction(self, PlaceAndRecord, "auscultation/place_and_record", self.begin, self.refusal, self.cancel)
        )
        self._recorder = ActionClient(self, RecordAudio, config.record)
        self.keep(self._recorder, self.create_service(Trigger, "auscultation/home", self._on_home))

    def start_over(self) -> None:
        super().start_over()
        self.arm.placement = None

    def _on_home(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        return self.answer(self.arm.go_home, "The arm goes home.", response)

    # -- the goal ----------------------------------------------------------------------------------

    def order_of(self, goal: PlaceAndRecord.Goal) -> Order:
        return order_of(goal, self.config.duration, self.config.record_directory)

    def start_deed(self, order: Order) -> Placement | str:
        config = self.config.placement(order.duration)
        why = self.arm.out_of_reach(order.point, order.normal, config)
        return why or self.arm.place(order.point, order.normal, config)

    def look_after(self, deed: Placement) -> None:
        """Bring sound and placement together."""
        if deed.phase is Phase.RECORD:
            if self._sound is None:
                config, order = self.config, self.order
                self._sound = SoundRequest(
                    self._recorder, config.record, order.duration, order.file, config.sound_patience
                )
            self._sound.attend(deed.recorded)
            if self._sound.file:
                deed.finish()
            elif self._sound.why:
                deed.cancel(self._sound.why, Outcome.NO_SOUND)
        elif self._sound is not None and deed.outcome is not Outcome.RECORDED:
            self._sound.cancel()

    def result_of(self, outcome: Outcome, why: str, deed: Placement | None) -> tuple[PlaceAndRecord.Result, bool]:
        sound, self._sound = self._sound, None
        recorded = outcome is Outcome.RECORDED and sound is not None
        if sound is not None and not recorded:
            sound.cancel()
        file = sound.file if recorded else ""
        return result_of(outcome, why, deed, self.config.control_period, file), recorded

    def feedback_of(self, phase: str, deed: Placement | None) -> PlaceAndRecord.Feedback:
        recorded = 0.0 if deed is None else deed.recorded
        return PlaceAndRecord.Feedback(phase=phase, force=self.force(), recorded=recorded)

    # -- what it says ------------------------------------------------------------------------------

    def phase_of(self, deed: Placement) -> str:
        return deed.phase.value

    def force(self) -> float:
        return self.felt.at(self.beat.stamp)

    def doing(self) -> str:
        if self.arm.busy:
            return self.phase_of(self.arm.placement)
        return "on the way home" if self.arm.homing else "waiting"


def main(args=None) -> int:
    return spin_main(PlacementController, args)
