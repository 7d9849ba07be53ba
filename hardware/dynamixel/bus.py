"""Requests and replies on one half-duplex bus of servos.

A request goes out, replies are collected until all are there or a deadline computed from their size has
passed. Neither protocol numbers its packets, so a reply that comes late could be taken for the answer to the
next request. Two things prevent that: after a deadline one more full reply time is spent reading and dropping,
and a servo that missed one is pinged before it is asked anything again: it answers in order, so behind the answer
to the ping nothing late of it is under way.

Source: ROBOTIS e-manual, Protocol 1.0 and 2.0; "Status Packet Return Delay".
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hardware.dynamixel import protocol1, protocol2
from hardware.dynamixel.packets import BROADCAST, Status
from hardware.dynamixel.tables import Item
from hardware.link import Counters, DeviceError, NotAnswering, SerialPort

__all__ = ["Bus", "GroupRead", "Ping", "StatusError"]

PROTOCOL1_REFUSALS = (
    protocol1.StatusBit.RANGE
    | protocol1.StatusBit.CHECKSUM
    | protocol1.StatusBit.INSTRUCTION
    | protocol1.StatusBit.ANGLE
)
FAST_FAILURES = 3  # in a row: the firmware knows no fast reads
GAP = 1e-3  # silence within a train of replies after which it is looked at whether it has ended [s]
PING_ALL_TIME = 3e-3  # per possible id, after which a broadcast ping is over [s] (e-manual, "Ping")


class StatusError(DeviceError):
    """A servo answered that it did not do what it was told."""

    def __init__(self, id: int, error: int, what: str, protocol: float):
        self.id, self.error = id, error
        name = (
            protocol2.StatusCode(error).name
            if protocol == 2.0 and error < 8
            else " + ".join(bit.name for bit in protocol1.StatusBit if error & bit)
        ) or f"error {error}"
        super().__init__(f"servo {id} refused to {what}: {name.replace('_', ' ').lower()}")


class Ping(NamedTuple):
    """Who answered."""

    id: int
    model: int
    firmware: int


class Bus:
    """Instructions of one protocol over a serial port. Not thread-safe.

    Args:
        port: open; its baud rate enters the deadlines.
        protocol: 1.0 or 2.0.
        counters: the link's.
        latency: what adapter, operating system and servo add to the time on the wire, at most [s].
        return_delay: status return delay of the servos [s]; 500 us from the factory.

    Attributes:
        alerts: ids whose last reply had the alert bit set (Protocol 2.0).
    """

    def __init__(
        self,
        port: SerialPort,
        protocol: float,
        counters: Counters | None = None,
        latency: float = 0.02,
        return_delay: float = 5e-4,
    ):
        self.port, self.protocol = port, protocol
        self.codec = protocol2 if protocol == 2.0 else protocol1
        self.counters = counters or Counters()
        self.latency, self.return_delay = latency, return_delay
        self.alerts: set[int] = set()
        self.parser = self.codec.Parser()
        self._settle = 0.0  # one full reply time still to be waited out before the next request
        self._late: set[int] = set()  # ids of which a reply may still be under way

    # -- one servo ---------------------------------------------------------------------------------
    def ping(self, id: int) -> Ping:
        """Raises NotAnswering."""
        data = self._fence(id) if self.protocol == 2.0 else self.read(id, 0, 3)
        return Ping(id, int.from_bytes(data[:2], "little"), data[2])

    def ping_all(self) -> list[Ping]:
        """Everybody on the bus, in order of id; takes most of a second with Protocol 2.0, longer with 1.0."""
        if self.protocol == 2.0:
            replies = self._collect(self.codec.ping(), None, 3, 253 * (PING_ALL_TIME + self.port.transmission_time(14)))
            return sorted(
                Ping(reply.id, int.from_bytes(reply.params[:2], "little"), reply.params[2])
                for reply in replies.values()
            )
        found = []
        for id in range(BROADCAST):
            try:
                found.append(self.ping(id))
            except (NotAnswering, StatusError):
                continue
        return found

    def read(self, id: int, address: int, length: int) -> bytes:
        """Bytes of a control table. Raises NotAnswering, StatusError."""
        return self.read_status(id, address, length)[1]

    def read_status(self, id: int, address: int, length: int) -> tuple[int, bytes]:
        """(error byte, bytes): what the servo says of itself besides. Raises NotAnswering, StatusError."""
        reply = self._one(self.codec.read(id, address, length), id, length, f"read {length} bytes at {address}")
        return reply.error, reply.params

    def write(self, id: int, address: int, data: bytes) -> None:
        """Written, and confirmed by the servo's reply. Raises NotAnswering, StatusError."""
        self._one(self.codec.write(id, address, data), id, 0, f"write {data.hex(' ')} at {address}")

    def reg_write(self, id: int, address: int, data: bytes) -> None:
        """Kept by the servo until `action`."""
        self._one(self.codec.reg_write(id, address, data), id, 0, f"register {data.hex(' ')} for {address}")

    def read_item(self, id: int, item: Item) -> int:
        return item.unpack(self.read(id, item.address, item.size))

    def write_item(self, id: int, item: Item, value: int) -> None:
        self.write(id, item.address, item.pack(value))

    def reboot(self, id: int) -> None:
        """Protocol 2.0 only; the servo is silent for about 0.3 s, then has lost torque and RAM."""
        self._one(self.codec.reboot(id), id, 0, "reboot")

    def clear_turns(self, id: int) -> None:
        """Forget whole turns of the multi-turn position; Protocol 2.0 only."""
        self._one(self.codec.clear_turns(id), id, 0, "clear its turns")

    def factory_reset(self, id: int, *, confirmed: bool) -> None:
        """Factory settings, id and baud rate kept where the protocol can; refused unless `confirmed`, and for all at once."""
        if not confirmed or id == BROADCAST:
            raise DeviceError("a factory reset erases a servo's settings: name one id and say confirmed=True")
        self._one(self.codec.factory_reset(id), id, 0, "reset itself")

    # -- several -----------------------------------------------------------------------------------
    def sync_read(self, address: int, length: int, ids: Sequence[int]) -> dict[int, Status]:
        """Replies of those that answered. Protocol 2.0 only."""
        return self._collect(self.codec.sync_read(address, length, ids), ids, length)

    def bulk_read(self, items: Sequence[tuple[int, int, int]]) -> dict[int, Status]:
        """items: (id, address, length). Replies of those that answered; of Protocol 1.0's servos MX alone know it."""
        return self._collect(
            self.codec.bulk_read(items), [id for id, _, _ in items], {id: length for id, _, length in items}
        )

    def sync_write(self, address: int, length: int, data: Mapping[int, bytes]) -> None:
        """Nobody confirms a broadcast."""
        self.send(self.codec.sync_write(address, length, data))

    def bulk_write(self, items: Iterable[tuple[int, int, bytes]]) -> None:
        """items: (id, address, data). Protocol 2.0 only; nobody confirms a broadcast."""
        self.send(self.codec.bulk_write(items))

    def action(self) -> None:
        """All registered writes take effect; nobody confirms a broadcast."""
        self.send(self.codec.action())

    # -- the wire ----------------------------------------------------------------------------------
    def send(self, frame: bytes) -> None:
        """A frame that nobody answers."""
        if self._settle:
            self._wait_out()
        self.port.write(frame)

    def reply_time(self, request: int, replies: int, count: int) -> float:
        """How long replies may take, from the request's first byte to their last [s]."""
        return self.port.transmission_time(request + replies) + count * self.return_delay + self.latency

    def begin(self) -> None:
        """Clear the line before a request: late replies, noise."""
        if self._settle:
            self._wait_out()
        self.port.discard_input()
        if self.parser.pending:
            self.parser.clear()

    def settle(self, seconds: float) -> None:
        """Somebody did not answer in time: wait out another `seconds` before the next request."""
        self._settle = seconds
        self.counters.add("timeouts")

    def _wait_out(self) -> None:
        end, self._settle = time.monotonic() + self._settle, 0.0
        dropped = 0
        while (rest := end - time.monotonic()) > 0.0:
            dropped += len(self.port.read(timeout=rest))
        if dropped:
            self.counters.add("late_bytes", dropped)
        self.parser.clear()

    def _one(self, frame: bytes, id: int, length: int, what: str) -> Status:
        if id == BROADCAST:
            raise DeviceError(f"one servo is to {what}: give its id, not the broadcast id")
        if id in self._late:
            self._fence(id)
        replies = self._collect(frame, (id,), length)
        if id not in replies:
            raise NotAnswering(f"servo {id} on {self.port.path} at {self.port.baud} baud did not {what}")
        error = self.refusal(replies[id])
        if error:
            raise StatusError(id, error, what, self.protocol)
        return replies[id]

    def _fence(self, id: int) -> bytes:
        """A ping, and its answer's parameters. Raises NotAnswering."""
        replies = self._collect(self.codec.ping(id), (id,), 3 if self.protocol == 2.0 else 0)
        if id not in replies:
            raise NotAnswering(f"servo {id} on {self.port.path} at {self.port.baud} baud did not answer a ping")
        self._late.discard(id)
        return replies[id].params

    def refusal(self, status: Status) -> int:
        """The part of a reply's error byte that says the instruction was not done; alerts are kept."""
        if self.protocol == 1.0:
            return status.error & PROTOCOL1_REFUSALS
        (self.alerts.add if status.error & protocol2.ALERT else self.alerts.discard)(status.id)
        return status.error & ~protocol2.ALERT

    def _collect(
        self, frame: bytes, ids: Sequence[int] | None, lengths: int | Mapping[int, int], duration: float | None = None
    ) -> dict[int, Status]:
        """Send, and gather one reply of each id (None: of whoever answers until `duration` has passed)."""

        def length(id):
            return lengths if isinstance(lengths, int) else lengths[id]

        expected = sum(self.codec.reply_size(length(id)) for id in ids) if ids is not None else 0
        self.begin()
        damaged = self.parser.crc_errors
        self.port.write(frame)
        limit = self.reply_time(len(frame), expected, len(ids) if ids is not None else 0) + (duration or 0.0)
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
                refused = self.refusal(reply)
                # A servo that refuses sends no data.
                fits = (ids is None or reply.id in ids) and (
                    len(reply.params) == length(reply.id) or refused and not reply.params
                )
                if fits and reply.id not in replies:
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


class GroupRead:
    """The same span of several servos' tables, read every cycle.

    Args:
        bus: of the servos.
        ids: in the order they answer.
        address, length: of the span, equal for all.
        how: "sync", "fast" (one common reply), "bulk" or "single" (Protocol 1.0 without bulk read).

    Attributes:
        how: "fast" becomes "sync" once fast reads have failed FAST_FAILURES times in a row where plain ones did not.
        values: (error, parameters) of each servo as of the last read, shape (n, 1 + length) uint8.
        valid: which of them the last read brought, shape (n,) bool.
        t: host time amid the replies [s], when the values were measured.
    """

    def __init__(self, bus: Bus, ids: Sequence[int], address: int, length: int, how: str):
        codec = bus.codec
        self.bus, self.ids, self.address, self.length, self.how = bus, tuple(ids), address, length, how
        self.values = np.zeros((len(self.ids), 1 + length), np.uint8)
        self.valid = np.zeros(len(self.ids), bool)
        self.t = 0.0
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
        """Refresh `values`. Servos whose reply was damaged are asked again, each by itself; not those that were silent.

        Returns:
            Whether all answered.
        """
        if self.how == "fast" and self._read_fast():
            return True
        if self.how == "single" and len(self.ids) > 1:
            self.valid[:] = False
            again, self.t = True, time.monotonic()
        else:
            again = self._read_plain() and retries > 0
        if again:
            for k in np.flatnonzero(~self.valid):
                with contextlib.suppress(NotAnswering, StatusError):
                    self._keep(k, *self.bus.read_status(self.ids[k], self.address, self.length))
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
        received = 0
        piece, silent = data, len(data) < exchange.block.size and not exchange.ended(data)
        while True:
            received += len(piece)
            for reply in parser.feed(piece) if piece else parser.resync():
                if reply.id in self.ids:
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
        elif parser.skipped > skipped:
            bus.counters.add("resyncs")  # noise between replies that are all there
        return received > len(answered) * exchange.block.frame and len(answered) < len(self.ids)

    def _keep(self, k: int, error: int, params: bytes) -> None:
        self.values[k, 0] = error
        self.values[k, 1:] = np.frombuffer(params, np.uint8)
        self.valid[k] = True


class _Exchange(NamedTuple):
    """A request, what decodes the replies to it, and how the last of them begins, where there are several."""

    request: bytes
    block: protocol2.ReplyBlock | protocol2.FastReplyBlock | protocol1.ReplyBlock
    last: bytes | None = None

    def ended(self, data: bytes) -> bool:
        """Whether the last of those asked has spoken."""
        return self.last is not None and data[-self.block.frame :].startswith(self.last)
