"""What the servo group asks of whoever speaks on the bus: the instructions of both protocols, and groups of replies.

`Bus` (bus.py) speaks by itself; `SdkTransport` (sdk_transport.py) through the maker's library. They differ in how bytes
travel (`send`, `collect`, `receive`, `group_read`); which instruction is sent, what a refusal is and which reply counts
is the same for both, and said here.

Neither protocol numbers its packets, so a reply that comes late could be taken for the answer to the next request. Two
things prevent that: after a deadline one more full reply time is spent reading and dropping, and a servo that missed one
is pinged before it is asked anything again: it answers in order, so behind the answer to the ping nothing late of it is
under way.

Source: ROBOTIS e-manual, Protocol 1.0 and 2.0; "Status Packet Return Delay".
"""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hardware.dynamixel import protocol1, protocol2
from hardware.dynamixel.packets import BROADCAST, Status
from hardware.dynamixel.tables import Item
from hardware.link import Counters, DeviceError, NotAnswering

__all__ = ["PROTOCOL1_REFUSALS", "GroupReading", "Ping", "StatusError", "Transport"]

PROTOCOL1_REFUSALS = (
    protocol1.StatusBit.RANGE
    | protocol1.StatusBit.CHECKSUM
    | protocol1.StatusBit.INSTRUCTION
    | protocol1.StatusBit.ANGLE
)
PING_ALL_TIME = 3e-3  # per possible id, after which a broadcast ping is over [s] (e-manual, "Ping")


class StatusError(DeviceError):
    """A servo answered that it did not do what it was told."""

    def __init__(self, id: int, error: int, what: str, protocol: float) -> None:
        self.id, self.error = id, error
        name = (
            protocol2.StatusCode(error).name
            if protocol == 2.0 and error < 8
            else " + ".join(str(bit.name) for bit in protocol1.StatusBit if error & bit)
        ) or f"error {error}"
        super().__init__(f"servo {id} refused to {what}: {name.replace('_', ' ').lower()}")


class Ping(NamedTuple):
    """Who answered."""

    id: int
    model: int
    firmware: int


class Transport(ABC):
    """Instructions of one protocol over one half-duplex bus. Not thread-safe.

    Args:
        protocol: 1.0 or 2.0.
        counters: the link's.
        latency: what adapter, operating system and servo add to the time on the wire, at most [s].
        return_delay: status return delay of the servos [s]; 500 us from the factory.

    Attributes:
        alerts: ids whose last reply had the alert bit set (Protocol 2.0).
        codec: the protocol's module, protocol1 or protocol2.
    """

    def __init__(
        self, protocol: float, counters: Counters | None = None, latency: float = 0.02, return_delay: float = 5e-4
    ) -> None:
        self.protocol = protocol
        self.codec = protocol2 if protocol == 2.0 else protocol1
        self.counters = counters or Counters()
        self.latency, self.return_delay = latency, return_delay
        self.alerts: set[int] = set()
        self._settle = 0.0  # one full reply time still to be waited out before the next request
        self._late: set[int] = set()  # ids of which a reply may still be under way

    @classmethod
    @abstractmethod
    def open(cls, path: str, baud: int, protocol: float, counters: Counters, latency: float) -> Transport:
        """A bus on the port `path`. Raises DeviceError; the text says why and what to do."""

    # -- how bytes travel --------------------------------------------------------------------------
    @property
    @abstractmethod
    def path(self) -> str:
        """Of the port."""

    @property
    @abstractmethod
    def baud(self) -> int:
        """Rate of the port."""

    @abstractmethod
    def set_baud(self, baud: int) -> None:
        """Change the rate of the open port. Raises DeviceError where the port does not know it."""

    @abstractmethod
    def send(self, frame: bytes) -> None:
        """A frame that nobody answers. Raises Disconnected."""

    @abstractmethod
    def collect(
        self, frame: bytes, ids: Sequence[int] | None, lengths: int | Mapping[int, int], duration: float = 0.0
    ) -> dict[int, Status]:
        """Send, and gather one reply of each id (None: of whoever answers until `duration` has passed).

        Args:
            frame: the instruction as it travels.
            ids: who answers, in order.
            lengths: parameters of each reply, one for all or by id.
            duration: allowed beyond the replies' own time [s].

        Returns:
            Replies of those that answered, by id.

        Raises:
            Disconnected: the port is gone.
        """

    @abstractmethod
    def receive(self, timeout: float) -> bytes:
        """Whatever arrives, waiting at most `timeout` [s] for its beginning. Raises Disconnected."""

    @abstractmethod
    def group_read(self, ids: Sequence[int], address: int, length: int, how: str) -> GroupReading:
        """A reading of the same span of several servos' tables, made every cycle; see GroupReading."""

    @abstractmethod
    def close(self) -> None:
        """Free the port; may be called more than once."""

    def transmission_time(self, n_bytes: int) -> float:
        """Time n bytes take on the wire at 8N1 [s]."""
        return n_bytes * 10.0 / self.baud

    def drain(self, quiet: float, limit: float = 1.0) -> None:
        """Read and drop until nothing came for `quiet` [s], at most `limit` [s]."""
        end = time.monotonic() + limit
        while time.monotonic() < end and self.receive(quiet):
            pass

    # -- one servo ---------------------------------------------------------------------------------
    def ping(self, id: int) -> Ping:
        """Raises NotAnswering."""
        data = self._fence(id) if self.protocol == 2.0 else self.read(id, 0, 3)
        return Ping(id, int.from_bytes(data[:2], "little"), data[2])

    def ping_all(self) -> list[Ping]:
        """Everybody on the bus, in order of id; takes most of a second with Protocol 2.0, longer with 1.0."""
        if self.protocol == 2.0:
            replies = self.collect(protocol2.ping(), None, 3, 253 * (PING_ALL_TIME + self.transmission_time(14)))
            return sorted(
                Ping(reply.id, int.from_bytes(reply.params[:2], "little"), reply.params[2])
                for reply in replies.values()
            )
        found = []
        for id in range(BROADCAST):
            with contextlib.suppress(NotAnswering, StatusError):
                found.append(self.ping(id))
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
        """One value of a control table. Raises NotAnswering, StatusError."""
        return item.unpack(self.read(id, item.address, item.size))

    def write_item(self, id: int, item: Item, value: int) -> None:
        """Likewise; ValueError where the value does not fit the item."""
        self.write(id, item.address, item.pack(value))

    def reboot(self, id: int) -> None:
        """Protocol 2.0 only; the servo is silent for about 0.3 s, then has lost torque and RAM."""
        self._one(protocol2.reboot(id), id, 0, "reboot")

    def clear_turns(self, id: int) -> None:
        """Forget whole turns of the multi-turn position; Protocol 2.0 only."""
        self._one(protocol2.clear_turns(id), id, 0, "clear its turns")

    def factory_reset(self, id: int, *, confirmed: bool) -> None:
        """Factory settings, id and baud rate kept where the protocol can; refused unless `confirmed`, and for all at once."""
        if not confirmed or id == BROADCAST:
            raise DeviceError("a factory reset erases a servo's settings: name one id and say confirmed=True")
        self._one(self.codec.factory_reset(id), id, 0, "reset itself")

    # -- several -----------------------------------------------------------------------------------
    def sync_read(self, address: int, length: int, ids: Sequence[int]) -> dict[int, Status]:
        """Replies of those that answered. Protocol 2.0 only."""
        return self.collect(protocol2.sync_read(address, length, ids), ids, length)

    def bulk_read(self, items: Sequence[tuple[int, int, int]]) -> dict[int, Status]:
        """items: (id, address, length). Replies of those that answered; of Protocol 1.0's servos MX alone know it."""
        return self.collect(
            self.codec.bulk_read(items), [id for id, _, _ in items], {id: length for id, _, length in items}
        )

    def sync_write(self, address: int, length: int, data: Mapping[int, bytes]) -> None:
        """Nobody confirms a broadcast."""
        self.send(self.codec.sync_write(address, length, data))

    def bulk_write(self, items: Iterable[tuple[int, int, bytes]]) -> None:
        """items: (id, address, data). Protocol 2.0 only; nobody confirms a broadcast."""
        self.send(protocol2.bulk_write(items))

    def action(self) -> None:
        """All registered writes take effect; nobody confirms a broadcast."""
        self.send(self.codec.action())

    # -- which reply counts ------------------------------------------------------------------------
    def reply_time(self, request: int, replies: int, count: int) -> float:
        """How long replies may take, from the request's first byte to their last [s]."""
        return self.transmission_time(request + replies) + count * self.return_delay + self.latency

    def refusal(self, status: Status) -> int:
        """The part of a reply's error byte that says the instruction was not done; alerts are kept."""
        if self.protocol == 1.0:
            return status.error & PROTOCOL1_REFUSALS
        (self.alerts.add if status.error & protocol2.ALERT else self.alerts.discard)(status.id)
        return status.error & ~protocol2.ALERT

    def settle(self, seconds: float) -> None:
        """Somebody did not answer in time: wait out another `seconds` before the next request."""
        self._settle = seconds
        self.counters.add("timeouts")

    def _wait_out(self) -> None:
        end, self._settle = time.monotonic() + self._settle, 0.0
        dropped = 0
        while (rest := end - time.monotonic()) > 0.0:
            dropped += len(self.receive(rest))
        if dropped:
            self.counters.add("late_bytes", dropped)

    def _answers(self, reply: Status, ids: Sequence[int] | None, length: int) -> bool:
        """Whether a reply is one that was asked for; a servo that refuses sends no data."""
        refused = self.refusal(reply)
        return (ids is None or reply.id in ids) and (len(reply.params) == length or bool(refused) and not reply.params)

    def _one(self, frame: bytes, id: int, length: int, what: str) -> Status:
        if id == BROADCAST:
            raise DeviceError(f"one servo is to {what}: give its id, not the broadcast id")
        if id in self._late:
            self._fence(id)
        replies = self.collect(frame, (id,), length)
        if id not in replies:
            raise NotAnswering(f"servo {id} on {self.path} at {self.baud} baud did not {what}")
        error = self.refusal(replies[id])
        if error:
            raise StatusError(id, error, what, self.protocol)
        return replies[id]

    def _fence(self, id: int) -> bytes:
        """A ping, and its answer's parameters. Raises NotAnswering."""
        replies = self.collect(self.codec.ping(id), (id,), 3 if self.protocol == 2.0 else 0)
        if id not in replies:
            raise NotAnswering(f"servo {id} on {self.path} at {self.baud} baud did not answer a ping")
        self._late.discard(id)
        return replies[id].params


class GroupReading(ABC):
    """The same span of several servos' tables, read every cycle.

    Args:
        bus: of the servos.
        ids: in the order they answer.
        address, length: of the span, equal for all.
        how: "sync", "fast" (one common reply), "bulk" or "single" (Protocol 1.0 without bulk read).

    Attributes:
        how: "fast" becomes "sync" where fast reads are not known.
        values: (error, parameters) of each servo as of the last read, shape (n, 1 + length) uint8.
        valid: which of them the last read brought, shape (n,) bool.
        t: host time amid the replies [s], when the values were measured.
    """

    def __init__(self, bus: Transport, ids: Sequence[int], address: int, length: int, how: str) -> None:
        self.ids, self.address, self.length, self.how = tuple(ids), address, length, how
        self.values = np.zeros((len(self.ids), 1 + length), np.uint8)
        self.valid = np.zeros(len(self.ids), bool)
        self.t = 0.0

    @abstractmethod
    def read(self, retries: int = 1) -> bool:
        """Refresh `values`. Servos whose reply was damaged are asked again, each by itself; not those that were silent.

        Returns:
            Whether all answered.
        """

    def _ask_each(self, bus: Transport) -> None:
        """Those that are not valid, one by one."""
        for k in np.flatnonzero(~self.valid):
            with contextlib.suppress(NotAnswering, StatusError):
                self._keep(int(k), *bus.read_status(self.ids[k], self.address, self.length))

    def _keep(self, k: int, error: int, params: bytes) -> None:
        self.values[k, 0] = error
        self.values[k, 1:] = np.frombuffer(params, np.uint8)
        self.valid[k] = True
