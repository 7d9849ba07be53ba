"""Samples in blocks: the same whatever the blocks, with the response that is promised."""

import numpy as np
import pytest
from scipy.signal import butter, sosfilt, sosfilt_zi

from sim_core.perception.wrench_filter import Decimator, LowPass, RestingMean


def blocks(n, rng):
    """Slices that cut n samples into pieces."""
    cuts = np.unique(rng.integers(0, n, n // 7))
    return [slice(a, b) for a, b in zip([0, *cuts], [*cuts, n]) if b > a]


def test_blocks_do_not_matter():
    rng = np.random.default_rng(0)
    t, x = np.arange(1000) * 1e-3, rng.standard_normal((1000, 6))
    whole = LowPass(40.0, 1000.0)(x)
    piecewise = LowPass(40.0, 1000.0)
    np.testing.assert_allclose(np.concatenate([piecewise(x[b]) for b in blocks(1000, rng)]), whole, atol=1e-12)
    for mean in (True, False):
        decimate = Decimator(4, mean)
        parts = [decimate(t[b], x[b]) for b in blocks(1000, rng)]
        times, samples = (np.concatenate(part) for part in zip(*parts))
        expected = (t.reshape(-1, 4).mean(1), x.reshape(-1, 4, 6).mean(1)) if mean else (t[3::4], x[3::4])
        np.testing.assert_allclose(times, expected[0])
        np.testing.assert_allclose(samples, expected[1])


@pytest.mark.parametrize("cutoff", [0.5, 40.0, 499.0])
def test_low_pass_equals_a_plain_one(cutoff):
    x = np.random.default_rng(3).standard_normal((1000, 6)) + 5.0
    sections = butter(2, cutoff, fs=1000.0, output="sos")
    expected, _ = sosfilt(sections, x, axis=0, zi=sosfilt_zi(sections)[:, :, None] * x[0])
    np.testing.assert_allclose(LowPass(cutoff, 1000.0)(x), expected, atol=1e-10)


def test_low_pass_has_half_the_power_at_its_cutoff_and_starts_at_rest():
    # |H| = 1 / sqrt(1 + r^4) with r the ratio of the frequencies as the bilinear transform warps them, tan(pi f / rate).
    t = np.arange(4000) * 1e-3
    for frequency in (5.0, 50.0, 200.0):
        r = np.tan(np.pi * frequency / 1000.0) / np.tan(np.pi * 50.0 / 1000.0)
        y = LowPass(50.0, 1000.0)(np.sin(2 * np.pi * frequency * t)[:, None])[2000:]
        assert np.sqrt(2) * y.std() == pytest.approx(1 / np.sqrt(1 + r**4), rel=0.001)
    np.testing.assert_allclose(LowPass(50.0, 1000.0)(np.full((10, 2), 7.0)), 7.0)
    with pytest.raises(ValueError, match="1000 samples"):
        LowPass(500.0, 1000.0)


def test_interruptions_are_not_averaged_over():
    decimate = Decimator(4, True)
    assert len(decimate(np.arange(3.0), np.ones((3, 6)))[0]) == 0
    decimate.reset()
    t, x = decimate(np.arange(10.0, 14.0), np.full((4, 6), 2.0))
    assert t == pytest.approx([11.5]) and (x == 2.0).all()


def test_resting_mean_takes_so_many_samples_and_no_more():
    resting, x = RestingMean(5), np.arange(12.0).reshape(6, 2)
    assert not resting.add(x[:3])
    assert resting.add(x[3:])
    mean, std = resting.result()
    np.testing.assert_allclose(mean, x[:5].mean(0))
    np.testing.assert_allclose(std, x[:5].std(0))
