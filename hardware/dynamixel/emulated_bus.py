"""The bus: instruction packets to servos, status packets back in the order and at the time the protocol gives them.

Source: ROBOTIS e-manual, Protocol 1.0 and Protocol 2.0, instruction details.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np

from hardware.dynamixel.emulated_codec import (
    BROADCAST,
    LONGEST,
    Receiver1,
    Receiver2,
    Request,
    fast_status2,
    status1,
    status2,
)
from hardware.dynamixel.emulated_motors import Motors
from hardware.dynamixel.emulated_servo import REBOOT_TIME, Servo, ServoSpec
from hardware.dynamixel.emulated_table import ACCESS, CRC, INSTRUCTION, LENGTH, LIMIT, RANGE, RESULT, TableError

__all__ = ["Bus", "Reply", "collide"]

PING, READ, WRITE, REG_WRITE, ACTION, FACTORY_RESET, REBOOT, CLEAR = 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x08, 0x10
SYNC_READ, SYNC_WRITE, FAST_SYNC_READ, BULK_READ, BULK_WRITE, FAST_BULK_READ = 0x82, 0x83, 0x8A, 0x92, 0x93, 0x9A
CLEAR_TURNS = bytes.fromhex("01 44 58 4C 22")
WATCH_EVERY = 8  # [ticks]
WARM_EVERY = 50  # [ticks]
PACKET_TIMEOUT = 0.05  # [s] after which half a packet is given up
BAUD_TOLERANCE = 0.03
Item = TypeVar("Item", tuple[int, int, int], tuple[int, int, bytes])
P1_ERRORS = {RESULT: 64, INSTRUCTION: 64, CRC: 16, RANGE: 8, LENGTH: 8, LIMIT: 8, ACCESS: 8}
ANGLE_LIMIT = 2
FAST_HEADER = 8  # bytes before the first servo's part: FF FF FD 00, id, length, instruction


class Reply(NamedTuple):
    """A status packet; `gap`: silence on the bus before it [s]."""

    gap: float
    packet: bytes


class Bus:
    """All servos of one port.

    Args:
        specs: the servos.
        on_event: told of what deserves a line in the log.

    Attributes:
        servos, motors: in the same order.
        dropped: ids that neither hear nor speak; doubled: ids that a second servo claims too (faults).
        strict_stuffing: refuse packets with an unstuffed FF FF FD.
        counts: packets by kind.
    """

    def __init__(
        self, specs: list[ServoSpec], on_event: Callable[[str], None] = print, strict_stuffing: bool = False
    ) -> None:
        self.motors = Motors(
            [spec.model.motor for spec in specs],
            [spec.load_inertia / spec.gear_ratio**2 for spec in specs],
            [spec.horn(spec.initial) for spec in specs],
        )
        m = self.motors
        for k, spec in enumerate(specs):
            m.load[k] = spec.direction * spec.load_torque / spec.gear_ratio
            if spec.torque_constant is not None:
                m.k_t[k] = spec.torque_constant
        m.refresh()
        self.on_event, self.strict_stuffing = on_event, strict_stuffing
        self.servos = [Servo(spec, m, k) for k, spec in enumerate(specs)]
        self.dropped: set[int] = set()
        self.doubled: set[int] = set()
        self.counts = {"requests": 0, "replies": 0, "crc_errors": 0, "unstuffed": 0}
        self.ticks = 0
        self._receivers: list[Receiver1 | Receiver2] = []
        self._published = -1
        self._fed = math.inf
        for servo in self.servos:
            servo.on_identity, servo.on_event = self.renumber, on_event
        self.renumber()
        self._units = np.array(
            [
                [
                    1.0 / servo.per_count,
                    1.0 / servo.model.velocity_unit,
                    1.0 / servo.model.current_unit if servo.model.current_unit else 0.0,
                    servo.model.pwm_unit,
                    1.0 / servo.per_count,
                    1.0 / servo.model.velocity_unit,
                    10.0,
                    1.0,
                ]
                for servo in self.servos
            ]
        ).T.copy()
        self._load = np.array([0.0 if servo.model.current_unit else 1000.0 for servo in self.servos])

    def renumber(self) -> None:
        """Ids, baud rates or protocols have changed."""
        self._by_id: dict[int, list[Servo]] = {}
        self._tunings: dict[tuple[int, int], list[Servo]] = {}
        for servo in self.servos:
            self._by_id.setdefault(servo.id, []).append(servo)
        protocols = {servo.protocol for servo in self.servos}
        kinds: list[type[Receiver1 | Receiver2]] = [Receiver1] * (1 in protocols) + [Receiver2] * (2 in protocols)
        kept = {type(receiver): receiver for receiver in self._receivers}
        self._receivers = [kept.get(kind) or kind() for kind in kinds]

    def _tuned(self, protocol: int, baud: int) -> list[Servo]:
        """Servos that understand this protocol at this rate."""
        found = self._tunings.get((protocol, baud))
        if found is None:
            found = self._tunings[protocol, baud] = [
                servo
                for servo in self.servos
                if servo.protocol == protocol and abs(servo.baud - baud) <= BAUD_TOLERANCE * servo.baud
            ]
        return found

    def hears(self, baud: int) -> bool:
        """Whether any servo listens at this rate."""
        return bool(self._tuned(1, baud) or self._tuned(2, baud))

    # -- time --------------------------------------------------------------------------------------
    def tick(self, now: float) -> None:
        """One millisecond."""
        self.motors.step()
        self.ticks += 1
        if self.ticks % WATCH_EVERY == 0:
            for servo in self.servos:
                servo.watch(now)
            if now - self._fed > PACKET_TIMEOUT:
                self._fed = math.inf
                for receiver in self._receivers:
                    receiver.buffer.clear()
        if self.ticks % WARM_EVERY == 0:
            self.motors.warm()

    def publish(self, now: float) -> None:
        """Present values of all servos into their tables, once a tick."""
        if self._published == self.ticks:
            return
        self._published = self.ticks
        m = self.motors
        sign = np.array([servo.sign for servo in self.servos], float)
        raw = np.array([m.q, m.v_meas, m.i, m.u, m.q_ref, m.v_ref, m.V, m.temperature]) * self._units
        raw[2] += self._load * m.u
        raw[:6] *= sign
        offset = np.array([servo.offset for servo in self.servos], float)
        raw[0] += offset
        raw[4] += offset
        for servo, values in zip(self.servos, np.rint(raw).astype(np.int64).T.tolist(), strict=True):
            servo.publish(*values, now=now)

    # -- packets -----------------------------------------------------------------------------------
    def feed(self, data: bytes, now: float, baud: int) -> list[tuple[Request, list[Reply]]]:
        """What each request that `data` completes brings forth."""
        self._fed = now
        answers = []
        for receiver in self._receivers:
            for request in receiver.feed(data):
                answers.append((request, self.handle(request, now, baud)))
        return answers

    def handle(self, request: Request, now: float, baud: int) -> list[Reply]:
        """Status packets in the order in which they leave."""
        listening = [servo for servo in self._tuned(request.protocol, baud) if not servo.off_until]
        if self.dropped:
            listening = [servo for servo in listening if servo.id not in self.dropped]
        if not request.valid:
            self.counts["crc_errors"] += 1
            return [
                self._status(servo, _error_byte(servo, TableError(CRC)))
                for servo in listening
                if servo.id == request.id and servo.table["status_return_level"] == 2
            ]
        self.counts["requests"] += 1
        if request.unstuffed:
            self.counts["unstuffed"] += 1
            fate = "refused" if self.strict_stuffing else "accepted"
            self.on_event(f"unstuffed FF FF FD in instruction {request.instruction:02X} for id {request.id}: {fate}")
            if self.strict_stuffing:
                return []
        for servo in listening:
            servo.heard = now
        if request.instruction in _MANY:
            replies = _MANY[request.instruction](self, request, listening, now)
        else:
            replies = self._one(request, listening, now)
        self.counts["replies"] += len(replies)
        return replies

    def _one(self, request: Request, listening: list[Servo], now: float) -> list[Reply]:
        """An instruction for one servo, or for each by broadcast (then only ping is answered)."""
        broadcast = request.id == BROADCAST
        addressed = listening if broadcast else [servo for servo in listening if servo.id == request.id]
        if broadcast:
            addressed = sorted(addressed, key=lambda servo: servo.id)
        replies = []
        for servo in addressed:
            level, error, data, id = servo.table["status_return_level"], 0, b"", servo.id
            try:
                data = self._execute(servo, request, now)
            except TableError as refused:
                error = _error_byte(servo, refused)
            wanted = {PING: 0, READ: 1}.get(request.instruction, 2)
            if level >= wanted and (not broadcast or request.instruction == PING):
                replies.append(self._status(servo, error, data, id))
        if broadcast and request.protocol == 1 and len(replies) > 1:  # all speak at once
            together = replies[0].packet
            for reply in replies[1:]:
                together = collide(together, reply.packet)
            return [Reply(replies[0].gap, together)]
        if not broadcast and len(replies) > 1:  # two servos of one id
            return [Reply(replies[0].gap, collide(replies[0].packet, replies[1].packet))]
        return replies

    def _execute(self, servo: Servo, request: Request, now: float) -> bytes:
        """Parameters of the status packet.

        Raises:
            TableError: the error to answer with.
        """
        instruction, p, two = request.instruction, request.parameters, request.protocol == 2
        if instruction == PING:
            return servo.model.number.to_bytes(2, "little") + bytes((servo.table["firmware_version"],)) if two else b""
        if instruction == READ:
            if len(p) != (4 if two else 2):
                raise TableError(INSTRUCTION)
            return self.read(servo, _word(p, 0), _word(p, 2), now) if two else self.read(servo, p[0], p[1], now)
        self._published = -1  # whatever comes may change what is measured: offsets, errors
        if instruction in (WRITE, REG_WRITE):
            if len(p) < (3 if two else 2):
                raise TableError(INSTRUCTION)
            address, data = (_word(p, 0), p[2:]) if two else (p[0], p[1:])
            (servo.write if instruction == WRITE else servo.register_write)(address, data)
        elif instruction == ACTION:
            servo.action()
        elif instruction == FACTORY_RESET:
            option = p[0] if two and p else 0xFF
            if request.id == BROADCAST and option == 0xFF or option not in (1, 2, 0xFF):
                raise TableError(INSTRUCTION)
            servo.factory_reset(option)
            servo.switch_off(now + REBOOT_TIME)
        elif instruction == REBOOT and two:
            servo.switch_off(now + REBOOT_TIME)
        elif instruction == CLEAR and two:
            if p != CLEAR_TURNS:
                raise TableError(RANGE)
            servo.clear_turns()
        else:
            raise TableError(INSTRUCTION)
        return b""

    def read(self, servo: Servo, address: int, length: int, now: float) -> bytes:
        """Bytes of a table, present values up to date."""
        return servo.table.read(address, length, lambda: self.publish(now))

    def _status(self, servo: Servo, error: int = 0, data: bytes = b"", id: int | None = None) -> Reply:
        id = servo.id if id is None else id
        if servo.protocol == 2:
            packet = status2(id, error | servo.alert, data)
        else:
            packet = status1(id, error | servo.alert, data)
        return Reply(servo.return_delay, collide(packet, packet) if id in self.doubled else packet)

    # -- instructions for many -----------------------------------------------------------------------
    def _sync_read(self, request: Request, listening: list[Servo], now: float) -> list[Reply]:
        p = request.parameters
        if request.protocol == 1 or len(p) < 5:
            return []
        return self._read_many([(id, _word(p, 0), _word(p, 2)) for id in p[4:]], request, listening, now)

    def _bulk_read(self, request: Request, listening: list[Servo], now: float) -> list[Reply]:
        p = request.parameters
        if request.protocol == 1:
            if request.instruction == FAST_BULK_READ:  # an instruction of Protocol 2.0 alone
                return []
            listening = [servo for servo in listening if servo.model.bulk_read]
        if request.protocol == 2:
            items = [(p[i], _word(p, i + 1), _word(p, i + 3)) for i in range(0, len(p) - 4, 5)]
        else:  # 00 | length id address | ...
            items = [(p[i + 1], p[i + 2], p[i]) for i in range(1, len(p) - 2, 3)]
        return self._read_many(self._once_each(items), request, listening, now)

    def _read_many(
        self, items: list[tuple[int, int, int]], request: Request, listening: list[Servo], now: float
    ) -> list[Reply]:
        """Reads of (id, address, length), answered in this order.

        A servo that is missing leaves its turn as silence, which lasts as long as its packet would have
        (assumption); in a fast read the chain breaks there.
        """
        fast = request.instruction in (FAST_SYNC_READ, FAST_BULK_READ)
        by_id = {
            servo.id: servo
            for servo in listening
            if servo.table["status_return_level"] >= 1 and (servo.spec.fast_reads or not fast)
        }
        answers: list[tuple[int, int, bytes | None]] = []
        replies: list[Reply] = []
        silence = 0.0
        for id, address, length in items:
            servo, error = by_id.get(id), 0
            data: bytes | None = None
            if servo is not None:
                try:
                    data = self.read(servo, address, length, now)
                except TableError as refused:
                    error, data = _error_byte(servo, refused), bytes(length) if fast else b""
            if fast:
                answers.append((id, error | servo.alert if servo else 0, data))
            elif servo is None:
                silence += (11 + length) * 10.0 / max(1, listening[0].baud if listening else 1)
            else:
                reply = self._status(servo, error, data or b"")
                if len(self._by_id[id]) > 1:
                    reply = reply._replace(packet=collide(reply.packet, reply.packet))
                replies.append(reply._replace(gap=reply.gap + silence))
                silence = 0.0
        asked = sum(length for _, _, length in items)
        if fast and answers and answers[0][2] is not None and asked <= LONGEST:
            packet = self._collided(fast_status2(answers, asked), answers)
            return [Reply(by_id[answers[0][0]].return_delay, packet)]
        return replies

    def _collided(self, packet: bytes, answers: list[tuple[int, int, bytes | None]]) -> bytes:
        """The common packet of a fast read, where somebody else speaks at the same time as one of those asked."""
        start, damaged = 0, b""  # the first servo sends the header, too
        end = FAST_HEADER
        for id, _, data in answers:
            if data is None:
                break
            end += 4 + len(data)
            part, start = packet[start:end], end
            damaged += collide(part, part) if id in self.doubled or len(self._by_id[id]) > 1 else part
        return damaged

    def _sync_write(self, request: Request, listening: list[Servo], now: float) -> list[Reply]:
        p = request.parameters
        if len(p) < 4:
            return []
        address, length, at = (_word(p, 0), _word(p, 2), 4) if request.protocol == 2 else (p[0], p[1], 2)
        if length:
            items = [(p[i], address, p[i + 1 : i + 1 + length]) for i in range(at, len(p) - length, 1 + length)]
            self._write_many(items, listening)
        return []

    def _bulk_write(self, request: Request, listening: list[Servo], now: float) -> list[Reply]:
        p, at = request.parameters, 0
        items: list[tuple[int, int, bytes]] = []
        while at + 5 <= len(p):
            length = _word(p, at + 3)
            data = p[at + 5 : at + 5 + length]
            if len(data) == length:
                items.append((p[at], _word(p, at + 1), data))
            at += 5 + length
        self._write_many(self._once_each(items), listening)
        return []

    def _once_each(self, items: list[Item]) -> list[Item]:
        """The first item of each id: a bulk instruction must not name a servo twice (e-manual, "Bulk Write")."""
        first = {item[0]: item for item in reversed(items)}
        kept = [item for item in items if first[item[0]] is item]
        if len(kept) < len(items):
            self.counts["doubled_items"] = self.counts.get("doubled_items", 0) + len(items) - len(kept)
            self.on_event("a bulk instruction names a servo twice: only its first item counts")
        return kept

    def _write_many(self, items: list[tuple[int, int, bytes]], listening: list[Servo]) -> None:
        """Broadcast writes: nobody answers, refusals go to the log only."""
        by_id: dict[int, list[Servo]] = {}
        for servo in listening:
            by_id.setdefault(servo.id, []).append(servo)
        for id, address, data in items:
            for servo in by_id.get(id, ()):
                try:
                    servo.write(address, data)
                except TableError as refused:
                    self.counts["writes_refused"] = self.counts.get("writes_refused", 0) + 1
                    self.on_event(f"servo {id}: {refused} in a write of {len(data)} bytes at {address}")


_MANY = {
    SYNC_READ: Bus._sync_read,
    FAST_SYNC_READ: Bus._sync_read,
    BULK_READ: Bus._bulk_read,
    FAST_BULK_READ: Bus._bulk_read,
    SYNC_WRITE: Bus._sync_write,
    BULK_WRITE: Bus._bulk_write,
}


def collide(a: bytes, b: bytes) -> bytes:
    """Two packets at once on a line that idles high: a zero wins. The second comes a byte late, as two clocks never agree."""
    n = max(len(a), len(b) + 1)
    return bytes(x & y for x, y in zip(a.ljust(n, b"\xff"), (b"\xff" + b).ljust(n, b"\xff"), strict=True))


def _error_byte(servo: Servo, refused: TableError) -> int:
    """The number of Protocol 2.0, or the bit of 1.0."""
    if servo.protocol == 2:
        return refused.number
    if refused.number == LIMIT and refused.register is not None and refused.register.name == "goal_position":
        return ANGLE_LIMIT
    return P1_ERRORS[refused.number]


def _word(data: bytes, at: int) -> int:
    return data[at] | data[at + 1] << 8
