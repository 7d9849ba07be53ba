"""A Psyonic Ability Hand on a pseudo-terminal: `python -m hardware.emulate ability_hand --link /tmp/hand`.

Values to set: contacts, a mapping from finger to the angle [deg] at which an object stops it (null: none); fastest, of the
fingers [deg/s]; api_time, without a command until the hand no longer obeys the line [s]. It does not imitate: the Bluetooth and EMG side, grips (command 1D), registers, upsampled thumb, fingers that push one another.

Its bytes are taken apart and put together here, apart from protocol.py on purpose.
"""

from __future__ import annotations

import argparse
import math
import time
from typing import Any

from hardware.emulation.emulator import Emulator
from hardware.emulation.faults import Faults
from hardware.emulation.pty_port import PtyPort

__all__ = ["AbilityHandEmulator", "arguments", "make", "pack", "unpack"]

FINGERS = ("index", "middle", "ring", "pinky", "thumb_flexor", "thumb_rotator")
LIMITS = ((0.0, 100.0),) * 5 + ((-100.0, 0.0),)  # [deg]
FASTEST = 235.0  # [deg/s]
GAIN = 25.0  # [1/s] of the position loop
API_TIME = 0.3  # [s]
STALL = 1.2  # [A]
POSITION, VELOCITY, READ = 1, 2, 10


def pack(payload: list[int]) -> bytes:
    """Payload without its checksum -> frame."""
    out = [0x7E]
    for byte in [*payload, (256 - sum(payload) % 256) % 256]:
        if byte in (0x7E, 0x7D):
            out += [0x7D, byte ^ 0x20]
        else:
            out.append(byte)
    return bytes([*out, 0x7E])


def unpack(frame: bytes) -> list[int] | None:
    """What stands between two flags -> payload without its checksum; None if the sum is wrong."""
    payload, k = [], 0
    while k < len(frame):
        if frame[k] == 0x7D and k + 1 < len(frame):
            k += 1
            payload.append(frame[k] ^ 0x20)
        else:
            payload.append(frame[k])
        k += 1
    return payload[:-1] if len(payload) >= 3 and sum(payload) % 256 == 0 else None


def int16(value: float) -> list[int]:
    number = max(-32768, min(32767, round(value))) & 0xFFFF
    return [number & 0xFF, number >> 8]


class AbilityHandEmulator(Emulator):
    """The hand behind its port.

    Attributes:
        angles, speeds: of the fingers [deg], [deg/s]; fastest: that they move [deg/s].
        api_time: without a command, then the hand no longer obeys the line [s].
        api: whether it obeys the line; api_exits counts the ends of that.
    """

    name = "ability_hand"
    longest_step = 0.002

    def __init__(self, port: PtyPort, address: int = 0x50, faults: Faults | None = None) -> None:
        super().__init__(faults)
        self.port, self.address = port, address
        self.commands = self.damaged = self.unknown = self.api_exits = 0
        self.angles = [30.0] * 5 + [-30.0]
        self.contacts = [math.inf] * 6
        self.fastest, self.api_time = FASTEST, API_TIME
        self._pending = b""
        self._time = time.monotonic()
        self.power_on()

    def power_on(self) -> None:
        self.api, self._mode, self._goals = False, POSITION, list(self.angles)
        self.speeds = [0.0] * 6
        self._heard = -math.inf

    # -- the line ----------------------------------------------------------------------------------
    def step(self, timeout: float) -> None:
        data = self.port.read(timeout)
        self._advance(time.monotonic())
        if not self.powered:
            self._pending = b""
            return
        *frames, self._pending = (self._pending + data).split(b"\x7e")
        self._pending = self._pending[-256:]
        for frame in frames:
            if frame:
                self._obey(frame)

    def _obey(self, frame: bytes) -> None:
        payload = unpack(frame)
        if payload is None:
            self.damaged += 1
            return
        if payload[0] != self.address:
            return
        mode, reply, values = payload[1] >> 4, payload[1] & 0x0F, payload[2:]
        if reply > 2 or (mode, len(values)) not in ((POSITION, 12), (VELOCITY, 12), (READ, 0)):
            self.unknown += 1
            return
        if mode != READ:
            numbers = [int.from_bytes(bytes(values[k : k + 2]), "little", signed=True) for k in range(0, 12, 2)]
            scale = 150.0 / 32767 if mode == POSITION else 3000.0 / 32767
            self._mode, self._goals = mode, [scale * number for number in numbers]
            self.api, self._heard = True, self._time
        self.commands += 1
        self.send(pack(self._feedback(payload[1], reply)))

    def _feedback(self, header: int, reply: int) -> list[int]:
        position = [int16(angle * 32767 / 150.0) for angle in self.angles]
        velocity = [int16(speed * 4 * 32767 / 3000.0) for speed in self.speeds]
        current = [int16(ampere * 620.606079) for ampere in self.currents]
        second = velocity if reply == 1 else current
        out = [header, *(byte for a, b in zip(position, second, strict=True) for byte in (*a, *b))]
        out += [byte for pair in velocity for byte in pair] if reply == 2 else self._touch()
        return [*out, 0x3F if self.faults.active("overtemp") is not None else 0]

    def _touch(self) -> list[int]:
        """30 readings of 12 bits, two in three bytes; the tip sensors of a finger that is stopped are pressed."""
        raw = [2000 if self.pressing(finger) else 300 for finger in range(5) for _ in range(6)]
        return [
            byte
            for a, b in zip(raw[::2], raw[1::2], strict=True)
            for byte in (a & 0xFF, a >> 8 | (b & 0x0F) << 4, b >> 4)
        ]

    # -- the fingers -------------------------------------------------------------------------------
    def pressing(self, finger: int) -> bool:
        """Whether an object stops a finger on its way."""
        touching = abs(self.angles[finger]) >= self.contacts[finger] - 1e-9
        return self.api and touching and self._wish(finger) * self._sign(finger) > 1.0

    @property
    def currents(self) -> list[float]:
        """[A]"""
        return [
            self._sign(k) * STALL if self.pressing(k) else 0.3 * speed / FASTEST for k, speed in enumerate(self.speeds)
        ]

    def _sign(self, finger: int) -> int:
        """Direction of closing."""
        return -1 if finger == 5 else 1

    def _wish(self, finger: int) -> float:
        """Speed that the finger's controller asks for [deg/s]."""
        goal = self._goals[finger]
        wish = GAIN * (goal - self.angles[finger]) if self._mode == POSITION else goal
        return min(max(wish, -self.fastest), self.fastest)

    def _advance(self, now: float) -> None:
        while self._time < now:
            dt = min(0.005, now - self._time)
            self._time += dt
            if self.api and self._time - self._heard > self.api_time:
                self.api, self.api_exits = False, self.api_exits + 1
            for finger, (low, high) in enumerate(LIMITS):
                before = self.angles[finger]
                wished = before + self._wish(finger) * dt if self.api and self.powered else before
                limit = max(self.contacts[finger], abs(before))
                self.angles[finger] = min(max(wished, low, -limit), high, limit)
                self.speeds[finger] = (self.angles[finger] - before) / dt

    # -- control -----------------------------------------------------------------------------------
    def set(self, **values: Any) -> None:
        for finger, angle in values.pop("contacts", {}).items():
            if finger not in FINGERS:
                raise ValueError(f"there is no finger {finger}, only {', '.join(FINGERS)}")
            self.contacts[FINGERS.index(finger)] = math.inf if angle is None else abs(float(angle))
        self.fastest = float(values.pop("fastest", self.fastest))
        self.api_time = float(values.pop("api_time", self.api_time))
        super().set(**values)

    def stats(self) -> dict:
        return {
            **super().stats(),
            "angles": list(self.angles),
            "api": self.api,
            "api_exits": self.api_exits,
            "commands": self.commands,
            "damaged": self.damaged,
            "unknown": self.unknown,
        }


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `refit emulate` that this device has alone."""
    parser.add_argument("--address", type=lambda text: int(text, 0), default=0x50, help="of the hand")
    parser.add_argument("--baud", type=int, default=460800)


def make(options: argparse.Namespace, faults: Faults) -> AbilityHandEmulator:
    """The emulated device that the options describe."""
    return AbilityHandEmulator(PtyPort(options.link, options.baud), options.address, faults)
