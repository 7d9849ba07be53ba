"""Which samples of a session are taken, by clocks that have nothing to do with each other."""

import math

import pytest

from nodes.telepresence.protocol import Pong, Sample
from nodes.telepresence.sample_stream import AGE_LIMIT, WAITING, SampleStream


def sample(seq, t):
    return Sample(seq, 1e3 * t, None, None, None, (0.0, 0.0, 0.0), None)


def aligned(offset, up=0.01, down=0.02, now=100.0, pings=5):
    """A stream whose client's clock is `offset` before ours; ways of `up` and `down` [s]."""
    stream = SampleStream("s")
    for i in range(pings):
        sent = now + 0.2 * i
        ping = stream.ping(sent)
        stream.pong(Pong(ping.id, 1e3 * (sent + down + offset)), sent + down + up)
    return stream


@pytest.mark.parametrize("offset", [0.0, 7200.0, -1e8])
def test_ages_are_known_to_half_the_difference_of_the_ways(offset):
    stream = aligned(offset)
    age, why = stream.take(sample(1, 150.0 + offset), 150.01)
    assert why == "" and age == pytest.approx(0.01 + 0.5 * (0.02 - 0.01), abs=1e-5)


@pytest.mark.parametrize(("age", "word"), [(0.0, ""), (0.24, ""), (0.26, "stale"), (1e6, "stale"), (-1.0, "future")])
def test_too_old_and_from_the_future(age, word):
    stream = aligned(3600.0, up=0.01, down=0.01)
    assert stream.take(sample(1, 150.0 - age + 3600.0), 150.0)[1] == word


def test_a_fresh_sample_is_never_younger_than_now():
    stream = aligned(0.0, up=0.1, down=0.0)
    age, why = stream.take(sample(1, 150.0), 150.0)  # on a way that has become shorter than any ping's
    assert age == 0.0 and why == ""


def test_order():
    stream = aligned(0.0)
    words = [
        stream.take(sample(seq, 150.0 + 0.01 * i), 150.0 + 0.01 * i)[1] for i, seq in enumerate((3, 3, 2, 9, 4, 10))
    ]
    assert words == ["", "order", "order", "", "order", ""]
    assert stream.loss() == (6, 4)  # 4 to 8 less 4, which came late


def test_nothing_is_taken_before_the_clock_is_known():
    stream = SampleStream("s")
    age, why = stream.take(sample(1, 0.0), 0.0)
    assert math.isnan(age) and why == "unaligned" and stream.age(0.0, 0.0) is None
    assert stream.numbers({}).rtt_ms is None and stream.numbers({}).loss is None


def test_a_clock_that_is_set_while_it_runs_costs_one_ping():
    stream = aligned(0.0)
    assert stream.take(sample(1, 150.0), 150.0)[1] == ""
    assert stream.take(sample(2, 150.1 - 3600.0), 150.1)[1] == "stale"
    ping = stream.ping(150.2)
    stream.pong(Pong(ping.id, 1e3 * (150.21 - 3600.0)), 150.22)
    assert stream.take(sample(3, 150.3 - 3600.0), 150.3)[1] == "" and stream.clock_steps == 1


def test_answers_to_what_nobody_asked_say_nothing():
    stream = aligned(0.0)
    for number in (999, 1, 0):
        stream.pong(Pong(number, 1e12), 150.0)
    assert stream.take(sample(1, 150.0), 150.0)[1] == ""
    silent = SampleStream("s")
    first = silent.ping(0.0)
    for i in range(WAITING):
        silent.ping(0.2 * i)
    silent.pong(Pong(first.id, 0.0), 20.0)
    assert silent.newest_trip is None


def test_numbers_of_the_link():
    stream = aligned(0.0, up=0.01, down=0.01)
    for i in range(0, 200, 2):
        stream.take(sample(i, 150.0 + 0.01 * i), 150.0 + 0.01 * i + 0.005)
    numbers = stream.numbers({"samples": 1.0})
    assert numbers.rtt_ms == pytest.approx(20.0) and numbers.age_ms == pytest.approx(5.0, abs=0.1)
    assert 0.1 < numbers.loss < 0.5 and numbers.jitter_ms == pytest.approx(0.0, abs=1e-3)
    assert AGE_LIMIT == 0.25 and numbers.bandwidth_kbit == {"samples": 1.0}
