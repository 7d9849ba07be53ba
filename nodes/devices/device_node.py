"""What every node around a device shares: lifecycle to link, stamps, health at 1 Hz and at once when it changes.

    class Thermometer(DeviceNode):
        Config = ThermometerConfig                  # a DeviceConfig

        def make_device(self):
            self._readings = self.publisher(Temperature, "~/temperature", SENSOR)
            return ThermometerDevice(self.config.port_name, **self.link_options())

        def on_sample(self, celsius, t):            # on the device's thread
            self._readings.publish(Temperature(header=Header(stamp=self.stamp(t)), temperature=celsius))

configure opens the port, activate streams, deactivate is the device's safe stop, cleanup frees the port.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass

from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticStatus

from hardware.link import Backoff, Device, State
from nodes.framework.config import setting
from nodes.framework.lifecycle import RefitNode

__all__ = ["DeviceConfig", "DeviceNode"]

OK, WARN, ERROR, STALE = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR, DiagnosticStatus.STALE

CLOCKS_APART = 1e-4  # [s] between two looks at clocks that count as one moment
LOOK_PERIOD = 0.05  # [s] between two looks at the device's health
ERROR_WINDOW = 5.0  # [s] in which a counted error still means WARN
#: counters of what went wrong on the way, whichever of them a link has; growth means WARN
TROUBLES = ("crc_errors", "resyncs", "dropped", "timeouts", "late", "duplicates", "repeated", "malformed")
SETTLED = 2.0  # [s] of streaming before a rate is judged
FIRST_CONTACT = 5.0  # [s] for a device to answer where it is not waited for


@dataclass(frozen=True)
class DeviceConfig:
    """Parameters of every device node."""

    wait_for_device: bool = setting(
        True, description="a missing device does not fail configuration, it is waited for", read_only=True
    )
    reconnect_initial: float = setting(
        0.25,
        "s",
        (0.01, 60.0),
        "first delay before an attempt to reconnect",
        name="reconnect.initial_s",
        read_only=True,
    )
    reconnect_max: float = setting(5.0, "s", (0.01, 600.0), "longest delay", name="reconnect.max_s", read_only=True)
    reconnect_attempts: int = setting(
        0, "", (0, 1_000_000), "attempts before giving up; 0: forever", name="reconnect.max_attempts", read_only=True
    )
    stale_timeout: float = setting(
        0.0,
        "s",
        (0.0, 60.0),
        "silence after which data count as missing; 0: three periods, at least 0.05 s",
        read_only=True,
    )
    allow_replacement: bool = setting(
        False, description="accept another model or serial number after a reconnection", read_only=True
    )
    time_offset: float = setting(0.0, "s", (-1.0, 1.0), "added to every stamp", read_only=True)


class DeviceNode(RefitNode):
    """See the module's docstring."""

    Config = DeviceConfig
    rate_tolerance = 0.05  # relative; a rate further off means WARN
    error_window = ERROR_WINDOW
    device: Device | None = None
    _entities: tuple = ()
    _level = None
    _said: bytes | None = None  # the level that was logged last
    _state: State | None = None
    _standing: set[str] = set()  # names of the faults and warnings at the last look
    _ros_offset: int | None = None  # of ROS time to host time [ns], when both were last seen at one moment

    # -- of the node -------------------------------------------------------------------------------
    def make_device(self) -> Device:
        """The device, not yet started; publishers and services are made here too."""
        raise NotImplementedError

    def on_sample(self, sample, t: float) -> None:
        """A valid sample, measured at host time t; on the device's thread."""

    @property
    def expected_rate(self) -> float:
        """Samples per second while all is well [Hz]; 0: not judged."""
        return 0.0

    def diagnose_device(self) -> None:
        """State further diagnostics with `self.diagnostics.set`."""

    def judge(self) -> tuple[bytes, str] | None:
        """A condition of the node's own that sets the level: (level, sentence), or None."""
        return None

    # -- for the node ------------------------------------------------------------------------------
    def link_options(self) -> dict:
        """Keywords of every Device, from the configuration."""
        c = self.config
        period = 1.0 / self.expected_rate if self.expected_rate else 0.0
        return dict(
            on_sample=self._on_device_sample,
            backoff=Backoff(c.reconnect_initial, cap=c.reconnect_max, max_attempts=c.reconnect_attempts),
            stale_timeout=c.stale_timeout or max(3.0 * period, 0.05),
            allow_replacement=c.allow_replacement,
        )

    def stamp(self, t: float) -> Time:
        """ROS time of host time t (time.monotonic) [s]."""
        for _ in range(3):
            before, now, after = time.monotonic(), self.get_clock().now().nanoseconds, time.monotonic()
            at_once = after - before < CLOCKS_APART
            if at_once or self._ros_offset is None:
                self._ros_offset = now - round(0.5e9 * (before + after))
            if at_once:  # a thread that is held up between its looks at the two clocks would shift the stamp
                break
        ns = self._ros_offset + round(1e9 * (t + self.config.time_offset))
        return Time(sec=ns // 1_000_000_000, nanosec=ns % 1_000_000_000)

    def publisher(self, kind, topic: str, qos):
        """A publisher that cleanup destroys."""
        return self._keep(self.create_publisher(kind, topic, qos))

    def subscription(self, kind, topic: str, callback, qos, **kwargs):
        """A subscription that cleanup destroys."""
        return self._keep(self.create_subscription(kind, topic, callback, qos, **kwargs))

    def service(self, kind, name: str, callback, **kwargs):
        """A service that cleanup destroys."""
        return self._keep(self.create_service(kind, name, callback, **kwargs))

    def _keep(self, entity):
        self._entities = (*self._entities, entity)
        return entity

    # -- lifecycle ---------------------------------------------------------------------------------
    def configure(self) -> None:
        self._looking = threading.RLock()
        self.device = self.make_device()
        self.device.on_state = self._look  # on the device's thread: a loss is told at once, not at the next look
        self._totals: deque[tuple[float, dict[str, int]]] = deque()
        self._watch = self.create_timer(LOOK_PERIOD, self._look, clock=self.steady_clock)
        self.device.start()
        if not self.config.wait_for_device and not self.device.wait_for(State.READY, FIRST_CONTACT):
            raise OSError(self.device.last_error or f"no device answered within {FIRST_CONTACT:g} s")

    def activate(self) -> None:
        self._active_since = time.monotonic()
        self.device.enable()

    def stop(self) -> None:
        if self.device is not None and not self.device.disable():
            self.get_logger().error(
                f"{self.get_name()}: the device has not confirmed its safe stop: {self.device.last_error}"
            )

    def cleanup(self) -> None:
        if self.device is not None:
            self.device.close()
        if getattr(self, "_watch", None) is not None:
            self.destroy_timer(self._watch)
        for entity in self._entities:
            for destroy in (self.destroy_publisher, self.destroy_subscription, self.destroy_service):
                if destroy(entity):
                    break
        self.device, self._watch, self._entities, self._level, self._said = None, None, (), None, None

    def _on_device_sample(self, sample, t: float) -> None:
        if self.context.ok():
            self.on_sample(sample, t)

    # -- health ------------------------------------------------------------------------------------
    def _look(self) -> None:
        """Judge the device; say so at once if level or link have changed, or another fault or warning has come. From the
        timer and from the device's thread.
        """
        with self._looking:
            if self.device is None or not self.context.ok():
                return
            level, sentence = self._health()
            self.diagnostics.stand(level, sentence)
            # What goes wrong while something else is wrong already is told at once, too: it may be over at the next beat.
            state, standing = self.device.state, {*self.device.faults, *self.device.warnings}
            come, self._standing = standing - self._standing, standing
            self._log(level, sentence)
            if level != self._level or state is not self._state or come:
                self._level, self._state = level, state
                self.diagnose()
                self.diagnostics.beat(force=True)

    def _log(self, level: bytes, sentence: str) -> None:
        """Say what is wrong when it begins, also of a device that is missing from the start, and when it is over."""
        device = self.device
        if level not in (OK, WARN, ERROR) or (
            device.state not in (State.STREAMING, State.STALE) and not device.last_error
        ):
            return  # inactive, or it was asked and had no time to answer
        if level != self._said and level != OK:
            self.get_logger().warning(f"{self.get_name()}: {sentence}")
        elif level == OK and self._said in (WARN, ERROR):
            self.get_logger().info(f"{self.get_name()}: all is well again")
        self._said = level

    def _health(self) -> tuple[bytes, str]:
        device, now = self.device, time.monotonic()
        recent_errors = self._recent_errors(now)
        if not self.is_active:
            return STALE, f"inactive: {device.state.value}" + (f" ({device.last_error})" if device.last_error else "")
        if device.state is State.STALE:
            reasons = [*device.faults.values(), *device.warnings.values()]
            return ERROR, f"no data for {device.sample_age:.2f} s" + (f": {'; '.join(reasons)}" if reasons else "")
        if device.state is not State.STREAMING:
            return ERROR, f"{device.state.value}: {device.last_error or 'no answer yet'}"
        if device.faults:
            return ERROR, "; ".join(list(device.faults.values()))
        own = self.judge()
        if own is not None and own[0] == ERROR:
            return own
        rate, expected = device.rate.rate(now), self.expected_rate
        settled = now - max(self._active_since, self._streaming_since(now)) > SETTLED
        off = abs(rate / expected - 1.0) if expected and settled else 0.0
        warnings = [*([own[1]] if own is not None and own[0] == WARN else []), *device.warnings.values()]
        if off > 0.20:  # which hides no warning
            return ERROR, "; ".join([f"rate {rate:.4g} Hz, expected {expected:.4g} Hz", *warnings])
        if own is not None and own[0] == OK:
            return own
        if warnings:
            return WARN, "; ".join(warnings)
        if off > self.rate_tolerance:
            return WARN, f"rate {rate:.4g} Hz, expected {expected:.4g} Hz"
        if recent_errors:
            return WARN, f"{sum(recent_errors.values())} errors within {self.error_window:g} s: " + ", ".join(
                f"{n} {name}" for name, n in recent_errors.items()
            )
        return OK, "streaming"

    def _streaming_since(self, now: float) -> float:
        """When the present stretch of streaming was first seen."""
        if self._stream_began is None or self._reconnects_seen != self.device.counters.reconnects:
            self._stream_began, self._reconnects_seen = now, self.device.counters.reconnects
        return self._stream_began

    _stream_began: float | None = None
    _reconnects_seen = -1

    def _recent_errors(self, now: float) -> dict[str, int]:
        """What the link counted of TROUBLES within the window, by counter; those without any are left out."""
        counted = self.device.counters.as_dict()
        totals = {name: counted[name] for name in TROUBLES if name in counted}
        history = self._totals
        if not history or now - history[-1][0] >= 0.5:
            history.append((now, totals))
        while len(history) > 1 and history[0][0] < now - self.error_window:
            history.popleft()
        # Sums of a Net F/T's losses shrink again when the records come late after all.
        return {name: n for name, total in totals.items() if (n := total - history[0][1].get(name, 0)) > 0}

    def diagnose(self) -> None:
        if self.device is not None:
            with self._looking:
                self._diagnose(self.device)

    def _diagnose(self, device: Device) -> None:
        self.diagnostics.hardware_id = device.identity.serial or device.identity.model if device.identity else ""
        say = self.diagnostics.set
        say("state", device.state.value)
        say("rate", device.rate.rate(time.monotonic()))
        for name, total in device.counters.as_dict().items():
            say(name, total)
        say("last_error", device.counters.last_error)
        say("latency_p95_ms", 1e3 * device.counters.latency_percentile(95))
        clock = getattr(device, "clock", None)
        say("clock_offset_ms", 1e3 * clock.offset if clock is not None and clock.offset is not None else 0.0)
        self.diagnose_device()
