"""Breath sounds: noise that swells with the flow of air, and what a sick lung adds: crackles and wheezes.

Facts and their sources:
    Vesicular sound lies between 100 and 1000 Hz, loudest below 200 Hz and falling by about 10 to 20 dB an octave above (Gavriely,
    Palti, Alroy, J. Appl. Physiol. 50, 1981); it is heard over the whole inspiration and the begin of the expiration, which is the
    weaker and lower sound (Bohadana, Izbicki, Kraman, N. Engl. J. Med. 370, 2014). Its amplitude grows with the flow.
    Crackles: two cycles last 5 to 10 ms when fine (about 650 Hz, late in the inspiration), more when coarse (about 350 Hz);
    wheezes: tones above 100 Hz, typically near 400 Hz, of more than 80 to 100 ms (CORSA: Sovijarvi et al., Eur. Respir. Rev. 10, 2000).
    The specification asks for breathing at 0.2 to 0.3 Hz.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim_core.auscultation.band_noise import shaped_noise

__all__ = ["LungConfig", "breath_flow", "lung_sound", "vesicular"]

ROLL_OFF = 12.0  # [dB per octave] above CORNER
CORNER = 200.0  # [Hz]
EXPIRATION_LOWER = 0.7  # of the corner's frequency while breathing out
CRACKLE_PEAK, WHEEZE_PEAK = 4.0, 2.0  # over the RMS of the breath at its loudest [-]


@dataclass(frozen=True)
class LungConfig:
    """One person's breathing.

    Attributes:
        breath_rate: breaths per second [Hz]. inspiration: its share of a breath [-].
        expiration_loudness: over that of the inspiration [-].
        crackles: of each inspiration; 0: none. crackle_frequency: 650 Hz for fine, 350 Hz for coarse ones.
        wheeze: loudness of the wheeze of each expiration [-]; 0: none. wheeze_frequency: [Hz].
    """

    breath_rate: float = 0.25
    inspiration: float = 0.4
    expiration_loudness: float = 0.4
    crackles: int = 0
    crackle_frequency: float = 650.0
    wheeze: float = 0.0
    wheeze_frequency: float = 400.0

    def __post_init__(self) -> None:
        if not 0.05 <= self.breath_rate <= 1.5 or not 0.1 <= self.inspiration <= 0.9:
            raise ValueError("breaths come 0.05 to 1.5 times a second, and an inspiration takes 0.1 to 0.9 of each")


def breath_flow(config: LungConfig, phase: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Flow in and out, each in [0, 1], at phases (n,) of the breath, in breaths; it is a half sine of each part."""
    share = np.mod(phase, 1.0)
    flow_in = np.where(share < config.inspiration, np.sin(np.pi * share / config.inspiration), 0.0)
    left = (share - config.inspiration) / (1.0 - config.inspiration)
    return np.maximum(flow_in, 0.0), np.where(left >= 0.0, np.sin(np.pi * np.clip(left, 0.0, 1.0)), 0.0)


def vesicular(frequency: np.ndarray, corner: float = CORNER) -> np.ndarray:
    """Amplitude spectrum of the breath at frequencies (m,) [Hz]: from 100 Hz on, flat up to `corner`, falling to 1000 Hz."""
    f = np.maximum(frequency, 1e-9)
    falling = np.minimum(1.0, (corner / f) ** (ROLL_OFF / (20.0 * np.log10(2.0))))
    return falling / np.sqrt((1.0 + (100.0 / f) ** 8) * (1.0 + (f / 1000.0) ** 12))


def lung_sound(
    config: LungConfig, duration: float, rate: float, rng: np.random.Generator, begin: float | None = None
) -> np.ndarray:
    """Breath as it sounds over the lung, shape (n,); RMS 1 at the height of an inspiration.

    Args:
        duration: [s]. rate: samples per second [Hz].
        begin: phase of the breath at which it begins [breaths]; an inspiration begins at 0; None: at random.
    """
    n = round(duration * rate)
    phase = config.breath_rate * np.arange(n) / rate + (rng.uniform() if begin is None else begin)
    flow_in, flow_out = breath_flow(config, phase)
    sound = flow_in * shaped_noise(n, rate, vesicular, rng)
    lower = shaped_noise(n, rate, lambda f: vesicular(f, EXPIRATION_LOWER * CORNER), rng)
    sound += config.expiration_loudness * flow_out * lower
    if config.crackles:
        sound += _crackles(config, phase, rate, rng)
    if config.wheeze > 0.0:
        drift = 1.0 + 0.02 * np.sin(2.0 * np.pi * 0.8 * np.arange(n) / rate + rng.uniform(0.0, 2.0 * np.pi))
        turned = 2.0 * np.pi * np.cumsum(config.wheeze_frequency * drift) / rate
        sound += config.wheeze * WHEEZE_PEAK * flow_out * (np.sin(turned) + 0.3 * np.sin(2.0 * turned))
    return sound


def _crackles(config: LungConfig, phase: np.ndarray, rate: float, rng: np.random.Generator) -> np.ndarray:
    """Short damped tones in the second half of each inspiration, shape (n,)."""
    sound = np.zeros(len(phase))
    breaths = np.arange(np.floor(phase[0]), np.ceil(phase[-1]))
    at = breaths[:, None] + config.inspiration * rng.uniform(0.5, 1.0, (len(breaths), config.crackles))
    starts = np.round((at.ravel() - phase[0]) / config.breath_rate * rate).astype(int)
    t = np.arange(round(5.0 / config.crackle_frequency * rate)) / rate
    tone = np.sin(2.0 * np.pi * config.crackle_frequency * t) * np.exp(-t * config.crackle_frequency / 1.2)
    heard = starts[:, None] + np.arange(len(t))
    within = (heard >= 0) & (heard < len(sound))
    loud = CRACKLE_PEAK * rng.uniform(0.5, 1.0, (len(starts), 1)) * tone
    np.add.at(sound, heard[within], loud[within])
    return sound
