"""The controller of an arm that listens: places a stethoscope where it is told to, and holds it while a microphone records.

A joint state arrives, the newest wrenches are taken, and one command for all joints leaves. The algorithms are
`sim_core/auscultation`: the arm (`listening_arm.py`), the force (`pressing_force.py`) and the placement itself (`placement.py`).

Page: docs/nodes/placement.md.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass

import numpy as np
from geometry_msgs.msg import WrenchStamped
from rclpy.action import ActionClient
from rclpy.serialization import deserialize_message
from refit_interfaces.action import PlaceAndRecord, RecordAudio
from refit_interfaces.msg import ControllerStatus, JointCommand
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger

from config.description import Listen
from config.robot import load_robot
from nodes.control.feedback_command import command_of
from nodes.control.permission import Permission
from nodes.control.placement_messages import DURATIONS, order_of, result_of, wrench_of
from nodes.control.sound_request import SoundRequest
from nodes.framework.config import setting
from nodes.framework.control_beat import ControlBeat
from nodes.framework.joint_state_gate import JointStateGate, peek_stamp, seconds
from nodes.framework.lifecycle import RefitNode, spin_main
from nodes.framework.long_action import LongAction
from nodes.framework.polled import create_polled_subscription, take
from nodes.framework.qos import COMMAND, SENSOR, STATE
from sim_core.auscultation.listening_arm import ListeningArm
from sim_core.auscultation.placement import Outcome, Phase, PlacementConfig
from sim_core.auscultation.pressing_force import PressingForce, wrist_load
from sim_core.multibody import load_model

__all__ = ["PlacementController", "PlacementControllerConfig", "main"]

#: site of the robot's model that a force-torque sensor sits at
WRIST = "wrist"
#: [s] between two messages of `controller/status`; of wall time between two feedbacks of a goal
STATUS_PERIOD, FEEDBACK_PERIOD = 0.05, 0.1
#: [s] of the robot's time for which the stethoscope stays on the body at most, after a recording should have come
OVERTIME = 60.0
CALLED_BACK = "it was called back"


@dataclass(frozen=True)
class PlacementControllerConfig:
    """Parameters of `placement`."""

    robot: str = setting(
        "panda_stethoscope", description="model in config/robots, whose task is listen", read_only=True
    )
    lockstep: bool = setting(
        False, description="the plant waits for every command; ages of joint states are not checked", read_only=True
    )
    control_period: float = setting(0.008, "s", (0.002, 0.02), "time between commands", read_only=True)
    state_age_limit: float = setting(0.1, "s", (0.005, 5.0), "joint states older than this are refused", read_only=True)
    future_limit: float = setting(
        0.5, "s", (0.0, 10.0), "joint states stamped further ahead are refused", read_only=True
    )
    gap_limit: float = setting(
        0.1, "s", (0.02, 5.0), "a longer pause between two joint states counts as a stop of the arm", read_only=True
    )
    wrench_age_limit: float = setting(
        0.05, "s", (0.005, 0.5), "after so long without a wrench the force is not known", read_only=True
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
    halt_patience: float = setting(
        5.0, "s", (0.1, 600.0), "of a halt, after which a goal ends before the stethoscope is back", read_only=True
    )

    def __post_init__(self):
        self.placement(self.duration)

    def placement(self, duration: float) -> PlacementConfig:
        """Of a recording of so many seconds."""
        same = {name: getattr(self, name) for name in ("force", "abort", "standoff", "transit", "turning", "approach")}
        return PlacementConfig(duration=duration, overtime=OVERTIME, past=self.past, patience=self.patience, **same)


class PlacementController(RefitNode):
    """See the module's docstring."""

    name = "placement"
    Config = PlacementControllerConfig
    event_driven = True
    arm: ListeningArm | None = None
    halt_reason = property(lambda self: self.permission.denied)

    # -- lifecycle ---------------------------------------------------------------------------------

    def configure(self) -> None:
        config = self.config
        frame = load_robot(config.robot).task_as(Listen).frame
        model = load_model(config.robot)
        self.arm = ListeningArm(model, frame, config=config.placement(config.duration), period=config.control_period)
        load = wrist_load(model, WRIST, frame, config.tool_compensated)
        self.force = PressingForce(load, patience=config.wrench_age_limit)
        self.joints = list(model.joint_names)
        self.gate = JointStateGate(
            self.joints, *((np.inf, np.inf) if config.lockstep else (config.state_age_limit, config.future_limit))
        )
        self.cycles = self.misses = 0
        self._cycle_times = deque(maxlen=500)
        self._goal = self._order = self._placement = self._sound = None
        self._halted = None  # wall time since when nothing may move [s]
        self._told_goal = -np.inf
        self._forget()
        self.commands = self.create_lifecycle_publisher(JointCommand, "joint_command", COMMAND)
        self.status = self.create_lifecycle_publisher(ControllerStatus, "controller/status", STATE)
        self.permission = Permission(self, self._on_permission)
        self._action = LongAction(
            self, PlaceAndRecord, "auscultation/place_and_record", self._begin, self._refusal, self._cancel
        )
        self._recorder = ActionClient(self, RecordAudio, config.record)
        self._wrenches = create_polled_subscription(self, WrenchStamped, "wrench", SENSOR)
        self._made = [
            self._wrenches,
            self.create_subscription(JointState, "joint_states", self._on_joint_state, COMMAND, raw=True),
            self.create_service(Trigger, "auscultation/home", self._on_home),
            self.create_timer(0.05, self._watch, clock=self.steady_clock),
        ]

    def _forget(self) -> None:
        self.refusal = self._wrench_refusal = ""
        self._sent: JointCommand | None = None
        self._started = False  # whether the arm knows where its joints are
        self._position = self.arm.kinematics.home
        self.beat = ControlBeat(self.config.control_period, self.config.lockstep)
        self._told = -np.inf
        self._state_time = time.monotonic()
        self.force.forget()

    def activate(self) -> None:
        self._forget()
        take(self._wrenches)  # what was felt before does not count

    def stop(self) -> None:
        # The declared stop state is the receiver's: it enters it when commands cease.
        self._end(Outcome.ARM_STOPPED, "the node placement is not active any more")

    def cleanup(self) -> None:
        for entity in [
            *getattr(self, "_made", []),
            *(getattr(self, name, None) for name in ("commands", "status")),
        ]:
            if entity is not None:
                for destroy in (
                    self.destroy_subscription,
                    self.destroy_timer,
                    self.destroy_service,
                    self.destroy_publisher,
                ):
                    if destroy(entity):
                        break
        for owner in (getattr(self, name, None) for name in ("permission", "_action", "_recorder")):
            if owner is not None:
                owner.destroy()
        self._made, self.arm, self._action, self._recorder = [], None, None, None

    def time_jumped_back(self) -> None:
        if self.arm is not None:
            self._start_over()

    def _start_over(self) -> None:
        self._end(Outcome.ARM_STOPPED, "time went back, and the robot with it")
        self.arm.placement = None
        self._forget()

    # -- what people ask for -----------------------------------------------------------------------

    def _on_home(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        why = self._unready() or ("" if self._started else "No joint states have come yet.") or self.arm.go_home()
        response.success, response.message = not why, why or "The arm goes home."
        return response

    def _unready(self) -> str:
        return self.halt_reason if self.is_active else "The node placement is not active."

    def _refusal(self, goal: PlaceAndRecord.Goal) -> str:
        if why := self._unready():
            return why
        if self._goal is not None:
            return "another placement is under way: wait for its end, or cancel it"
        if self.arm.busy:
            return "the arm is still on its way back from the last placement"
        try:
            order_of(goal, self.config.duration, self.config.record_directory)
        except ValueError as error:
            return str(error)
        return ""

    def _begin(self, handle) -> None:
        config = self.config
        self._goal, self._placement, self._sound = handle, None, None
        self._order = order_of(handle.request, config.duration, config.record_directory)
        if self._started:  # else with the first joint state
            self._place()

    def _place(self) -> None:
        """From where the arm is, if it can be done at all."""
        order = self._order
        config = self.config.placement(order.duration)
        if why := self.arm.out_of_reach(order.point, order.normal, config):
            self._end(Outcome.OUT_OF_REACH, why)
        else:
            self._placement = self.arm.place(order.point, order.normal, config)

    def _cancel(self, handle) -> None:
        if self._goal is not handle:
            return
        if self._placement is None:
            self._end(Outcome.CANCELLED, CALLED_BACK)
        else:
            self._placement.cancel(CALLED_BACK)

    def _on_permission(self) -> None:
        if why := self.halt_reason:
            self._halted = time.monotonic()
            self.arm.stop(why)
        else:
            self._halted, self._started = None, False  # the robot may have been moved meanwhile

    # -- the control cycle -------------------------------------------------------------------------

    def _on_joint_state(self, data: bytes) -> None:
        """A joint state, still serialised: only those that are due are worth reading."""
        arrival = time.perf_counter()
        stamp = peek_stamp(data)
        if not self.is_active:
            return
        if self.beat.is_repeated(stamp, self._sent):
            self.commands.publish(self._sent)  # the plant says again what it has heard no answer to
            return
        if not self.beat.is_due(stamp):
            return
        message = deserialize_message(data, JointState)
        state, self.refusal = self.gate.read(message, np.nan if self.config.lockstep else self._now())
        if state is None:
            self.diagnostics.tick("states_refused")
            self.diagnostics.warn(self.refusal)
            return
        if self.beat.went_back(stamp):
            self._start_over()
        self._state_time = time.monotonic()
        since, self._position = self.beat.begin(stamp), state.position
        self._feel()
        if not self.halt_reason:
            self._command(state, message.header.stamp, since)
            latency = time.perf_counter() - arrival
            self.cycles += 1
            self.misses += latency > self.config.control_period
            self._cycle_times.append(latency)
        self._attend()
        if stamp - self._told >= STATUS_PERIOD - 1e-6 or stamp < self._told:
            self._told = stamp
            self._tell(message.header.stamp)

    def _command(self, state, stamp, since: float) -> None:
        """Args: since: the last cycle [s]."""
        if self._started and since > self.config.gap_limit:
            self.arm.start_at(state.position, f"no joint states came for {since:.2f} s")
            since = 0.0
        elif not self._started:
            self.arm.start_at(state.position)
            self._started, since = True, 0.0
            if self._goal is not None and self._placement is None:
                self._place()
        motion = self.arm.cycle(state.position, state.velocity, self.force.at(self.beat.stamp), since)
        command = command_of(motion, self.joints, self.get_name())
        command.header.stamp = stamp
        self.commands.publish(command)
        self._sent = command

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
                rotation = self.arm.pose(self._position).rotation
            self._wrench_refusal = ""
            self.force.feel(wrench_of(message), rotation, seconds(message.header.stamp))

    # -- the goal ----------------------------------------------------------------------------------

    def _attend(self) -> None:
        """Bring sound and placement together, and end a goal that has come to its end."""
        placement = self._placement
        if self._goal is None:
            return
        if placement is not None:
            self._attend_sound(placement)
            if placement.ended:
                self._end(placement.outcome, placement.why)
                return
        if self._halted is not None and time.monotonic() - self._halted > self.config.halt_patience:
            late = "" if placement is None else "; the stethoscope is not back yet, and will be once it may"
            why, outcome = self.halt_reason, Outcome.ARM_STOPPED
            if placement is not None:
                why, outcome = placement.why, placement.outcome
            self._end(outcome, why.rstrip(".") + late)

    def _attend_sound(self, placement) -> None:
        if placement.phase is Phase.RECORD:
            if self._sound is None:
                config, order = self.config, self._order
                self._sound = SoundRequest(
                    self._recorder, config.record, order.duration, order.file, config.sound_patience
                )
            self._sound.attend(placement.recorded)
            if self._sound.file:
                placement.finish()
            elif self._sound.why:
                placement.cancel(self._sound.why, Outcome.NO_SOUND)
        elif self._sound is not None and placement.outcome is not Outcome.RECORDED:
            self._sound.cancel()

    def _end(self, outcome: Outcome, why: str) -> None:
        """Give the goal its result, if there is one."""
        goal, placement, sound = self._goal, self._placement, self._sound
        self._goal = self._placement = self._sound = None
        if goal is None:
            return
        if placement is not None:
            placement.stop(why)
        recorded = outcome is Outcome.RECORDED and sound is not None
        if sound is not None and not recorded:
            sound.cancel()
        result = result_of(outcome, why, placement, self.config.control_period, sound.file if recorded else "")
        self.diagnostics.tick(outcome.name.lower())
        self.get_logger().info(result.message)
        state = "succeed" if recorded else "canceled" if goal.is_cancel_requested else "abort"
        self._action.finish(goal, result, state)

    def _feedback(self) -> None:
        """On the wall clock, in a halt too: whoever sent the goal wants to know that somebody still cares for it."""
        placement, now = self._placement, time.monotonic()
        if self._goal is None or now - self._told_goal < FEEDBACK_PERIOD - 0.01:
            return
        self._told_goal = now
        phase = "waiting for joint states" if placement is None else placement.phase.value
        self._goal.publish_feedback(
            PlaceAndRecord.Feedback(
                phase=self.halt_reason or phase,
                force=self.force.at(self.beat.stamp),
                recorded=0.0 if placement is None else placement.recorded,
            )
        )

    # -- what it says ------------------------------------------------------------------------------

    def _doing(self) -> str:
        if self.arm.busy:
            return self.arm.placement.phase.value
        return "on the way home" if self.arm.homing else "waiting"

    def _tell(self, stamp) -> None:
        stopped = self.halt_reason
        status = ControllerStatus(
            state=ControllerStatus.STATE_STOPPED if stopped else ControllerStatus.STATE_TRACKING,
            period=self.config.control_period,
            cycles=self.cycles,
            deadline_misses=self.misses,
            solve_time=float(self._cycle_times[-1]) if self._cycle_times else 0.0,
            tracking_error=float(np.linalg.norm(self.arm.target.position - self.arm.pose(self._position).position)),
            message=stopped or self._doing(),
        )
        status.header.stamp = stamp
        self.status.publish(status)

    def _watch(self) -> None:
        """On the wall clock: why there are no commands, where there are none."""
        self.permission.attend()
        if not self.is_active:
            return
        self._attend()
        self._feedback()
        silence = time.monotonic() - self._state_time
        why = self.halt_reason
        if not why and not self.config.lockstep and silence > self.config.state_age_limit:
            why = self.refusal or f"no joint states for {silence:.2f} s"
        if why:
            self.diagnostics.warn(why)

    def diagnose(self) -> None:
        if self.arm is None:
            return
        say = self.diagnostics.set
        self.diagnostics.set_percentiles("latency", self._cycle_times)
        say("arm", self._doing())
        say("force", f"{self.force.at(self.beat.stamp):.2f}")
        say("wrench", self._wrench_refusal or ("heard" if np.isfinite(self.force.at(self.beat.stamp)) else "silent"))
        say("cycles", self.cycles)
        say("deadline_misses", self.misses)

    def _now(self) -> float:
        return 1e-9 * self.get_clock().now().nanoseconds


def main(args=None) -> int:
    return spin_main(PlacementController, args)
