"""Sound in both directions by WebRTC: the robot's microphone to everybody who listens, and the operator's voice.

    microphone = Microphone()
    microphone.take(samples, 44100, at)                          # whenever a chunk comes: 16 bits, (frames, channels)
    microphone.attach(track); ...; microphone.detach(track)      # a SoundTrack for each listener

What the microphone hears is brought to 48 kHz and encoded once for everybody, and not at all if nobody listens. It goes out every
20 ms by this machine's clock. A microphone whose clock is faster or slower is stretched by as much, so that what waits neither
grows nor runs dry. Sound that waits longer than `BOUND` is dropped; where none is, silence is sent.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import av
import numpy as np
from aiortc.jitterbuffer import JitterFrame
from aiortc.mediastreams import MediaStreamError, MediaStreamTrack

from hardware.audio.jitter_buffer import JitterBuffer
from nodes.telepresence.quota import Bucket

__all__ = ["RATE", "SOUND", "VOICE", "Microphone", "SoundTrack", "Voice", "VoicePackets"]

#: names of both directions, among the streams of a client
SOUND, VOICE = "sound", "voice"
#: samples of each channel per second of everything that travels, and of one packet
RATE, FRAMES = 48000, 960
PERIOD = FRAMES / RATE
#: of what is sent [bit/s]
BIT_RATE = 64000
#: [s] of sound that waits before it is sent, and that waits at most; both are longer where chunks are longer than `TARGET`
TARGET, BOUND = 0.06, 0.2
#: a level that is off by 1 s would be mended by so many seconds in a second, and by `MOST_STRETCH` at most; levels are averaged over [s]
MENDING, MOST_STRETCH, AVERAGING = 0.2, 5e-3, 2.0
#: ages of sound that are believed [s]; else what comes counts as new
BELIEVED = (-1.0, 10.0)
#: packets that wait for a listener's network, of 20 ms each
WAITING = 10
#: packets of a voice a second, and at once; the shortest in use hold 10 ms
PACKETS = (120.0, 60.0)
#: [s] of a voice that are taken in a second, and at once
SPOKEN = (1.1, 0.5)
#: by which a packet's number may be behind before it counts as that of a voice that began anew
BEHIND = 1000
#: of swresample: mend every deviation of a stated time of more than half a millisecond, within half a second
_STRETCHING = f"{RATE}:async=1000:min_comp=0.0005:comp_duration=0.5:min_hard_comp=10"
_TICKS = Fraction(1, 1_000_000)


class _Resampler:
    """To 48 kHz and two channels, a little faster or slower than real.

    Args:
        rate, channels: of what comes.
    """

    def __init__(self, rate: int, channels: int) -> None:
        self.rate, self.channels = rate, channels
        self._time = 0.0  # [s] at which the next sample belongs
        graph = self._graph = av.filter.Graph()
        steps = [
            graph.add_abuffer(format="s16", sample_rate=rate, layout="stereo", time_base=_TICKS),
            graph.add("aresample", _STRETCHING),
            graph.add("aformat", "sample_fmts=s16:channel_layouts=stereo"),
            graph.add("abuffersink"),
        ]
        for one, next_one in zip(steps, steps[1:]):
            one.link_to(next_one)
        graph.configure()

    def __call__(self, samples: np.ndarray, stretch: float) -> np.ndarray:
        """Samples (frames, channels) as (frames, 2) at 48 kHz, longer by a share."""
        both = samples if self.channels == 2 else np.repeat(samples, 2, axis=1)
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(both).reshape(1, -1), format="s16", layout="stereo")
        frame.sample_rate, frame.time_base, frame.pts = self.rate, _TICKS, round(self._time / float(_TICKS))
        self._time += len(samples) / self.rate * (1.0 + stretch)
        self._graph.push(frame)
        found = []
        with contextlib.suppress(av.BlockingIOError):
            while True:
                found.append(self._graph.pull().to_ndarray().reshape(-1, 2))
        return np.concatenate(found) if found else np.zeros((0, 2), np.int16)


class Microphone:
    """What the robot hears, for everybody who listens; on one asyncio loop.

    Attributes:
        counts: [samples at 48 kHz] by name: `dropped` because they waited too long or this machine was held up.
    """

    def __init__(self) -> None:
        self._listeners: set[SoundTrack] = set()
        self._resampler: _Resampler | None = None
        self._buffer = JitterBuffer(RATE, 2, TARGET, BOUND)
        self._target = self._level = TARGET  # that shall wait, and that waits, averaged [s]
        self._end = 0.0  # when the newest sample was heard, by the loop's clock [s]
        self._sending: asyncio.Task[None] | None = None
        self.counts: Counter[str] = Counter()

    @property
    def is_heard(self) -> bool:
        """Whether somebody listens."""
        return bool(self._listeners)

    @property
    def level(self) -> float:
        """Sound that waits, averaged over two seconds [s]."""
        return self._level

    def attach(self, track: SoundTrack) -> None:
        """Somebody listens from now on."""
        self._listeners.add(track)
        if self._sending is None:
            self._sending = asyncio.get_running_loop().create_task(self._send())

    def detach(self, track: SoundTrack) -> None:
        """Somebody listens no more."""
        self._listeners.discard(track)
        if not self._listeners and self._sending is not None:
            self._sending.cancel()
            self._sending = self._resampler = None
            self._buffer.clear()

    def take(self, samples: np.ndarray, rate: int, at: float) -> None:
        """A chunk of 16-bit samples (frames, 1 or 2), whose first one was heard at a time [s] of the loop's clock."""
        if not self._listeners:
            return
        channels, seconds = samples.shape[1], len(samples) / rate
        if self._resampler is None or (self._resampler.rate, self._resampler.channels) != (rate, channels):
            self._resampler = _Resampler(rate, channels)
            self._make_room(0.0)
        if seconds + PERIOD > self._target:
            self._make_room(seconds)
        excess = self._level - self._target
        stretch = -float(np.clip(MENDING * excess, -MOST_STRETCH, MOST_STRETCH)) if self._buffer.is_playing else 0.0
        dropped = self._buffer.dropped
        self._buffer.push(self._resampler(samples, stretch))
        if self._buffer.dropped > dropped:
            self.counts["dropped"] += self._buffer.dropped - dropped
            self._level = self._target
        now = asyncio.get_running_loop().time()
        self._end = (at if BELIEVED[0] <= now - at <= BELIEVED[1] else now - seconds) + seconds

    def _make_room(self, chunk: float) -> None:
        """An empty buffer for chunks of at most so many seconds."""
        self._target = self._level = max(TARGET, chunk + PERIOD)
        self._buffer = JitterBuffer(RATE, 2, self._target, max(BOUND, self._target + chunk))

    async def _send(self) -> None:
        """Every 20 ms a packet for everybody, also after this machine was held up for a while; after longer, the present."""
        encoder, loop = _encoder(), asyncio.get_running_loop()
        start, ticks = loop.time(), 0
        while True:
            await asyncio.sleep(start + (ticks + 1) * PERIOD - loop.time())
            due = int((loop.time() - start) / PERIOD + 0.01)  # a hair too early is on time
            if due - ticks > WAITING:
                ticks = due - 1  # what waited meanwhile the buffer has bounded
            while ticks < due:
                ticks += 1
                self._send_one(encoder, ticks, loop.time())

    def _send_one(self, encoder: Any, tick: int, now: float) -> None:
        level = self._buffer.level
        age = now - (self._end - level)
        sound = self._buffer.pull(FRAMES)
        if self._buffer.is_playing:
            self._level += (level - self._level) * PERIOD / AVERAGING
        if all(track.paused for track in self._listeners):
            return
        frame = av.AudioFrame.from_ndarray(sound.reshape(1, -1), format="s16", layout="stereo")
        frame.sample_rate, frame.time_base, frame.pts = RATE, Fraction(1, RATE), tick * FRAMES
        for packet in encoder.encode(frame):
            packet.time_base, packet.pts = Fraction(1, RATE), tick * FRAMES
            for track in self._listeners:
                track.offer(packet, age if self._buffer.is_playing else None)


def _encoder() -> Any:
    encoder = av.CodecContext.create("libopus", "w")
    encoder.bit_rate, encoder.sample_rate, encoder.format, encoder.layout = BIT_RATE, RATE, "s16", "stereo"
    encoder.time_base = Fraction(1, RATE)
    encoder.options = {"application": "audio", "frame_duration": "20"}
    return encoder


class SoundTrack(MediaStreamTrack):
    """What the robot hears, as one client gets it: packets, which are encoded already.

    Attributes:
        paused: nothing is sent. ages: how old sound was when it was encoded [s]. late: packets that were dropped because the client's
            network was slow.
    """

    kind = "audio"

    def __init__(self) -> None:
        super().__init__()
        self._id = SOUND
        self.paused = False
        self.late = 0
        self.ages: deque[float] = deque(maxlen=1000)
        self._waiting: deque[av.Packet] = deque()
        self._filled = asyncio.Event()

    def offer(self, packet: av.Packet, age: float | None) -> None:
        """The next packet, and how old its sound is [s]; None: it is silence."""
        if self.paused:
            return
        if age is not None:
            self.ages.append(age)
        self._waiting.append(packet)
        if len(self._waiting) > WAITING:
            self._waiting.popleft()
            self.late += 1
        self._filled.set()

    async def recv(self) -> av.Packet:
        """The next packet.

        Raises:
            MediaStreamError: the track has ended.
        """
        while not self._waiting:
            if self.readyState != "live":
                raise MediaStreamError
            self._filled.clear()
            await self._filled.wait()
        return self._waiting.popleft()

    def stop(self) -> None:
        """End it."""
        super().stop()
        self._filled.set()


class VoicePackets:
    """In place of the library's jitter buffer, which would hold a voice back: each packet at once, in order, and none that nobody may hear.

    What is refused here is never decoded.

    Args:
        wanted: whether the voice may be heard now. clock: [s], never goes back.

    Attributes:
        size: of everything that came [bytes]. counts: packets that were refused, by reason: `unwanted`, `late`, `excess`.
    """

    def __init__(self, wanted: Callable[[], bool], clock: Callable[[], float]) -> None:
        self._wanted, self._clock = wanted, clock
        self._bucket = Bucket(*PACKETS)
        self._newest: int | None = None
        self.size = 0
        self.counts: Counter[str] = Counter()

    def add(self, packet: Any) -> tuple[bool, JitterFrame | None]:
        """As the library asks it: (False, what is to be decoded)."""
        self.size += len(packet.payload)
        why = self._refusal(packet.sequence_number)
        if why:
            self.counts[why] += 1
            return False, None
        return False, JitterFrame(data=packet.payload, timestamp=packet.timestamp)

    def _refusal(self, number: int) -> str:
        if not self._wanted():
            return "unwanted"
        if self._newest is not None and (self._newest - number) % 65536 < BEHIND:
            return "late"
        self._newest = number
        return "" if self._bucket.take(self._clock()) else "excess"


class Voice:
    """The operator's voice, once it is decoded: one channel, and not more of it than can be spoken.

    Args:
        hear: told of samples (frames, 1) of 16 bits at 48 kHz, and how old the first of them is [s]. packets: from which it comes.
        trip: the last ping's way there and back [s]; None: not known.

    Attributes:
        ages: of what was handed on: its length, and half of a ping's way [s]. samples: that were handed on.
        dropped: samples that were too many.
    """

    def __init__(
        self,
        hear: Callable[[np.ndarray, float], None],
        packets: VoicePackets,
        trip: Callable[[], float | None],
    ) -> None:
        self._hear, self.packets, self._trip = hear, packets, trip
        self._spoken = Bucket(*SPOKEN)
        self.ages: deque[float] = deque(maxlen=1000)
        self.samples = self.dropped = 0

    async def listen(self, track: MediaStreamTrack) -> None:
        """Hand on what is decoded, until the track ends."""
        clock = asyncio.get_running_loop().time
        with contextlib.suppress(MediaStreamError):
            while True:
                frame = await track.recv()
                if isinstance(frame, av.AudioFrame) and frame.sample_rate == RATE:
                    self._take(frame, clock())

    def _take(self, frame: av.AudioFrame, now: float) -> None:
        seconds = frame.samples / RATE
        if not self._spoken.take(now, seconds):
            self.dropped += frame.samples
            return
        sound = frame.to_ndarray().reshape(frame.samples, -1)
        mono = np.rint(sound.mean(axis=1, keepdims=True)).astype(np.int16)
        age = seconds + 0.5 * (self._trip() or 0.0)
        self.ages.append(age)
        self.samples += frame.samples
        self._hear(mono, age)
