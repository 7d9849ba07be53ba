"""The bus through the maker's library, `dynamixel-sdk`: for adapters and servos that only it knows.

Its port opens and configures the adapter, its packet handler sends instructions and finds, checks and unstuffs the
replies. What it lacks is added here: the time that replies may take is that of the node's parameters (the library's own
is 34 ms more than the bytes take), a silent servo does not hide those behind it, late replies are fenced off as in
`Bus`, data that contain the header travel stuffed, and every failure of the port is `Disconnected`. Fast reads are not
used.
"""

from __future__ import annotations

import contextlib
import select
import time
from collections.abc import Callable, Mapping, Sequence

import dynamixel_sdk as sdk
import numpy as np

from hardware.dynamixel.packets import Status
from hardware.dynamixel.transport import GroupReading, Transport
from hardware.link import Counters, DeviceError
from hardware.link.serial_port import PORT_FAILURES, not_opened, vanished

__all__ = ["SdkTransport"]

SLICE = (
    1e-3  # [s] a read waits for bytes: the library asks again and again until its deadline, by itself without a pause
)
GAP = 1e-3  # [s] after which replies that are all there, some of them damaged, are given up


class SdkTransport(Transport):
    """See the module's docstring.

    Args:
        path, baud: of the port; the rate must be one that the library lists.
        protocol, counters, latency, return_delay: of Transport.

    Raises:
        DeviceError: no such port, or the library does not know the rate.
    """

    def __init__(
        self,
        path: str,
        baud: int,
        protocol: float,
        counters: Counters | None = None,
        latency: float = 0.02,
        return_delay: float = 5e-4,
    ) -> None:
        super().__init__(protocol, counters, latency, return_delay)
        self.handler = sdk.PacketHandler(protocol)
        self.port = _Port(path)
        self.set_baud(baud)

    @classmethod
    def open(cls, path: str, baud: int, protocol: float, counters: Counters, latency: float) -> SdkTransport:
        return cls(path, baud, protocol, counters, latency)

    @property
    def path(self) -> str:
        return self.port.getPortName()

    @property
    def baud(self) -> int:
        return self.port.getBaudRate()

    def set_baud(self, baud: int) -> None:
        if not self.port.setBaudRate(baud):
            raise DeviceError(f"dynamixel-sdk knows no rate of {baud} baud: use another, or set transport to refit")

    def receive(self, timeout: float) -> bytes:
        return self.port.receive(timeout)

    def close(self) -> None:
        if self.port.is_open:
            with contextlib.suppress(*PORT_FAILURES):
                self.port.closePort()

    def group_read(self, ids: Sequence[int], address: int, length: int, how: str) -> GroupReading:
        return _SdkGroupReading(self, ids, address, length, how)

    def send(self, frame: bytes) -> None:
        if self._settle:
            self._wait_out()
        self._transmit(frame)
        self.port.is_using = False

    def collect(
        self, frame: bytes, ids: Sequence[int] | None, lengths: int | Mapping[int, int], duration: float = 0.0
    ) -> dict[int, Status]:
        def length(id: int) -> int:
            return lengths if isinstance(lengths, int) else lengths.get(id, 0)

        expected = sum(self.codec.reply_size(length(id)) for id in ids) if ids is not None else 0
        if self._settle:
            self._wait_out()
        self._transmit(frame)
        limit = self.reply_time(len(frame), expected, len(ids) if ids is not None else 0) + duration
        self.port.expect(limit, expected)
        replies: dict[int, Status] = {}
        while ids is None or len(replies) < len(ids):
            packet, result = self._receive_packet()
            if result == sdk.COMM_SUCCESS:
                reply = self._status(packet)
                if self._answers(reply, ids, length(reply.id)) and reply.id not in replies:
                    replies[reply.id] = reply
                else:
                    self.counters.add("unexpected")
            elif self.port.over:
                break
            else:
                self.counters.add("crc_errors")
        if ids is not None and len(replies) < len(ids):
            self._late.update(id for id in ids if id not in replies)
            if self.port.missing > 0:
                self.settle(limit)
            else:
                self.counters.add("resyncs")  # the bytes of all have come: nothing is under way
        return replies

    def _transmit(self, frame: bytes) -> None:
        """The library writes header and check value anew, into a list."""
        result = self.handler.txPacket(self.port, list(frame))
        if result != sdk.COMM_SUCCESS:
            raise DeviceError(f"{self.path}: {self.handler.getTxRxResult(result)}")

    def _receive_packet(self) -> tuple[list[int], int]:
        if self.protocol == 2.0:
            return self.handler.rxPacket(self.port, False)
        return self.handler.rxPacket(self.port)

    def _status(self, packet: list[int]) -> Status:
        """A packet as the library leaves it: unstuffed, with what it was longer before behind it."""
        if self.protocol == 2.0:
            end = 7 + (packet[5] | packet[6] << 8) - 2
            return Status(packet[4], packet[8], bytes(packet[9:end]))
        return Status(packet[2], packet[4], bytes(packet[5 : 4 + packet[3] - 1]))


class _SdkGroupReading(GroupReading):
    """One request for all, where the protocol has one; "fast" is "sync" here."""

    def __init__(self, bus: SdkTransport, ids: Sequence[int], address: int, length: int, how: str) -> None:
        super().__init__(bus, ids, address, length, "sync" if how == "fast" else how)
        self.bus = bus
        if self.how == "single":
            self._ask: Callable[[], dict[int, Status]] | None = None
        elif self.how == "bulk":
            self._ask = lambda: bus.bulk_read([(id, address, length) for id in self.ids])
        else:
            self._ask = lambda: bus.sync_read(address, length, self.ids)

    def read(self, retries: int = 1) -> bool:
        bus = self.bus
        self.valid[:] = False
        if self._ask is None:
            self.t = time.monotonic()
            self._ask_each(bus)
            return bool(self.valid.all())
        replies = self._ask()
        self.t = time.monotonic() - 0.5 * bus.transmission_time(len(self.ids) * bus.codec.reply_size(self.length))
        for k, id in enumerate(self.ids):
            if id in replies and not bus.refusal(replies[id]):
                self._keep(k, replies[id].error, replies[id].params)
        if not np.all(self.valid) and bus.port.missing <= 0 and retries > 0:
            self._ask_each(bus)
        return bool(self.valid.all())


class _Port(sdk.PortHandler):
    """The library's port, with deadlines of the caller's.

    Attributes:
        missing: bytes of the replies expected that have not come.
        over: the deadline has passed.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.packet_timeout: float  # [ms] from `packet_start_time`, the library's
        self.missing = 0

    @property
    def over(self) -> bool:
        return self.packet_timeout == 0  # so the library marks it (isPacketTimeout)

    def expect(self, seconds: float, n_bytes: int) -> None:
        """Replies of so many bytes within so many seconds from now."""
        self.setPacketTimeoutMillis(1e3 * seconds)
        self.missing = n_bytes

    def receive(self, timeout: float) -> bytes:
        """What has arrived, waiting at most `timeout` [s] for its beginning. Raises Disconnected."""
        try:
            if not select.select([self.ser], [], [], timeout)[0]:
                return b""
            return self.ser.read(max(1, self.ser.in_waiting))
        except PORT_FAILURES as error:
            raise vanished(self.port_name, error) from error

    # -- called by the library ---------------------------------------------------------------------
    def setupPort(self, cflag_baud: int) -> bool:
        try:
            super().setupPort(cflag_baud)
            self.ser.exclusive = True
            self.ser.timeout, self.ser.write_timeout = SLICE, 1.0
        except PORT_FAILURES as error:
            if self.is_open:
                self.closePort()
            raise not_opened(self.port_name, error) from error
        # Optional by nature: neither pseudo-terminals nor all adapters know it.
        with contextlib.suppress(*PORT_FAILURES, AttributeError, NotImplementedError):
            self.ser.set_low_latency_mode(True)
        return True

    def clearPort(self) -> None:
        try:
            super().clearPort()
        except PORT_FAILURES as error:
            raise vanished(self.port_name, error) from error

    def readPort(self, length: int) -> bytes:
        if length <= 0 or self.getTimeSinceStart() > self.packet_timeout:
            return b""  # else noise without end would keep the library from looking at its deadline
        try:
            data = super().readPort(length)
        except PORT_FAILURES as error:
            raise vanished(self.port_name, error) from error
        before, self.missing = self.missing, self.missing - len(data)
        if self.missing <= 0 < before:
            self.packet_timeout = min(self.packet_timeout, self.getTimeSinceStart() + 1e3 * GAP)
        return data

    def writePort(self, packet: list[int]) -> int:
        try:
            return super().writePort(bytes(packet))
        except PORT_FAILURES as error:
            raise vanished(self.port_name, error) from error

    def getCurrentTime(self) -> float:
        return 1e3 * time.monotonic()  # [ms]; the library's own clock may be set while it waits
