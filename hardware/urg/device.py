"""A URG-04LX that measures without end: handshake, stream, clock, and what to do when it falters.

    urg = UrgDevice(UrgSettings(port="/dev/ttyACM0"), on_sample=lambda scan, t: print(scan.ranges.min()))
    urg.start(); urg.enable(); ...; urg.close()

Source: Hokuyo, Communication Protocol Specification for SCIP 2.0, C-42-03320B.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardware.link import Device, DeviceClock, DeviceError, Disconnected, Identity, NotAnswering, SerialPort, WhileOpen
from hardware.urg.protocol import (
    BIT_RATES,
    TIMER_PERIOD,
    BadReply,
    Geometry,
    Reply,
    ReplyStream,
    Window,
    describe,
    ranges,
    reply_size,
    request,
)
from hardware.urg.tcp_port import TcpPort

__all__ = ["Refused", "Scan", "UrgDevice", "UrgSettings"]

QUIET = 0.25  # [s] without a byte after which no reply is coming
LATE = 2.0  # [s] a scan's timer may be behind the last one's and be a late scan rather than a restart,
LATE_SCANS = 3  # as long as no more than this follow each other
CALIBRATION_SCANS = 10
RATE_CHANGE = 0.02  # [s] between a reply at the old bit rate and the sensor's readiness at the new one
WIDTHS = {"auto": (3, 2), "3": (3,), "2": (2,)}


class Refused(DeviceError):
    """What was asked for cannot work with this device; only other settings help."""


@dataclass(frozen=True)
class UrgSettings:
    """What to connect to and what to measure.

    port, baud: of a serial connection; baud is what the sensor is set to, whatever it has now. USB ignores it.
    ip_address, ip_port: SCIP over TCP instead, if the address is not empty.
    angle_min, angle_max: of the scan, clipped to what the sensor sees [rad].
    skip: turns left out after each measured one; cluster: steps per point.
    encoding: characters per point, "3", "2" (saturates at 4.095 m) or "auto": 3 if the line is fast enough.
    calibrate_time: measure how long a scan takes from step 0 to its arrival, rather than compute it.
    synchronize_time: match the clocks (TM) before the first scan, rather than from the scans' arrivals alone.
    error_limit: more errors than this within error_reset_period [s] lead to a reconnection.
    """

    port: str = "/dev/ttyACM0"
    baud: int = 115_200
    ip_address: str = ""
    ip_port: int = 10_940
    angle_min: float = -3.14
    angle_max: float = 3.14
    skip: int = 0
    cluster: int = 1
    encoding: str = "auto"
    calibrate_time: bool = False
    synchronize_time: bool = False
    error_limit: int = 4
    error_reset_period: float = 5.0


@dataclass(frozen=True)
class Scan:
    """One turn.

    Attributes:
        distances: as sent, error codes included, shape (count,) [mm].
        ranges: by REP 117: error code NaN, too near -inf, too far +inf, shape (count,), float32 [m].
        window, geometry: which steps these are, and what a step is.
        timer: the device's clock at step 0 [ms].
        arrival: host time at which the last byte was read [s].
    """

    distances: np.ndarray
    ranges: np.ndarray
    window: Window
    geometry: Geometry
    timer: int
    arrival: float


class UrgDevice(Device):
    """See the module's docstring; `on_sample(scan, t)` gets each Scan with the host time of its first ray.

    Attributes:
        geometry, window: of the device that answered last.
        clock: between the device's timer and the host.
        usb: whether the line's rate means nothing.
        lit: whether the laser is on as far as the device has said.
        refusal: why the settings cannot work; "" if they can.
    """

    _port = WhileOpen[SerialPort | TcpPort]()

    def __init__(self, settings: UrgSettings | None = None, **options: Any) -> None:
        super().__init__(**{"stale_timeout": 0.3, **options})
        self.settings = settings or UrgSettings()
        self.geometry: Geometry | None = None
        self.window: Window | None = None
        self.clock = DeviceClock(wrap=TIMER_PERIOD)
        self.usb = False
        self.lit = False
        self.refusal = ""
        self._laser_wanted = True
        self._replies = ReplyStream()
        self._damage = (0, 0)
        self._errors: deque[float] = deque()
        self._heard = 0.0  # when a scan, or a sign of life in its place, came last
        self._resume = 0.0  # not before this time is measuring tried again
        self._last_timer: int | None = None
        self._late = 0
        self._latency = 0.0  # from step 0 to the arrival of the last byte [s]
        self._calibration: list[float] | None = None

    @property
    def sample_age(self) -> float:
        """Time since a scan arrived [s]; 0 while none is wanted, or the sensor checks itself."""
        return super().sample_age if self._laser_wanted and "checking" not in self.warnings else 0.0

    def laser(self, on: bool, timeout: float = 2.0) -> bool:
        """Switch the laser, and with it the scans; True once the device has confirmed it. From any thread.

        While the device is not enabled the laser is off; `on` then takes effect when it is.
        """
        self._laser_wanted = on
        return self.wait_for(lambda: self.lit is (on and self._enabled), timeout)

    # -- connection --------------------------------------------------------------------------------
    def _open(self) -> Identity:
        settings = self.settings
        self._port = (
            TcpPort(settings.ip_address, settings.ip_port)
            if settings.ip_address
            else SerialPort(settings.port, settings.baud)
        )
        self._replies.clear()
        self._errors.clear()
        self.lit = False
        self._find()
        try:
            version, parameters = self._ask("VV").info or {}, self._ask("PP").info or {}
            geometry = self.geometry = Geometry.from_info(parameters)
            self._ask("II")
        except BadReply as error:
            raise DeviceError(f"{self._port.path} is no URG: {error}") from error
        self.usb = bool(settings.ip_address) or self._ignores_rate()
        try:
            self.window = self._fitting(geometry)
        except Refused as refused:
            self.refusal = str(refused)
            raise
        self.refusal = ""
        self._forget_time()
        return Identity(geometry.model.partition("(")[0], version.get("SERI", ""), version.get("FIRM", ""))

    def _find(self) -> None:
        """Find the sensor at whatever rate, in SCIP 2.0, with nothing going on, at the wanted rate.

        Raises:
            NotAnswering: no answer at any rate.
        """
        wanted = self.settings.baud
        rates = [wanted] if self.settings.ip_address else [wanted, *(rate for rate in BIT_RATES if rate != wanted)]
        for rate in rates:
            self._port.set_baud(rate)
            if self._attention():
                break
        else:
            raise NotAnswering(
                f"no URG answers on {self._port.path}"
                + ("" if self.settings.ip_address else f" at {', '.join(map(str, rates))} baud")
                + ": check power and cable"
            )
        if rate != wanted:
            reply = self._ask("SS", f"{wanted:06}")
            if reply.status not in ("00", "03"):
                raise Refused(
                    f"The URG cannot be set to {wanted} baud ({describe('SS', reply.status)}); "
                    f"set serial_baud to one of {', '.join(map(str, BIT_RATES))}."
                )
            time.sleep(RATE_CHANGE)
            self._port.set_baud(wanted)
            if not self._attention():
                raise NotAnswering(f"the URG on {self._port.path} fell silent after the change to {wanted} baud")

    def _attention(self) -> bool:
        """Whether the sensor now listens in SCIP 2.0, laser off: through SCIP 1.1 and adjust mode if need be."""
        silent = 0
        for _ in range(6):
            self._port.write(request("QT"))
            reply = self._reply(request("QT"))
            if reply is None:
                silent += 1  # the first may have ended a line of garbage in the sensor's buffer
                if silent == 2:
                    return False
            elif reply.status == "00":
                return True
            elif reply.status == "E":
                self._port.write(request("SCIP2.0"))
                self._reply(request("SCIP2.0"))
            elif reply.status == "0E":
                self._port.write(request("TM", "2"))
                self._reply(request("TM", "2"))
            elif reply.status == "0I":
                raise DeviceError("The URG is in firmware update mode; send RS or switch it off and on.")
        return False

    def _ignores_rate(self) -> bool:
        """Whether the line is USB: then the sensor answers at a rate that it does not have."""
        if os.path.basename(os.path.realpath(self.settings.port)).startswith("ttyACM"):
            return True
        rate = self._port.baud
        self._port.set_baud(19_200 if rate != 19_200 else 57_600)
        self._port.write(request("QT"))
        answered = self._reply(request("QT")) is not None
        self._port.set_baud(rate)
        if not answered and not self._attention():
            raise NotAnswering(f"the URG on {self._port.path} stopped answering")
        return answered

    def _fitting(self, geometry: Geometry) -> Window:
        """The window asked for, in the first allowed encoding that the line is fast enough for.

        Raises:
            Refused: there is none; the text says what would fit.
        """
        s = self.settings
        try:
            first, last = geometry.steps(s.angle_min, s.angle_max)
        except ValueError as error:
            raise Refused(str(error)) from error
        windows = [Window(first, last, s.cluster, s.skip, width) for width in WIDTHS[s.encoding]]
        if self.usb:
            return windows[0]
        for window in windows:
            if bits_per_second(window, geometry) <= self._port.baud:
                return window
        need = bits_per_second(windows[-1], geometry)
        skip = next((k for k in range(s.skip + 1, 10) if need * (s.skip + 1) / (k + 1) <= self._port.baud), None)
        rate = next((rate for rate in BIT_RATES if rate >= need), None)
        remedies = [f"serial_baud {rate}"] * (rate is not None) + [f"skip {skip}"] * (skip is not None)
        raise Refused(
            f"{windows[-1].count} points every {geometry.period * (s.skip + 1):g} s need {need / 1e3:.1f} kbit/s, "
            f"but {self._port.path} has {self._port.baud / 1e3:g}; set {' or '.join(remedies)}, a larger cluster or "
            "fewer angles."
        )

    @property
    def _scanner(self) -> Geometry:
        """Of the device that is open."""
        assert self.geometry is not None, "`_open` has asked for it"
        return self.geometry

    @property
    def _wanted(self) -> Window:
        """Of the device that is open."""
        assert self.window is not None, "`_open` has found one that fits"
        return self.window

    def _close(self) -> None:
        self.lit = False
        with contextlib.suppress(Disconnected):
            self._port.close()
        self._port = None

    # -- requests ----------------------------------------------------------------------------------
    def _reply(self, line: bytes, quiet: float = QUIET, limit: float = 3.0) -> Reply | None:
        """The reply to a request that was sent; None if the line is quiet, or it does not come within `limit` [s]."""
        end = time.monotonic() + limit
        while time.monotonic() < end:
            data = self._port.read(timeout=quiet)
            if not data:
                return None
            for reply in self._replies.feed(data):
                if reply.answers(line):
                    return reply
        return None

    def _ask(self, command: str, parameters: str = "") -> Reply:
        """The reply to a request, which is repeated if its reply is lost.

        Raises:
            NotAnswering: three times none.
            DeviceError: not possible now, in the words of section 9.
        """
        line = request(command, parameters)
        for _ in range(3):
            self._port.write(line)
            reply = self._reply(line)
            if reply is None:
                self.counters.add("timeouts")
                continue
            if reply.status[0] == "0" and reply.status[1] in "ACDEFGHI" or reply.status == "E":
                raise DeviceError(f"{command} was refused: {describe(command, reply.status)} ({reply.status})")
            return reply
        raise NotAnswering(f"the URG on {self._port.path} does not answer {command}: check power and cable")

    # -- measuring ---------------------------------------------------------------------------------
    def _start(self) -> None:
        self._heard, self._resume = time.monotonic(), 0.0
        if self._laser_wanted:
            self._measure()

    def _measure(self) -> None:
        """Laser on, scans without end."""
        if self._last_timer is None and (self.settings.calibrate_time or self.settings.synchronize_time):
            self._match_clocks()
        reply = self._ask("BM")
        if reply.status not in ("00", "02"):
            self._trouble("BM", reply.status)
            return
        line = self._wanted.stream()
        reply = self._ask(line[:2].decode(), line[2:-1].decode())
        # A request repeated because its reply was lost finds the sensor measuring already: 99 or 0B.
        if reply.status not in ("00", "99", "0B"):
            self._trouble(reply.command, reply.status)
            return
        self._heard, self.lit = time.monotonic(), True

    def _serve(self) -> None:
        data = self._port.read(timeout=0.05)
        now = time.monotonic()
        for reply in self._replies.feed(data):
            self._take(reply, now)
        self._count_damage()
        if self._laser_wanted is not self.lit and now >= self._resume:
            if self._laser_wanted:
                self.rate.clear()
                self._measure()
            else:
                self._stop()
        elif self.lit and now - self._heard > self._patience:
            self._silent()

    @property
    def _patience(self) -> float:
        """How long no scan is no error [s]."""
        return (
            self.settings.error_reset_period
            if "checking" in self.warnings
            else max(self.stale_timeout, 3.0 * self._scanner.period * (1 + self.settings.skip))
        )

    def _idle(self) -> None:
        self._port.read(timeout=0.05)  # notices that the port is gone

    def _stop(self) -> None:
        """Laser off, as the sensor itself says."""
        reply = self._ask("QT")
        lasers = (self._ask("II").info or {}).get("LASR", "")
        if reply.status != "00" or lasers != "OFF":
            raise DeviceError(
                f"The URG did not switch its laser off (QT: {describe('QT', reply.status)}, LASR: {lasers}); "
                "cut its power."
            )
        self.lit = False
        self.warnings.pop("checking", None)

    def _take(self, reply: Reply, now: float) -> None:
        """One reply of the stream."""
        if reply.command not in ("MD", "MS") or not reply.answers(self._wanted.stream()):
            return
        if reply.distances is not None and reply.time is not None:
            self._take_scan(reply.time, reply.distances, now)
        elif reply.status == "98":
            self.warnings.pop("checking", None)
            self._heard = now
        elif reply.status.isdigit() and 21 <= int(reply.status) <= 49:
            self.warnings["checking"] = f"{describe('MD', reply.status)} ({reply.status})"
            self._heard = now
        elif reply.status != "00":
            self._trouble(reply.command, reply.status)

    def _take_scan(self, timer: int, distances: np.ndarray, now: float) -> None:
        if self._last_timer is not None:
            ahead = (timer - self._last_timer) % 2**24
            if ahead == 0 or ahead > 2**24 - 1000 * LATE and self._late < LATE_SCANS:  # sent twice, or overtaken
                self._late += ahead > 0
                self.counters.add("dropped")
                return
            if ahead > 2**24 - 1000 * LATE:
                self.clock.reset()
        self._late = 0
        self._last_timer = timer
        self._heard = now
        self.faults.pop("hardware", None)
        self.warnings.pop("checking", None)
        geometry, window = self._scanner, self._wanted
        step_0 = self._to_host(1e-3 * timer, now)
        scan = Scan(distances, ranges(distances, geometry, window.width), window, geometry, timer, now)
        self._sample(scan, step_0 + geometry.period * window.first / geometry.steps_per_turn)

    def _count_damage(self) -> None:
        bad_sums, resyncs = self._replies.bad_sums, self._replies.resyncs
        if (bad_sums, resyncs) != self._damage:
            self.counters.add("crc_errors", bad_sums - self._damage[0])
            self.counters.add("resyncs", resyncs - self._damage[1])
            self._damage = (bad_sums, resyncs)

    # -- trouble -----------------------------------------------------------------------------------
    def _silent(self) -> None:
        """No valid scan for too long: has the sensor been restarted, has it lost the request, is it there at all?"""
        self.counters.add("timeouts")
        self.warnings.pop("checking", None)
        self._error(f"no valid scan for {time.monotonic() - self._heard:.2f} s")
        self._heard = time.monotonic()
        self._port.write(request("QT"))
        reply = self._reply(request("QT"), limit=0.5)
        if reply is None:
            raise NotAnswering(f"the URG on {self._port.path} fell silent: check power and cable")
        if reply.status != "00":
            raise DeviceError(f"the URG has been restarted: {describe('QT', reply.status)}")
        self.lit = False

    def _trouble(self, command: str, status: str) -> None:
        """Hardware trouble, or a request that the sensor refuses: reset it and try again."""
        self.faults["hardware"] = f"{command}: {describe(command, status)} ({status})"
        self.counters.last_error = self.faults["hardware"]
        self._error(self.faults["hardware"])
        self._ask("RS")
        time.sleep(RATE_CHANGE)  # RS sets the bit rate back, too
        self._forget_time()
        self._find()
        self.lit = False
        self._resume = time.monotonic() + 0.2

    def _error(self, sentence: str) -> None:
        """Count one.

        Raises:
            DeviceError: that was one too many.
        """
        now, period = time.monotonic(), self.settings.error_reset_period
        self._errors.append(now)
        while self._errors[0] < now - period:
            self._errors.popleft()
        if len(self._errors) > self.settings.error_limit:
            raise DeviceError(f"{sentence}; {len(self._errors)} errors within {period:g} s")

    # -- time --------------------------------------------------------------------------------------
    def _forget_time(self) -> None:
        """The sensor's timer may have started anew."""
        self.clock.reset()
        self._last_timer = None
        self._calibration = None
        geometry, window = self._scanner, self._wanted
        wire = 0.0 if self.usb else self._port.transmission_time(reply_size(window))
        # The scan is sent when its last step has been measured.
        self._latency = geometry.period * window.last / geometry.steps_per_turn + wire

    def _match_clocks(self, n: int = 10) -> None:
        """Adjust mode: what the timer says between a request and its reply (section 8.6).

        The timer is cut to milliseconds, so the smallest difference among `n` is the truest, as with scans.
        """
        self._ask("TM", "0")
        offsets = []
        wire: Callable[[int], float] = (lambda size: 0.0) if self.usb else self._port.transmission_time
        for _ in range(n):
            sent = time.monotonic()
            reply = self._ask("TM", "1")
            received = time.monotonic()
            if reply.time is None:
                raise DeviceError(f"TM1 was refused: {describe('TM', reply.status)} ({reply.status})")
            middle = 0.5 * (sent + wire(len("TM1\n")) + received - wire(len("TM1\n00P\nTTTTs\n\n")))
            offsets.append((received - sent, middle - 1e-3 * reply.time, 1e-3 * reply.time))
        self._ask("TM", "2")
        shortest = min(offsets)[0]
        offset = min(o for took, o, _ in offsets if took <= shortest + 1e-3)
        self.clock.reset()
        for _, _, timer in offsets:
            self.clock.to_host(timer, timer + offset)
        if self.settings.calibrate_time:
            self._calibration = []

    def _to_host(self, timer: float, arrival: float) -> float:
        """Host time of a scan's timer [s]."""
        known = self.clock.offset
        if self._calibration is not None and known is not None:
            # The clocks are known: what is left is how long the scan took.
            self._calibration.append(arrival - (timer + known))
            if len(self._calibration) < CALIBRATION_SCANS:
                return self.clock.to_host(timer, timer + known)
            self._latency, self._calibration = min(self._calibration), None
        host = self.clock.to_host(timer, arrival - self._latency)
        if host > arrival:  # not possible: the timer has jumped ahead
            self.clock.reset()
            host = self.clock.to_host(timer, arrival - self._latency)
        return host


def bits_per_second(window: Window, geometry: Geometry) -> float:
    """What the scans of a window take of a serial line, start and stop bits included."""
    return 10.0 * reply_size(window) / (geometry.period * (window.skip + 1))
