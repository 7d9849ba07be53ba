"""A loudspeaker plays what is pushed, within its limit; a card that vanishes is opened anew."""

import threading
import time

import numpy as np
import pytest

from hardware.audio.pulse import NullSink, PulseServer
from hardware.audio.speaker import Limiter, SpeakerDevice
from hardware.link import Backoff, State

RATE = 48000


def tone(begin, n, frequency=440.0, level=0.25):
    t = (begin + np.arange(n)) / RATE
    return np.rint(32767.0 * level * np.sin(2.0 * np.pi * frequency * t)).astype(np.int16)[:, None]


def test_the_limiter_keeps_its_limit_at_once_and_lets_go_slowly():
    limiter = Limiter(gain_db=20.0, limit_dbfs=-6.0)
    quiet, loud = tone(0, 960, level=0.02), tone(0, 960, level=0.9)
    most = 32768.0 * 10.0 ** (-6.0 / 20.0) + 1.0
    assert np.abs(limiter(quiet, RATE)).max() == pytest.approx(0.2 * 32767.0, rel=0.01)
    assert np.abs(limiter(loud, RATE)).max() <= most
    after = [np.abs(limiter(quiet, RATE)).max() / 32767.0 for _ in range(60)]
    assert after[0] < 0.03 and after[-1] == pytest.approx(0.2, rel=0.2) and np.all(np.diff(after) >= -1e-3)
    assert not limiter(np.zeros((960, 2), np.int16), RATE).any()
    assert limiter(np.zeros((0, 1), np.int16), RATE).shape == (0, 1)


@pytest.fixture(scope="module")
def sink(sound_server, tmp_path_factory):
    made = NullSink(PulseServer(tmp_path_factory.mktemp("pulse") / "socket"), RATE, 1)
    yield made
    made.close()


class Talking:
    """Pushes a tone in chunks of 20 ms, in real time, on a thread."""

    def __init__(self, device, **words):
        self.device, self.words = device, words
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        began, n = time.monotonic(), 0
        while not self._ending.wait(max(0.0, began + n / RATE - time.monotonic())):
            self.device.push(tone(n, 960, **self.words))
            n += 960

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ending.set()
        self._thread.join()


def spectrum(data):
    """(frequency of the strongest tone [Hz], its RMS [of full scale])."""
    sound = np.frombuffer(data, "<i2") / 32768.0
    found = np.abs(np.fft.rfft(np.hanning(len(sound)) * sound))
    return np.argmax(found) * RATE / len(sound), float(np.sqrt(np.mean(sound**2)))


def until(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_tone_is_played_and_silence_where_nothing_comes(sink):
    levels = []
    limiter = Limiter(0.0, -6.0)
    device = SpeakerDevice(
        "default",
        f"unix:{sink.server.socket}",
        RATE,
        1,
        0.1,
        0.5,
        limiter,
        on_sample=lambda level, t: levels.append(level),
    )
    device.start(), device.enable()
    try:
        until(lambda: device.state is State.STREAMING)
        assert not np.frombuffer(sink.record(0.5), "<i2").any(), "silence"
        with Talking(device):
            until(lambda: device.is_playing)

            def is_heard():
                """On a busy machine there may be gaps, of which no second is made alone."""
                frequency, level = spectrum(sink.record(1.0))
                assert level < 1.1 * 0.25 / 2**0.5
                return abs(frequency - 440.0) < 2.0 and level > 0.5 * 0.25

            until(is_heard)
            until(lambda: levels and levels[-1] > -30.0)
        until(lambda: not device.is_playing)
        until(lambda: device.counters.as_dict().get("dry", 0) >= 1)
        until(lambda: levels[-1] == -200.0)
        for _ in range(100):
            device.push(tone(0, 960))
        assert device.waiting <= 0.5
        until(lambda: device.counters.as_dict().get("late_samples", 0) > RATE)
    finally:
        device.close()
    assert device.state is State.CLOSED


def test_a_card_that_vanishes_is_opened_anew(sound_server, tmp_path):
    socket = tmp_path / "socket"
    sink = NullSink(PulseServer(socket), RATE, 1)
    device = SpeakerDevice(
        "default", f"unix:{socket}", RATE, 1, 0.05, 0.5, Limiter(0.0, 0.0), 0.5, backoff=Backoff(0.1, cap=0.5)
    )
    device.start(), device.enable()
    try:
        until(lambda: device.state is State.STREAMING)
        sink.close()  # the whole sound server
        until(lambda: device.state is State.RECONNECTING)
        assert device.last_error and "\n" not in device.last_error
        sink = NullSink(PulseServer(socket), RATE, 1)
        until(lambda: device.state is State.STREAMING)
        with Talking(device):
            until(lambda: abs(spectrum(sink.record(0.5))[0] - 440.0) < 4.0)
    finally:
        device.close()
        sink.close()
