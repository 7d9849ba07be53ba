"""Fingers that follow a trigger or a glove: who comes back takes them over where they are."""

import numpy as np
import pytest

from sim_core.telepresence.fingers import Fingers

LOWER, UPPER = np.zeros(3), np.array([1.0, 2.0, 4.0])
MOST = 0.1


@pytest.fixture
def fingers():
    return Fingers(LOWER, UPPER)


def follow(fingers, at, goal, together=False, times=1):
    for _ in range(times):
        at = fingers.follow(np.asarray(at, float), np.asarray(goal, float), together, MOST)
    return at


def test_each_finger_waits_for_its_own_angle_of_a_glove(fingers):
    held = np.array([0.8, 1.6, 3.2])
    assert follow(fingers, held, [0.2, 1.6, 0.0], times=5) == pytest.approx(
        held
    )  # the second is where the glove has it
    assert follow(fingers, held, [0.2, 0.4, 0.0], times=30) == pytest.approx([0.8, 0.4, 3.2])
    # the first finger of the glove passes by its own, between two samples
    assert follow(fingers, held, [0.9, 0.4, 0.0], times=30) == pytest.approx([0.9, 0.4, 3.2])


def test_a_trigger_takes_all_over_at_once(fingers):
    held = np.array([0.5, 1.0, 2.0])
    assert follow(fingers, held, 0.0 * UPPER, True, times=3) == pytest.approx(held)
    assert follow(fingers, held, 0.6 * UPPER, True) == pytest.approx(held + MOST * UPPER)
    assert follow(fingers, held, 0.0 * UPPER, True, times=30) == pytest.approx(LOWER)


def test_no_finger_is_faster_than_it_may_be(fingers):
    at = follow(fingers, LOWER, LOWER)
    assert follow(fingers, at, UPPER) == pytest.approx(MOST * UPPER)
    assert follow(fingers, at, UPPER, times=10) == pytest.approx(UPPER)


def test_another_kind_of_device_and_whoever_comes_back_take_over_anew(fingers):
    at = follow(fingers, follow(fingers, LOWER, LOWER), UPPER, times=12)
    assert follow(fingers, at, LOWER, True, times=5) == pytest.approx(UPPER)
    assert follow(fingers, at, UPPER, True) == pytest.approx(UPPER)
    assert (follow(fingers, at, LOWER, True) < UPPER).all()
    fingers.forget()
    assert follow(fingers, at, LOWER, True, times=5) == pytest.approx(UPPER)


def test_a_shown_pose_is_taken_whoever_leads_and_has_to_be_taken_over(fingers):
    at = LOWER
    for _ in range(12):
        at = fingers.show(at, 0.7 * UPPER, MOST)
    assert at == pytest.approx(0.7 * UPPER)
    assert follow(fingers, at, LOWER, times=5) == pytest.approx(at)
