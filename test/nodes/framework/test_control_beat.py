"""Which joint states begin a cycle: a period apart, in phase, and in lock-step where the plant waits."""

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy")

from nodes.framework.control_beat import ControlBeat

pytestmark = pytest.mark.pure


def answered(beat, stamps):
    """Those of the stamps that begin a cycle."""
    found = []
    for stamp in stamps:
        if beat.is_due(stamp):
            beat.begin(stamp)
            found.append(round(float(stamp), 6))
    return found


def test_every_period_one_however_often_states_come():
    assert answered(ControlBeat(0.008, False), np.arange(0.0, 0.04, 0.002)) == [0.0, 0.008, 0.016, 0.024, 0.032]
    assert answered(ControlBeat(0.008, False), np.arange(0.0, 0.04, 0.02)) == [0.0, 0.02]  # states are rarer than that


def test_a_late_state_does_not_shift_the_beat():
    beat = ControlBeat(0.008, False)
    assert answered(beat, [0.0, 0.008, 0.0185, 0.024, 0.032]) == [0.0, 0.008, 0.0185, 0.024, 0.032]


def test_after_a_pause_it_does_not_make_up_for_what_was_missed():
    beat = ControlBeat(0.008, False)
    assert answered(beat, [0.0, 0.1, 0.102, 0.104, 0.106, 0.108]) == [0.0, 0.1, 0.104]


def test_time_that_goes_back_begins_a_cycle():
    beat = ControlBeat(0.008, False)
    answered(beat, [5.0])
    assert beat.is_due(1.0) and beat.went_back(1.0) and not beat.went_back(6.0)
    beat.start_over()
    assert beat.is_due(1.0) and beat.begin(1.0) == np.inf and beat.begin(1.008) == pytest.approx(0.008)


def test_in_lockstep_what_the_plant_says_again_is_answered():
    beat = ControlBeat(0.008, True)
    sent = SimpleNamespace(header=SimpleNamespace(stamp=SimpleNamespace(sec=0, nanosec=8_000_000)))
    assert answered(beat, [0.0, 0.008]) == [0.0, 0.008]
    assert beat.is_repeated(0.008, sent) and not beat.is_repeated(0.016, sent) and not beat.is_repeated(0.008, None)
    assert not ControlBeat(0.008, False).is_repeated(0.008, sent)
    # a state between two beats at which it waits: said twice, it is answered
    assert not beat.is_due(0.012) and beat.is_due(0.012)
