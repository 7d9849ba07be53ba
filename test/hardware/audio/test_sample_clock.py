"""Stamps from sample counts under jitter, drift, stalls and losses; chunks through the ring."""

import threading
import time

import numpy as np
import pytest

from hardware.audio.ring import Chunk, Ring
from hardware.audio.sample_clock import SampleClock

RATE, CHUNK = 44100, 882
PERIOD = CHUNK / RATE


def stream(seconds, drift=0.0, late=0.015, age_noise=0.006, latency=0.03, seed=0):
    """(true time of the first sample, arrival, stated age) of every chunk."""
    rng = np.random.default_rng(seed)
    true = 1000.0 + np.arange(round(seconds / PERIOD)) * PERIOD * (1 + drift)
    arrival = np.maximum.accumulate(true + latency + rng.uniform(0, late, len(true)))
    return true, arrival, arrival - true + rng.uniform(-age_noise, age_noise, len(true))


def stamps(clock, true, arrival, age, numbers=None):
    numbers = CHUNK * np.arange(len(true)) if numbers is None else numbers
    found = [clock.stamp(int(n), a, g) for n, a, g in zip(numbers, arrival, age, strict=True)]
    return np.array([t for t, _ in found]), np.array([gap for _, gap in found])


@pytest.mark.parametrize("drift", [0.0, 1e-4, -1e-4])
def test_stamps_are_smooth_and_true(drift):
    true, arrival, age = stream(60.0, drift)
    t, gaps = stamps(SampleClock(RATE, CHUNK), true, arrival, age)
    assert not gaps.any()
    assert np.abs(np.diff(t) - PERIOD).max() <= 1e-3
    error = (t - true)[50:]
    assert np.ptp(error) < 3e-3 and abs(np.median(error)) < 6e-3  # ages scatter by 6 ms, callbacks by 15


def test_a_delay_that_is_caught_up_is_no_loss():
    true, arrival, age = stream(10.0)
    arrival[200:230] = np.maximum(arrival[200:230], arrival[229])  # 0.6 s late, then all at once
    t, gaps = stamps(SampleClock(RATE, CHUNK), true, arrival, age)
    assert not gaps.any() and np.abs(np.diff(t) - PERIOD).max() <= 1e-3


@pytest.mark.parametrize("lost", [0.08, 0.3, 2.0])
def test_silent_losses_are_found_and_measured(lost):
    """The driver says nothing, and its ages lie for seconds, as PulseAudio's do after a stall."""
    true, arrival, age = stream(20.0)
    true[300:] += lost
    arrival[300:] += lost
    age[300:450] += lost  # it believes that nothing was lost
    clock = SampleClock(RATE, CHUNK)
    t, gaps = stamps(clock, true, arrival, age)
    (where,) = np.flatnonzero(gaps)
    assert 0.3 < (where - 300) * PERIOD < 0.55  # soon after
    assert gaps[where] / RATE == pytest.approx(lost, abs=0.015) and clock.lost == gaps[where]
    assert np.abs((t - true)[where:] - np.median((t - true)[100:300])).max() < 0.015
    assert np.abs(np.delete(np.diff(t), where - 1) - PERIOD).max() <= 1e-3


@pytest.mark.parametrize("chunk_ms", [20, 50, 100])
def test_lumps_that_beat_with_chunks_are_no_loss(chunk_ms):
    """The driver hands over what it has every 43.3 ms: lateness is a sawtooth, its troughs come seconds apart."""
    chunk = round(RATE * chunk_ms / 1000)
    true = 1000.0 + np.arange(round(30.0 * RATE / chunk)) * chunk / RATE
    complete = true + chunk / RATE
    arrival = 1000.0 + np.ceil((complete - 1000.0) / 0.0433) * 0.0433 + 0.002
    age = arrival - true + np.random.default_rng(0).uniform(-0.006, 0.006, len(true))
    clock = SampleClock(RATE, chunk)
    t, gaps = stamps(clock, true, arrival, age, chunk * np.arange(len(true)))
    assert not gaps.any() and np.abs(np.diff(t) - chunk / RATE).max() <= 1e-3
    # The ages' error of 5 ms shrinks to the 2 ms by which the earliest callback exceeds a chunk.
    assert np.ptp((t - true)[round(10.0 * RATE / chunk) :]) < 2e-3 and np.abs(t - true).max() < 7e-3


def test_no_stamp_is_of_the_future():
    """A card that delivers a second twice as fast as it should: stamps stay behind the arrivals."""
    true, arrival, age = stream(20.0)
    numbers = CHUNK * (np.arange(len(true)) + np.clip(np.arange(len(true)) - 500, 0, 50))
    t, _ = stamps(SampleClock(RATE, CHUNK), true, arrival, age, numbers)
    assert np.max(t - arrival) <= 1e-9
    assert np.abs((t - true)[-1]) < 0.012


def test_ages_of_a_source_that_stood_still_are_not_believed():
    """As measured after a stall: ages 0.1 s too large for half a second. Nothing is known of earlier streams."""
    true, arrival, age = stream(20.0)
    age[:30] += 0.1
    t, gaps = stamps(SampleClock(RATE, CHUNK, opened=true[0] - 1.0), true, arrival, age)
    assert not gaps.any() and np.abs(np.diff(t) - PERIOD).max() <= 1e-3
    # Late by no more than the first callback was, and by what the latency exceeds the length of a chunk.
    assert (t - true)[0] == pytest.approx(arrival[0] - true[0] - PERIOD, abs=1e-6)
    assert np.abs(t - true)[300:].max() < 8e-3


def test_a_stream_opened_anew_is_stamped_as_the_one_before():
    """From the first stamp on, although a third of the callbacks are late by up to 0.1 s and the ages lie."""
    before = SampleClock(RATE, CHUNK)
    true, arrival, age = stream(20.0)
    t, _ = stamps(before, true, arrival, age)
    assert before.latency == pytest.approx(0.03, abs=0.01)
    usual = np.median((t - true)[100:])
    true, arrival, age = stream(20.0, seed=1)
    rng = np.random.default_rng(2)
    arrival = np.maximum.accumulate(arrival + (rng.random(len(true)) < 0.3) * rng.uniform(0.0, 0.1, len(true)))
    age[:30] += 0.1
    clock = SampleClock(RATE, CHUNK, before.latency, opened=true[0] - 1.0)
    clock.foresee(Chunk(b"", CHUNK * i, arrival[i], age[i]) for i in range(25))
    t, gaps = stamps(clock, true, arrival, age)
    assert not gaps.any() and np.abs(t - true - usual).max() < 6e-3
    assert np.abs(np.diff(t) - PERIOD).max() <= 1e-3


def test_a_latency_that_has_truly_grown_is_found_out():
    """By 0.1 s: at once from the ages of a source that was running, within seconds after a pause."""
    true, arrival, age = stream(20.0, latency=0.13, seed=2)
    t, _ = stamps(SampleClock(RATE, CHUNK, 0.03), true, arrival, age)
    assert np.abs(t - true).max() < 12e-3 and np.abs(t - true)[100:].max() < 8e-3
    t, _ = stamps(SampleClock(RATE, CHUNK, 0.03, opened=true[0] - 1.0), true, arrival, age)
    assert (t - true)[0] > 0.09 and np.abs(t - true)[400:].max() < 8e-3


def test_large_chunks_too():
    true = 1000.0 + 0.2 * np.arange(100)
    true[50:] += 1.0
    t, gaps = stamps(SampleClock(8000, 1600), true, true + 0.2, np.full(100, 0.2), 1600 * np.arange(100))
    assert gaps.sum() == 8000 and np.count_nonzero(gaps) == 1
    assert t[-1] == pytest.approx(true[-1], abs=1e-3)


def test_the_ring_delivers_everything_in_order():
    ring = Ring(frames=4, frame_bytes=2, capacity=8)
    n = 20_000

    def write():
        for i in range(n):
            while not ring.put(i.to_bytes(8, "little"), float(i), 0.5, i % 7 == 0):
                ring._heard -= 1  # this writer insists, a sound card would not
                time.sleep(1e-5)

    writer = threading.Thread(target=write)
    writer.start()
    got, end = [], time.monotonic() + 60.0
    while len(got) < n and time.monotonic() < end:
        chunk = ring.get(0.05)
        if chunk is not None:
            got.append(chunk)
    writer.join()
    assert [int.from_bytes(c.data, "little") for c in got] == list(range(n))
    assert [c.number for c in got] == list(range(0, 4 * n, 4)) and [c.arrival for c in got] == list(range(n))
    assert [c.overflow for c in got] == [i % 7 == 0 for i in range(n)]
    assert ring.get(0.0) is None
    ring.close()


def test_what_has_no_room_shows_in_the_numbers():
    ring = Ring(frames=10, frame_bytes=1, capacity=3)
    taken = [ring.put(bytes(10), 0.0, 0.0, False) for _ in range(5)]
    assert taken == [True, True, True, False, False]
    assert [ring.get().number for _ in range(3)] == [0, 10, 20]
    assert ring.put(bytes(10), 0.0, 0.0, False) and ring.get().number == 50
    ring.clear()
    assert ring.put(bytes(10), 0.0, 0.0, False) and ring.get().number == 0
    ring.close()


def test_the_writer_copies_into_memory_that_is_there():
    ring = Ring(frames=882, frame_bytes=2, capacity=4)
    before = [id(slot.obj) for slot in ring._slots]
    sound = memoryview(bytes(range(256)) * 6 + bytes(228))
    for _ in range(9):
        ring.put(sound, 0.0, 0.0, False)
        assert ring.get().data == sound
    assert [id(slot.obj) for slot in ring._slots] == before and len(set(before)) == 1
    with pytest.raises(ValueError):
        ring.put(bytes(3), 0.0, 0.0, False)  # another size is a mistake, not sound
    ring.close()
