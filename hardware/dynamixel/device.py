"""The servos of one bus as a device: every cycle one reading of all joints and one writing of all goals.

    group = ServoGroup("/dev/ttyUSB0", 1_000_000, joints, rate=200.0, on_sample=print)
    group.start(); group.enable(); group.set_torque(True)
    group.take(PositionStream(...))

A command that comes in goes out before the bus is next busy with replies: at the cycle's beginning, between the parts
of a reading, and once a millisecond in the cycle's rest. A servo that falls silent does not hide the others: after 0.1 s
it leaves the cycle, is looked for twice a second, and comes back with its settings renewed.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from hardware.dynamixel.bus import FAST_FAILURES
from hardware.dynamixel.commands import AT_REST, EffortLoop, Goals, Source, StopLaw
from hardware.dynamixel.cycle import Beat
from hardware.dynamixel.goal_writer import GoalWriter
from hardware.dynamixel.gripper import Gripper
from hardware.dynamixel.health import Health, stand
from hardware.dynamixel.joints import GroupState, Joint, JointArrays, some
from hardware.dynamixel.limits import Limits
from hardware.dynamixel.pace import Pace
from hardware.dynamixel.presence import Presence
from hardware.dynamixel.readout import Readout, parts
from hardware.dynamixel.services import ServoServices
from hardware.dynamixel.servo_setup import (
    goal_to_present,
    hold_in_servo,
    set_torque,
    watchdog,
    watchdog_counts,
)
from hardware.dynamixel.tables import VELOCITY
from hardware.dynamixel.transport import StatusError, Transport
from hardware.dynamixel.transports import transport_named
from hardware.dynamixel.velocity_loop import VelocityLoop
from hardware.link import Device, DeviceError, Disconnected, Identity, NotAnswering, State, WhileOpen
from hardware.link.serial_port import latency_timer

__all__ = ["GroupOptions", "ServoGroup"]

ABSENT_AFTER = 0.1  # [s] without a reply: a servo that restarts is silent for longer
SLICE = 1e-3  # [s] between two looks for commands while a cycle's rest is waited out
VELOCITY_WATCHDOG = 0.06  # [s] at most, of servos that are led by velocities
WATCHDOG_EXPIRED = 255  # register 98 is -1 (e-manual, "Bus Watchdog")
ELSEWHERE = 0.1  # [rad] from where it was seen last: no joint sags so far, it has fallen or been moved
BRAKE_TIME = 0.5  # [s] of stopping before torque goes off
NOTICE_PERIOD = 2.0  # [s] between two notices of one kind


@dataclass(frozen=True)
class GroupOptions:
    """How a group behaves; see the node's parameters of the same names."""

    rate: float = 100.0  # of the bus cycle [Hz]
    error_timeout: float = 0.5  # of silence of all servos before the bus is reopened [s]
    torque_on_activate: bool = False
    on_deactivate: str = "off"  # "off", "hold" (by the servos themselves) or "brake" (to rest, then off)
    stop_state: str = "hold"  # of servos that take effort, without a command
    bus_watchdog: float = 0.1  # [s]; 0: none
    latency: float = 0.02  # allowed beyond the time on the wire [s]
    fast_sync_read: bool = True  # one common reply of several servos, if all of them know how
    transport: str = "refit"  # who speaks on the bus; see transports.TRANSPORTS

    def __post_init__(self) -> None:
        if 0.0 < self.bus_watchdog < 3.0 / self.rate:
            raise DeviceError(
                f"bus_watchdog {1e3 * self.bus_watchdog:g} ms is shorter than three cycles at {self.rate:g} Hz: "
                "raise it, or set it to 0"
            )
        if self.on_deactivate not in ("off", "hold", "brake"):
            raise DeviceError(f"on_deactivate is '{self.on_deactivate}': use off, hold or brake")


class ServoGroup(Device):
    """See the module's docstring.

    Attributes:
        joint_state: GroupState of the newest cycle; it is what `on_sample` is given.
        before_goals: called on the device's thread before goals are computed and between cycles; True if a new
            command came in.
        closed: asked on the device's thread before goals are computed: why nobody may command now, or "". The source in
            force ends with that sentence, as after a silence, and so does a gripper's way.
        bound: of efforts wanted, positions and velocities, (n,) each [N m, rad, rad/s], the time of their measurement and the
            lag, from then until the next goals act [s]: the efforts that may act, (n,); called every time before goals go
            out, with zeros for joints that take none. None: all may.
        notice: called with sentences worth a warning, at most one of a kind every 2 s.
        source: the command source in force, or None.
        gripper: beside the exclusive sources, or None.
        services: table access, reboot, scan.
        beat: of the cycle.

    Args:
        path, baud: of the port.
        joints: in the order of all arrays.
        options: see GroupOptions.
        **link: of Device.
    """

    _bus = WhileOpen[Transport]()

    def __init__(
        self, path: str, baud: int, joints: Sequence[Joint], options: GroupOptions = GroupOptions(), **link: Any
    ) -> None:
        super().__init__(**link)
        self.path, self.baud, self.joints, self.options = path, baud, tuple(joints), options
        self.arrays = JointArrays(joints)
        self.names = tuple(joint.name for joint in joints)
        self.protocol = joints[0].model.protocol
        n = len(joints)
        self.joint_state = GroupState(self.names)
        self.loop = EffortLoop([j.loop_p for j in joints], [j.loop_i for j in joints], [j.loop_d for j in joints])
        self.limits = Limits(joints, self.arrays, self.loop)
        self.stop_law = StopLaw(self.arrays, self.loop, options.stop_state)
        self._pace = Pace(self.arrays, self.limits.max_velocity)
        self.before_goals: Callable[[], bool] = lambda: False
        self.closed: Callable[[], str] = lambda: ""
        self.bound: Callable[[np.ndarray, np.ndarray, np.ndarray, float, float], np.ndarray] | None = None
        self.notice: Callable[[str], None] = lambda sentence: None
        self.source: Source | None = None
        self.gripper: Gripper | None = None
        self.source_ended = ""  # why the last one did
        self.torque_wanted = options.torque_on_activate
        self.torque_on = False
        self.services = ServoServices(self)
        self.beat = Beat(1.0 / options.rate, self.counters)
        self._health = Health(self.joints, self.limits, self.faults, self.warnings)
        self._goals = Goals(n)
        self._lock = threading.RLock()
        self._transport = transport_named(options.transport)
        self._presence = Presence(joints, self.limits, max(ABSENT_AFTER, 3.0 / options.rate))
        self.velocities = VelocityLoop(joints)
        self._watch = self._watchdogs()
        self._stood_still = np.zeros(n, bool)  # its watchdog has expired, and its goal is not yet where it stands
        self._alerted = np.zeros(n, bool)  # as the readings before had it
        self._released = False  # torque has been switched off once, at the first contact
        self._mode_changed = False  # a hold left servos in another operating mode
        self._fast = options.fast_sync_read
        self._last_goals = 0.0
        self._heard = np.zeros(n)  # when each servo was heard last [s]
        self._seen = np.full(n, np.nan)  # and where it was then [rad]
        self._unled_at = np.full(n, -np.inf)  # when it was heard last that had been silent for long [s]
        self._noticed: dict[str, float] = {}

    # ---- connecting ----------------------------------------------------------------------------------
    def _open(self) -> Identity:
        with self._lock:
            self._bus = self._open_bus()
            # Whatever was under way when the last connection ended has gone once the line is quiet.
            self._bus.drain(quiet=0.005, limit=0.5)
            self._presence.forget()
            failures = []
            for k, joint in enumerate(self.joints):
                try:
                    _once_more(partial(self._presence.make_ready, self._bus, k, release=not self._released))
                except (NotAnswering, StatusError) as error:
                    failures.append(f"{joint.name}: {error}")
            if len(failures) == len(self.joints):
                raise NotAnswering(
                    f"expected servos {', '.join(str(j.id) for j in self.joints)} on {self.path} at {self.baud} baud, "
                    f"none did its part ({failures[0]}): check power, cable and baud_rate; ~/scan looks for them"
                )
            self._released, self._mode_changed = True, False
            self._bus.return_delay = 0.0
            self._fast = self.options.fast_sync_read
            self._absent_changed()
            if self._fast:
                # Older firmware knows no fast reads: found out now, before anybody waits for a cycle.
                for _ in range(FAST_FAILURES):
                    self._read()
                self._fast = all(readout.group.how == "fast" for readout in self._readouts)
        timer = latency_timer(self.path)
        stand(
            self.warnings,
            "latency_timer",
            timer is not None and timer > 1,
            f"the adapter's latency timer is {timer} ms, which limits the cycle: set it to 1 ms "
            f"(echo 1 > /sys/bus/usb-serial/devices/<port>/latency_timer)",
        )
        models = sorted({joint.model.name for joint in self.joints})
        firmware = sorted({str(servo.firmware) for servo in self._presence.accepts if servo})
        return Identity(" + ".join(models), "ids " + ",".join(str(j.id) for j in self.joints), " + ".join(firmware))

    def _open_bus(self) -> Transport:
        return self._transport.open(self.path, self.baud, self.protocol, self.counters, self.options.latency)

    def _absent_changed(self) -> None:
        """The cycle asks those who are there."""
        spans: dict[int, list[int]] = {}
        for k in self._presence.which():
            indirect = self.joints[k].model.indirect
            spans.setdefault(indirect.data if indirect else 0, []).append(k)
        self._readouts = [
            Readout(self._bus, self.arrays, self.joints, part, self._fast)
            for which in spans.values()
            for part in parts(which, self._bus, self.beat.period, self._fast)
        ]
        self._writer = GoalWriter(
            self._bus,
            self.joints,
            self.arrays,
            [
                accepts if here else None
                for accepts, here in zip(self._presence.accepts, self._presence.here, strict=True)
            ],
        )
        self._pace.forget()
        self._presence.report(self.faults)

    def _close(self) -> None:
        with self._lock:
            with contextlib.suppress(Disconnected):
                self._bus.close()
            self._bus = None
            self.torque_on = False
            self._end_source(f"disconnected: {self.last_error}" if self.last_error else "closed")

    # ---- enabled -------------------------------------------------------------------------------------
    def _start(self) -> None:
        with self._lock:
            if self._mode_changed:
                for k in self._presence.which():
                    _once_more(partial(self._presence.make_ready, self._bus, k, release=False))
                self._mode_changed = False
                self._absent_changed()
            self.torque_on = False
            if self.torque_wanted:
                if refused := self._torque(True):
                    self._notice("torque", refused)
            self._presence.begin(time.monotonic())
        self.beat.begin()

    def _serve(self) -> None:
        state = self.joint_state
        self.beat.wait()
        with self._lock:
            self._read(between=self._send_waiting)
            now = time.monotonic()
            self._mind_the_absent(now)
            self._health.judge(state, self._presence.here, self.torque_on)
            self._count_alerts(state)
            self._wake_the_watched(state)
            if some(state.valid):
                self._release_what_fell(now)
                self.before_goals()
                self._send_goals(now)
            elif self._presence.quiet_for(now) > self.options.error_timeout:
                raise NotAnswering(f"no servo on {self.path} has answered for {self.options.error_timeout:g} s")
            self.counters.add("cycles")
        if some(state.valid):
            self._sample(state, state.t)
        self._wait_for_commands()

    def _release_what_fell(self, now: float) -> None:
        """What nobody has led for a while, and is elsewhere by now, holds there and does not go back.

        The first answers after a silence may be old: they had waited since before it. So the next ones are looked at, too.
        """
        state = self.joint_state
        unled = state.valid & (now - self._heard > max(self.options.bus_watchdog, ABSENT_AFTER))
        self._unled_at[unled] = now
        lately = state.valid & (now - self._unled_at < ABSENT_AFTER)
        if some(lately):
            self.stop_law.catch(lately & (np.abs(state.q - self._seen) > ELSEWHERE))
        self._heard[state.valid] = now
        np.copyto(self._seen, state.q, where=state.valid)

    def _read(self, between: Callable[[], None] = lambda: None) -> None:
        """All joints' state, in as many exchanges as keep the bus free for goals `between` them."""
        self.joint_state.valid[:] = False
        for readout in self._readouts:
            between()
            readout.read(self.joint_state, retries=1)

    def _send_waiting(self) -> None:
        if self.before_goals():
            with self._lock:
                self._send_goals(time.monotonic())

    def _wait_for_commands(self) -> None:
        """The cycle's rest, in which a command that comes in goes out at once."""
        while self.beat.rest > SLICE:
            time.sleep(SLICE)
            self._send_waiting()

    def _send_goals(self, now: float) -> None:
        """From the newest state and the source in force to goals on the wire."""
        state, goals = self.joint_state, self._goals
        dt, self._last_goals = min(now - self._last_goals, self.beat.period), now
        self.limits.watch_temperature(state)
        if why := self.closed():
            self._end_source(why)
            if self.gripper is not None:
                self.gripper.halt()
        if not self.torque_on:
            return
        goals.clear()
        if self.source is not None and (why := self.source.fill(state, goals)):
            self._end_source(why)
            goals.clear()
        if self.gripper is not None:
            self.gripper.fill(state, goals)
        if some(unwatched := state.watchdog != self._watch):
            goals.clear(unwatched)  # nobody would stop what moves when this process ends
        self.stop_law.fill(state, goals, dt, self.limits.most)
        if said := self.limits.clamp(state, goals):
            self.counters.add("clamped")
            self._notice("limit", said)
        self._bound_efforts(state, goals, now)
        self._pace.hold_back(state, goals, dt)
        self.velocities.drive(state, goals, dt)
        self.loop.observe(goals.effort, dt)
        self._writer.send(state, goals)
        cap = self.limits.most if self.gripper is None else self.gripper.effort_cap(self.limits.most, state)
        self._writer.cap(now, cap, self.limits.factor)

    def _bound_efforts(self, state: GroupState, goals: Goals, now: float) -> None:
        """By the motion of the joints that take efforts; what the others do is no reason to give way."""
        driven = self.arrays.takes_effort & np.isfinite(goals.effort + state.q + state.qd)
        if self.bound is None or not some(driven):
            return
        wanted, q, qd = (np.where(driven, x, 0.0) for x in (goals.effort, state.q, state.qd))
        effort = self.bound(wanted, q, qd, state.t, now - state.t + self.beat.slowest)
        np.copyto(goals.effort, np.clip(effort, -self.limits.most, self.limits.most), where=driven)

    def _mind_the_absent(self, now: float) -> None:
        """Servos leave the cycle and are looked for; those that come back are made ready again."""
        state, presence = self.joint_state, self._presence
        if gone := presence.watch(state, now):
            self.counters.add("servos_lost", gone)
            self._absent_changed()
        if not presence.look_is_due(state, now):
            return
        state.restarted[:] = False
        back = presence.look(self._bus)
        for k in back:
            try:
                if presence.torque_due[k]:
                    _once_more(partial(set_torque, self._bus, self.joints[k], self.torque_on))
                    presence.torque_due[k] = False
            except NotAnswering:
                presence.here[k] = False  # not back after all: looked for again, its torque still due
            except Disconnected:
                raise
            except DeviceError as error:
                presence.torque_due[k] = False
                self._notice("torque", str(error))
        if back:
            self._absent_changed()

    def _count_alerts(self, state: GroupState) -> None:
        """Alert bits of replies, each once while it stands; what it warns of, register 70 says (see Health)."""
        if some(risen := state.alert & ~self._alerted):
            self.counters.add("alerts", int(risen.sum()))
        np.copyto(self._alerted, state.alert)

    def _watchdogs(self) -> np.ndarray:
        """Register values of the servos' bus watchdogs, shape (n,); 0: none.

        What is led by velocities goes on until the watchdog bites, and takes up to 60 ms to stop then.
        """
        options, shortest = self.options, max(VELOCITY_WATCHDOG, 3.0 / self.options.rate)
        counts = np.full(len(self.joints), watchdog_counts(options.bus_watchdog))
        counts[self.velocities.which] = watchdog_counts(min(options.bus_watchdog, shortest))
        has_one = [self.protocol == 2.0 and "bus_watchdog" in joint.model.items for joint in self.joints]
        return np.where(has_one, counts, 0)

    def _set_watchdog(self, k: int, counts: int) -> None:
        """What the servo has confirmed is known before the cycle reads it."""
        watchdog(self._bus, self.joints[k], counts)
        self.joint_state.watchdog[k] = counts

    def _wake_the_watched(self, state: GroupState) -> None:
        """Every servo's watchdog runs while the cycle does; the cycle reads it, and arms what is not armed.

        Servos whose watchdog expired, because this process or the bus stood still, stand still and refuse goals. The
        cycle runs again, so their goals are put where they are now; whose command is too old by then ends as after any
        silence.
        """
        unarmed = state.valid & (state.watchdog != self._watch)
        if not some(unarmed):
            return
        expired = np.flatnonzero(unarmed & (state.watchdog == WATCHDOG_EXPIRED))
        if len(expired):
            self._stood_still[expired] = True
            self.velocities.reset(expired)
            self.counters.add("watchdog_stops", len(expired))
            self._notice(
                "watchdog",
                f"{', '.join(self.names[k] for k in expired)} stood still: no word for "
                f"{20 * int(self._watch[expired].min())} ms (busy machine?); going on from where they are",
            )
            self._stand()
        for k in np.flatnonzero(unarmed).tolist():
            try:
                self._go_on(k)
            except (NotAnswering, StatusError) as error:  # the next cycle sees it once more
                self._notice("unwatched", f"{self.names[k]} holds until it confirms its watchdog: {error}")

    def _go_on(self, k: int) -> None:
        """Watched over from now on; a servo that stood still goes on from where it is."""
        if self._stood_still[k]:
            self._set_watchdog(k, 0)  # one that has expired refuses goals
            if self.torque_on:
                goal_to_present(self._bus, self.joints[k], self._presence.accepted(k))
            self._stood_still[k] = False
        self._set_watchdog(k, int(self._watch[k]))

    # ---- not enabled ---------------------------------------------------------------------------------
    def _idle(self) -> None:
        with self._lock:
            self._bus.receive(0.0)  # notices that the port has gone
        time.sleep(0.02)

    def _stop(self) -> None:
        """The declared stop: hold, brake or off; then nothing is commanded, and each servo has confirmed it."""
        with self._lock:
            self._end_source("stopped")
            if self.gripper is not None:
                self.gripper.reset()
            if self.torque_on and self.options.on_deactivate == "brake":
                self._brake()
            failures = []
            for k in self._presence.which():
                joint = self.joints[k]
                try:
                    watchdog(self._bus, joint, 0)
                    self._leave(k)
                except (NotAnswering, StatusError):
                    try:
                        self._leave(k)  # once more: noise on the line must not leave a servo behind
                    except DeviceError as error:
                        failures.append(str(error))
            self.torque_on = False
            if failures:
                self.faults["stop"] = f"the safe stop is not confirmed: {'; '.join(failures)}"
            else:
                self.faults.pop("stop", None)

    def _leave(self, k: int) -> None:
        joint = self.joints[k]
        if self.torque_on and self.options.on_deactivate == "hold":
            if self.arrays.takes_effort[k] or joint.mode == VELOCITY:
                hold_in_servo(self._bus, joint)
                self._mode_changed = True
            else:
                goal_to_present(self._bus, joint, self._presence.accepted(k))
        else:
            set_torque(self._bus, joint, False)

    def _brake(self) -> None:
        """Bring all joints to rest before torque goes."""
        law, self.stop_law = self.stop_law, StopLaw(self.arrays, self.loop, "damped")
        end = time.monotonic() + BRAKE_TIME
        state = self.joint_state
        with contextlib.suppress(NotAnswering):
            while time.monotonic() < end:
                self._read()
                self._send_goals(time.monotonic())
                if state.valid.any() and np.abs(state.qd[state.valid]).max() < AT_REST:
                    break
                time.sleep(self.beat.period)
        self.stop_law = law

    # ---- commands, from any thread -------------------------------------------------------------------
    def take(self, source: Source) -> str:
        """Give the servos to a source; a sentence why not, else ""."""
        now = time.monotonic()
        with self._lock:
            if self.source is source:
                return ""
            if not self.torque_on:
                return "torque is off: switch it on with ~/set_dxl_torque"
            if self.source is not None and self.source.name != source.name and self.source.busy(now):
                return f"{self.source.name} commands the servos: one source at a time"
            self.stop_law.release()
            self.source, self.source_ended = source, ""
        return ""

    def drop(self, source: Source, why: str) -> None:
        """A source ends by itself; the joints stop where they are."""
        with self._lock:
            if self.source is source:
                self._end_source(why)

    def _end_source(self, why: str) -> None:
        if self.source is not None:
            self.source, self.source_ended = None, why
            self._stand()

    def _stand(self) -> None:
        """Stop where the joints are, not at the last goals."""
        self.stop_law.release()
        self._pace.forget()

    # ---- torque and the bus, from any thread ---------------------------------------------------------
    @contextlib.contextmanager
    def bus(self) -> Iterator[Transport]:
        """The bus, to oneself. Raises Disconnected."""
        with self._lock:
            bus = ServoGroup._bus.of(self)
            if bus is None:
                raise Disconnected(f"{self.path} is not connected: {self.last_error or 'no servo has answered yet'}")
            yield bus

    def set_torque(self, on: bool) -> None:
        """Of all servos, confirmed by read-back; kept over reconnections.

        Raises:
            DeviceError: not connected, or a servo keeps its old state.
        """
        self.torque_wanted = on
        with self.bus():
            if refused := self._torque(on):
                raise DeviceError(refused)

    def _torque(self, on: bool) -> str:
        """Of all that are there; a sentence about those that refuse."""
        self._end_source("torque switched " + ("on" if on else "off"))
        self._stand()
        self.loop.reset()
        self.velocities.reset()
        if self.gripper is not None:
            self.gripper.reset()
        refused = []
        for k in self._presence.which():
            try:
                _once_more(partial(self._switch, k, on))
            except (Disconnected, NotAnswering):
                raise
            except DeviceError as error:
                refused.append(str(error))
        self._presence.torque_due = ~self._presence.here  # those who are not there follow when they come
        self.torque_on = on
        return "; ".join(refused)

    def _switch(self, k: int, on: bool) -> None:
        self._set_watchdog(k, 0)  # one that has expired refuses goals
        if on:
            goal_to_present(self._bus, self.joints[k], self._presence.accepted(k))
        set_torque(self._bus, self.joints[k], on)

    @contextlib.contextmanager
    def idle_bus(self) -> Iterator[Transport]:
        """A bus on the port, whether or not anybody answers on it; its rate may be changed.

        Raises:
            DeviceError: streaming, or the port cannot be opened.
        """
        with self._lock:
            # An attempt to connect that is under way or has just failed has no cycle.
            if self._enabled and self.state in (State.READY, State.STREAMING, State.STALE):
                raise DeviceError("a scan would stop the bus cycle: deactivate first")
            own = ServoGroup._bus.of(self)
            bus = own or self._open_bus()
            try:
                yield bus
            finally:
                bus.set_baud(self.baud) if bus is own else bus.close()

    def present(self, k: int) -> bool:
        """Whether joint k's servo is connected and takes part in the cycle."""
        return ServoGroup._bus.of(self) is not None and bool(self._presence.here[k])

    def expect_back(self, which: Sequence[int]) -> None:
        """Servos of these joints restart: they leave the cycle until they answer again."""
        with self._lock:
            self._presence.dismiss(which)
            self.joint_state.hardware_error[list(which)] = 0
            if which:
                self._absent_changed()

    def _notice(self, kind: str, sentence: str) -> None:
        now = time.monotonic()
        if now - self._noticed.get(kind, -np.inf) > NOTICE_PERIOD:
            self._noticed[kind] = now
            self.notice(sentence)


def _once_more(action: Callable[[], None]) -> None:
    """One lost reply makes no servo absent. Raises what the action does."""
    try:
        action()
    except NotAnswering:
        action()
