"""A lag that is known is found again, wherever hand and arm were tied together."""

import numpy as np
import pytest

from sim_core.telepresence.motion_latency import motion_latency

T = np.arange(0.0, 20.0, 0.008)


def wave(t):
    return np.stack([0.03 * np.sin(1.7 * t), 0.02 * np.sin(3.1 * t + 1.0), 0.05 * np.sin(0.9 * t)], axis=1)


@pytest.mark.parametrize("lag", [0.0333, 0.1, 0.257])
def test_a_pure_delay_is_found_to_a_fraction_of_a_step(lag):
    found = motion_latency(T, wave(T), wave(T - lag) + [0.3, -0.2, 0.9])
    assert len(found) > 15 and found == pytest.approx(lag, abs=1e-3)


def test_a_servo_of_first_order_lags_by_its_time_constant_for_slow_motion():
    tau, lag = 0.03, 0.1
    # Steady state of tau y' + y = x(t - lag) for each sine: its phase lags by atan(w tau).
    found = motion_latency(
        T,
        np.stack([0.05 * np.sin(w * T) for w in (0.8, 1.1, 1.4)], axis=1),
        np.stack(
            [0.05 / np.hypot(1.0, w * tau) * np.sin(w * (T - lag) - np.arctan(w * tau)) for w in (0.8, 1.1, 1.4)],
            axis=1,
        ),
    )
    assert found == pytest.approx(lag + tau, abs=2e-3)


def test_noise_moves_it_little_and_what_does_something_else_says_nothing():
    rng = np.random.default_rng(0)
    noisy = wave(T - 0.12) + 2e-4 * rng.standard_normal((len(T), 3))
    assert motion_latency(T, wave(T), noisy) == pytest.approx(0.12, abs=4e-3)
    assert len(motion_latency(T, wave(T), wave(1.7 * T + 3.0))) == 0
    assert len(motion_latency(T, np.zeros((len(T), 3)), wave(T))) == 0


def test_windows_with_gaps_are_left_out():
    effector = wave(T - 0.1)
    effector[len(T) // 2 :] = np.nan
    found = motion_latency(T, wave(T), effector)
    assert 4 < len(found) < len(motion_latency(T, wave(T), wave(T - 0.1))) and found == pytest.approx(0.1, abs=1e-3)


def test_tracks_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="equal shape"):
        motion_latency(T, wave(T), wave(T)[1:])
    with pytest.raises(ValueError, match="evenly"):
        motion_latency(T**1.1, wave(T), wave(T))
