"""Pulse-code modulation: sample formats, gain, and what the level says about a recording."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

__all__ = ["FORMATS", "LevelMeter", "SampleFormat", "clipped", "from_float", "sample_format", "to_float"]


@dataclass(frozen=True)
class SampleFormat:
    """How one sample is stored.

    Attributes:
        name: as GStreamer and audio_common_msgs spell it.
        dtype: numpy's name.
        portaudio: PortAudio's name.
        full_scale: the value that stands for 1.0.
    """

    name: str
    dtype: str
    portaudio: str
    full_scale: float

    @property
    def width(self) -> int:
        """Bytes per sample."""
        return np.dtype(self.dtype).itemsize

    @property
    def is_integer(self) -> bool:
        return self.full_scale > 1.0


FORMATS = {
    each.name: each
    for each in (
        SampleFormat("S16LE", "<i2", "int16", 2.0**15),
        SampleFormat("S32LE", "<i4", "int32", 2.0**31),
        SampleFormat("F32LE", "<f4", "float32", 1.0),
    )
}


def sample_format(name: str) -> SampleFormat:
    """The format of that name.

    Raises:
        ValueError: there is none.
    """
    if name not in FORMATS:
        raise ValueError(f"sample format '{name}' is none of {', '.join(FORMATS)}")
    return FORMATS[name]


def to_float(samples: np.ndarray, form: SampleFormat) -> np.ndarray:
    """Samples as float64, full scale at 1 [-]."""
    return np.asarray(samples, float) / form.full_scale


def from_float(samples: np.ndarray, form: SampleFormat) -> np.ndarray:
    """float64, full scale at 1, in a format; integers are rounded, and what is too large saturates."""
    if not form.is_integer:
        return samples.astype(form.dtype)
    scaled = np.rint(samples * form.full_scale)
    return np.clip(scaled, -form.full_scale, form.full_scale - 1.0).astype(form.dtype)


def clipped(samples: np.ndarray, form: SampleFormat) -> int:
    """How many samples stand at full scale: what the converter could not follow."""
    if not form.is_integer:
        return int(np.count_nonzero(np.abs(samples) >= 1.0))
    # The largest code of either sign; of the negative side also its neighbour, as many converters are symmetric.
    return int(np.count_nonzero(samples >= form.full_scale - 1.0) + np.count_nonzero(samples <= 1.0 - form.full_scale))


class LevelMeter:
    """Share of clipped samples over a window, and how long the sound has been below a floor.

    Args:
        floor_dbfs: RMS below which a microphone is taken for dead or unplugged from its codec [dB of full scale].
        window: for the share of clipped samples [s].

    Attributes:
        rms_dbfs: of the last chunk, without its mean [dB of full scale].
        quiet: how long the level has been below the floor [s].
    """

    SILENCE_DBFS = -200.0  # stands for the logarithm of zero

    def __init__(self, floor_dbfs: float, window: float = 5.0) -> None:
        self.floor_dbfs, self.window = floor_dbfs, window
        self.rms_dbfs, self.quiet = 0.0, 0.0
        self._chunks: deque[tuple[float, int, int]] = deque()  # duration, samples, clipped
        self._seconds, self._samples, self._clipped = 0.0, 0, 0

    @property
    def clipping(self) -> float:
        """Share of clipped samples over the window [-]."""
        return self._clipped / self._samples if self._samples else 0.0

    def add(self, samples: np.ndarray, form: SampleFormat, seconds: float, n_clipped: int) -> None:
        """One chunk of `seconds`, of which `n_clipped` samples stand at full scale."""
        deviation = float(np.std(samples, dtype=float)) / form.full_scale
        self.rms_dbfs = 20.0 * float(np.log10(deviation)) if deviation > 0.0 else self.SILENCE_DBFS
        self.quiet = self.quiet + seconds if self.rms_dbfs < self.floor_dbfs else 0.0
        self._chunks.append((seconds, samples.size, n_clipped))
        self._seconds, self._samples, self._clipped = (
            self._seconds + seconds,
            self._samples + samples.size,
            self._clipped + n_clipped,
        )
        while len(self._chunks) > 1 and self._seconds - self._chunks[0][0] >= self.window:
            seconds, samples_before, clipped_before = self._chunks.popleft()
            self._seconds, self._samples, self._clipped = (
                self._seconds - seconds,
                self._samples - samples_before,
                self._clipped - clipped_before,
            )
