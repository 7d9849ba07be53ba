"""Sound between two clocks: begun late enough, never late beyond its bound, and silent where nothing is there."""

import numpy as np
import pytest

from hardware.audio.jitter_buffer import JitterBuffer


def counted(begin, n, channels=1):
    """n samples whose values are their numbers."""
    return np.repeat(np.arange(begin, begin + n, dtype=np.int16)[:, None], channels, axis=1)


def test_it_waits_for_its_target_and_then_gives_every_sample_once():
    buffer = JitterBuffer(1000, 2, target=0.03, bound=0.2)
    buffer.push(counted(1, 20, 2))
    assert not buffer.pull(10).any() and buffer.level == 0.02 and not buffer.is_playing
    buffer.push(counted(21, 20, 2))
    heard = np.concatenate([buffer.pull(7) for _ in range(5)])
    np.testing.assert_array_equal(heard, counted(1, 35, 2))
    assert buffer.is_playing and buffer.dropped == 0 and buffer.dry == 0


def test_what_runs_dry_is_completed_with_silence_and_waits_again():
    buffer = JitterBuffer(1000, 1, target=0.03, bound=0.2)
    buffer.push(counted(1, 30))
    buffer.pull(20)
    last = buffer.pull(20)[:, 0]
    assert list(last) == [*range(21, 31), *[0] * 10] and buffer.dry == 1 and buffer.played == 30
    buffer.push(counted(31, 10))
    assert not buffer.pull(5).any(), "one lump alone would run dry at once"
    buffer.push(counted(41, 20))
    assert buffer.pull(1)[0, 0] == 31


def test_what_waits_too_long_is_dropped_from_its_old_end():
    buffer = JitterBuffer(1000, 1, target=0.03, bound=0.1)
    for begin in range(0, 120, 20):
        buffer.push(counted(begin, 20))
    assert buffer.level == pytest.approx(0.03) and buffer.dropped == 90
    assert buffer.pull(1)[0, 0] == 90
    buffer.clear()
    assert buffer.level == 0.0 and not buffer.pull(3).any()


def test_a_bound_that_leaves_no_room_is_refused():
    with pytest.raises(ValueError, match="a bound above it"):
        JitterBuffer(1000, 1, target=0.1, bound=0.1)
