"""The link to a Net F/T: configuration over HTTP, records over UDP, many per wake-up."""

from __future__ import annotations

import contextlib
import select
import socket
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from hardware.link import DeviceClock, DeviceError, Disconnected, Identity, NotAnswering, WhileOpen
from hardware.netft.configuration import MOST_RECORDS, Configuration, fetch_configuration, write_settings
from hardware.netft.datagrams import DatagramReader
from hardware.netft.protocol import (
    CONDITION,
    RECORD,
    SATURATION,
    Command,
    SequenceAccount,
    decode_records,
    encode_request,
    error_bits,
    status_names,
)
from hardware.wrench.sensor import WrenchSensor

__all__ = ["NetFtDevice"]

ANSWER_TIMEOUT = 0.05  # [s] without data after which a request is repeated
GIVE_UP = 1.0  # [s] of repeated requests without an answer
GATHER = 0.004  # [s] that records wait for others at rates above GATHER_ABOVE: one wake-up serves them all
GATHER_ABOVE = 1000.0  # [Hz]
CONFIGURATION_PERIOD = 1.0  # [s] between looks at the configuration page: units can change while the stream goes on
WARNING_LASTS = 5.0  # [s]
RECEIVE_BUFFER = 4 << 20  # of the kernel [bytes]: a second at 7 kHz, with what the kernel adds to each datagram


class NetFtDevice(WrenchSensor):
    """A Net F/T on the network.

    Counters beyond the common ones: late, duplicates, malformed (datagrams), restarts (streams that began anew unasked),
    repeated_requests. `dropped` are records that never came.

    Args:
        address: of the sensor.
        rate: records per second [Hz], 1-7000; the sensor rounds up to a whole fraction of its internal rate. None: as it is.
        buffered: ask for several records per datagram; less load, more delay.
        buffer_size: records per datagram then, 1-40.
        udp_port, http_port: of the sensor.
        http_timeout: [s].
        **common: as for `WrenchSensor`.
    """

    configuration = WhileOpen[Configuration]()
    _socket = WhileOpen[socket.socket]()
    _pool = WhileOpen[ThreadPoolExecutor]()

    def __init__(
        self,
        address: str,
        *,
        rate: float | None = None,
        buffered: bool = False,
        buffer_size: int = 10,
        udp_port: int = 49152,
        http_port: int = 80,
        http_timeout: float = 2.0,
        **common: Any,
    ) -> None:
        super().__init__(**common)
        self.address, self.udp_port, self.http_port, self.http_timeout = address, udp_port, http_port, http_timeout
        self.wanted_rate, self.buffered, self.buffer_size = rate, buffered, buffer_size
        for name in ("late", "duplicates", "malformed", "restarts", "repeated_requests"):
            self.counters.add(name, 0)
        self.account = SequenceAccount()
        self.clock = DeviceClock()
        self._reported = (0, 0, 0, 0)
        self._datagrams = DatagramReader(RECORD.itemsize, MOST_RECORDS if buffered else 1)  # longer ones are not ours
        self._look: Future[Configuration] | None = None
        self._warn_until = float("-inf")

    # -- hooks -------------------------------------------------------------------------------------
    def _open(self) -> Identity:
        page = self._configure()
        self.configuration, self.rated = page, page.rated
        self.nominal_rate = page.rdt_rate
        self.clock = DeviceClock(wrap=2.0**32 / page.internal_rate)
        try:
            self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
            self._socket.connect((self.address, self.udp_port))
            self._socket.setblocking(False)
        except OSError as error:
            raise Disconnected(
                f"{self.address} cannot be reached ({error.strerror or error}): check the host's network settings"
            ) from None
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        self._pool = ThreadPoolExecutor(1, "netft configuration")
        return page.identity

    def _start(self) -> None:
        self.warnings.clear()
        self.faults.clear()
        self._arrived = self._looked = time.monotonic()
        self._streamed = False
        self._request_stream()

    def _serve(self) -> None:
        now = time.monotonic()
        self._watch_configuration(now)
        rest = self._watch_silence()
        if not self._poll.poll(1e3 * min(max(rest, 0.001), 0.02)):
            self._repeat_request()
        else:
            if self.nominal_rate > GATHER_ABOVE:
                time.sleep(GATHER)
            records, arrival = self._receive()
            if len(records):
                self._use(records, arrival)
            else:
                self._repeat_request()
        if now > self._warn_until:
            self.warnings.pop("stream", None)

    def _stop(self) -> None:
        """Ask the stream to end, and confirm it by silence."""
        self._not_streaming()
        for _ in range(5):
            self._send(Command.STOP)
            self._drain()
            if not self._poll.poll(1e3 * max(ANSWER_TIMEOUT, 2.0 / self.nominal_rate)):
                return
        raise NotAnswering(
            f"{self.address} goes on streaming after five requests to stop: does another client ask it to?"
        )

    def _close(self) -> None:
        self._not_streaming()
        with contextlib.suppress(Disconnected):
            self._socket.close()
            self._pool.shutdown(wait=False, cancel_futures=True)
        self._pool = self._socket = self._look = None

    # -- from any thread ---------------------------------------------------------------------------
    def reset_latch(self) -> None:
        """Reset the threshold latch (status bit 16).

        Raises:
            DeviceError: not connected.
        """
        self._send(Command.RESET_LATCH)

    def bias_in_device(self) -> None:
        """Have the sensor itself take its present load for zero, for all its clients.

        Raises:
            DeviceError: not connected.
        """
        self._send(Command.SOFTWARE_BIAS)

    # -- configuration -----------------------------------------------------------------------------
    def _configure(self) -> Configuration:
        """The page, after settings that differ from those wanted were written."""
        page = fetch_configuration(self.address, self.http_port, self.http_timeout)
        wanted: dict[str, int] = {}
        if (
            self.wanted_rate is not None
            and abs(page.rdt_rate - _whole_fraction(self.wanted_rate, page.internal_rate)) > 1.0
        ):
            wanted["comrdtrate"] = round(self.wanted_rate)
        if self.buffered and page.buffer_size != self.buffer_size:
            wanted["comrdtbsiz"] = self.buffer_size
        if wanted:
            write_settings(self.address, self.http_port, self.http_timeout, **wanted)
            page = fetch_configuration(self.address, self.http_port, self.http_timeout)
        if self.wanted_rate is not None and page.rdt_rate < 0.99 * self.wanted_rate:
            raise DeviceError(
                f"{self.address} streams at {page.rdt_rate:g} Hz and refuses {self.wanted_rate:g} Hz: ask for less, or set "
                "the RDT rate on its web page"
            )
        return page

    def _watch_configuration(self, now: float) -> None:
        """Look at the page from time to time, on a thread of its own: an answer takes the sensor many samples."""
        if self._look is not None and self._look.done():
            look, self._look = self._look, None
            try:
                page = look.result()
            except DeviceError:  # says nothing: whether the sensor is there, the stream says
                page = self.configuration
            if not page.same_scale(self.configuration):
                raise DeviceError(
                    f"the counts of {self.address} changed from {'/'.join(self.configuration.units)} to "
                    f"{'/'.join(page.units)} while they streamed: wrenches of the last {CONFIGURATION_PERIOD:g} s may be wrong"
                )
        if self._look is None and now - self._looked >= CONFIGURATION_PERIOD:
            self._looked = now
            self._look = self._pool.submit(fetch_configuration, self.address, self.http_port, self.http_timeout)

    # -- stream ------------------------------------------------------------------------------------
    def _request_stream(self) -> None:
        self._requested = time.monotonic()
        self.account.begin()
        self._send(Command.BUFFERED if self.buffered else Command.REAL_TIME)

    def _repeat_request(self) -> None:
        """Ask again if the answer is overdue: the request was lost, or another client's request took the stream."""
        now = time.monotonic()
        overdue = max(ANSWER_TIMEOUT, 3.0 * self._datagram_period)
        if now - max(self._arrived, self._requested) < overdue:
            return
        if now - self._arrived > max(GIVE_UP, 10.0 * self._datagram_period):
            raise NotAnswering(
                f"{self.address} sends no records: check the network, and that no firewall blocks UDP port {self.udp_port}"
            )
        self.counters.add("repeated_requests")
        if self._streamed:
            self._warn(
                now,
                f"the stream fell silent and was asked for again at {self.address}: another client took it, or the "
                "network was interrupted",
            )
        self._request_stream()

    def _receive(self) -> tuple[np.ndarray, float]:
        """All that has arrived, and when the newest did."""
        try:
            data, odd = self._datagrams.read(self._socket.fileno())
        except OSError as error:
            raise Disconnected(f"{self.address} is unreachable ({error.strerror or error})") from None
        if odd:
            self.counters.add("malformed", odd)
        return decode_records(data), time.monotonic()

    def _use(self, records: np.ndarray, arrival: float) -> None:
        restarts = self.account.restarts
        records = self.account.accept(records)
        self._count_losses()
        if not len(records):
            return
        self._streamed = True
        if self.account.restarts != restarts:
            self._warn(
                arrival,
                f"the stream of {self.address} began anew without being asked to: another client, or the sensor restarted",
            )
            self.clock.reset()
        period = 1.0 / self.configuration.internal_rate
        ticks = records["ft_sequence"].astype(np.int64)
        newest = self.clock.to_host(float(ticks[-1]) * period, arrival)
        t = newest - period * ((ticks[-1] - ticks) % 2**32)
        t = np.maximum(t, self.last_sample + 1e-6 * np.arange(1, len(t) + 1))
        status = records["status"].astype(np.uint32)
        self._judge_status(int(np.bitwise_or.reduce(status)))
        self._block(t, records["counts"] * self.configuration.scale, (status & SATURATION) != 0)

    def _judge_status(self, status: int) -> None:
        errors = error_bits(status)
        if errors:
            self._distrust("status", f"The sensor reports: {', '.join(status_names(errors))}.")
        else:
            self.faults.pop("status", None)
        if status & CONDITION:
            self.warnings["condition"] = "a threshold condition is latched: see ~/reset_threshold_latch"
        else:
            self.warnings.pop("condition", None)

    def _count_losses(self) -> None:
        a = self.account
        totals = a.lost, a.late, a.duplicates, a.restarts
        for name, now, before in zip(("dropped", "late", "duplicates", "restarts"), totals, self._reported):
            if now != before:
                self.counters.add(name, now - before)
        self._reported = totals

    @property
    def _datagram_period(self) -> float:
        return (self.configuration.buffer_size if self.buffered else 1) / self.nominal_rate

    def _warn(self, now: float, sentence: str) -> None:
        self.warnings["stream"] = sentence
        self._warn_until = now + WARNING_LASTS

    def _drain(self) -> None:
        with contextlib.suppress(OSError):
            while len(self._datagrams.read(self._socket.fileno())[0]):
                pass

    def _send(self, command: Command) -> None:
        try:
            self._socket.send(encode_request(command))
        except (ConnectionRefusedError, BlockingIOError):
            pass  # as a request lost on the way: repeated when no answer comes
        except OSError as error:
            raise Disconnected(f"{self.address} is unreachable ({error.strerror or error})") from None


def _whole_fraction(rate: float, internal: float) -> float:
    """The next rate at or above `rate` that divides the internal one."""
    return internal / max(1, int(internal / rate + 1e-9))
