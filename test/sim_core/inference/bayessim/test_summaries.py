"""Sizes and values of the summaries."""

import numpy as np
import pytest

from sim_core.inference.bayessim.summaries import SUMMARIES, difference, downsampled, statistics, summary


@pytest.mark.parametrize("name, size", [("downsampled", 80), ("difference", 88), ("summary", 34), ("signature", 84)])
def test_sizes_of_400_by_4(name, size):
    x = np.random.default_rng(0).standard_normal((3, 2, 400, 4))
    s = summary(name)(x)
    assert s.shape == (3, 2, size)
    np.testing.assert_allclose(s[1, 1], summary(name)(x[1, 1]))


@pytest.mark.parametrize(
    "name, size",
    [("downsampled", 9 * 12), ("difference", 9 * 12 + 24), ("summary", 12 * 7 + 66), ("signature", 12 + 144)],
)
def test_sizes_of_twelve_coordinates_as_published(name, size):
    x = np.random.default_rng(0).standard_normal((2, 1800, 12))
    assert summary(name, every=200, depth=2)(x).shape == (2, size)


def test_statistics_one_by_one():
    x = np.random.default_rng(1).standard_normal((150, 3)).cumsum(0)
    s = statistics(x)
    R = np.corrcoef(x.T)
    np.testing.assert_allclose(s[:9], [*x.mean(0), *x.var(0), R[0, 1], R[0, 2], R[1, 2]])
    for k, lag in enumerate((5, 10, 20, 50, 100)):
        for i in range(3):
            c = x[:, i] - x[:, i].mean()
            assert s[9 + 3 * k + i] == pytest.approx(sum(c[t] * c[t + lag] for t in range(150 - lag)) / sum(c**2))


def test_values():
    t = np.arange(400)
    x = np.stack([t, t**2], 1).astype(float)
    np.testing.assert_allclose(downsampled(x).reshape(-1, 2), x[::20])
    d = difference(x)
    np.testing.assert_allclose(d[:-4].reshape(-1, 2), np.stack([np.ones(399), 2 * t[1:] - 1], 1)[::20])
    np.testing.assert_allclose(d[-4:], [1, 399, 0, 4 * (399**2 - 1) / 12])  # of 1, 3, ..., 797: step 2


def test_statistics_of_a_sine_and_of_noise():
    t = np.arange(4000)
    x = np.stack([np.sin(2 * np.pi * t / 40), np.cos(2 * np.pi * t / 40), np.zeros(4000)], 1) + [1, 2, 3]
    s = statistics(x)
    np.testing.assert_allclose(s[:6], [1, 2, 3, 0.5, 0.5, 0], atol=1e-9)
    np.testing.assert_allclose(s[6:9], 0, atol=1e-9)
    expected = [np.cos(2 * np.pi * lag / 40) * (1 - lag / 4000) for lag in (5, 10, 20, 50, 100)]
    np.testing.assert_allclose(s[9:].reshape(5, 3)[:, :2], np.stack([expected, expected], 1), atol=6e-3)
    np.testing.assert_allclose(s[9:].reshape(5, 3)[:, 2], 0)


def test_what_is_wrong_is_said():
    with pytest.raises(ValueError, match="no trajectory summary 'wavelet'. Known: .*signature"):
        summary("wavelet")
    with pytest.raises(ValueError, match="more than 100"):
        statistics(np.zeros((100, 2)))
    assert set(SUMMARIES) == {"downsampled", "difference", "summary", "signature"}
