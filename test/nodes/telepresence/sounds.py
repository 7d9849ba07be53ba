"""Tones that tests send and hear, and what is heard of them."""

import asyncio
import contextlib
from fractions import Fraction

import av
import numpy as np
from aiortc.mediastreams import MediaStreamError, MediaStreamTrack

#: samples per second of what travels
RATE = 48000


def tone(begin, n, rate=44100, frequency=1000.0, level=0.5, channels=1):
    """Samples `begin` to `begin + n` of a tone as 16-bit integers (n, channels); level: of its peak."""
    t = (begin + np.arange(n)) / rate
    sound = np.rint(level * 32767.0 * np.sin(2.0 * np.pi * frequency * t)).astype(np.int16)
    return np.repeat(sound[:, None], channels, axis=1)


def loudest(sound, rate=RATE):
    """(frequency [Hz], level [of full scale, a tone's peak]) of the strongest tone of samples (n,).

    Of the fifth of a second in which it is strongest: what comes late to a busy machine is missing elsewhere.
    """
    n = min(len(sound), rate // 5)
    pieces = [strongest(sound[i : i + n], rate) for i in range(0, len(sound) - n + 1, max(n // 4, 1))]
    return max(pieces, key=lambda piece: piece[1])


def strongest(sound, rate):
    """(frequency [Hz], level) of the strongest tone of samples (n,), over all of them."""
    window = np.hanning(len(sound))
    spectrum = np.abs(np.fft.rfft(window * sound / 32768.0))
    k = int(np.argmax(spectrum[1:-1])) + 1
    a, b, c = np.log(spectrum[k - 1 : k + 2] + 1e-12)
    peak = k + 0.5 * (a - c) / (a - 2.0 * b + c)
    power = np.sum(spectrum[max(k - 4, 0) : k + 5] ** 2) / np.sum(window**2) / len(sound) * 2.0
    return peak * rate / len(sound), float(np.sqrt(2.0 * power))


def heard(frames):
    """One channel (n,) of what audio frames hold."""
    return np.concatenate([frame.to_ndarray().reshape(frame.samples, -1)[:, 0] for frame in frames])


class Speaking(MediaStreamTrack):
    """A person who says a tone, 20 ms at a time.

    Args:
        hurry: times as fast as real time.
    """

    kind = "audio"

    def __init__(self, frequency=440.0, level=0.5, hurry=1.0):
        super().__init__()
        self.frequency, self.level, self.hurry = frequency, level, hurry
        self._n, self._began = 0, None

    async def recv(self):
        if self.readyState != "live":
            raise MediaStreamError
        loop = asyncio.get_running_loop()
        self._began = loop.time() if self._began is None else self._began
        await asyncio.sleep(self._began + self._n / RATE / self.hurry - loop.time())
        sound = tone(self._n, 960, RATE, self.frequency, self.level, channels=2)  # of one alone, the encoder takes 3 dB
        frame = av.AudioFrame.from_ndarray(sound.reshape(1, -1), format="s16", layout="stereo")
        frame.sample_rate, frame.time_base, frame.pts = RATE, Fraction(1, RATE), self._n
        self._n += 960
        return frame


class Sounding:
    """A microphone of a robot, whose chunks go to a function as they become due.

    Args:
        take: gets samples (n, channels), their rate, and how old the first is [s]. speed: of its clock, beside the machine's.
    """

    def __init__(self, take, rate=44100, channels=1, chunk=0.02, frequency=1000.0, level=0.5, speed=1.0):
        self.take, self.rate, self.channels, self.speed = take, rate, channels, speed
        self.frequency, self.level, self.chunk = frequency, level, chunk
        self.sent = 0

    async def run(self):
        loop = asyncio.get_running_loop()
        began, n = loop.time(), round(self.chunk * self.rate)
        while True:
            await asyncio.sleep(began + (self.sent + n) / self.rate / self.speed - loop.time())
            self.take(
                tone(self.sent, n, self.rate, self.frequency, self.level, self.channels), self.rate, n / self.rate
            )
            self.sent += n

    @contextlib.asynccontextmanager
    async def on(self):
        """It sounds meanwhile."""
        task = asyncio.ensure_future(self.run())
        try:
            yield self
        finally:
            task.cancel()
