"""A body that sounds: how loud heart and lungs are at each place of a side, and what a stethoscope hears there.

The amplitude falls exponentially with the distance from the nearest landmark of a structure, and bad spots (a rib, fat) make it
vary by a smooth random field in decibels: a Gaussian process of 2 cm, drawn by random Fourier features
(Rahimi and Recht, NIPS 2007). Everything follows from the body's seed and the recording's seed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sim_core.auscultation.heart_sound import AREAS, HeartConfig, heart_sound
from sim_core.auscultation.lung_sound import LungConfig, lung_sound
from sim_core.auscultation.regions import Side, Structure, places
from sim_core.auscultation.stethoscope_contact import ContactConditions, disturbances, through_contact

__all__ = ["AcousticField", "Heard"]

#: at a landmark [of full scale]: peak of the loudest heart tone, RMS of the breath at its height
LOUDNESS: dict[Structure, float] = {"heart": 0.3, "lung": 0.05}
#: over which the amplitude falls to 1/e [m]
DECAY: dict[Structure, float] = {"heart": 0.03, "lung": 0.05}
SPOT_SIZE = 0.02  # [m]
FEATURES = 64


@dataclass(frozen=True)
class Heard:
    """A recording and the truth behind it.

    Attributes:
        sound: what the microphone gives, full scale at 1, shape (n,). rate: samples per second [Hz].
        parts: name -> sound (n,) of heart, lung and each disturbance, after the gain and before clipping.
    """

    sound: np.ndarray
    rate: float
    parts: dict[str, np.ndarray]


class AcousticField:
    """One side of one body.

    Args:
        side: front or back; the heart is not heard on the back.
        seed: of the body's bad spots.
        heart, lung: what sounds.
        landmarks: structure -> region -> place (2,) [m]; default: those of `regions`.
        loudness: over that of an average body, for each structure [-].
        spots: standard deviation of the bad spots [dB].
    """

    def __init__(
        self,
        side: Side = "front",
        seed: int = 0,
        heart: HeartConfig = HeartConfig(),
        lung: LungConfig = LungConfig(),
        landmarks: Mapping[Structure, Mapping[str, np.ndarray]] | None = None,
        loudness: Mapping[Structure, float] | None = None,
        spots: float = 3.0,
    ) -> None:
        self.side, self.seed, self.heart, self.lung, self.spots = side, seed, heart, lung, spots
        self.landmarks = landmarks or {"heart": places("heart", side), "lung": places("lung", side)}
        self.loudness: dict[Structure, float] = {"heart": 1.0, "lung": 1.0, **(loudness or {})}
        rng = np.random.default_rng([seed, 7])
        self._waves = rng.standard_normal((2, FEATURES, 2)) / SPOT_SIZE
        self._phases = rng.uniform(0.0, 2.0 * np.pi, (2, FEATURES))

    def gain(self, structure: Structure, place: np.ndarray) -> np.ndarray:
        """Amplitude of a structure at places (..., 2) [m] over that at its landmark, shape (...); 0 where it has none."""
        place = np.asarray(place, float)
        found = self.landmarks.get(structure, {})
        if not found:
            return np.zeros(place.shape[:-1])
        marks = np.stack(list(found.values()))
        nearest = np.linalg.norm(place[..., None, :] - marks, axis=-1).min(-1)
        return (
            self.loudness[structure] * np.exp(-nearest / DECAY[structure]) * 10.0 ** (self._spot(structure, place) / 20)
        )

    def _spot(self, structure: Structure, place: np.ndarray) -> np.ndarray:
        """Bad and good spots at places (..., 2) [dB]: a Gaussian process with squared exponential kernel."""
        k = 0 if structure == "heart" else 1
        return self.spots * np.sqrt(2.0 / FEATURES) * np.cos(place @ self._waves[k].T + self._phases[k]).sum(-1)

    def listen(
        self,
        place: np.ndarray,
        conditions: ContactConditions = ContactConditions(),
        duration: float = 10.0,
        rate: float = 44100.0,
        seed: int = 0,
    ) -> Heard:
        """Hold the stethoscope at a place (2,) [m] for `duration` [s].

        Args:
            rate: samples per second [Hz], that of the audio node by default. seed: of this recording.

        Returns:
            The recording, clipped at full scale, and its parts.
        """
        rng, n = np.random.default_rng([self.seed, seed]), round(duration * rate)
        body = {"heart": np.zeros(n), "lung": np.zeros(n)}
        if areas := self.landmarks.get("heart"):
            nearest = min(areas, key=lambda name: float(np.linalg.norm(place - areas[name])))
            area = nearest if nearest in AREAS else "mitral"
            body["heart"] = heart_sound(self.heart, area, duration, rate, rng)[0]
        body["lung"] = lung_sound(self.lung, duration, rate, rng)
        parts: dict[str, np.ndarray] = {}
        for structure in LOUDNESS:
            loud = LOUDNESS[structure] * float(self.gain(structure, place))
            parts[structure] = through_contact(loud * body[structure], conditions, rate)
        parts |= disturbances(conditions, n, rate, rng)
        parts = {name: conditions.gain * sound for name, sound in parts.items()}
        return Heard(np.clip(sum(parts.values(), np.zeros(n)), -1.0, 1.0), rate, parts)
