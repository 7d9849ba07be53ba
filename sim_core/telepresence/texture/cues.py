"""What a surface that was scanned is told by: a vibration and a sound, other ones for every kind.

    cue = cue_of("gravel", roughness=0.0007, frequency=0.0)
    cue.amplitude, cue.vibration                             # 0 .. 1, [Hz]
    cue.sound                                                # samples -1 .. 1, SAMPLE_RATE apart

The amplitude grows with the roughness, and a root mean square of 1 mm is felt at full strength. The vibration's frequency is that of a
fingertip which moves over the waves of the kind at STROKE [m/s], the same for all surfaces of a kind, so that an operator learns five
cues. Rock has no wave that stands out and is told by a deep one, a smooth face by a high and faint one. A surface of no kind that
is known is felt as its own dominant frequency says. The sound is a tone of that frequency with overtones, or noise that beats with it: the
more waves run alike, the more it is a tone.

Two vibrations are told apart if their frequencies or their amplitudes differ by a just noticeable difference, a fifth to a third of either.

Sources: Goff, J. Experimental Psychology 74 (1967) 294 (frequency); Craig, Perception & Psychophysics 11 (1972) 150 (amplitude).
Frequencies, stroke and sounds are ours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["ROUGHEST", "SAMPLE_RATE", "Cue", "cue_of", "just_noticeable", "sound_levels"]

#: [samples/s] as the operator's page plays them, and how long a sound is [s]
SAMPLE_RATE, LASTS = 8000, 0.7
#: root mean square that is felt at full strength [m], and what is felt of the smoothest
ROUGHEST, FAINTEST = 0.001, 0.05
#: of the fingertip [m/s], and what a motor at the hand can play [Hz]
STROKE, PLAYED = 1.2, (30.0, 320.0)
#: of the kinds, where a wave stands out [1/m] in the middle of what they are drawn from, and else [Hz]
WAVES = {"gravel": 145.0, "grooves": 95.0, "cobbles": 51.5}
OTHERS = {"smooth": 300.0, "rock": 35.0}
#: how much of the sound is a tone, 0 to 1; for none: half
TONES = {"smooth": 1.0, "gravel": 0.0, "grooves": 0.9, "cobbles": 0.4, "rock": 0.1}
#: just noticeable ratio of two frequencies and of two amplitudes
NOTICED = 1.3


@dataclass(frozen=True, eq=False)
class Cue:
    """Vibration: amplitude 0 .. 1 and frequency [Hz]; sound: samples (n,) from -1 to 1, SAMPLE_RATE a second."""

    amplitude: float
    vibration: float
    sound: np.ndarray


def cue_of(name: str, roughness: float, frequency: float) -> Cue:
    """The cue of a surface.

    Args:
        name: of its kind, "" for none. roughness: root mean square [m]. frequency: that stands out [1/m]; 0: none.
    """
    amplitude = float(np.clip(roughness / ROUGHEST, FAINTEST, 1.0))
    vibration = OTHERS.get(name) or STROKE * WAVES.get(name, frequency)
    vibration = float(np.clip(vibration, *PLAYED))
    return Cue(amplitude, vibration, _sound(amplitude, vibration, TONES.get(name, 0.5)))


def just_noticeable(one: Cue, other: Cue) -> float:
    """How many just noticeable differences lie between two vibrations, by frequency or by amplitude, whichever is more."""
    ratios = (one.vibration / other.vibration, one.amplitude / other.amplitude)
    return float(max(abs(np.log(ratio)) for ratio in ratios) / np.log(NOTICED))


def sound_levels(sound: np.ndarray) -> np.ndarray:
    """Share of a sound's power in each third of an octave from 25 Hz to 3.2 kHz (21,)."""
    power, f = np.abs(np.fft.rfft(sound)) ** 2, np.fft.rfftfreq(len(sound), 1.0 / SAMPLE_RATE)
    edges = 25.0 * 2.0 ** (np.arange(22) / 3.0)
    levels = np.array([power[(f >= low) & (f < high)].sum() for low, high in zip(edges, edges[1:])])
    return levels / max(float(levels.sum()), 1e-12)


def _sound(amplitude: float, vibration: float, tone: float) -> np.ndarray:
    """A tone with overtones and noise that beats, faded in and out (n,), to three decimals."""
    t = np.arange(round(LASTS * SAMPLE_RATE)) / SAMPLE_RATE
    phase = 2.0 * np.pi * vibration * t
    pure = (np.sin(phase) + 0.5 * np.sin(2.0 * phase) + 0.25 * np.sin(3.0 * phase)) / 1.75
    noise = np.random.default_rng(round(vibration)).standard_normal(len(t))
    # Noise about eight times the vibration, in bursts of it: grains that are heard one by one where the vibration is deep.
    f = np.fft.rfftfreq(len(t), 1.0 / SAMPLE_RATE)
    width = np.exp(-0.5 * (np.log(np.maximum(f, 1.0) / (8.0 * vibration)) / 0.5) ** 2)
    hiss = np.fft.irfft(np.fft.rfft(noise) * width, len(t))
    hiss = (0.5 - 0.5 * np.cos(phase)) * hiss / max(float(np.abs(hiss).max()), 1e-12)
    fade = np.minimum(1.0, np.minimum(20.0 * t, 20.0 * (LASTS - t)))
    return np.round((0.1 + 0.5 * amplitude) * fade * (tone * pure + (1.0 - tone) * hiss), 3)
