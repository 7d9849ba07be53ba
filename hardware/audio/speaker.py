"""A loudspeaker behind the link that every device has: what is pushed is played, and a card that falls silent is opened anew."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from hardware.audio.jitter_buffer import JitterBuffer
from hardware.audio.pcm import FORMATS, from_float, to_float
from hardware.audio.portaudio import PortAudio, find_device, reason
from hardware.link import Device, Disconnected, Identity, NotAnswering, WhileOpen

__all__ = ["Limiter", "SpeakerDevice"]

STORED = FORMATS["S16LE"]
TURN = 0.05  # [s] between two looks at the card
LATENCY = 0.05  # [s] of sound that the driver holds, at least
BLOCK = 0.02  # [s] of sound that it asks for at once


class Limiter:
    """Amplifies, and keeps every sample below a limit: down at once, and up again within half a second.

    Args:
        gain_db: wanted [dB]. limit_dbfs: that no sample exceeds [dB of full scale].
    """

    RELEASE = 0.5  # [s]

    def __init__(self, gain_db: float, limit_dbfs: float) -> None:
        self._wanted = self._gain = 10.0 ** (gain_db / 20.0)
        self._limit = 10.0 ** (limit_dbfs / 20.0)

    def __call__(self, samples: np.ndarray, rate: int) -> np.ndarray:
        """16-bit samples (frames, channels), amplified and limited."""
        sound = to_float(samples, STORED)
        peak = float(np.abs(sound).max(initial=0.0))
        most = min(self._wanted, self._limit / peak) if peak > 0.0 else self._wanted
        share = min(1.0, len(samples) / rate / self.RELEASE)
        before, self._gain = self._gain, min(most, self._gain + share * (self._wanted - self._gain))
        gains = np.linspace(min(before, self._gain), self._gain, len(samples))[:, None]
        return from_float(np.clip(gains * sound, -self._limit, self._limit), STORED)


class SpeakerDevice(Device):
    """A sound card's output: `push` sound from any thread. `on_sample` gets its level ten times a second and more [dB of full scale].

    Counts late_samples (of each channel, which waited too long) and dry (how often nothing more was there) besides the usual.

    Args:
        device: "default", an index, or a part of its name. server: PulseAudio server; "": the machine's own sound system.
        rate, channels: of what is pushed. target, bound: sound that waits before it begins, and at most [s].
        limiter: of everything that is played. stale_timeout: silence of the driver after which it is opened anew [s].
        **link: of every Device.
    """

    _stream = WhileOpen[Any]()

    def __init__(
        self,
        device: str,
        server: str,
        rate: int,
        channels: int,
        target: float,
        bound: float,
        limiter: Limiter,
        stale_timeout: float = 1.0,
        **link: Any,
    ) -> None:
        super().__init__(stale_timeout=stale_timeout, **link)
        self.device, self.server, self.rate_of_sound, self.channels = device, server, rate, channels
        self._buffer, self._limiter = JitterBuffer(rate, channels, target, bound), limiter
        self._turns = self._seen = 0  # of the driver's thread, and at the last look
        self._heard = 0.0
        self._counted = {"late_samples": 0, "dry": 0}
        self.level = 0.0  # of the newest that was pushed, RMS of full scale

    def __str__(self) -> str:
        return f"audio output '{self.device}'"

    @property
    def is_playing(self) -> bool:
        """Whether it plays anything but silence."""
        return self._buffer.is_playing

    @property
    def waiting(self) -> float:
        """Sound that waits [s]."""
        return self._buffer.level

    def push(self, samples: np.ndarray) -> None:
        """16-bit samples (frames, 1 or 2) to be played as soon as there is room."""
        if samples.shape[1] != self.channels:
            mono = np.rint(samples.mean(axis=1, keepdims=True)).astype(np.int16)
            samples = np.repeat(mono, self.channels, axis=1)
        louder = self._limiter(samples, self.rate_of_sound)
        self.level = float(np.sqrt(np.mean(to_float(louder, STORED) ** 2))) if louder.size else 0.0
        self._buffer.push(louder)

    # -- hooks -------------------------------------------------------------------------------------
    def _open(self) -> Identity:
        sounddevice = PortAudio.load(self.server)
        try:
            devices = PortAudio.devices(sounddevice)
            index = find_device(devices, sounddevice.default.device[1], self.device, "output")
            self._stream = sounddevice.RawOutputStream(
                samplerate=self.rate_of_sound,
                blocksize=round(BLOCK * self.rate_of_sound),
                device=index,
                channels=self.channels,
                dtype=STORED.portaudio,
                latency=LATENCY,
                callback=self._player(),
            )
        except sounddevice.PortAudioError as error:
            raise Disconnected(
                f"{self} cannot be opened with {self.rate_of_sound} Hz and {self.channels} channels: {reason(error)}; "
                "another program may hold it, or it offers other formats"
            ) from error
        PortAudio.opened()
        return Identity(model="default output" if self.device == "default" else devices[index]["name"])

    def _player(self) -> Callable:
        """PortAudio's callback: it copies out of the buffer and does nothing else."""
        pull = self._buffer.pull

        def play(out: Any, frames: int, times: Any, status: Any) -> None:
            out[:] = pull(frames).tobytes()
            self._turns += 1

        return play

    def _start(self) -> None:
        import sounddevice

        self._buffer.clear()  # what waited for the card is old
        self._heard = time.monotonic()
        try:
            self._stream.start()
        except sounddevice.PortAudioError as error:
            raise Disconnected(f"{self} does not start: {reason(error)}") from error

    def _serve(self) -> None:
        time.sleep(TURN)
        now = time.monotonic()
        if not self._stream.active:
            PortAudio.list_is_old = True
            raise Disconnected(f"{self} is gone: unplugged, or the sound server ended?")
        if self._turns != self._seen:
            self._seen, self._heard = self._turns, now
            self._count()
            level = self.level if self.is_playing else 0.0
            self._sample(20.0 * float(np.log10(level)) if level > 0.0 else -200.0, now)
        elif now - self._heard > self.stale_timeout:
            self.counters.add("timeouts")
            raise NotAnswering(f"{self} has asked for no sound for {now - self._heard:.1f} s: is it plugged in?")

    def _count(self) -> None:
        for name, total in (("late_samples", self._buffer.dropped), ("dry", self._buffer.dry)):
            if total > self._counted[name]:
                self.counters.add(name, total - self._counted[name])
                self._counted[name] = total

    def _stop(self) -> None:
        with contextlib.suppress(Exception):  # that it is not open, too: there is nothing to stop then
            self._stream.abort()
        self._buffer.clear()

    def _close(self) -> None:
        if (stream := SpeakerDevice._stream.of(self)) is not None:
            PortAudio.closed(stream)
        self._stream = None
