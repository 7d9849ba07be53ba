"""The driver's own engine for one half-duplex bus of servos; why a late reply is never the next answer: transport.py.

A request goes out, replies are collected until all are there or a deadline computed from their size has passed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hardware.dynamixel import protocol1, protocol2
from hardware.dynamixel.packets import Status
from hardware.dynamixel.transport import PROTOCOL1_REFUSALS, GroupReading, Transport
from hardware.link import Counters, SerialPort

__all__ = ["FAST_FAILURES", "Bus", "GroupRead"]

FAST_FAILURES = 3  # in a row: the firmware knows no fast reads
GAP = 1e-3  # silence within a train of replies after which it is looked at whether it has ended [s]


class Bus(Transport):
    """The driver's own engine: deadlines computed from what is under way, replies of many servos decoded at once.

    Args:
        port: open; its baud rate enters the deadlines.
        protocol, counters, latency, return_delay: of Transport.
    """

    def __init__(
        self,
        port: SerialPort,
        protocol: float,
        counters: Counters | None = None,
        latency: float = 0.02,
        return_delay: float = 5e-4,
    ) -> None:
        super().__init__(protocol, counters, latency, return_delay)
        self.port = port
        self.parser = self.codec.Parser()

    @classmethod
    def open(cls, path: str, baud: int, protocol: float, counters: Counters, latency: float) -> Bus:
        return cls(SerialPort(path, baud), protocol, counters, latency)

    @property
    def path(self) -> str:
        return self.port.path

    @property
    def baud(self) -> int:
        return self.port.baud

    def set_baud(self, baud: int) -> None:
        self.port.set_baud(baud)

    def receive(self, timeout: float) -> bytes:
        return self.port.read(timeout=timeout)

    def close(self) -> None:
        self.port.close()

    def group_read(self, ids: Sequence[int], address: int, length: int, how: str) -> GroupRead:
        return GroupRead(self, ids, address, length, how)

    def send(self, frame: bytes) -> None:
        if self._settle:
            self._wait_out()
        self.port.write(frame)

    def begin(self) -> None:
        """Clear the line before a request: late replies, noise."""
        if self._settle:
            self._wait_out()
        if self.port.discard_input():
            self.counters.add("resyncs")  # nobody waited for it: noise, or a reply that came twice
        if self.parser.pending:
            self.parser.clear()

    def collect(
        self, frame: bytes, ids: Sequence[int] | None, lengths: int | Mapping[int, int], duration: float = 0.0
    ) -> dict[int, Status]:
        def length(id: int) -> int:
            return lengths if isinstance(lengths, int) else lengths.get(id, 0)

        expected = sum(self.codec.reply_size(length(id)) for id in ids) if ids is not None else 0
        self.begin()
        damaged = self.parser.crc_errors
        self.port.write(frame)
        limit = self.reply_time(len(frame), expected, len(ids) if ids is not None else 0) + duration
        deadline = time.monotonic() + limit
        replies: dict[int, Status] = {}
        received = 0
        while (rest := deadline - time.monotonic()) > 0.0:
            data = self.port.read(timeout=rest)
            received += len(data)
            found = self.parser.feed(data)
            if ids is not None and received >= expected and len(replies) + len(found) < len(ids):
                found += self.parser.resync()  # the bytes of all are there, some of them damaged
                deadline = min(deadline, time.monotonic() + self.latency)
            for reply in found:
                if self._answers(reply, ids, length(reply.id)) and reply.id not in replies:
                    replies[reply.id] = reply
                else:
                    self.counters.add("unexpected")
            if ids is not None and len(replies) == len(ids):
                break
        if damaged != self.parser.crc_errors:
            self.counters.add("crc_errors", self.parser.crc_errors - damaged)
        if ids is not None and len(replies) < len(ids):
            self.parser.resync()
            self._late.update(id for id in ids if id not in replies)
            self.settle(limit)
        return replies


class GroupRead(GroupReading):
    """See GroupReading; "fast" becomes "sync" once fast reads have failed FAST_FAILURES times in a row where plain ones
    did not.
    """

    def __init__(self, bus: Bus, ids: Sequence[int], address: int, length: int, how: str) -> None:
        super().__init__(bus, ids, address, length, how)
        codec = bus.codec
        self.bus = bus
        self._fast_failures = 0
        if how == "fast":
            self._fast = _Exchange(
                codec.sync_read(address, length, self.ids, fast=True), codec.FastReplyBlock(self.ids, length)
            )
        if how in ("sync", "fast"):
            request = codec.sync_read(address, length, self.ids)
        elif how == "bulk":
            request = codec.bulk_read([(id, address, length) for id in self.ids])
        else:
            request = codec.read(self.ids[0], address, length)
        self._plain = _Exchange(
            request,
            codec.ReplyBlock(self.ids if how != "single" else self.ids[:1], length),
            codec.status(self.ids[-1], 0, bytes(length))[: codec.BODY],
        )

    def read(self, retries: int = 1) -> bool:
        if self.how == "fast" and self._read_fast():
            return True
        if self.how == "single" and len(self.ids) > 1:
            self.valid[:] = False
            again, self.t = True, time.monotonic()
        else:
            again = self._read_plain() and retries > 0
        if again:
            self._ask_each(self.bus)
        complete = bool(self.valid.all())
        if self.how == "fast":
            self._fast_failures = self._fast_failures + 1 if complete else 0
            if self._fast_failures == FAST_FAILURES:
                self.how = "sync"
        return complete

    def _read_fast(self) -> bool:
        """All or nothing: behind a servo that is missing nobody speaks, behind a damaged byte no CRC fits."""
        bus, exchange = self.bus, self._fast
        data, limit = self._send_and_gather(exchange)
        if len(data) >= exchange.block.size:
            if self._take(exchange.block.decode(data[: exchange.block.size])):
                self._fast_failures = 0
                if len(data) > exchange.block.size:
                    bus.counters.add("resyncs")
                return True
            bus.counters.add("crc_errors")
        else:
            bus.settle(limit)
        return False

    def _read_plain(self) -> bool:
        """One request for all; whether there were replies that were damaged."""
        exchange = self._plain
        data, limit = self._send_and_gather(exchange)
        if len(data) == exchange.block.size and self._take(exchange.block.decode(data)):
            return False
        return self._salvage(data, limit)

    def _send_and_gather(self, exchange: _Exchange) -> tuple[bytes, float]:
        """What came, and the time it was allowed [s]."""
        bus, port, size = self.bus, self.bus.port, exchange.block.size
        bus.begin()
        port.write(exchange.request)
        limit = bus.reply_time(len(exchange.request), size, len(self.ids))
        now = time.monotonic()
        deadline = now + limit
        data = b""
        while len(data) < size and (rest := deadline - now) > 0.0:
            piece = port.read(timeout=min(rest, GAP) if data else rest)
            data = data + piece if data else piece
            if not piece and exchange.ended(data):
                break  # some are damaged or missing, but nobody is left to answer
            if piece and len(data) < size:
                # Sleeping until the rest can be there costs less than waking up for every piece of it.
                time.sleep(min(port.transmission_time(size - len(data)), max(deadline - now, 0.0)))
            now = time.monotonic()
        self.t = now - 0.5 * port.transmission_time(size)
        return data, limit

    def _take(self, values: np.ndarray | None) -> bool:
        """Replies of all, if none refuses."""
        if (
            values is None
            or (values[:, 0] & (~protocol2.ALERT & 0xFF if self.bus.protocol == 2.0 else PROTOCOL1_REFUSALS)).any()
        ):
            return False
        self.values[:] = values
        self.valid[:] = True
        return True

    def _salvage(self, data: bytes, limit: float) -> bool:
        """The replies that are good among damaged, stuffed, doubled, missing or refused ones; whether some were damaged."""
        bus, parser, exchange = self.bus, self.bus.parser, self._plain
        self.valid[:] = False
        damaged, skipped = parser.crc_errors, parser.skipped
        answered: set[int] = set()
        received, doubled = 0, False
        piece, silent = data, len(data) < exchange.block.size and not exchange.ended(data)
        while True:
            received += len(piece)
            for reply in parser.feed(piece) if piece else parser.resync():
                if reply.id in self.ids:
                    doubled |= reply.id in answered
                    answered.add(reply.id)
                    if not bus.refusal(reply) and len(reply.params) == self.length:
                        self._keep(self.ids.index(reply.id), reply.error, reply.params)
            if not piece or len(answered) == len(self.ids):
                break
            # Stuffing and noise make replies longer than they should be: a moment for what is still under way.
            piece = bus.port.read(timeout=GAP)
        if parser.crc_errors != damaged:
            bus.counters.add("crc_errors", parser.crc_errors - damaged)
        if len(answered) < len(self.ids):
            if silent:
                bus.settle(limit)
            else:
                bus.counters.add("resyncs")
        elif parser.skipped > skipped or doubled:
            bus.counters.add("resyncs")  # noise between replies that are all there, or more of them than servos
        return received > len(answered) * exchange.block.frame and len(answered) < len(self.ids)


class _Exchange(NamedTuple):
    """A request, what decodes the replies to it, and how the last of them begins, where there are several."""

    request: bytes
    block: protocol2.ReplyBlock | protocol2.FastReplyBlock | protocol1.ReplyBlock
    last: bytes | None = None

    def ended(self, data: bytes) -> bool:
        """Whether the last of those asked has spoken."""
        return self.last is not None and data[-self.block.frame :].startswith(self.last)
