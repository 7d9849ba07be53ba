"""Recordings as WAV files."""

from __future__ import annotations

import os
import wave
from pathlib import Path

import numpy as np

from hardware.audio.pcm import FORMATS, SampleFormat, from_float, to_float

__all__ = ["WavRecording", "read_wav"]


class WavRecording:
    """A WAV file that fills up to a wanted number of samples.

    Lost samples are written as silence, so that time within the recording stays true; `overruns` and `missing` tell.
    Floating-point samples are stored as 32-bit integers: no WAV file of floats can be written with the standard library.

    Args:
        path: of the file; folders are made, an existing file is replaced.
        rate, channels, form: of the sound.
        frames: samples of each channel wanted.

    Attributes:
        written: samples of each channel so far, the silent ones among them.
        overruns, missing: losses, and samples of each channel known to be missing.
        clipped: samples at full scale.

    Raises:
        OSError: the file cannot be written.
    """

    def __init__(self, path: str | os.PathLike, rate: int, channels: int, form: SampleFormat, frames: int) -> None:
        self.path, self.channels, self.form, self.frames = Path(path), channels, form, frames
        self.written = self.overruns = self.missing = self.clipped = 0
        self._stored = form if form.is_integer else FORMATS["S32LE"]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = wave.open(str(self.path), "wb")
        self._file.setnchannels(channels)
        self._file.setsampwidth(self._stored.width)
        self._file.setframerate(rate)

    @property
    def complete(self) -> bool:
        """Whether all that was wanted is there."""
        return self.written >= self.frames

    @property
    def clipping(self) -> float:
        """Share of the received samples that stand at full scale [-]."""
        received = (self.written - self.missing) * self.channels
        return self.clipped / received if received else 0.0

    def add(self, data: bytes, clipped: int, gap: int = 0, overrun: bool = False) -> None:
        """The next chunk, before which `gap` samples were lost; what is beyond the wanted end is left out."""
        self.overruns += overrun
        if gap:
            gap = min(gap, self.frames - self.written)
            self.missing, self.written = self.missing + gap, self.written + gap
            self._file.writeframesraw(bytes(gap * self.channels * self._stored.width))
        if self.complete:
            return
        size = self.channels * self.form.width
        kept = data[: (self.frames - self.written) * size]
        self.written += len(kept) // size
        # Of a chunk that is cut, the clipped share counts.
        self.clipped += round(clipped * len(kept) / len(data))
        if self._stored is not self.form:
            kept = from_float(to_float(np.frombuffer(kept, self.form.dtype), self.form), self._stored).tobytes()
        self._file.writeframesraw(kept)

    def close(self) -> None:
        """Complete the header; may be called more than once."""
        self._file.close()


def read_wav(path: str | os.PathLike) -> tuple[np.ndarray, int]:
    """A WAV file of 8 to 32-bit integers.

    Returns:
        (samples, full scale at 1, shape (frames, channels) [-]; samples per second).

    Raises:
        ValueError: it is no such file.
        OSError: it cannot be read.
    """
    try:
        with wave.open(str(path), "rb") as file:
            width, channels, rate = file.getsampwidth(), file.getnchannels(), file.getframerate()
            data = file.readframes(file.getnframes())
    except (wave.Error, EOFError) as error:
        raise ValueError(f"{path} is no WAV file of integers ({error}); convert it to 16-bit PCM") from error
    if width == 1:  # the only unsigned one
        samples = (np.frombuffer(data, np.uint8) - 128.0) / 128.0
    else:  # left-aligned in 32 bits: 24-bit ones have no type of their own
        padded = np.zeros((len(data) // width, 4), np.uint8)
        padded[:, 4 - width :] = np.frombuffer(data, np.uint8)[: len(padded) * width].reshape(-1, width)
        samples = padded.view("<i4").ravel() / 2.0**31
    return samples[: len(samples) // channels * channels].reshape(-1, channels), rate
