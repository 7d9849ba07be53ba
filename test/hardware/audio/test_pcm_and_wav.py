"""Sample formats, level, recordings."""

import wave

import numpy as np
import pytest

from hardware.audio.pcm import FORMATS, LevelMeter, clipped, from_float, sample_format, to_float
from hardware.audio.wav import WavRecording, read_wav

S16, S32, F32 = FORMATS["S16LE"], FORMATS["S32LE"], FORMATS["F32LE"]


def test_formats_by_hand():
    assert (
        from_float(np.array([0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0]), S16).tobytes().hex() == "0000"
        "0040"
        "00c0"
        "ff7f"
        "0080"
        "ff7f"
        "0080"
    )
    assert from_float(np.array([0.25]), S32).tobytes().hex() == "00000020"
    assert from_float(np.array([1.5]), F32).tobytes().hex() == "0000c03f"  # floats have room above full scale
    np.testing.assert_array_equal(to_float(np.array([-32768, 16384], "<i2"), S16), [-1.0, 0.5])
    with pytest.raises(ValueError, match="S16LE, S32LE, F32LE"):
        sample_format("S8")


@pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)
def test_rounding_is_below_half_a_step(form):
    values = np.random.default_rng(0).uniform(-1, 0.9999, 10_000)
    error = np.abs(to_float(from_float(values, form), form) - values)
    assert error.max() <= (0.5 / form.full_scale * (1 + 1e-6) if form.is_integer else 2.0**-24)


@pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)
def test_clipping_is_counted_at_full_scale_only(form):
    sound = np.array([0.0, 0.99, -0.99, 1.0, -1.0, 1.2, -1.2])
    assert clipped(from_float(sound, form), form) == 4


def test_a_symmetric_converter_clips_too():
    assert clipped(np.array([-32767, 32767, -32766, 32766], "<i2"), S16) == 2


def test_level():
    meter = LevelMeter(floor_dbfs=-80.0, window=1.0)
    tone = from_float(0.5 * np.sin(2 * np.pi * np.arange(4410) / 441) + 0.2, S16)  # the mean is no sound
    for _ in range(20):
        meter.add(tone, S16, 0.1, n_clipped=441)
    assert meter.rms_dbfs == pytest.approx(20 * np.log10(0.5 / 2**0.5), abs=0.01)
    assert meter.clipping == pytest.approx(0.1) and meter.quiet == 0.0
    for _ in range(15):
        meter.add(np.zeros(4410, "<i2"), S16, 0.1, n_clipped=0)
    assert meter.clipping == 0.0 and meter.quiet == pytest.approx(1.5) and meter.rms_dbfs == meter.SILENCE_DBFS
    meter.add(tone, S16, 0.1, 0)
    assert meter.quiet == 0.0


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)
def test_a_recording_is_exact_and_as_long_as_asked(tmp_path, form, channels):
    sound = from_float(np.random.default_rng(1).uniform(-1, 1, (1000, channels)), form)
    recording = WavRecording(tmp_path / "new" / "a.wav", 8000, channels, form, 950)
    for part in np.split(sound, 10):
        assert not recording.complete
        recording.add(part.tobytes(), clipped=0)
    recording.close()
    assert recording.complete and recording.written == 950 and recording.overruns == 0 and recording.clipping == 0.0
    with wave.open(str(recording.path)) as file:
        assert (file.getnframes(), file.getframerate(), file.getnchannels()) == (950, 8000, channels)
    samples, rate = read_wav(recording.path)
    assert rate == 8000
    # Floats go into 32-bit integers: exact to half of their step.
    step = 0.0 if form.is_integer else 2.0**-32
    np.testing.assert_allclose(samples, np.clip(to_float(sound[:950], form), -1, 1 - 2.0**-31), rtol=0, atol=step)


def test_lost_samples_are_silence_and_are_told(tmp_path):
    recording = WavRecording(tmp_path / "a.wav", 1000, 1, S16, 30)
    ones = np.full(10, 32767, "<i2").tobytes()
    recording.add(ones, clipped=10)
    recording.add(ones, clipped=0, gap=5, overrun=True)
    recording.add(ones, clipped=10)  # of which five fit
    recording.close()
    samples, _ = read_wav(recording.path)
    np.testing.assert_array_equal(samples[:, 0] > 0.9, [True] * 10 + [False] * 5 + [True] * 15)
    assert (recording.overruns, recording.missing, recording.written) == (1, 5, 30)
    assert recording.clipping == 15 / 25


def test_a_loss_longer_than_the_recording_ends_it(tmp_path):
    recording = WavRecording(tmp_path / "a.wav", 1000, 1, S16, 30)
    recording.add(bytes(20), 0)
    recording.add(bytes(20), 0, gap=10**6, overrun=True)
    recording.close()
    assert recording.complete and recording.written == 30 and recording.missing == 20


def test_files_of_other_widths(tmp_path):
    for width, data, expected in (
        (1, bytes([0, 128, 192]), [-1, 0, 0.5]),
        (3, bytes.fromhex("000080000000000040"), [-1, 0, 0.5]),
    ):
        with wave.open(str(tmp_path / "a.wav"), "wb") as file:
            file.setnchannels(1), file.setsampwidth(width), file.setframerate(8000)
            file.writeframes(data)
        np.testing.assert_array_equal(read_wav(tmp_path / "a.wav")[0][:, 0], expected)
    (tmp_path / "b.wav").write_bytes(b"no RIFF at all")
    with pytest.raises(ValueError, match="convert it to 16-bit PCM"):
        read_wav(tmp_path / "b.wav")
