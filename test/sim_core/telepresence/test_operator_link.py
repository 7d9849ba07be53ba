"""A link's statistics beside their closed forms, and its counts beside each other."""

import numpy as np
import pytest

from sim_core.telepresence.link_clock import Transit
from sim_core.telepresence.operator_link import Channel, LinkConditions

N, STEP = 40_000, 0.011


def sent_through(conditions, n=N, step=STEP, seed=0):
    """(numbers in the order of arrival, when each arrived), looked at often enough that a look delays nothing much."""
    channel, numbers, times = Channel(conditions, seed), [], []
    look = step / 22
    for k in range(n):
        channel.send(k, k * step)
        for i in range(22):
            now = k * step + i * look
            arrived = channel.receive(now)
            numbers += arrived
            times += [now] * len(arrived)
    rest = channel.receive(n * step + 1e3)
    assert not channel.underway
    return channel, np.array(numbers[: len(numbers)]), np.array(times), rest


def test_without_chance_everything_comes_in_order_after_the_delay():
    channel = Channel(LinkConditions(delay=0.3))
    for k in range(5):
        channel.send(k, 0.1 * k)
    assert channel.receive(0.299) == [] and channel.receive(0.3) == [0] and channel.receive(0.55) == [1, 2]
    assert channel.underway == 2 and channel.receive(1.0) == [3, 4]
    assert channel.counts["sent"] == channel.counts["delivered"] == 5


def test_delay_jitter_and_reordering_have_their_closed_forms():
    delay, jitter = 0.05, 0.008
    channel, numbers, times, rest = sent_through(LinkConditions(delay, jitter))
    took = times - STEP * numbers
    look = STEP / 22  # a look comes half of this too late in the mean
    assert took.mean() - 0.5 * look == pytest.approx(delay + jitter, abs=4 * jitter / np.sqrt(N))
    assert took.std() == pytest.approx(jitter, rel=0.03)
    arrival = np.full(N, np.inf)
    arrival[numbers] = times
    swapped = np.mean(arrival[1:] < arrival[:-1])
    expected = 0.5 * np.exp(-STEP / jitter)
    assert swapped == pytest.approx(expected, abs=4 * np.sqrt(expected / N) + 0.004)
    assert len(numbers) + len(rest) == N


def test_the_robots_meter_finds_the_jitter_and_the_loss_that_the_link_has():
    jitter, loss = 0.004, 0.05
    channel, numbers, times, _ = sent_through(LinkConditions(0.02, jitter, loss))
    meter, seen = Transit(), []
    for number, time in zip(numbers, times):
        meter.arrive(int(number), STEP * number, time)
        seen.append(meter.jitter)
    assert np.mean(seen[1000:]) == pytest.approx(jitter, rel=0.05)
    assert meter.lost / N == pytest.approx(loss, abs=4 * np.sqrt(loss / N))
    assert meter.lost <= channel.counts["lost"]  # the last ones are not missed yet
    assert channel.counts["sent"] == N == channel.counts["lost"] + channel.counts["delivered"]


def test_an_outage_swallows_what_is_sent_in_it_and_changes_nothing_else():
    calm = LinkConditions(0.05, 0.01, 0.1, 0.1)
    torn = LinkConditions(0.05, 0.01, 0.1, 0.1, ((1.0, 2.0),))
    one, other = (sent_through(conditions, n=500) for conditions in (calm, torn))
    at = STEP * np.arange(500)
    inside = set(np.flatnonzero((at >= 1.0) & (at < 2.0)))
    kept = [(k, t) for k, t in zip(one[1], one[2]) if k not in inside]
    assert kept == list(zip(other[1], other[2]))
    assert other[0].counts["cut"] == len(inside)
    counts = other[0].counts
    assert counts["sent"] + counts["doubled"] == counts["lost"] + counts["cut"] + counts["delivered"]


def test_messages_come_twice_as_often_as_they_are_said_to():
    channel, numbers, _, rest = sent_through(LinkConditions(0.01, 0.001, 0.0, 0.2), n=20_000)
    again = len(numbers) + len(rest) - 20_000
    assert again == channel.counts["doubled"] == pytest.approx(4000, abs=4 * np.sqrt(20_000 * 0.16))


@pytest.mark.parametrize(
    "wrong", [dict(delay=-0.1), dict(jitter=np.nan), dict(loss=1.1), dict(twice=-0.1), dict(outages=((2.0, 1.0),))]
)
def test_links_that_cannot_be_are_refused(wrong):
    with pytest.raises(ValueError):
        LinkConditions(**wrong)
