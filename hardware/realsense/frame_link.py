"""The cable between an emulated camera and the process that opens it: frames and requests in shared memory.

The emulator writes into rings of slots; the other side reads what is new, asks for streams, and may ask for a reset.
A slot's sequence number is zero while it is written. `link` is a symbolic link to the memory, an anonymous file that
ends with its process; unplugging removes the link, plugging in makes fresh memory under the same name, so that old
readers see an end and never a revival.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hardware.emulation.placed_link import place_link
from hardware.link.errors import Disconnected
from hardware.realsense.profiles import BYTES_PER_PIXEL, MODELS, MOTION, STREAMS, Mode

__all__ = ["FramePort", "FrameReader", "Record"]

_MAGIC = b"refit-frames-2"
VIDEO_SLOTS, MOTION_SLOTS = 3, 256
LOST_AFTER = 1.0  # [s] without a sign of life from the other side

_HEADER = np.dtype(
    [
        ("magic", "S16"),
        ("model", "S16"),
        ("serial", "S32"),
        ("plugged", "u8"),
        ("asic", "f8"),
        ("projector", "f8"),
        ("port_alive", "f8"),
        ("reader_alive", "f8"),
        ("resets", "u8"),
        ("wanted", "u8", len(STREAMS)),  # width, height, fps in one word, as a mode is read while it is changed
        ("written", "u8", len(STREAMS)),
    ]
)
_SLOT = np.dtype(
    [
        ("sequence", "u8"),
        ("number", "u8"),
        ("device_ms", "f8"),
        ("exposure", "f8"),
        ("gain", "f8"),
        ("width", "u4"),
        ("height", "u4"),
        ("size", "u8"),
    ]
)


@dataclass(frozen=True)
class Record:
    """One frame on the cable.

    Attributes:
        number: counted by the camera per stream.
        device_ms: camera's time of measurement [ms].
        exposure: [us]; gain: [-].
        width, height: [pixels]; zero for motion.
        payload: bytes of pixels or of three float32, as a uint8 array.
    """

    stream: str
    number: int
    device_ms: float
    exposure: float
    gain: float
    width: int
    height: int
    payload: np.ndarray


def _capacity(model: str, stream: str) -> int:
    if stream in MOTION:
        return 12
    found = [s for s in MODELS[model].video if s.name == stream]
    return max((m.width * m.height * BYTES_PER_PIXEL[s.format] for s in found for m in s.modes), default=0)


def _word(mode: Mode) -> int:
    return mode.width << 32 | mode.height << 16 | mode.fps


def _mode(word: int) -> Mode:
    return Mode(word >> 32, word >> 16 & 0xFFFF, word & 0xFFFF)


class _Memory:
    """The layout: header, then for each stream its slots' heads and payloads."""

    def __init__(self, memory: mmap.mmap, model: str) -> None:
        self.header = np.frombuffer(memory, _HEADER, 1).view(np.recarray)[0]
        self.heads, self.payloads = {}, {}
        offset = _HEADER.itemsize
        for stream in STREAMS:
            slots, capacity = MOTION_SLOTS if stream in MOTION else VIDEO_SLOTS, _capacity(model, stream)
            self.heads[stream] = np.frombuffer(memory, _SLOT, slots, offset)
            offset += slots * _SLOT.itemsize
            self.payloads[stream] = np.frombuffer(memory, np.uint8, slots * capacity, offset).reshape(slots, capacity)
            offset += -(-slots * capacity // 64) * 64

    @staticmethod
    def size(model: str) -> int:
        return _HEADER.itemsize + sum(
            (MOTION_SLOTS if s in MOTION else VIDEO_SLOTS) * _SLOT.itemsize
            + -(-(MOTION_SLOTS if s in MOTION else VIDEO_SLOTS) * _capacity(model, s) // 64) * 64
            for s in STREAMS
        )


class FramePort:
    """The camera's end.

    Args:
        link: path that readers open.
        model: key of MODELS.
        serial: number that the camera reports.

    Attributes:
        stats: frames written and not written (unplugged).
    """

    def __init__(self, link: str | os.PathLike, model: str, serial: str) -> None:
        self.link, self.model, self.serial = Path(link), model, serial
        self.stats = dict(written=0, unplugged=0)
        self._memory: _Memory | None = None
        self._descriptor = -1
        self.replug()

    @property
    def plugged(self) -> bool:
        return self._memory is not None

    @property
    def _target(self) -> Path:
        return Path(f"/proc/{os.getpid()}/fd/{self._descriptor}")

    def replug(self) -> None:
        """Fresh memory, and the link to it, replaced in one step."""
        if self.plugged:
            return
        self._descriptor = os.memfd_create(f"frames of {self.model}")
        os.ftruncate(self._descriptor, _Memory.size(self.model))
        memory = _Memory(mmap.mmap(self._descriptor, 0), self.model)
        header = memory.header
        header.magic, header.model, header.serial = _MAGIC, self.model.encode(), self.serial.encode()
        header.plugged, header.port_alive = 1, time.monotonic()
        self._memory = memory
        place_link(self.link, self._target)

    def unplug(self) -> None:
        if self._memory is None:
            return
        self._memory.header.plugged = 0
        self._memory = None
        with contextlib.suppress(OSError):
            if self.link.readlink() == self._target:  # not another camera's by now
                self.link.unlink()
        os.close(self._descriptor)

    close = unplug

    def alive(self, asic: float, projector: float) -> None:
        """A sign of life, with temperatures [degC]; to be given several times a second."""
        if self._memory is not None:
            header = self._memory.header
            header.port_alive, header.asic, header.projector = time.monotonic(), asic, projector

    def wanted(self) -> dict[str, Mode]:
        """Streams the reader asks for; empty without a reader."""
        if self._memory is None or time.monotonic() - self._memory.header.reader_alive > LOST_AFTER:
            return {}
        modes = (_mode(int(word)) for word in self._memory.header.wanted)
        return {name: mode for name, mode in zip(STREAMS, modes, strict=True) if mode.fps}

    def resets(self) -> int:
        """How often the reader has asked for a reset."""
        return int(self._memory.header.resets) if self._memory is not None else 0

    def write(
        self,
        stream: str,
        number: int,
        device_ms: float,
        payload: np.ndarray,
        *,
        exposure: float = 0.0,
        gain: float = 0.0,
        width: int = 0,
        height: int = 0,
    ) -> None:
        """Put a frame on the cable; the oldest in its ring is overwritten."""
        if self._memory is None:
            self.stats["unplugged"] += 1
            return
        memory, at = self._memory, STREAMS.index(stream)
        count = int(memory.header.written[at])
        heads = memory.heads[stream]
        i = count % len(heads)
        flat = payload.reshape(-1).view(np.uint8)
        heads[i]["sequence"] = 0
        memory.payloads[stream][i, : flat.size] = flat
        head = heads[i]
        head["number"], head["device_ms"], head["exposure"], head["gain"] = number, device_ms, exposure, gain
        head["width"], head["height"], head["size"] = width, height, flat.size
        head["sequence"] = count + 1
        memory.header.written[at] = count + 1
        self.stats["written"] += 1


class FrameReader:
    """The other end.

    Attributes:
        model: key of MODELS; serial: of the camera.
        missed: frames overwritten before they were read.

    Raises:
        Disconnected: there is no such camera.
    """

    def __init__(self, link: str | os.PathLike) -> None:
        try:
            with open(link, "r+b") as file:
                memory = mmap.mmap(file.fileno(), 0)
        except (OSError, ValueError) as error:
            raise Disconnected(
                f"no emulated camera at {link}: start `./refit emulate realsense --link {link}` "
                f"({type(error).__name__})"
            ) from error
        header = np.frombuffer(memory, _HEADER, 1)[0]
        if bytes(header["magic"]) != _MAGIC:
            raise Disconnected(f"{link} is no emulated camera of this version")
        self.model, self.serial = header["model"].decode(), header["serial"].decode()
        self._memory = _Memory(memory, self.model)
        self._read = {name: int(self._memory.header.written[i]) for i, name in enumerate(STREAMS)}
        self.missed = 0

    @property
    def plugged(self) -> bool:
        header = self._memory.header
        return bool(header.plugged) and time.monotonic() - header.port_alive < LOST_AFTER

    @property
    def temperatures(self) -> tuple[float, float]:
        """ASIC and projector [degC]."""
        return float(self._memory.header.asic), float(self._memory.header.projector)

    def ask_reset(self) -> None:
        """The camera will vanish and come back."""
        self._memory.header.resets += 1

    def want(self, streams: dict[str, Mode]) -> None:
        """Ask for streams, and show that this end lives; to be repeated several times a second."""
        header = self._memory.header
        header.reader_alive = time.monotonic()
        for i, name in enumerate(STREAMS):
            mode = streams.get(name, Mode())
            if header.wanted[i] == 0 and mode.fps:
                self._read[name] = int(header.written[i])  # what lies in the ring is of an earlier request
            header.wanted[i] = _word(mode)

    def take(self, stream: str) -> list[Record]:
        """Copies of the frames written since the last call, oldest first."""
        memory, at = self._memory, STREAMS.index(stream)
        heads, payloads = memory.heads[stream], memory.payloads[stream]
        written, n = int(memory.header.written[at]), len(heads)
        first = max(self._read[stream], written - n + 1)  # the oldest slot may be written just now
        self.missed += first - self._read[stream]
        records = []
        for count in range(first, written):
            head = heads[count % n].copy()
            payload = payloads[count % n, : int(head["size"])].copy()
            if head["sequence"] != count + 1 or heads[count % n]["sequence"] != count + 1:
                self.missed += 1
                continue
            records.append(
                Record(
                    stream,
                    int(head["number"]),
                    float(head["device_ms"]),
                    float(head["exposure"]),
                    float(head["gain"]),
                    int(head["width"]),
                    int(head["height"]),
                    payload,
                )
            )
        self._read[stream] = written
        return records
