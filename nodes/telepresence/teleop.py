"""The controller of a robot that a person acts through: an operator's samples in, joint commands out.

A joint state arrives, the newest sample of the operator is taken if it passes its gate, and one command for all joints
leaves. The algorithms are `sim_core/telepresence`.

Page: docs/nodes/teleop.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from refit_interfaces.msg import OperatorSample, TeleopStatus
from refit_interfaces.srv import SetHeadOffset
from sensor_msgs.msg import Range
from std_srvs.srv import SetBool, Trigger

from config.robot import load_robot
from nodes.control.joint_controller import JointController, JointControllerConfig
from nodes.framework.config import setting
from nodes.framework.joint_state_gate import JointSample, seconds
from nodes.framework.lifecycle import spin_main
from nodes.framework.polled import create_polled_subscription, take
from nodes.framework.qos import SENSORS, STATE
from nodes.telepresence.glove_calibration import GloveCalibrationAction
from nodes.telepresence.teleop_messages import sample_of, status_of
from sim_core.multibody import load_model
from sim_core.telepresence.arm import ArmMode, ArmSpeed
from sim_core.telepresence.avatar import Avatar, AvatarSettings, Motion
from sim_core.telepresence.effector_wrench import CueLimits
from sim_core.telepresence.hand.calibration import GloveCalibration
from sim_core.telepresence.hand.retargeting import METHODS, OVER_CLOSE, FittedHand, fit_hand
from sim_core.telepresence.omni_base import BaseLimits, Rangefinder
from sim_core.telepresence.operator_sample import SampleGate
from sim_core.telepresence.range_readings import HeardRange, RangeReadings
from sim_core.telepresence.session import Session, SessionLimits, State
from sim_core.telepresence.standing_box import WRITTEN, standing_boxes

__all__ = ["Teleop", "TeleopConfig", "main"]

#: of target over hand in precision mode
PRECISE = 0.25
#: said in place of rangefinders: none looks
BLIND = "none"


@dataclass(frozen=True)
class TeleopConfig(JointControllerConfig):
    """Parameters of `teleop`."""

    robot: str = setting("panda", description="model in config/robots, whose task is teleoperate", read_only=True)
    control_period: float = setting(0.008, "s", (0.002, 0.05), "time between commands", read_only=True)
    sample_age_limit: float = setting(
        0.25, "s", (0.02, 5.0), "an operator's samples older than this are not taken", read_only=True
    )
    hold_after: float = setting(0.2, "s", (0.05, 5.0), "without a sample: arms hold and the base stops", read_only=True)
    release_after: float = setting(2.0, "s", (0.1, 60.0), "without a sample: clutches are released", read_only=True)
    hand_speed: float = setting(0.2, "m/s", (0.01, 1.0), "of an end effector's target, at most", read_only=True)
    hand_turning: float = setting(1.0, "rad/s", (0.05, 4.0), "of an end effector's target, at most", read_only=True)
    press_force: float = setting(7.0, "N", (1.0, 15.0), "with which an arm presses that shall", read_only=True)
    cue_from: float = setting(6.0, "N", (0.0, 100.0), "force at an end effector at which a cue begins", read_only=True)
    cue_full: float = setting(40.0, "N", (1.0, 500.0), "force at which it is as strong as it can be", read_only=True)
    glove_calibration: str = setting(
        "",
        description="file of the glove that leads the hand, as calibrate_glove writes it; empty: an average hand is assumed",
        read_only=True,
    )
    glove_method: str = setting(
        "kernel ridge", choices=METHODS, description="regression from the glove to the hand", read_only=True
    )
    glove_over_close: float = setting(
        OVER_CLOSE, "rad", (0.0, 0.6), "by which fingers that touch something are closed further", read_only=True
    )
    boxes: tuple[str, ...] = setting(
        (),
        description=f"that stand around, which the arms keep away from: {WRITTEN} each, middle and edges in metres in the "
        "frame in which the base's joints count, yaw in degrees; live while no clutch is pressed",
    )
    base_speed: float = setting(0.2, "m/s", (0.0, 0.5), "at full stick", read_only=True)
    base_turning: float = setting(0.4, "rad/s", (0.0, 1.0), "at full stick", read_only=True)
    base_blind_speed: float = setting(
        0.1,
        "m/s",
        (0.0, 0.5),
        "at most, in a direction that no rangefinder sees, where the robot has some",
        read_only=True,
    )
    stop_distance: float = setting(
        0.35,
        "m",
        (0.05, 5.0),
        "kept to what is straight ahead of the base or behind it, also when it has stopped",
        read_only=True,
    )
    side_distance: float = setting(
        0.03, "m", (0.01, 1.0), "kept to everything else, at the sides and by turning corners", read_only=True
    )
    rangefinders: tuple[str, ...] = setting(
        (),
        description="'frame: bearing' or 'frame: bearing x y' of each rangefinder whose readings arrive on `range`, the "
        "bearing in degrees from straight ahead, anticlockwise, its place forward and left of the base's middle in metres; "
        f"empty: those of robot.yaml; '{BLIND}': the base drives blind",
        read_only=True,
    )
    range_age_limit: float = setting(
        0.3, "s", (0.02, 5.0), "older readings of a rangefinder say nothing, and the base stands", read_only=True
    )


class Teleop(JointController):
    """See the module's docstring."""

    name = "teleop"
    Config = TeleopConfig
    live_parameters = True
    avatar: Avatar | None = None

    # -- lifecycle ---------------------------------------------------------------------------------

    def configure(self) -> None:
        config = self.config
        model = load_model(config.robot)
        settings = AvatarSettings(
            period=config.control_period, speed=ArmSpeed(linear=config.hand_speed, angular=config.hand_turning)
        )
        self.avatar = Avatar(load_robot(config.robot), model, settings, boxes=standing_boxes(config.boxes))
        for arm in self.avatar.arms:
            arm.force = config.press_force
        if self.avatar.base is not None:
            limits = BaseLimits(
                speed=config.base_speed,
                turning=config.base_turning,
                blind_speed=config.base_blind_speed,
                stop_distance=config.stop_distance,
                side_distance=config.side_distance,
                reading_age=config.range_age_limit,
            )
            self.avatar.look_with(_rangefinders(config.rangefinders, self.avatar), limits)
        self.cues = CueLimits(config.cue_from, config.cue_full)
        if config.glove_calibration and self.avatar.grip.hand is not None:
            file = Path(config.glove_calibration).expanduser()
            if file.exists():  # else calibrate_glove will write it
                self.avatar.grip.retargeting = self._fit(GloveCalibration.load(file))
        self._ages = deque(maxlen=500)
        self.control(model.joint_names)
        self.teleop_status = self.create_lifecycle_publisher(TeleopStatus, "teleop/status", STATE)
        self.glove = GloveCalibrationAction(self, self.avatar.grip, self._why_no_calibration, self._fit)
        self._samples = create_polled_subscription(self, OperatorSample, "operator/sample", STATE)
        self._ranges = create_polled_subscription(self, Range, "range", SENSORS)
        self.keep(
            *(self.teleop_status, self.glove, self._samples, self._ranges),
            self.create_service(Trigger, "teleop/home", self._on_home),
            self.create_service(Trigger, "teleop/narrow", self._on_narrow),
            self.create_service(SetBool, "teleop/precision", self._on_precision),
            self.create_service(SetBool, "teleop/yield", partial(self._on_mode, ArmMode.YIELD)),
            self.create_service(SetBool, "teleop/press", partial(self._on_mode, ArmMode.PRESS)),
            self.create_service(Trigger, "teleop/reset_fault", self._on_reset_fault),
            self.create_service(Trigger, "teleop/park_head", self._on_park_head),
            self.create_service(SetHeadOffset, "teleop/set_head_offset", self._on_head_offset),
        )

    def forget(self) -> None:
        super().forget()
        self.samples = SampleGate(self.config.sample_age_limit)
        self.avatar.session = Session(SessionLimits(self.config.hold_after, self.config.release_after))
        self._refusal, self._refused_at = "", 0.0
        self.readings = RangeReadings(self.config.range_age_limit)

    def activate(self) -> None:
        super().activate()
        take(self._samples), take(self._ranges)  # what was said before does not count

    def stop(self) -> None:
        # The declared stop state is the receiver's: it enters it when commands cease.
        self.glove.end("The node teleop is not active any more.")

    def cleanup(self) -> None:
        super().cleanup()
        self.avatar = None

    def config_changed(self, old: TeleopConfig, new: TeleopConfig) -> None:
        boxes = standing_boxes(new.boxes)
        if self.avatar is None or new.boxes == old.boxes:
            return
        if self.avatar.session.state is State.TELEOP:
            raise ValueError("boxes: they change while no clutch is pressed; release the clutches first")
        self.avatar.boxes = boxes

    # -- what people ask for -----------------------------------------------------------------------

    def _on_home(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        why = self._unready() or self.avatar.go_home()
        response.success, response.message = not why, why or "The arms go home."
        return response

    def _on_narrow(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        why = self._unready() or self.avatar.fold()
        response.success, response.message = not why, why or "The arms fold, so that the robot is narrow."
        return response

    def _on_park_head(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        why = self._unready() or self.avatar.park_head()
        response.success, response.message = not why, why or "The head is parked until an operator looks through it."
        return response

    def _on_precision(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        self.avatar.set_precision(PRECISE if request.data else 1.0)
        response.success = True
        response.message = f"The arms go {'a quarter of' if request.data else ''} the hands' way.".replace("  ", " ")
        return response

    def _on_mode(self, mode: ArmMode, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        self.avatar.lead_as(mode if request.data else ArmMode.FOLLOW)
        response.success = True
        response.message = f"From the next press of its clutch on, an arm {self.avatar.arms[0].led_as.value}."
        return response

    def _on_reset_fault(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        why = self._unready()
        response.success, response.message = not why, why or self.avatar.reset_fault(self.position)
        return response

    def _on_head_offset(
        self, request: SetHeadOffset.Request, response: SetHeadOffset.Response
    ) -> SetHeadOffset.Response:
        offset, neck = (request.yaw, request.pitch, request.roll), self.avatar.neck
        why = "This robot has no head that moves." if neck is None else neck.set_offset(offset)
        response.success = not why
        response.message = why or "Straight ahead is now {:.2f} left, {:.2f} down, {:.2f} to the right [rad].".format(
            *offset
        )
        return response

    def _fit(self, calibration: GloveCalibration) -> FittedHand:
        lower, upper = self.avatar.grip.hand_limits
        return fit_hand(calibration, self.config.glove_method, lower, upper, self.config.glove_over_close)

    def _why_no_calibration(self) -> str:
        if self.avatar.session.state is State.TELEOP:
            return "a clutch is pressed: release it first"
        return self._unready()

    def _unready(self) -> str:
        if not self.is_active or not self.started:
            return "The node teleop is not active, or has heard no joint states yet."
        return self.halt_reason

    # -- the control cycle -------------------------------------------------------------------------

    def respond(self, state: JointSample, since: float) -> Motion:
        if not self.started:
            self.avatar.start_at(state.position)
            self.started = True
        stamp = self.beat.stamp
        sample = self._newest_sample(stamp)
        self.glove.hear(sample, stamp)
        return self.avatar.cycle(
            sample, state.position, state.velocity, self._read_ranges(stamp), stamp, self.halt_reason, state.effort
        )

    def _newest_sample(self, stamp: float):
        """The newest sample that passes the gate; None: nothing was heard."""
        newest = None
        now = self._clock_of(stamp)
        for message, _ in take(self._samples):
            try:
                sample = sample_of(message)
            except ValueError as error:
                self.diagnostics.tick("samples_refused")
                self._refusal, self._refused_at = f"The operator's sample was not taken: {error}.", now
                continue
            taken, why = self.samples.read(sample, now)
            if why:
                self._refusal, self._refused_at = why, now
            if taken is None:
                self.diagnostics.tick("samples_refused")
            else:
                newest = taken
                self._ages.append(now - taken.stamp)
        return newest

    def _clock_of(self, stamp: float) -> float:
        """What the operator's stamps are compared with [s], in the cycle of a stamp."""
        return stamp if self.config.lockstep else self.now()

    def _read_ranges(self, stamp: float) -> dict[str, HeardRange]:
        now = self._clock_of(stamp)
        for message, _ in take(self._ranges):
            when = seconds(message.header.stamp)
            if not self.readings.hear(message.header.frame_id, float(message.range), when, now):
                self.diagnostics.tick("ranges_refused")
        return self.readings.fresh(now)

    # -- what it says ------------------------------------------------------------------------------

    def tell(self, stamp) -> None:
        # As long as silence is borne, which is long enough for a status to tell it: then it is no longer why nothing moves.
        recent = 0.0 <= self._clock_of(self.beat.stamp) - self._refused_at < self.config.hold_after
        said = status_of(self.avatar, self.position, self._refusal if recent else "", self.cues)
        said.header.stamp = stamp
        self.teleop_status.publish(said)

    def watch(self) -> None:
        self.glove.attend()

    def diagnose(self) -> None:
        super().diagnose()
        if self.avatar is None:
            return
        say = self.diagnostics.set
        self.diagnostics.set_percentiles("sample_age", self._ages)
        say("session", f"{State(self.avatar.session.state).name}: {self.avatar.session.sentence}")
        if self.avatar.grip.retargeting is not None:
            say("glove", self.avatar.grip.retargeting.said)
        for arm in self.avatar.arms:
            say(f"{arm.name} arm", f"{arm.mode.value} {arm.message}".strip())
        for reason, count in self.samples.refused.items():
            say(f"samples {reason.name.lower()}", count)


def _rangefinders(texts: Sequence[str], avatar: Avatar) -> Sequence[Rangefinder]:
    """Of 'frame: bearing' or 'frame: bearing x y' each; nothing said: the robot's own.

    Raises:
        ValueError: one is not so written.
    """
    if not texts:
        return avatar.own_rangefinders()
    return [] if list(texts) == [BLIND] else [_rangefinder(text) for text in texts]


def _rangefinder(text: str) -> Rangefinder:
    """Of 'frame: bearing' or 'frame: bearing x y'.

    Raises:
        ValueError: it is not so written.
    """
    name, _, numbers = text.partition(":")
    try:
        bearing, *place = (float(number) for number in numbers.split())
        if len(place) not in (0, 2) or not np.isfinite([bearing, *place]).all():
            raise ValueError
    except ValueError:
        raise ValueError(
            f"rangefinders: expected 'frame: bearing in degrees' or 'frame: bearing x y', or '{BLIND}' alone, found '{text}'"
        ) from None
    at = (place[0], place[1]) if place else None
    return Rangefinder(name.strip(), float(np.deg2rad(bearing)), place=at)


def main(args=None) -> int:
    return spin_main(Teleop, args)
