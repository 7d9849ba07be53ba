"""The torque law against what its equations say: barriers, power, clamps, and compliance."""

import dataclasses

import numpy as np
import pytest

from sim_core.gate import power_limit
from sim_core.telepresence.torque_law import TorqueLaw, TorqueSettings, barrier

N = 3
SETTINGS = TorqueSettings(
    kp=np.array([400.0, 300.0, 100.0]),
    kd=np.array([40.0, 30.0, 5.0]),
    q_lower=np.array([-2.0, -1.5, -2.8]),
    q_upper=np.array([2.0, 1.0, 2.8]),
    velocity=np.array([2.0, 2.0, 2.5]),
    effort=np.array([87.0, 87.0, 12.0]),
    power=np.array([60.0, 60.0, 10.0]),
    position_zone=np.full(N, 0.1),
    velocity_zone=np.full(N, 0.3),
    position_barrier=np.array([60.0, 60.0, 9.0]),
    velocity_barrier=np.array([60.0, 60.0, 9.0]),
)


def test_a_barrier_is_nothing_inside_continuous_and_largest_at_the_limit():
    """As printed in its source it is the other way round."""
    x = np.linspace(-1.0, 1.0, 20001)
    c = barrier(x, -1.0, 1.0, 0.25, 7.0)
    inside = np.abs(x) <= 0.75
    assert not c[inside].any() and np.abs(np.diff(c)).max() < 0.01
    assert c[0] == pytest.approx(7.0) and c[-1] == pytest.approx(-7.0)
    assert (np.diff(c) <= 0.0).all()
    assert barrier(np.array([0.875]), -1.0, 1.0, 0.25, 7.0) == pytest.approx(-7.0 / 4)
    assert np.isfinite(barrier(np.array([9.0]), -1.0, 1.0, 0.25, 7.0)).all()


def test_power_is_limited_where_it_drives_and_never_where_it_brakes():
    rng = np.random.default_rng(0)
    tau, qd, most = rng.normal(0, 50, (10000, N)), rng.normal(0, 2, (10000, N)), np.array([60.0, 30.0, 5.0])
    limited = power_limit(tau, qd, most)
    assert (limited * qd <= most * (1 + 1e-12)).all()
    braking = tau * qd <= most
    assert (limited[braking] == tau[braking]).all()
    np.testing.assert_array_equal(np.sign(limited), np.sign(tau))
    assert power_limit(np.ones(1), np.zeros(1), np.ones(1)) == 1.0


def test_torques_stay_within_every_limit_whatever_is_asked():
    rng, law = np.random.default_rng(1), TorqueLaw(SETTINGS, np.zeros(N))
    for _ in range(5000):
        q, qd = rng.uniform(-3, 3, N), rng.normal(0, 3, N)
        tau = law.torque(rng.uniform(-9, 9, N), q, qd, rng.normal(0, 30, N))
        assert np.isfinite(tau).all() and (np.abs(tau) <= SETTINGS.effort).all()
        free = (
            (barrier(q, SETTINGS.q_lower, SETTINGS.q_upper, SETTINGS.position_zone, SETTINGS.position_barrier) == 0)
            & (barrier(qd, -SETTINGS.velocity, SETTINGS.velocity, SETTINGS.velocity_zone, SETTINGS.velocity_barrier) == 0)
        )  # fmt: skip
        assert (tau[free] * qd[free] <= SETTINGS.power[free] * (1 + 1e-12)).all()


def test_a_goal_without_numbers_keeps_the_last_one():
    law = TorqueLaw(SETTINGS, np.zeros(N))
    calm = [law.torque(np.full(N, 0.2), np.zeros(N), np.zeros(N), np.zeros(N)) for _ in range(400)][-1]
    for _ in range(50):
        kept = law.torque(np.full(N, np.nan), np.zeros(N), np.zeros(N), np.zeros(N))
    assert np.isfinite(kept).all() and np.abs(kept - calm).max() < 0.2 * np.abs(calm).max()


def test_a_push_is_answered_as_by_a_spring():
    """In rest k_p dq = tau: the law of an arm that is pushed at its end by F gives J K_p^-1 J' F there."""
    inertia, push = np.array([0.8, 0.5, 0.1]), np.array([8.0, -5.0, 2.0])
    law, q, qd = TorqueLaw(SETTINGS, np.zeros(N)), np.zeros(N), np.zeros(N)
    for _ in range(4000):
        tau = law.torque(np.zeros(N), q, qd, np.zeros(N))
        qd = qd + SETTINGS.period * (tau + push) / inertia
        q = q + SETTINGS.period * qd
    np.testing.assert_allclose(q, push / SETTINGS.kp, rtol=1e-3)


def test_a_step_of_the_goal_passes_through_the_filter():
    law = TorqueLaw(SETTINGS, np.zeros(N))
    time_constant = 1.0 / (2.0 * np.pi * SETTINGS.cutoff)
    for _ in range(round(time_constant / SETTINGS.period)):
        law.torque(np.full(N, 0.5), np.zeros(N), np.zeros(N), np.zeros(N))
    np.testing.assert_allclose(law._filtered, 0.5 * (1 - np.exp(-1.0)), rtol=0.05)


def test_settings_that_make_no_sense_are_refused():
    for changes, words in (
        ({"kp": np.ones(2)}, "one number for each"),
        ({"effort": np.array([1.0, -1.0, 1.0])}, "positive"),
        ({"power": np.array([1.0, np.nan, 1.0])}, "finite"),
        ({"position_zone": np.full(N, 2.0)}, "half of each"),
    ):
        with pytest.raises(ValueError, match=words):
            dataclasses.replace(SETTINGS, **changes)
