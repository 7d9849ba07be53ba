"""Files and the synthesiser give what a sound card gives; the synthesiser sounds as it says."""

import time

import numpy as np
import pytest
from scipy.signal import welch

from hardware.audio.device import AudioDevice
from hardware.audio.pcm import FORMATS, from_float
from hardware.audio.portaudio import find_device
from hardware.audio.ring import Chunk
from hardware.audio.sources import FileSource, Source, StreamFormat, SynthesisedSource
from hardware.audio.synthesiser import Stethoscope, StethoscopeConfig, quality
from hardware.audio.wav import WavRecording
from hardware.link import Disconnected, Identity, State

QUIET = dict(heart=0.0, breath=0.0, hum=0.0, friction_rate=0.0, bump_rate=0.0, noise=0.0)


def wav(path, sound, rate):
    recording = WavRecording(path, rate, sound.shape[1], FORMATS["S16LE"], len(sound))
    recording.add(from_float(sound, FORMATS["S16LE"]).tobytes(), 0)
    recording.close()
    return path


def listen(source, n, **options):
    """(stamps, samples as integers) of n chunks, through the device."""
    got = []
    device = AudioDevice(source, on_sample=lambda sound, t: got.append((t, sound)), **options)
    device.start(), device.enable()
    assert device.wait_for(lambda: len(got) >= n, 20.0), device.last_error
    device.close()
    assert device.state is State.CLOSED
    return (
        np.array([t for t, _ in got[:n]]),
        np.frombuffer(b"".join(sound.data for _, sound in got[:n]), source.form.sample.dtype),
        device,
    )


# -- sources ---------------------------------------------------------------------------------------


def test_a_file_comes_at_its_rate_and_over_again(tmp_path):
    sound = np.linspace(-0.9, 0.9, 1000)[:, None]
    form = StreamFormat(8000, 1, "S16LE", 20)
    begin = time.monotonic()
    t, samples, device = listen(FileSource(form, wav(tmp_path / "a.wav", sound, 8000)), 10)
    assert time.monotonic() - begin >= 10 * 0.02 - 0.005  # not faster than it sounds
    np.testing.assert_allclose(np.diff(t), 0.02, atol=1e-3)
    np.testing.assert_array_equal(samples, from_float(sound[np.arange(1600) % 1000, 0], FORMATS["S16LE"]))
    assert device.identity == Identity("a.wav") and "overruns" not in device.counters.as_dict()


def test_a_file_once_and_of_another_rate_and_width(tmp_path):
    t = np.arange(16000) / 16000
    path = wav(tmp_path / "a.wav", 0.5 * np.sin(2 * np.pi * 440 * t)[:, None], 16000)
    source = FileSource(StreamFormat(44100, 2, "F32LE", 20), path, loop=False)
    source.open(), source.start()
    sound = source._next(2 * 44100)
    assert sound.shape == (88200, 2)
    np.testing.assert_array_equal(sound[:, 0], sound[:, 1])  # a missing channel repeats the last
    expected = 0.5 * np.sin(2 * np.pi * 440 * np.arange(44100) / 44100)
    assert np.abs(sound[1000:43000, 0] - expected[1000:43000]).max() < 2e-3
    assert not sound[44100:].any()  # then silence
    with pytest.raises(Disconnected, match="set 'file' to a WAV file"):
        FileSource(StreamFormat(), tmp_path / "none.wav").open()


@pytest.mark.parametrize(
    ("wanted", "found"), [("default", 1), ("2", 2), ("USB Codec", 3), ("codec", 2), ("thinklabs", 2)]
)
def test_inputs_by_name(wanted, found):
    devices = [
        {"name": "Speaker", "max_input_channels": 0},
        {"name": "pulse", "max_input_channels": 32},
        {"name": "Thinklabs USB Codec", "max_input_channels": 1},
        {"name": "usb codec", "max_input_channels": 1},
    ]
    assert find_device(devices, 1, wanted) == found
    with pytest.raises(Disconnected, match="1 'pulse', 2 'Thinklabs USB Codec'"):
        find_device(devices, 1, "Speaker")
    with pytest.raises(Disconnected, match="present: none"):
        find_device(devices[:1], -1, "default")


# -- the device ------------------------------------------------------------------------------------


class Scripted(Source):
    """Chunks as a test writes them, faster than they sound; None: silence, which lasts."""

    def __init__(self, form, chunks):
        super().__init__(form)
        self.chunks, self.opened, self.now = iter(chunks), 0, 1000.0

    def __str__(self):
        return "the script"

    def open(self):
        self.opened += 1
        return Identity("script")

    def start(self):
        self.number = 0

    def read(self, timeout):
        chunk = next(self.chunks, None)
        if chunk is None:
            time.sleep(timeout)
            self.now += timeout
            return None
        data, skip, *announced = chunk
        self.number += self.form.frames * (1 + skip)
        self.now += self.form.chunk_seconds * (1 + skip)
        return Chunk(data, self.number - self.form.frames, self.now, self.form.chunk_seconds, *announced)


FORM = StreamFormat(8000, 1, "S16LE", 5)


def chunk(value, skip=0):
    """A square wave of that amplitude."""
    return (value * (-1) ** np.arange(FORM.frames)).astype("<i2").tobytes(), skip


def test_gain_saturates_and_counts():
    t, samples, device = listen(Scripted(FORM, [chunk(100)] * 3 + [chunk(20000)] * 3), 6, gain_db=20.0)
    np.testing.assert_array_equal(np.abs(samples[: 3 * 40]), 1000)
    assert samples[3 * 40 :].max() == 32767 and samples[3 * 40 :].min() == -32768
    assert device.level.clipping == pytest.approx(0.5)


def test_clipping_and_a_dead_microphone_are_warned_of_and_cease():
    form = StreamFormat(8000, 1, "S16LE", 5)
    script = [chunk(32767)] * 4 + [chunk(0)] * 500 + [chunk(1000)] * 20
    seen = []
    device = AudioDevice(Scripted(form, script), on_sample=lambda sound, t: seen.append(dict(device.warnings)))
    device.start(), device.enable()
    assert device.wait_for(lambda: len(seen) >= len(script), 30.0)
    device.close()
    assert "lower the gain" in seen[3]["clipping"] and "clipping" in seen[200]
    assert "quiet" not in seen[4 + 399] and "muted" in seen[4 + 402]["quiet"] and "-80" in seen[4 + 402]["quiet"]
    assert "quiet" not in seen[-1]
    assert sum("clipping" in w for w in seen) > 500  # within its window of 5 s


def test_what_our_own_ring_loses_is_exact():
    got = []
    device = AudioDevice(
        Scripted(FORM, [chunk(1)] * 3 + [chunk(1, skip=7)] + [chunk(1)] * 3),
        on_sample=lambda sound, t: got.append((t, sound)),
    )
    device.start(), device.enable()
    assert device.wait_for(lambda: len(got) >= 7, 20.0)
    device.close()
    assert [sound.gap for _, sound in got] == [0, 0, 0, 7 * 40, 0, 0, 0]
    assert [sound.overrun for _, sound in got] == [False] * 3 + [True] + [False] * 3
    totals = device.counters.as_dict()
    assert totals["overruns"] == 1 and totals["lost_samples"] == 280 and totals["dropped"] == 1


def test_an_announced_loss_and_its_gap_are_one_overrun():
    form = StreamFormat(8000, 1, "S16LE", 20)
    data = bytes(320)
    script = [(data, 0)] * 60 + [(data, 0, True)] + [(data, 0)] * 60
    source = Scripted(form, script)
    said = source.read

    def late(timeout):
        if (chunk := said(timeout)) is None or chunk.number < 60 * 160:
            return chunk
        return Chunk(chunk.data, chunk.number, chunk.arrival + 0.3, chunk.age, chunk.overflow)

    source.read = late  # from the 60th chunk on 0.3 s are missing
    got = []
    device = AudioDevice(source, on_sample=lambda sound, t: got.append(sound))
    device.start(), device.enable()
    assert device.wait_for(lambda: len(got) >= len(script), 20.0)
    device.close()
    assert [i for i, sound in enumerate(got) if sound.overrun] == [60] and device.counters.overruns == 1
    (where,) = [i for i, sound in enumerate(got) if sound.gap]
    assert 60 < where < 90 and got[where].gap == 2400 and device.counters.lost_samples == 2400


def test_silence_reopens_the_source_and_the_outage_is_a_gap():
    source = Scripted(FORM, [chunk(1)] * 20 + [None] * 25 + [chunk(1)] * 20)  # 25 x 50 ms
    got, states = [], []
    device = AudioDevice(source, on_sample=lambda sound, t: got.append((t, sound)))
    device.start(), device.enable()
    assert device.wait_for(lambda: states.append(device.state) or len(got) >= 40, 20.0)
    device.close()
    assert source.opened >= 2 and State.RECONNECTING in states
    assert (
        device.counters.reconnects == 1 and device.counters.timeouts >= 1 and "plugged in" in device.counters.last_error
    )
    (where,) = [i for i, (_, sound) in enumerate(got) if sound.gap]
    assert where == 20 and got[20][1].overrun
    outage = got[20][0] - got[19][0] - FORM.chunk_seconds
    assert outage > 0.5 and got[20][1].gap / FORM.rate == pytest.approx(outage, abs=1e-3)


# -- the synthesiser -------------------------------------------------------------------------------


def test_the_same_for_a_seed_in_whatever_sizes_it_is_read():
    whole = Stethoscope(seed=3).read(100_000)
    parts, other = Stethoscope(seed=3), Stethoscope(seed=4)
    np.testing.assert_array_equal(whole, np.concatenate([parts.read(n) for n in (1, 882, 40_000, 59_117)]))
    assert np.abs(whole - other.read(100_000)).max() > 0.01


def test_heart_sounds_are_where_the_truth_says():
    rate = 8000
    heart = Stethoscope(StethoscopeConfig(**{**QUIET, "heart": 0.5}, heart_rate=75.0), rate, seed=1)
    sound = heart.read(60 * rate)
    events = [event for event in heart.events if event.t < 59.0]
    s1 = np.array([event.t for event in events if event.kind == "S1"])
    assert len(s1) == pytest.approx(74, abs=3) and 0.01 < np.std(np.diff(s1)) / 0.8 < 0.05
    beats = np.diff([event.t for event in events])
    assert np.all(beats > 0.2) and [event.kind for event in events[:4]] == ["S1", "S2", "S1", "S2"]
    for event in events:
        start = round(event.t * rate)
        assert np.abs(sound[start - 200 : start]).max() < 0.03  # the one before has died away
        assert np.abs(sound[start : start + 200]).max() > 0.3
        n = round(0.05 * rate)
        spectrum = np.abs(np.fft.rfft(sound[start : start + n], 8 * n))
        assert spectrum.argmax() * rate / (8 * n) == pytest.approx(50 if event.kind == "S1" else 70, abs=10)


def test_breath_has_its_band_level_and_rhythm():
    rate = 8000
    sound = Stethoscope(StethoscopeConfig(**{**QUIET, "breath": 0.1}, breath_rate=0.25), rate, seed=1).read(80 * rate)
    f, power = welch(sound, rate, nperseg=4096)
    assert power[(f > 100) & (f < 1000)].sum() > 0.9 * power.sum()
    loudness = (
        np.sqrt(np.mean(sound.reshape(-1, rate) ** 2, axis=1)).reshape(-1, 4).mean(axis=0)
    )  # by second of a breath
    assert loudness[0] == pytest.approx(loudness[1], rel=0.1) and loudness[2] == pytest.approx(loudness[0] / 2, rel=0.1)
    assert loudness[0] == pytest.approx(0.1 / 2**0.5, rel=0.1)


def test_bursts_and_bumps_come_as_often_as_asked():
    heart = Stethoscope(StethoscopeConfig(friction_rate=2.0, bump_rate=1.0), 8000, seed=1)
    heart.read(8000 * 100)
    kinds = [event.kind for event in heart.events]
    assert kinds.count("friction") == pytest.approx(200, abs=45) and kinds.count("bump") == pytest.approx(100, abs=30)
    times = [event.t for event in heart.events]
    assert times == sorted(times)


def test_ratios_are_those_of_the_components():
    """A heart against hum alone: both levels are known."""
    scope = Stethoscope(StethoscopeConfig(**{**QUIET, "hum": 0.1}), 8000, seed=1)
    scope._add("heart", 0, np.sin(2 * np.pi * 150 * np.arange(8000) / 8000))
    scope._next = dict.fromkeys(scope._next, np.inf)
    scope.config = StethoscopeConfig(**{**QUIET, "hum": 0.1, "heart": 0.1})
    scope.read(8000)
    # Hum: 120 and 240 Hz are in the heart's band (the upper at its edge, down to 3 dB), 360 Hz is not.
    assert scope.truth()["snr_db"]["heart"] == pytest.approx(-0.6, abs=0.6)


def test_louder_places_are_better_ones():
    rated = [Stethoscope(StethoscopeConfig(heart_gain=gain), 8000, seed=1) for gain in (0.01, 0.3, 1.0, 3.0)]
    for scope in rated:
        scope.read(80_000)
    scores = [scope.truth()["quality"]["heart"] for scope in rated]
    assert scores == sorted(scores) and scores[0] == 0.0 and scores[-1] > 0.75
    assert all(8 * score == int(8 * score) for score in scores)
    assert quality(-np.inf) == 0.0 and quality(np.inf) == 1.0
    source = SynthesisedSource(StreamFormat(channels=2), seed=1)
    source.open(), source.start()
    both = source._next(441)
    np.testing.assert_array_equal(both[:, 0], both[:, 1])
