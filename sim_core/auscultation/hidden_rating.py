"""How listeners would rate a synthetic recording, from parts of it that no estimator sees, and the four who rate it.

The truth: in each second the listener hears the structure's own sound against everything else in its band, distortion by clipping
among it; the ratio becomes a share by a logistic curve, and the shares are averaged over the seconds, so that a short disturbance
spoils its own second alone.

The ratings: each of four listeners is as strict as they are (a constant of the listener, the same for all recordings), disagrees with
themselves at random, and gives one of nine marks, 0 to 1 by 1/8. The label is the mean of the four. The published mean variance of
four ratings is 0.0163 for hearts and 0.0400 for lungs; here half of it is strictness and half chance (a choice: the source
reports the sum alone), before marks are limited to 0 and 1.
"""

from __future__ import annotations

import numpy as np

from sim_core.auscultation.acoustic_field import Heard
from sim_core.auscultation.band_noise import in_band
from sim_core.auscultation.regions import BANDS, Structure

__all__ = ["RATING_VARIANCE", "hidden_rating", "marks"]

#: mean variance of the four published ratings
RATING_VARIANCE: dict[Structure, float] = {"heart": 0.0163, "lung": 0.0400}
MIDDLE, WIDTH = 6.0, 6.0  # [dB] of the ratio that is rated one half, and of the curve
LISTENERS, STEP = 4, 1.0 / 8.0
STRICTNESS = np.array([-1.0, -0.4, 0.4, 1.0]) / np.sqrt(0.58)  # of the four, variance 1, mean 0


def hidden_rating(heard: Heard, structure: Structure) -> float:
    """The truth in [0, 1]: mean over seconds w of logistic((10 log10(S / N_w) - 6 dB) / 6 dB).

    S is the mean power of the structure's own part in its band over the recording, N_w that of all else in second w.
    """
    own = heard.parts[structure]
    band, n = BANDS[structure], round(heard.rate)
    signal = float(np.mean(in_band(own, heard.rate, band) ** 2))
    rest = in_band(heard.sound - own, heard.rate, band) ** 2
    seconds = rest[: len(rest) // n * n].reshape(-1, n).mean(axis=1)
    ratio = 10.0 * np.log10(max(signal, 1e-30) / np.maximum(seconds, 1e-30))
    return float(np.mean(1.0 / (1.0 + np.exp((MIDDLE - ratio) / WIDTH))))


def marks(rating: np.ndarray, structure: Structure, rng: np.random.Generator, strictness: float = 0.5) -> np.ndarray:
    """What four listeners give to recordings of true ratings (N,), shape (N, 4).

    Args:
        strictness: share of the published variance that is the listeners' constant strictness [-].
    """
    variance = RATING_VARIANCE[structure]
    chance = np.sqrt((1.0 - strictness) * variance) * rng.standard_normal((len(rating), LISTENERS))
    given = np.asarray(rating)[:, None] + np.sqrt(strictness * variance) * STRICTNESS + chance
    return np.clip(np.round(given / STEP) * STEP, 0.0, 1.0)
