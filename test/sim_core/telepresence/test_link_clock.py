"""A clock that is found by pings over a link that delays, loses and reorders."""

import numpy as np
import pytest

from sim_core.telepresence.link_clock import LinkClock, Transit


def ping(clock, rng, now, offset, drift=0.0, base=0.02, queue=0.03):
    """One round trip whose ways there and back queue independently."""
    there, back = base + rng.exponential(queue), base + rng.exponential(queue)
    clock.pong(now, (now + there) * (1.0 + drift) + offset, now + there + back)


@pytest.mark.parametrize("offset", [0.0, 1e-3, -5.0, 3 * 3600.0])
def test_the_offset_is_found_within_the_queues(offset):
    rng, clock = np.random.default_rng(1), LinkClock()
    for k in range(40):
        ping(clock, rng, 0.2 * k, offset)
    assert clock.offset == pytest.approx(offset, abs=0.01)
    assert clock.ours(10.0 + offset) == pytest.approx(10.0, abs=0.01)
    assert 0.04 <= clock.rtt <= 0.15 and clock.steps == 0


def test_without_queues_it_is_exact():
    rng, clock = np.random.default_rng(2), LinkClock()
    ping(clock, rng, 5.0, 7.25, queue=0.0)
    assert clock.offset == pytest.approx(7.25, abs=1e-12) and clock.rtt == pytest.approx(0.04, abs=1e-12)


def test_a_clock_that_drifts_is_followed():
    rng, clock, drift = np.random.default_rng(3), LinkClock(), 1e-4
    for k in range(3000):  # ten minutes at 5 Hz, in which it gains 60 ms
        ping(clock, rng, 0.2 * k, 0.0, drift=drift, queue=0.005)
    assert clock.offset == pytest.approx(600.0 * drift, abs=0.004) and clock.steps == 0


def test_a_clock_that_is_set_anew_is_found_at_once():
    rng, clock = np.random.default_rng(4), LinkClock()
    for k in range(40):
        ping(clock, rng, 0.2 * k, 0.0)
    ping(clock, rng, 8.0, -3600.0)
    assert clock.offset == pytest.approx(-3600.0, abs=0.1) and clock.steps == 1


def test_a_long_queue_is_no_step():
    rng, clock = np.random.default_rng(5), LinkClock()
    ping(clock, rng, 0.0, 1.0, queue=0.0)
    clock.pong(1.0, 1.0 + 2.0 + 1.0, 3.0)  # two seconds there, none back
    assert clock.offset == pytest.approx(1.0) and clock.steps == 0


def test_before_the_first_answer():
    clock = LinkClock()
    assert not clock.known and np.isnan(clock.offset) and np.isnan(clock.rtt)
    with pytest.raises(ValueError, match="not known before"):
        clock.ours(0.0)
    with pytest.raises(ValueError, match="finite round trip"):
        clock.pong(1.0, 0.0, 0.5)


def test_loss_is_found():
    rng, transit = np.random.default_rng(6), Transit()
    sent = 20000
    for k in range(sent):
        if rng.random() > 0.05:
            transit.arrive(k, 0.01 * k, 0.01 * k + 0.03)
    assert transit.lost / sent == pytest.approx(0.05, abs=0.005)
    assert transit.quality(0.06).loss == pytest.approx(0.05, abs=0.03)
    assert transit.jitter == pytest.approx(0.0, abs=1e-9)


def test_what_comes_late_is_not_lost():
    transit = Transit()
    for number in (0, 2, 1, 3, 5, 4):
        transit.arrive(number, 0.0, 0.1)
    assert (transit.lost, transit.reordered, transit.received) == (0, 2, 6)
    transit.arrive(4, 0.0, 0.2)  # doubled
    assert (transit.lost, transit.reordered) == (0, 2)


def test_jitter_of_a_link_that_alternates():
    """|D| = 10 ms every time: RFC 3550's filter tends to it."""
    transit = Transit()
    for k in range(200):
        transit.arrive(k, 0.02 * k, 0.02 * k + 0.03 + 0.01 * (k % 2))
    assert transit.jitter == pytest.approx(0.01, abs=1e-4)
