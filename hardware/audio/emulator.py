"""Microphone or stethoscope that is not there: sound at the true rate into a PulseAudio source of our own.

    python -m hardware.emulate audio --link /tmp/sound --sound stethoscope
    PULSE_SERVER=unix:/tmp/sound arecord -D pulse ...

Imitated: the quartz (the host's own clock), converter noise by the sounds, loss, silence, unplugging.
Not imitated: a drifting quartz, a converter's filters, other programs that hold the card.
"""

from __future__ import annotations

import argparse
import heapq
import time
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np

from hardware.audio.pcm import from_float, sample_format
from hardware.audio.pulse import PipeSource, PulseServer
from hardware.audio.synthesiser import Stethoscope, StethoscopeConfig
from hardware.emulation.emulator import Emulator
from hardware.emulation.faults import Faults

__all__ = ["AudioEmulator", "SOUNDS", "arguments", "make"]

SOUNDS = ("tone", "silence", "noise", "clicks", "stethoscope")
TICK = 0.005  # [s] of sound written at once
CLICK = 0.001  # [s] that a click lasts
FLOOR = 1e-5  # RMS of a dead microphone: -100 dBFS


class AudioEmulator(Emulator):
    """One codec.

    Args:
        link: socket of its sound server.
        rate, channels, form: of the converter.
        sound: one of SOUNDS.
        values: as for `set`.
    """

    name = "audio"
    own_faults = {
        "stall": "the converter stops: no samples, without a word",
        "skip": "samples of `by` seconds (default 0.2) are lost at once",
        "clip": "the input is `by` dB (default 40) too loud",
        "noise_floor": "the microphone is dead: noise at -100 dBFS",
        "click": "one click now",
    }

    def __init__(
        self,
        link: str | Path,
        rate: int = 44100,
        channels: int = 1,
        form: str = "S16LE",
        sound: str = "stethoscope",
        faults: Faults | None = None,
        seed: int = 0,
        **values: Any,
    ) -> None:
        super().__init__(faults)
        self.rate, self.channels, self.form = rate, channels, sample_format(form)
        self.values: dict[str, Any] = {"sound": "stethoscope", "frequency": 100.0, "level": 0.5, "click_period": 0.5}
        self.set(sound=sound, **values)
        self._random = np.random.default_rng(seed)
        self.stethoscope = Stethoscope(StethoscopeConfig(), rate, seed)
        self.clicks: deque[float] = deque(maxlen=1000)  # host times
        self.lost: deque[tuple[float, float]] = deque(
            maxlen=1000
        )  # host times of sound that nobody will hear: from, to
        self._click_wanted = self._stalled = False
        self.port = PipeSource(PulseServer(link), rate, channels, self.form)
        self._began, self._n = time.monotonic(), 0
        self._next_click = 0
        self._free = 0.0  # when all that was delayed is out [host time]

    # -- of the base -------------------------------------------------------------------------------
    def set(self, **values: Any) -> None:
        """sound, frequency [Hz], level [of full scale], click_period [s]."""
        super().set(**{name: value for name, value in values.items() if name not in self.values})
        if values.get("sound", "tone") not in SOUNDS:
            raise ValueError(f"sound '{values['sound']}' is none of {', '.join(SOUNDS)}")
        self.values.update(values)

    def stats(self) -> dict:
        truth = self.stethoscope.truth()
        events = [(self._began + event.t, event.kind) for event in self.stethoscope.events]
        return {
            **super().stats(),
            "samples": self._n,
            "clicks": list(self.clicks),
            "lost": list(self.lost),
            "events": events[-200:],
            "truth": truth,
            "values": dict(self.values),
        }

    def on_fault(self, name: str, parameters: dict) -> None:
        if name == "skip":
            self._lose(round(float(parameters.get("by", 0.2)) * self.rate))
            self.faults.clear(name)
        elif name == "stall":
            self._sound_until_now()
            self._stalled = True
        elif name == "click":
            self._click_wanted = True
            self.faults.clear(name)

    def on_clear(self, name: str) -> None:
        if name == "stall":  # however late this is noticed, nothing of the stall sounds afterwards
            self._sound_until_now()
            self._stalled = False

    def send(self, data: bytes) -> None:
        """Through the faults; samples that are late hold up those after them."""
        now = time.monotonic()
        for delay, frame in self.faults.frames(data):
            self._free = max(self._free, now + delay)
            if self._free > now:
                heapq.heappush(self._late, (self._free, next(self._number), frame))
            else:
                self.port.write(frame)

    def step(self, timeout: float) -> None:
        if self._due() < TICK * self.rate:
            time.sleep(min(timeout, TICK))
        else:
            self._sound_until_now()

    # -- sound -------------------------------------------------------------------------------------
    def _due(self) -> int:
        """Samples of the past that were not converted yet."""
        return round((time.monotonic() - self._began) * self.rate) - self._n

    def _sound_until_now(self) -> None:
        """Convert what is due. After a pause of the whole machine at most a second is: no converter has a larger memory."""
        due = self._due()
        if due > self.rate:
            self._lose(due - self.rate)
            due = self.rate
        if due <= 0:
            return
        sound = self._sound(due)
        if self._stalled:
            self._lose(due)
        else:
            self._n += due
            self.send(from_float(np.repeat(sound[:, None], self.channels, axis=1), self.form).tobytes())

    def _lose(self, n: int) -> None:
        """The next n samples are never sent."""
        begin, end = (self._began + at / self.rate for at in (self._n, self._n + n))
        self._n += n
        if self.lost and self.lost[-1][1] == begin:
            begin = self.lost.pop()[0]
        self.lost.append((begin, end))

    def _sound(self, n: int) -> np.ndarray:
        """The next n samples, full scale at 1, shape (n,)."""
        level, kind = self.values["level"], self.values["sound"]
        if self.faults.active("noise_floor") is not None:
            return FLOOR * self._random.standard_normal(n)
        if kind == "tone":
            phase = 2.0 * np.pi * self.values["frequency"] / self.rate
            sound = level * np.sin(phase * (self._n + np.arange(n)))
        elif kind == "noise":
            sound = level * self._random.standard_normal(n)
        elif kind == "stethoscope":
            sound = self.stethoscope.read(n)
        else:
            sound = np.zeros(n)
        if kind == "clicks" and self._n >= self._next_click:
            self._click_wanted, self._next_click = True, self._n + round(self.values["click_period"] * self.rate)
        if self._click_wanted:
            self._click_wanted = False
            sound = sound.copy()
            sound[: round(CLICK * self.rate)] = 0.9
            self.clicks.append(self._began + self._n / self.rate)
        clip = self.faults.active("clip")
        return sound if clip is None else sound * 10.0 ** (float(clip.get("by", 40.0)) / 20.0)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `python -m hardware.emulate audio`."""
    parser.add_argument("--sound", choices=SOUNDS, default="stethoscope", help="what is heard")
    parser.add_argument("--frequency", type=float, default=100.0, help="of the tone [Hz]")
    parser.add_argument("--level", type=float, default=0.5, help="peak of the tone, RMS of the noise [of full scale]")
    parser.add_argument("--rate", type=int, default=44100, help="samples per second")
    parser.add_argument("--channels", type=int, default=1)
    parser.add_argument("--format", default="S16LE", help="sample format: S16LE, S32LE or F32LE")


def make(options: argparse.Namespace, faults: Faults) -> AudioEmulator:
    """The emulator that the options describe.

    Raises:
        ValueError, OSError: unusable options, or no PulseAudio here.
    """
    if options.link is None:
        raise ValueError("--link is missing: the Unix socket of the sound server, for PULSE_SERVER=unix:<link>")
    return AudioEmulator(
        options.link,
        options.rate,
        options.channels,
        options.format,
        options.sound,
        faults,
        options.seed,
        frequency=options.frequency,
        level=options.level,
    )
