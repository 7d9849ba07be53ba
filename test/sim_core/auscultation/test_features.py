"""Features of recordings against closed forms, and the front door that refuses what cannot be judged."""

import numpy as np
import pytest
from scipy.signal import lfilter

from sim_core.auscultation.heart_features import autocorrelation, heart_features, svd_periodicity
from sim_core.auscultation.heart_sound import HeartConfig, heart_sound
from sim_core.auscultation.lung_features import (
    LUNG_FEATURES,
    line_spectral_frequencies,
    linear_prediction,
    lung_features,
)
from sim_core.auscultation.preparation import RATE, at_common_rate
from sim_core.auscultation.sample_entropy import sample_entropy
from sim_core.auscultation.usability import UnusableRecording, Verdict, usable


def test_autocorrelation_of_a_cosine_is_one():
    n, period = 4000, 50
    series = np.cos(2.0 * np.pi * np.arange(n) / period) + 5.0
    lags = autocorrelation(series, 100)
    assert lags == pytest.approx(np.cos(2.0 * np.pi * np.arange(101) / period), abs=3e-3)  # the ends count
    assert not autocorrelation(np.ones(100), 10).any()


def test_what_repeats_has_one_singular_value():
    rng = np.random.default_rng(0)
    pattern = rng.standard_normal(40)  # 0.8 s at the envelope's rate
    assert svd_periodicity(np.tile(pattern, 12)) == pytest.approx(1.0)
    assert svd_periodicity(rng.standard_normal(480)) < 0.6


def test_sample_entropy_against_its_definition():
    series, m = np.random.default_rng(1).standard_normal(60), 2
    width, counts = 0.2 * series.std(), [0, 0]
    for i in range(58):
        for j in range(i + 1, 58):
            alike = all(abs(series[i + k] - series[j + k]) <= width for k in range(m))
            counts[0] += alike
            counts[1] += alike and abs(series[i + m] - series[j + m]) <= width
    expected = -np.log(counts[1] / counts[0]) if counts[1] else np.log(58 * 57 / 2)
    assert sample_entropy(series) == pytest.approx(expected)
    assert sample_entropy(np.ones(50)) == 0.0
    assert sample_entropy(np.tile([0.0, 1.0, 0.0, -1.0], 20)) < 0.1


def test_linear_prediction_finds_the_filter_that_made_a_sound():
    a = np.array([1.0, -1.2, 0.72, -0.1, 0.05, 0.02, 0.01])
    sound = lfilter([1.0], a, np.random.default_rng(2).standard_normal(200_000))
    assert linear_prediction(sound, 6) == pytest.approx(a, abs=0.01)


def test_line_spectral_frequencies_of_no_filter_are_equally_spaced():
    assert line_spectral_frequencies(np.array([1.0, 0, 0, 0, 0, 0, 0])) == pytest.approx(np.pi * np.arange(1, 7) / 7)


def test_a_clear_heart_repeats_more_than_noise():
    rng = np.random.default_rng(3)
    clear, _ = heart_sound(HeartConfig(70.0), "mitral", 10.0, RATE, rng)
    noise = rng.standard_normal(10 * RATE)
    ours, theirs = heart_features(clear + 0.005 * noise), heart_features(noise)
    peak, periodicity, in_band = 1, 2, 4
    for k in (peak, periodicity, in_band):
        assert ours[k] > theirs[k] + 0.1
    assert np.isfinite(lung_features(noise)).all() and len(lung_features(noise)) == len(LUNG_FEATURES)


def test_other_rates_become_the_common_one():
    t = np.arange(441_00) / 44_100.0
    sound = at_common_rate(np.column_stack([np.sin(2 * np.pi * 100 * t)] * 2) + 0.3, 44_100.0)
    expected = np.sin(2 * np.pi * 100 * np.arange(len(sound)) / RATE)
    assert len(sound) == RATE and np.abs(sound - expected)[100:-100].max() < 0.01


GOOD = 0.1 * np.random.default_rng(4).standard_normal(6 * RATE)


def spoilt(**changes):
    sound = GOOD.copy()
    for name, value in changes.items():
        sound[slice(*map(int, name.strip("_").split("_")))] = value
    return sound


@pytest.mark.parametrize(
    "sound, rate, verdict, text",
    [
        (spoilt(_100_103=np.nan), RATE, Verdict.NOT_FINITE, "3 of 24000 samples, the first at 0.03 s"),
        (GOOD, 1000.0, Verdict.WRONG_RATE, "cannot hold the lung's band"),
        (GOOD[:4000], RATE, Verdict.TOO_SHORT, "1.0 s"),
        (np.zeros(6 * RATE), RATE, Verdict.SILENT, "muted or unplugged"),
        (spoilt(_8000_12000=0.0), RATE, Verdict.GONE, "from 2.00 to 3.00 s"),
        (np.clip(20.0 * GOOD, -1.0, 1.0), RATE, Verdict.CLIPPED, "lower the gain"),
    ],
)
def test_what_cannot_be_judged_is_refused_with_a_reason(sound, rate, verdict, text):
    judged = usable(sound, rate, "lung")
    assert not judged and judged.verdict is verdict and text in judged.sentence
    with pytest.raises(UnusableRecording) as refused:
        judged.require()
    assert refused.value.verdict is verdict


def test_a_good_recording_passes_and_a_lying_header_does_not():
    assert usable(GOOD, RATE, "heart") and usable(GOOD, RATE, "heart", lasted=6.0)
    usable(GOOD, RATE, "heart").require()
    assert "6000 a second, but the header says 4000" in usable(GOOD, RATE, "heart", lasted=4.0).sentence
