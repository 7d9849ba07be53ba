"""What an electronic stethoscope hears on a chest, with the truth about it.

Heart sounds S1 and S2 are damped tones, breath is band-limited noise that swells with every breath; the robot adds
the hum of its motors, friction of the membrane on skin, and bumps. How loud heart and lung are is the field's matter:
it depends on the place that is listened to.
"""

from __future__ import annotations

from collections import deque
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

__all__ = ["BANDS", "Event", "Stethoscope", "StethoscopeConfig", "quality"]

#: what heart and lung sounds are judged in [Hz]
BANDS = {"heart": (50.0, 250.0), "lung": (200.0, 1000.0)}
BLOCK = 0.05  # [s] rendered at once, so that the sound does not depend on how it is asked for
S1, S2 = (50.0, 0.11), (70.0, 0.08)  # frequency [Hz], audible length [s]
FRICTION_BAND = (300.0, 3000.0)
BUMP = (25.0, 0.12)
#: SNR [dB] of a recording rated one half, and the width of the scale
QUALITY_MIDDLE, QUALITY_WIDTH = 6.0, 6.0


@dataclass(frozen=True)
class StethoscopeConfig:
    """Levels are peak amplitudes for tones and RMS for noises, full scale at 1 [-]."""

    heart_rate: float = 72.0  # [1/min]
    heart_variability: float = 0.03  # standard deviation of the beat interval, relative
    heart: float = 0.3
    breath_rate: float = 0.25  # [Hz]
    breath: float = 0.03
    hum: float = 0.01
    hum_frequency: float = 120.0  # [Hz], with two harmonics
    friction: float = 0.05
    friction_rate: float = 0.2  # bursts per second
    bump: float = 0.5
    bump_rate: float = 0.05  # [1/s]
    noise: float = 3e-4  # of the electronics
    heart_gain: float = 1.0  # of the place listened to
    lung_gain: float = 1.0


@dataclass(frozen=True)
class Event:
    """kind: S1, S2, friction or bump; t: when it begins [s from the first sample]; duration [s]."""

    t: float
    kind: str
    duration: float


class Stethoscope:
    """An endless recording; the same for a seed, whatever sizes it is read in.

    Attributes:
        events: the newest S1, S2, friction and bumps that have begun, in order of time.

    Args:
        config: levels and rates; may be replaced while it sounds.
        rate: samples per second.
        seed: of everything random.
    """

    def __init__(self, config: StethoscopeConfig | None = None, rate: int = 44100, seed: int = 0) -> None:
        self.config, self.rate = config or StethoscopeConfig(), rate
        self.events: deque[Event] = deque(maxlen=10_000)
        self._block = max(1, round(BLOCK * rate))
        self._beats, self._breath, self._friction, self._bumps, self._noise = (
            np.random.default_rng([seed, i]) for i in range(5)
        )
        self._n = 0  # samples rendered
        self._rest = np.zeros(0)  # rendered, not read
        # Tones ring on beyond the block in which they begin.
        self._tails = {"heart": np.zeros(rate), "friction": np.zeros(rate), "bump": np.zeros(rate)}
        self._next = {"S1": 0.3, "S2": np.inf, "friction": np.inf, "bump": np.inf}
        self._schedule("friction")
        self._schedule("bump")
        self._filters = {"breath": _band(100.0, 1000.0, rate), "friction": _band(*FRICTION_BAND, rate)}
        self._breath_state = np.zeros((len(self._filters["breath"]), 2))
        self._judges = {
            name: (_band(*band, rate), {part: None for part in ("signal", "rest")}) for name, band in BANDS.items()
        }
        self._energy = {name: {"signal": 0.0, "rest": 0.0} for name in BANDS}

    def read(self, n: int) -> np.ndarray:
        """The next n samples, shape (n,), full scale at 1; bumps may exceed it."""
        parts, have = [self._rest], len(self._rest)
        while have < n:
            components = self._render()
            self._judge(components)
            parts.append(sum(components.values(), np.zeros(self._block)))
            have += self._block
        sound = np.concatenate(parts)
        self._rest = sound[n:]
        return sound[:n]

    def truth(self) -> dict:
        """Configuration, signal-to-noise ratios in the bands of heart and lung [dB], and the quality they make."""
        ratios = {
            name: 10.0 * float(np.log10(max(e["signal"], 1e-30) / max(e["rest"], 1e-30)))
            for name, e in self._energy.items()
        }
        return {
            "config": asdict(self.config),
            "seconds": self._n / self.rate,
            "snr_db": ratios,
            "quality": {name: quality(ratio) for name, ratio in ratios.items()},
        }

    # -- components --------------------------------------------------------------------------------
    def _render(self) -> dict[str, np.ndarray]:
        """The next block, by component."""
        config, n = self.config, self._block
        t = (self._n + np.arange(n)) / self.rate
        end = t[-1] + 1.0 / self.rate
        while (kind := min(self._next, key=self._next.__getitem__)) and self._next[kind] < end:
            self._begin(kind)
        breath, self._breath_state = _filtered(
            self._filters["breath"], self._breath.standard_normal(n), zi=self._breath_state
        )
        phase = np.sin(2.0 * np.pi * config.breath_rate * t)
        # Inspiration is the louder half.
        swell = np.where(phase > 0.0, phase, -0.5 * phase)
        hum = sum(np.sin(2.0 * np.pi * k * config.hum_frequency * t) / k for k in (1, 2, 3))
        self._n += n
        return {
            "heart": config.heart_gain * config.heart * self._tail("heart", n),
            "lung": config.lung_gain * config.breath * swell * breath / self._breath_rms,
            "hum": config.hum * hum,
            "friction": config.friction * self._tail("friction", n),
            "bump": config.bump * self._tail("bump", n),
            "noise": config.noise * self._noise.standard_normal(n),
        }

    def _begin(self, kind: str) -> None:
        """An event begins: its whole sound goes to the tail of its component, the next of its kind is appointed."""
        t = self._next[kind]
        start = round(t * self.rate) - self._n
        if kind in ("S1", "S2"):
            (frequency, duration), loudness = (S1, 1.0) if kind == "S1" else (S2, 0.7)
            self._add("heart", start, loudness * _damped(frequency, duration, self.rate))
            if kind == "S1":
                interval = (
                    60.0
                    / self.config.heart_rate
                    * (1.0 + self.config.heart_variability * self._beats.standard_normal())
                )
                interval = max(interval, 0.35)
                # Systole shortens with the root of the beat (Bazett 1920).
                self._next["S2"], self._next["S1"] = t + 0.33 * interval**0.5, t + interval
            else:
                self._next["S2"] = np.inf
        elif kind == "friction":
            duration = self._friction.uniform(0.05, 0.3)
            n = round(duration * self.rate)
            burst = _filtered(self._filters["friction"], self._friction.standard_normal(n))
            self._add(kind, start, burst / (np.std(burst) + 1e-12) * np.hanning(n))
            self._schedule(kind, t)
        else:
            duration = BUMP[1]
            self._add(kind, start, _damped(*BUMP, self.rate))
            self._schedule(kind, t)
        self.events.append(Event(t, kind, duration))

    def _schedule(self, kind: str, t: float = 0.0) -> None:
        """When the next burst or bump comes: a Poisson process."""
        rate = {"friction": self.config.friction_rate, "bump": self.config.bump_rate}[kind]
        source = {"friction": self._friction, "bump": self._bumps}[kind]
        self._next[kind] = t + source.exponential(1.0 / rate) if rate > 0.0 else np.inf

    def _add(self, component: str, start: int, sound: np.ndarray) -> None:
        start = max(start, 0)
        self._tails[component][start : start + len(sound)] += sound

    def _tail(self, component: str, n: int) -> np.ndarray:
        tail = self._tails[component]
        now = tail[:n].copy()
        tail[:-n] = tail[n:]
        tail[-n:] = 0.0
        return now

    @property
    def _breath_rms(self) -> float:
        return np.sqrt(900.0 / (0.5 * self.rate))  # of unit noise through its band

    # -- truth -------------------------------------------------------------------------------------
    def _judge(self, components: dict[str, np.ndarray]) -> None:
        """Energy of heart and lung, and of everything else, in their bands."""
        for name, (band, states) in self._judges.items():
            signal = components[name]
            for part, sound in (("signal", signal), ("rest", sum(components.values()) - signal)):
                state = states[part] if states[part] is not None else np.zeros((len(band), 2))
                heard, states[part] = _filtered(band, sound, zi=state)
                self._energy[name][part] += float(heard @ heard)


def quality(snr_db: float) -> float:
    """Rating that a listener gives: rises with the in-band signal-to-noise ratio, in steps of 1/8, between 0 and 1."""
    return round(8.0 / (1.0 + np.exp((QUALITY_MIDDLE - snr_db) / QUALITY_WIDTH))) / 8.0


def _damped(frequency: float, duration: float, rate: int) -> np.ndarray:
    """A tone with peak 1 that has decayed to 1 % after `duration` [s]."""
    t = np.arange(round(1.5 * duration * rate)) / rate
    tone = np.sin(2.0 * np.pi * frequency * t) * np.exp(-np.log(100.0) * t / duration)
    return tone / np.max(np.abs(tone))


def _band(low: float, high: float, rate: int) -> np.ndarray:
    """Butterworth band-pass, second-order sections; `high` is kept below half the sampling rate."""
    from scipy.signal import butter  # slow to load, and of no use to a microphone's driver

    return butter(4, [low, min(high, 0.45 * rate)], "bandpass", fs=rate, output="sos")


def _filtered(sos: np.ndarray, sound: np.ndarray, zi: np.ndarray | None = None) -> Any:
    """Sound (n,) through second-order sections; with the filter's state `zi`, also the state after it."""
    from scipy.signal import sosfilt

    return sosfilt(sos, sound, zi=zi)
