"""Base of controllers that answer joint states: for each one that is due, one feedback law of all joints leaves.

    class Teleop(JointController):
        def configure(self):
            ...
            self.control(joints)            # permission, gate, joint states in, commands and status out
            self.keep(self.create_service(...), ...)

        def respond(self, state, since): ...        # the law

Reading, refusing, counting and starting over are the same for all of them and are here; the law is each one's own.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rclpy.serialization import deserialize_message
from refit_interfaces.msg import ControllerStatus, JointCommand
from sensor_msgs.msg import JointState

from nodes.control.feedback_command import command_of
from nodes.framework.config import setting
from nodes.framework.control_beat import ControlBeat
from nodes.framework.joint_state_gate import JointSample, JointStateGate, peek_stamp
from nodes.framework.joint_state_parts import JointStateParts
from nodes.framework.lifecycle import RefitNode
from nodes.framework.permission import Permission
from nodes.framework.qos import COMMAND, STATE
from sim_core.telepresence.avatar import Motion

__all__ = ["JointController", "JointControllerConfig"]

#: [s] between two messages of `controller/status`
STATUS_PERIOD = 0.05


@dataclass(frozen=True)
class JointControllerConfig:
    """Parameters of every such controller."""

    robot: str = setting("", description="model in config/robots", read_only=True)
    lockstep: bool = setting(
        False, description="the plant waits for every command; ages of joint states are not checked", read_only=True
    )
    control_period: float = setting(0.008, "s", (0.002, 0.02), "time between commands", read_only=True)
    state_age_limit: float = setting(0.1, "s", (0.005, 5.0), "joint states older than this are refused", read_only=True)
    future_limit: float = setting(
        0.5, "s", (0.0, 10.0), "joint states stamped further ahead are refused", read_only=True
    )
    several_drivers: bool = setting(
        False,
        description="joint_states come in parts, from drivers of a part of the joints each; false: in whole messages",
        read_only=True,
    )


class JointController(RefitNode):
    """See the module's docstring.

    Attributes:
        halt_reason: why nothing may be commanded; "": it may. started: whether the algorithm knows where its joints are.
        beat, gate, permission: see there. cycles, misses: so far, and those that took longer than the period.
        position: of the joints at the last cycle (n,) [rad or m]; None: none has come yet.
    """

    Config = JointControllerConfig
    halt_reason = property(lambda self: self.permission.denied)
    _made: Sequence = ()

    # -- what each controller says for itself ------------------------------------------------------

    def respond(self, state: JointSample, since: float) -> Motion | None:
        """What the joints shall do until the next cycle. It is asked in a halt too, where nothing is sent; None: nothing is sent.

        Args:
            since: the last cycle [s]; infinity at the first.
        """
        raise NotImplementedError

    def forget(self) -> None:
        """Begin anew, at activation and when time goes back."""
        self._refused = ""
        self.started = False
        self.position: np.ndarray | None = None
        self.beat = ControlBeat(self.config.control_period, self.config.lockstep)
        self._sent: JointCommand | None = None
        self._told = -np.inf
        self._state_time = time.monotonic()

    def start_over(self) -> None:
        """Time went back."""
        self.forget()

    def permission_changed(self) -> None:
        """It came or went."""
        if not self.halt_reason:
            self.started = False  # the robot may have been moved meanwhile

    def attend(self) -> None:
        """After each cycle, in a halt too."""

    def tell(self, stamp) -> None:
        """Twenty times a second, with a stamp (builtin_interfaces/Time)."""

    def watch(self) -> None:
        """Twenty times a second on the wall clock, active or not."""

    def doing(self) -> str:
        """What it does, in words, for its status."""
        return ""

    def tracking_error(self) -> float:
        """For its status [m]."""
        return 0.0

    # -- lifecycle ---------------------------------------------------------------------------------

    def control(self, joints: Sequence[str]) -> None:
        """Make what all controllers have; the last part of `configure` that may fail comes before it."""
        config = self.config
        self.joints = list(joints)
        ages = (np.inf, np.inf) if config.lockstep else (config.state_age_limit, config.future_limit)
        self.gate = (JointStateParts if config.several_drivers else JointStateGate)(self.joints, *ages)
        self.cycles = self.misses = 0
        self._cycle_times: deque[float] = deque(maxlen=500)
        self._made = []
        self.forget()
        self.commands = self.create_lifecycle_publisher(JointCommand, "joint_command", COMMAND)
        self.status = self.create_lifecycle_publisher(ControllerStatus, "controller/status", STATE)
        self.permission = Permission(self, self.permission_changed)
        # Of whole states the newest is enough; of parts, every driver's.
        heard = STATE if config.several_drivers else COMMAND
        self.keep(
            self.create_subscription(JointState, "joint_states", self._on_joint_state, heard, raw=True),
            self.create_timer(0.05, self._watch, clock=self.steady_clock),
            *(self.commands, self.status, self.permission),
        )

    def keep(self, *made) -> None:
        """Subscriptions, timers, services, publishers, and whatever else has `destroy`: `cleanup` frees them."""
        self._made = [*self._made, *made]

    def activate(self) -> None:
        self.forget()

    def cleanup(self) -> None:
        made, self._made = self._made, ()
        ways = (self.destroy_subscription, self.destroy_timer, self.destroy_service, self.destroy_publisher)
        for entity in made:
            if not any(destroy(entity) for destroy in ways):
                entity.destroy()

    def time_jumped_back(self) -> None:
        if self._made:
            self.start_over()

    # -- the cycle ---------------------------------------------------------------------------------

    def _on_joint_state(self, data: bytes) -> None:
        """A joint state, still serialised: only those that are due are worth reading."""
        arrival = time.perf_counter()
        stamp = peek_stamp(data)
        if not self.is_active:
            return
        if self.beat.is_repeated(stamp, self._sent):
            self.commands.publish(self._sent)  # the plant says again what it has heard no answer to
            return
        parts = self.config.several_drivers
        if not parts and not self.beat.is_due(stamp):
            return
        message = deserialize_message(data, JointState)
        state, refused = self.gate.read(message, np.nan if self.config.lockstep else self.now())
        if parts and (not self.beat.is_due(stamp) if state is not None else not refused):
            return  # it is not time for a cycle, or others have to speak first
        self._refused = refused
        if state is None:
            self.diagnostics.tick("states_refused")
            self.diagnostics.warn(self._refused)
            return
        if self.beat.went_back(stamp):
            self.start_over()
        self._state_time = time.monotonic()
        since, self.position = self.beat.begin(stamp), state.position
        motion = self.respond(state, since)
        if motion is not None and not self.halt_reason:
            self._send(motion, message.header.stamp)
            latency = time.perf_counter() - arrival
            self.cycles += 1
            self.misses += latency > self.config.control_period
            self._cycle_times.append(latency)
        self.attend()
        if stamp - self._told >= STATUS_PERIOD - 1e-6 or stamp < self._told:
            self._told = stamp
            self.tell(message.header.stamp)
            self._tell_status(message.header.stamp)

    def _send(self, motion: Motion, stamp) -> None:
        command = command_of(motion, self.joints, self.get_name())
        command.header.stamp = stamp
        self.commands.publish(command)
        self._sent = command

    def _tell_status(self, stamp) -> None:
        stopped = self.halt_reason
        status = ControllerStatus(
            state=ControllerStatus.STATE_STOPPED if stopped else ControllerStatus.STATE_TRACKING,
            period=self.config.control_period,
            cycles=self.cycles,
            deadline_misses=self.misses,
            solve_time=float(self._cycle_times[-1]) if self._cycle_times else 0.0,
            tracking_error=self.tracking_error(),
            message=stopped or self.doing(),
        )
        status.header.stamp = stamp
        self.status.publish(status)

    def _watch(self) -> None:
        """On the wall clock: why there are no commands, where there are none."""
        self.permission.attend()
        self.watch()
        if not self.is_active:
            return
        silence = time.monotonic() - self._state_time
        why = self.halt_reason
        if not why and not self.config.lockstep and silence > self.config.state_age_limit:
            why = self._refused or f"no joint states for {silence:.2f} s"
        if why:
            self.diagnostics.warn(why)

    def diagnose(self) -> None:
        if not self._made:
            return
        self.diagnostics.set_percentiles("latency", self._cycle_times)
        self.diagnostics.set("cycles", self.cycles)
        self.diagnostics.set("deadline_misses", self.misses)

    def now(self) -> float:
        """The node's clock [s]."""
        return 1e-9 * self.get_clock().now().nanoseconds
