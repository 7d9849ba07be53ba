"""Heart sounds from the events that make them: valves that close, blood that rushes through a narrow one.

S1 is the closing of the mitral and, 20 to 30 ms later, the tricuspid valve; S2 that of the aortic and then the pulmonic valve, which
comes later while the person breathes in. Each closing is a damped tone.

Facts and their sources:
    S1 lasts 122 +- 22 ms, S2 92 +- 22 ms (Schmidt et al., Physiol. Meas. 31, 2010); S1 has most of its energy at 30 to 70 Hz, S2 is
    shorter and higher, at 50 to 90 Hz (Arnott et al., J. Biomed. Eng. 6, 1984). The specification asks for about 50 and 70 Hz.
    The ejection time falls with the heart rate h by 1.7 ms per beat a minute from 413 ms (Weissler et al., Circulation 37, 1968); S1
    begins with the isovolumic contraction, about 35 ms earlier, so S2 follows S1 after 0.448 - 0.0017 h [s].
    The beat interval swings with breathing and at 0.1 Hz (McSharry et al., IEEE Trans. Biomed. Eng. 50, 2003).
    S2 is the louder sound over the base (aortic, pulmonic), S1 over the apex (mitral) and tricuspid area; A2 and P2 are 20 to 60 ms
    apart and best heard so over the pulmonic area. Murmurs of a narrow aortic valve fill the systole with noise of 100 to 400 Hz that
    swells and fades; those of a leaking one fade through the diastole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from sim_core.auscultation.band_noise import band_limited, shaped_noise

__all__ = ["AREAS", "HeartConfig", "Heartbeats", "heart_sound", "heartbeats", "systole"]

#: loudness of mitral, tricuspid, aortic and pulmonic closing where each area is heard [-]
AREAS = {
    "aortic": (0.55, 0.15, 1.0, 0.25),
    "pulmonic": (0.5, 0.15, 0.75, 0.6),
    "tricuspid": (0.8, 0.55, 0.55, 0.3),
    "mitral": (1.0, 0.3, 0.55, 0.15),
}
MURMUR_BAND = (100.0, 400.0)  # [Hz]
RSA, MAYER, MAYER_RATE = (
    0.03,
    0.02,
    0.1,
)  # swing of the interval with breath and blood pressure [-], the latter's rate [Hz]
TRICUSPID_DELAY = 0.025  # [s] after the mitral valve
SPLIT = (0.02, 0.045)  # [s] of S2 while breathing out and in
TAIL = 1.5  # of its length a tone is rendered: it has decayed to 0.1 % of its peak


@dataclass(frozen=True)
class HeartConfig:
    """One person's heart.

    Attributes:
        rate: beats per minute. variability: standard deviation of the beat interval beyond its swings, relative [-].
        s1, s2: frequency [Hz] and audible length [s] of the closing valves' tones.
        breath_rate: what the interval swings with [Hz].
        murmur: peak of the murmur's RMS over that of the loudest tone's peak [-]; 0: none. murmur_in: when it is heard.
    """

    rate: float = 72.0
    variability: float = 0.015
    s1: tuple[float, float] = (50.0, 0.11)
    s2: tuple[float, float] = (70.0, 0.08)
    breath_rate: float = 0.25
    murmur: float = 0.0
    murmur_in: Literal["systole", "diastole"] = "systole"

    def __post_init__(self) -> None:
        if not 30.0 <= self.rate <= 200.0:
            raise ValueError(f"a heart rate of {self.rate:g} a minute is outside 30 to 200")


@dataclass(frozen=True)
class Heartbeats:
    """Onsets of S1 and S2 (B,) [s], both within one beat, and the split of each S2 (B,) [s]."""

    s1: np.ndarray
    s2: np.ndarray
    split: np.ndarray


def systole(rate: float | np.ndarray) -> float | np.ndarray:
    """From S1 to S2 [s] at a heart rate [1/min]; see the module's sources."""
    return 0.448 - 0.0017 * rate


def heartbeats(config: HeartConfig, duration: float, rng: np.random.Generator) -> Heartbeats:
    """When the valves close during `duration` [s]; the first beat comes at a random part of its interval."""
    mean = 60.0 / config.rate
    breath, pressure, t = rng.uniform(0.0, 2.0 * np.pi), rng.uniform(0.0, 2.0 * np.pi), -mean * rng.uniform()
    onsets, intervals = [], []
    while t < duration:
        swing = RSA * np.sin(2.0 * np.pi * config.breath_rate * t + breath)
        swing += MAYER * np.sin(2.0 * np.pi * MAYER_RATE * t + pressure)
        interval = mean * max(0.5, 1.0 + swing + config.variability * rng.standard_normal())
        onsets.append(t)
        intervals.append(interval)
        t += interval
    s1 = np.array(onsets)
    inhaling = 0.5 + 0.5 * np.sin(2.0 * np.pi * config.breath_rate * s1 + breath)
    return Heartbeats(s1, s1 + systole(60.0 / np.array(intervals)), SPLIT[0] + (SPLIT[1] - SPLIT[0]) * inhaling)


def heart_sound(
    config: HeartConfig, area: str, duration: float, rate: float, rng: np.random.Generator
) -> tuple[np.ndarray, Heartbeats]:
    """The heart as it sounds over a valve area; the loudest closing has a peak of about 1.

    Args:
        area: of AREAS. duration: [s]. rate: samples per second [Hz].

    Returns:
        Sound, shape (n,), and the events behind it.

    Raises:
        ValueError: an area that is not known.
    """
    if area not in AREAS:
        raise ValueError(f"no valve area '{area}'; there are {', '.join(AREAS)}")
    beats, n = heartbeats(config, duration, rng), round(duration * rate)
    sound = np.zeros(n)
    mitral, tricuspid, aortic, pulmonic = AREAS[area]
    for onset, loudness, (frequency, length) in (
        (beats.s1, mitral, config.s1),
        (beats.s1 + TRICUSPID_DELAY, tricuspid, config.s1),
        (beats.s2, aortic, config.s2),
        (beats.s2 + beats.split, pulmonic, config.s2),
    ):
        varied = 1.0 + 0.05 * rng.standard_normal((2, len(onset)))
        _add(sound, onset, loudness * varied[0, :, None] * _tones(frequency * varied[1], length, rate), rate)
    if config.murmur > 0.0:
        noise = shaped_noise(n, rate, band_limited(*MURMUR_BAND), rng)
        sound += config.murmur * max(AREAS[area]) * _murmur_envelope(config, beats, n, rate) * noise
    return sound, beats


def _tones(frequency: np.ndarray, length: float, rate: float) -> np.ndarray:
    """Damped tones (B, m) that have decayed to 1 % after `length` [s]."""
    t = np.arange(round(TAIL * length * rate)) / rate
    attack = 1.0 - np.exp(-t / (0.05 * length))
    return np.sin(2.0 * np.pi * frequency[:, None] * t) * attack * np.exp(-np.log(100.0) * t / length)


def _add(sound: np.ndarray, onset: np.ndarray, tones: np.ndarray, rate: float) -> None:
    """Add each tone (B, m) to the sound (n,) at its onset (B,) [s]; what lies outside is not heard."""
    at = np.round(onset * rate).astype(int)[:, None] + np.arange(tones.shape[1])
    within = (at >= 0) & (at < len(sound))
    np.add.at(sound, at[within], tones[within])


def _murmur_envelope(config: HeartConfig, beats: Heartbeats, n: int, rate: float) -> np.ndarray:
    """Loudness (n,) in [0, 1] of the murmur: a swell over each systole, or a decline over each diastole."""
    t = np.arange(n) / rate
    if config.murmur_in == "systole":
        begin, end = beats.s1, beats.s2
    else:
        begin, end = beats.s2[:-1], beats.s1[1:]
    k = np.searchsorted(begin, t, side="right") - 1
    share = (t - begin[k]) / (end[k] - begin[k])
    shape = np.sin(np.pi * share) if config.murmur_in == "systole" else 1.0 - share
    return np.where((k >= 0) & (share <= 1.0), np.clip(shape, 0.0, 1.0), 0.0)
