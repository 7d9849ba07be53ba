"""An emulated serial force-torque sensor: python -m hardware.emulate serial_wrench --description sensor.yaml --link /tmp/ft.

Plays the format of a description; of lines it prints the six numbers in the order that `--line` gives them. Not imitated: what
the description does not say, such as replies to the start text.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any, Literal

import numpy as np
import yaml

from hardware.emulation.emulator import Emulator
from hardware.emulation.faults import Faults
from hardware.emulation.pty_port import PtyPort
from hardware.emulation.wrench_source import WrenchSource

__all__ = ["SerialWrenchEmulator", "arguments", "make"]

AXES = ("fx", "fy", "fz", "tx", "ty", "tz")
LINE = "{fx:.6g} {fy:.6g} {fz:.6g} {tx:.6g} {ty:.6g} {tz:.6g}\r\n"


def _packed(number: float, kind: str, endian: Literal["little", "big"]) -> bytes:
    """One number as the wire has it."""
    if kind[0] == "f":
        return np.array(number, f"{'<' if endian == 'little' else '>'}f{int(kind[1:]) // 8}").tobytes()
    bits, signed = int(kind[1:]), kind[0] == "i"
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return max(low, min(high, round(number))).to_bytes(bits // 8, endian, signed=signed)


def _polynomial_remainder(data: bytes, polynomial: int, reflected: bool) -> int:
    """CRC of 16 bits that starts with ones, computed bit by bit as a shift register of a list of bits."""
    register = [1] * 16
    taps = [polynomial >> 15 - i & 1 for i in range(16)]
    for byte in data:
        for i in range(8):
            bit = byte >> (i if reflected else 7 - i) & 1
            feedback = register[0] ^ bit
            register = [r ^ feedback & t for r, t in zip(register[1:] + [0], taps)]
    bits = register[::-1] if reflected else register
    return int("".join(map(str, bits)), 2)


def _checksum(kind: str, endian: Literal["little", "big"], data: bytes) -> bytes:
    if kind == "sum8":
        return bytes((sum(data) % 256,))
    if kind == "xor8":
        return bytes((int(np.bitwise_xor.reduce(np.frombuffer(data, np.uint8))),))
    if kind == "crc16-modbus":
        return _polynomial_remainder(data, 0x8005, True).to_bytes(2, endian)
    if kind == "crc16-ccitt":
        return _polynomial_remainder(data, 0x1021, False).to_bytes(2, endian)
    return b""


class SerialWrenchEmulator(Emulator):
    """See the module's docstring.

    Args:
        port: PtyPort at the described rate.
        described: content of the YAML file.
        source: what the sensor feels.
        line: format of a line, with the fields fx ... tz in the sensor's own units.
    """

    name = "serial_wrench"
    own_faults = {"saturate": "the transducer is overloaded"}

    def __init__(
        self,
        port: PtyPort,
        described: dict,
        source: WrenchSource | None = None,
        line: str = LINE,
        faults: Faults | None = None,
    ) -> None:
        super().__init__(faults)
        self.port, self.described, self.source, self.line = port, described, source or WrenchSource(), line
        self.start, self.stop = (str(described.get(key) or "").encode("latin-1") for key in ("start", "stop"))
        self.rated = np.array(described.get("rated", [np.inf] * 6), float)
        self.frames = 0
        self.power_on()

    def power_on(self) -> None:
        self.streaming, self._due, self._heard = not self.start, time.monotonic(), b""

    def step(self, timeout: float) -> None:
        if self.streaming:
            timeout = min(timeout, max(0.0, self._due - time.monotonic()))
        data = self.port.read(max(0.0, timeout - 0.001))
        if not data and self.streaming:
            time.sleep(min(0.001, max(0.0, self._due - time.monotonic())))
        if not self.powered:
            return
        self._hear(data)
        now = time.monotonic()
        if self.streaming and now >= self._due:
            self._due = max(self._due + 1.0 / float(self.described["rate"]), now - 0.05)
            self.frames += 1
            self.send(self.frame(now))

    def _hear(self, data: bytes) -> None:
        self._heard = (self._heard + data)[-256:]
        for text, streaming in ((self.start, True), (self.stop, False)):
            if text and text in self._heard:
                self._heard = self._heard.split(text, 1)[1]
                self.streaming, self._due = streaming, time.monotonic()

    def frame(self, t: float) -> bytes:
        """What is sent of the load at host time t [s]."""
        load = self.source.at(np.array([t]))[0]
        if self.faults.active("saturate") is not None:
            load = np.where(np.isfinite(self.rated), self.rated, load)
        values = dict(zip(AXES, np.clip(load, -self.rated, self.rated).tolist()))
        if "pattern" in self.described:
            scale = self.described.get("scale") or {}
            return self.line.format(**{axis: value / scale.get(axis, 1.0) for axis, value in values.items()}).encode(
                "latin-1"
            )
        header = bytes.fromhex(self.described["header"])
        body = b"".join(
            _packed(
                values[f["name"]] / f.get("scale", 1.0) if f["name"] in values else self.frames % 128,
                f["type"],
                f.get("endian", "little"),
            )
            for f in self.described["fields"]
        )
        checksum = self.described.get("checksum") or {"type": "none"}
        covered = header + body if checksum.get("header", True) else body
        return header + body + _checksum(checksum.get("type", "none"), checksum.get("endian", "little"), covered)

    def stats(self) -> dict:
        return {**super().stats(), "frames": self.frames, "streaming": self.streaming}

    def set(self, **values: Any) -> None:
        self.source.set(**values)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `refit emulate` that this device has alone."""
    parser.add_argument("--description", type=Path, required=True, help="YAML file of the format")
    parser.add_argument("--line", default=LINE, help="format of a line of text")
    WrenchSource.arguments(parser)


def make(options: argparse.Namespace, faults: Faults) -> SerialWrenchEmulator:
    """The emulated device that the options describe.

    Raises:
        ValueError: no `--link`.
    """
    if options.link is None:
        raise ValueError("--link is needed: the path that clients open as the serial port")
    described = yaml.safe_load(options.description.read_text())
    return SerialWrenchEmulator(
        PtyPort(options.link, int(described["baud"])),
        described,
        WrenchSource.from_options(options),
        options.line,
        faults,
    )
