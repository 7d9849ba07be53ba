"""How good a recording is for a listener, from 0 to 1, by a small convolutional network on its log-mel spectrogram.

Four convolutions over time, whose channels begin as the mel bands; mean, maximum and spread over time of what they
find; two dense layers. The spectrogram is taken relative to its median, so that the gain of the microphone does not
count. It is fitted with torch (`network_training`) and evaluated here without it: a robot that listens needs the base
alone.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sim_core.auscultation.estimator_file import EstimatorFileError, read_estimator, write_estimator
from sim_core.auscultation.judged_sound import judged_sound
from sim_core.auscultation.log_mel import BANDS_OF_MEL, log_mel
from sim_core.auscultation.regions import Structure

__all__ = ["CHANNELS", "HIDDEN", "KERNEL", "LEAST_FRAMES", "SHAPES", "STRIDES", "QualityNetwork", "seen_by_network"]

KIND, VERSION = "refit sound quality by a network", 1
KERNEL, CHANNELS, STRIDES, HIDDEN = 5, (BANDS_OF_MEL, 32, 48, 64, 64), (1, 2, 2, 2), 32
SPREAD_FLOOR = 1e-6  # added to the variance over time, so that its root has a gradient
#: name -> shape of each array
SHAPES: dict[str, tuple[int, ...]] = {
    **{f"conv{k}.weight": (CHANNELS[k + 1], CHANNELS[k], KERNEL) for k in range(4)},
    **{f"conv{k}.bias": (CHANNELS[k + 1],) for k in range(4)},
    **{"dense0.weight": (HIDDEN, 3 * CHANNELS[-1]), "dense0.bias": (HIDDEN,)},
    **{"dense1.weight": (1, HIDDEN), "dense1.bias": (1,)},
    **{"shift": (BANDS_OF_MEL,), "scale": (BANDS_OF_MEL,)},
}
#: frames without which the last convolution has nothing to see
LEAST_FRAMES = 1
for _stride in reversed(STRIDES):
    LEAST_FRAMES = (LEAST_FRAMES - 1) * _stride + KERNEL


def seen_by_network(sound: np.ndarray) -> np.ndarray:
    """Log-mel spectrogram (BANDS_OF_MEL, frames) of a recording (m,) at the common rate, relative to its median."""
    loud = log_mel(sound)
    return (loud - np.median(loud)).astype(np.float32)


class QualityNetwork:
    """See the module's docstring.

    Args:
        structure: what is listened to. arrays: of SHAPES. meta: how it came about.

    Raises:
        ValueError: an array is missing or has another shape.
    """

    def __init__(
        self, structure: Structure, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any] | None = None
    ) -> None:
        for name, shape in SHAPES.items():
            if name not in arrays or arrays[name].shape != shape:
                found = arrays[name].shape if name in arrays else "none"
                raise ValueError(f"the network's array {name} has the shape {shape}, found {found}")
        self.structure, self.meta = structure, dict(meta or {})
        self.arrays = {name: np.asarray(arrays[name], np.float32) for name in SHAPES}

    def predict(self, sound: np.ndarray, rate: float, lasted: float | None = None) -> float:
        """Quality of a recording in [0, 1]; arguments as `usability.usable`.

        Raises:
            UnusableRecording: it cannot be judged; the text says why and what to do.
        """
        return self.predict_seen(seen_by_network(judged_sound(sound, rate, self.structure, lasted)))

    def predict_seen(self, seen: np.ndarray) -> float:
        """Quality in [0, 1] by what `seen_by_network` gives.

        Raises:
            ValueError: fewer frames than LEAST_FRAMES, other bands, or a number that is not finite.
        """
        if (
            seen.ndim != 2
            or seen.shape[0] != BANDS_OF_MEL
            or seen.shape[1] < LEAST_FRAMES
            or not np.isfinite(seen).all()
        ):
            raise ValueError(
                f"expected finite numbers of {BANDS_OF_MEL} bands and {LEAST_FRAMES} frames or more, found {seen.shape}"
            )
        a = self.arrays
        h = (seen - a["shift"][:, None]) / a["scale"][:, None]
        for k, stride in enumerate(STRIDES):
            windows = np.lib.stride_tricks.sliding_window_view(h, KERNEL, axis=1)[:, ::stride]
            columns = windows.transpose(0, 2, 1).reshape(-1, windows.shape[1])
            weight = a[f"conv{k}.weight"].reshape(CHANNELS[k + 1], -1)
            h = np.maximum(weight @ columns + a[f"conv{k}.bias"][:, None], 0.0)
        pooled = np.concatenate([h.mean(1), h.max(1), np.sqrt(h.var(1) + SPREAD_FLOOR)])
        hidden = np.maximum(a["dense0.weight"] @ pooled + a["dense0.bias"], 0.0)
        return float(np.clip(a["dense1.weight"] @ hidden + a["dense1.bias"], 0.0, 1.0)[0])

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write a file that `load` reads."""
        return write_estimator(path, KIND, VERSION, self.structure, self.arrays, self.meta)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> QualityNetwork:
        """The network that `save` wrote.

        Raises:
            FileNotFoundError: there is no such file.
            EstimatorFileError: it is something else, of another version, or damaged.
        """
        structure, arrays, meta = read_estimator(path, KIND, VERSION, tuple(SHAPES))
        try:
            return cls(structure, arrays, meta)
        except ValueError as error:
            raise EstimatorFileError(f"{path} is damaged: {error}") from None
