"""Where sound comes from: a sound card, a WAV file, the synthesiser. All give the same chunks."""

from __future__ import annotations

import contextlib
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hardware.audio.pcm import SampleFormat, from_float, sample_format
from hardware.audio.portaudio import PortAudio, find_device, reason
from hardware.audio.ring import Chunk, Ring
from hardware.audio.synthesiser import Stethoscope, StethoscopeConfig
from hardware.audio.wav import read_wav
from hardware.link import Disconnected, Identity, WhileOpen

__all__ = ["FileSource", "PortAudioSource", "Source", "StreamFormat", "SynthesisedSource"]

RING_SECONDS = 2.0  # sound that may wait for a busy reader
CLOCKS_APART = 1e-4  # [s] between two looks at clocks that count as one moment
LATENCY = 0.1  # [s] of sound that the driver may hold before it loses any
SETTLING = 0.5  # [s]: a dozen lumps of sound, of which one comes in time on a busy machine, too


@dataclass(frozen=True)
class StreamFormat:
    """What a stream consists of.

    Raises:
        ValueError: unknown sample format.
    """

    rate: int = 44100  # samples per second
    channels: int = 1
    name: str = "S16LE"  # of the sample format
    chunk_ms: float = 20.0

    def __post_init__(self) -> None:
        sample_format(self.name)

    @property
    def sample(self) -> SampleFormat:
        return sample_format(self.name)

    @property
    def frames(self) -> int:
        """Samples of each channel per chunk."""
        return max(1, round(self.rate * self.chunk_ms * 1e-3))

    @property
    def chunk_seconds(self) -> float:
        return self.frames / self.rate

    @property
    def frame_bytes(self) -> int:
        """Bytes of one sample of all channels."""
        return self.channels * self.sample.width


class Source(ABC):
    """Opened, started, read, stopped, closed. One thread.

    Attributes:
        settling: sound that has to be heard before its first sample can be stamped [s].
    """

    settling = 0.0

    def __init__(self, form: StreamFormat) -> None:
        self.form = form

    @abstractmethod
    def __str__(self) -> str:
        """What a person calls it."""

    @abstractmethod
    def open(self) -> Identity:
        """Find it and get ready.

        Raises:
            DeviceError: it is not there or cannot do what is asked.
        """

    @abstractmethod
    def start(self) -> None:
        """Sound from now on; the samples are counted from here."""

    @abstractmethod
    def read(self, timeout: float) -> Chunk | None:
        """The next chunk, or None if none came within `timeout` [s].

        Raises:
            Disconnected: it is gone.
        """

    def stop(self) -> None:
        """No more sound; it may be started again."""

    def close(self) -> None:
        """Free it; copes with a half-done `open`."""


# -- sound cards -----------------------------------------------------------------------------------


class PortAudioSource(Source):
    """A sound card's input.

    Args:
        form: of the stream.
        device: see `find_device`.
        server: PulseAudio server whose sources PortAudio is to see ("unix:/path"); "": the machine's own sound system.
    """

    settling = SETTLING

    _ring = WhileOpen[Ring]()
    _stream = WhileOpen[Any]()

    def __init__(self, form: StreamFormat, device: str = "default", server: str = "") -> None:
        super().__init__(form)
        self.device, self.server = device, server

    def __str__(self) -> str:
        return f"audio input '{self.device}'"

    def open(self) -> Identity:
        sounddevice = PortAudio.load(self.server)
        form = self.form
        try:
            devices = PortAudio.devices(sounddevice)
            index = find_device(devices, sounddevice.default.device[0], self.device)
            self._ring = Ring(form.frames, form.frame_bytes, max(4, round(RING_SECONDS / form.chunk_seconds)))
            self._stream = sounddevice.RawInputStream(
                samplerate=form.rate,
                blocksize=form.frames,
                device=index,
                channels=form.channels,
                dtype=form.sample.portaudio,
                latency=max(LATENCY, 2 * form.chunk_seconds),
                callback=_listener(self._ring),
            )
        except sounddevice.PortAudioError as error:
            raise Disconnected(
                f"{self} cannot be opened with {form.rate} Hz, {form.channels} channels, {form.name}: "
                f"{reason(error)}; another program may hold it, or it offers other formats"
            ) from error
        PortAudio.opened()
        # Whoever wants the default wants whatever that is: the system names it anew when its sound server restarts.
        return Identity(model="default input" if self.device == "default" else devices[index]["name"])

    def start(self) -> None:
        import sounddevice

        self._ring.clear()
        self._offset = time.monotonic() - self._stream.time
        try:
            self._stream.start()
        except sounddevice.PortAudioError as error:
            raise Disconnected(f"{self} does not start: {reason(error)}") from error

    def read(self, timeout: float) -> Chunk | None:
        chunk = self._ring.get(timeout)
        if chunk is not None:
            return replace(chunk, arrival=chunk.arrival + self._clock_offset())
        if not self._stream.active:
            PortAudio.list_is_old = True
            raise Disconnected(f"{self} is gone: unplugged, or the sound server ended?")
        return None

    def _clock_offset(self) -> float:
        """Host time at PortAudio's time 0 [s]: which clock that is, and whether somebody sets it, is its own business."""
        for _ in range(3):
            before, theirs, after = time.monotonic(), self._stream.time, time.monotonic()
            if after - before < CLOCKS_APART:  # else this thread was held up between the two
                self._offset = 0.5 * (before + after) - theirs
                break
        return self._offset

    def stop(self) -> None:
        with contextlib.suppress(Exception):  # that it is not open, too: there is nothing to stop then
            self._stream.abort()  # stop() would wait for sound that may never come

    def close(self) -> None:
        if (stream := PortAudioSource._stream.of(self)) is not None:
            PortAudio.closed(stream)
        with contextlib.suppress(Disconnected):
            self._ring.close()
        self._stream = self._ring = None


def _listener(ring: Ring) -> Callable:
    """PortAudio's callback: it copies into the ring and does nothing else.

    The arrival is PortAudio's time, read before Python's lock was waited for.
    """
    put = ring.put

    def listen(data: Any, frames: int, times: Any, status: Any) -> None:
        put(data, times.currentTime, times.currentTime - times.inputBufferAdcTime, bool(status.input_overflow))

    return listen


# -- sources that follow the clock -----------------------------------------------------------------


class _PacedSource(Source):
    """Chunks that become due as time passes, each when its last sample has been.

    Attributes:
        began: host time of the first sample [s].
    """

    def start(self) -> None:
        self.began, self._number = time.monotonic(), 0
        self._rewind()

    def read(self, timeout: float) -> Chunk | None:
        due = self.began + (self._number + self.form.frames) / self.form.rate
        wait = due - time.monotonic()
        if wait > timeout:
            time.sleep(max(timeout, 0.0))
            return None
        if wait > 0.0:
            time.sleep(wait)
        data = from_float(self._next(self.form.frames), self.form.sample).tobytes()
        arrival, measured = time.monotonic(), self.began + self._number / self.form.rate
        chunk = Chunk(data, self._number, arrival, arrival - measured)
        self._number += self.form.frames
        return chunk

    def _rewind(self) -> None:
        """Back to the first sample."""

    def _next(self, frames: int) -> np.ndarray:
        """The next samples, full scale at 1, shape (frames, channels)."""
        raise NotImplementedError


class FileSource(_PacedSource):
    """A WAV file, resampled to the stream's rate, over and over or once with silence after it.

    The stream's channels are the file's first ones; where it has too few, its last one is repeated.
    """

    def __init__(self, form: StreamFormat, path: str | os.PathLike, loop: bool = True) -> None:
        super().__init__(form)
        self.path, self.loop = Path(path), loop
        self._at = 0

    def __str__(self) -> str:
        return f"file '{self.path}'"

    def open(self) -> Identity:
        try:
            samples, rate = read_wav(self.path)
        except (OSError, ValueError) as error:
            raise Disconnected(f"no sound from {self}: {error}; set 'file' to a WAV file") from error
        if not len(samples):
            raise Disconnected(f"no sound from {self}: it holds no samples")
        if rate != self.form.rate:
            from scipy.signal import resample_poly  # slow to load, and of no use to a microphone

            divisor = np.gcd(rate, self.form.rate)
            samples = resample_poly(samples, self.form.rate // divisor, rate // divisor, axis=0)
        self._samples = samples[:, np.minimum(np.arange(self.form.channels), samples.shape[1] - 1)]
        return Identity(model=self.path.name)

    def _rewind(self) -> None:
        self._at = 0

    def _next(self, frames: int) -> np.ndarray:
        places = self._at + np.arange(frames)
        self._at += frames
        if self.loop:
            return self._samples[places % len(self._samples)]
        sound = np.zeros((frames, self.form.channels))
        there = places < len(self._samples)
        sound[there] = self._samples[places[there]]
        return sound


class SynthesisedSource(_PacedSource):
    """The synthesised stethoscope, the same on all channels."""

    def __init__(self, form: StreamFormat, config: StethoscopeConfig | None = None, seed: int = 0) -> None:
        super().__init__(form)
        self.config, self.seed = config or StethoscopeConfig(), seed
        self.stethoscope: Stethoscope | None = None

    def __str__(self) -> str:
        return "the synthesised stethoscope"

    def open(self) -> Identity:
        return Identity(model="synthesised stethoscope", serial=f"seed {self.seed}")

    def _rewind(self) -> None:
        self.stethoscope = Stethoscope(self.config, self.form.rate, self.seed)

    def _next(self, frames: int) -> np.ndarray:
        assert self.stethoscope is not None, "it begins with `start`"
        return np.repeat(self.stethoscope.read(frames)[:, None], self.form.channels, axis=1)
