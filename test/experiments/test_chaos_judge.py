"""What the observer of the chaos study calls a violation, a stop, a silence and an explanation; made-up motions tell."""

import numpy as np
import pytest

from experiments.problems.chaos_judge import (
    CATCH,
    REACTION,
    SETTLED,
    SLACK,
    Limits,
    Trace,
    after_stop,
    closed,
    following,
    lost_at,
    objection,
    silences,
    worst,
)

LIMITS = Limits(
    ("a", "b"),
    lower=np.array([-1.0, -2.0]),
    upper=np.array([1.0, 2.0]),
    velocity=np.array([2.0, 4.0]),
    effort=np.array([10.0, 20.0]),
    deceleration=np.array([10.0, 10.0]),
)
DT = 0.01


def trace(v, q0=0.0, effort=0.0, driven=True):
    """Joint a moves at v(t) (N,) from q0; joint b rests."""
    v = np.asarray(v, float)
    t, rest = DT * np.arange(len(v)), np.zeros(len(v))
    q = q0 + np.cumsum(v) * DT
    return Trace(
        t,
        np.column_stack([q, rest]),
        np.column_stack([v, rest]),
        np.column_stack([rest + effort, rest]),
        np.broadcast_to(driven, len(v)).copy(),
    )


# -- limits --------------------------------------------------------------------------------------------------------


def test_a_single_sample_beyond_a_limit_is_seen():
    v = np.zeros(100)
    v[37] = 2.0 * 1.06
    found = worst(trace(v, effort=9.0), LIMITS)
    assert found["speed"] == pytest.approx(1.06) and found["torque"] == pytest.approx(0.9)
    assert worst(trace(np.zeros(3), q0=-1.06), LIMITS)["position"] == pytest.approx(1.06)
    assert worst(trace(np.zeros(3), effort=-10.6), LIMITS)["torque"] == pytest.approx(1.06)


def test_an_arm_without_torque_falls_and_is_told_apart():
    v = np.full(100, 3.0)
    found = worst(trace(v, driven=False), LIMITS)
    assert (found["speed"], found["position"]) == (0.0, 0.0) and found["limp"] == pytest.approx(1.5)


def test_motors_that_get_their_torque_back_must_catch_the_arm_in_time():
    falls, seconds = np.arange(300) < 50, np.arange(300) * DT
    caught = np.where(falls, 3.0, np.where(seconds < 0.5 + 0.5 * CATCH, 2.5, 0.0))
    assert worst(trace(caught, q0=-4.0, driven=~falls), LIMITS)["speed"] <= 1.0
    never = np.full(300, 2.5)
    assert worst(trace(never, driven=~falls), LIMITS)["speed"] == pytest.approx(1.25)


def test_what_is_caught_has_no_excuse_any_more():
    v = np.r_[np.full(50, 3.0), np.full(10, 1.0), np.full(10, 2.2)]
    driven = np.arange(len(v)) >= 50
    assert worst(trace(v, q0=-1.5, driven=driven), LIMITS)["speed"] == pytest.approx(1.1)


# -- stops ---------------------------------------------------------------------------------------------------------


def test_authority_ends_with_the_last_lease_or_with_its_withdrawal():
    leases = [(1.0, 0.5), (1.1, 0.5), (2.0, 0.5), (2.2, 0.0), (2.4, 0.0), (3.0, 0.5)]
    assert closed(leases, 0.0, 4.0) == [(0.0, 1.0), (1.6, 2.0), (2.2, 3.0), (3.5, 4.0)]
    assert closed(leases, 1.2, 1.4) == []
    assert closed([], 0.0, 1.0) == [(0.0, 1.0)]


def braking(v0, deceleration, after=0.0, seconds=4.0):
    """Speeds of a joint that goes on for `after` [s] and then brakes."""
    t = DT * np.arange(round(seconds / DT))
    return np.clip(v0 - deceleration * np.maximum(t - after, 0.0), 0.0, None)


def test_a_stop_by_the_declared_deceleration_is_allowed_and_a_longer_one_is_not():
    good = after_stop(trace(braking(2.0, 10.0, REACTION)), LIMITS, 0.0, 4.0)
    assert 0.8 < good.share <= 1.0 and good.later == 0.0
    assert good.distance == pytest.approx(2.0 * REACTION + 0.2, abs=0.03)
    assert after_stop(trace(braking(2.0, 10.0, 3 * REACTION)), LIMITS, 0.0, 4.0).share > 1.05
    assert after_stop(trace(braking(2.0, 5.0)), LIMITS, 0.0, 4.0).share > 0.8


def test_an_arm_at_rest_that_moves_while_nobody_may_command_is_seen():
    v = np.zeros(400)
    v[300:320] = 0.5
    stop = after_stop(trace(v), LIMITS, 0.0, 4.0)
    assert stop.later == pytest.approx(0.1, abs=0.01) and stop.share > 1.05
    assert after_stop(trace(np.zeros(400)), LIMITS, 0.0, 4.0).share == 0.0


def test_what_happens_before_the_authority_ends_is_no_stop():
    v = np.r_[np.full(100, 1.0), np.zeros(300)]
    assert after_stop(trace(v), LIMITS, 1.0, 4.0).distance == pytest.approx(0.0, abs=1e-9)


def test_a_reset_while_halted_is_no_motion():
    whole = trace(np.zeros(400))
    whole.q[200:] += 0.8
    assert after_stop(whole, LIMITS, 0.0, 4.0).distance == 0.0


def test_settling_is_no_later_motion():
    late = round((REACTION + SETTLED) / DT)
    v = np.zeros(400)
    v[late - 30 : late - 20] = SLACK
    assert after_stop(trace(v), LIMITS, 0.0, 4.0).later < 1e-3


# -- the task ------------------------------------------------------------------------------------------------------


def test_following_is_being_near_the_path_and_moving_along_it():
    angle = np.linspace(0.0, 2 * np.pi, 400)
    curve = np.column_stack([np.zeros(400), 0.1 * np.sin(angle), 0.05 * np.sin(2 * angle)])
    assert following(curve[:80:4] + [0.01, 0.0, 0.0], curve)
    assert not following(np.repeat(curve[:1], 20, axis=0), curve)  # it stands
    assert not following(curve[:80:4] + [0.05, 0.0, 0.0], curve)  # it moves elsewhere
    assert not following(curve[:3], curve)  # nothing is known of it


# -- words ---------------------------------------------------------------------------------------------------------


def standing(begin, end, until=20.0):
    return [(t, not begin <= t < end) for t in np.arange(0.0, until, 0.25)]


def test_an_arm_that_stands_and_nobody_says_why_is_a_silent_state():
    assert silences(standing(5.0, 15.0), [], 3.0) == [(8.25, 14.75)]
    assert silences(standing(5.0, 7.5), [], 3.0) == []


def test_a_word_before_and_a_word_that_is_long_over_explain_nothing():
    spells = silences(standing(5.0, 15.0), [(1.0, 2.0), (6.0, 7.0)], 3.0)
    assert spells == [(10.0, 14.75)]


def test_a_state_that_lasts_explains_as_long_as_it_lasts():
    assert silences(standing(5.0, 15.0), [(6.0, 20.0)], 3.0) == []


def test_two_silences_are_two():
    follows = [(t, not (2.0 <= t < 7.0 or 10.0 <= t < 15.0)) for t in np.arange(0.0, 20.0, 0.25)]
    assert len(silences(follows, [], 3.0)) == 2


@pytest.mark.parametrize(
    "sentence",
    [
        "no joint command for 0.50 s (limit 0.50 s): the controller crashed, hangs or cannot keep up",
        "joint1 is at 3.100, outside [-2.900, 2.900]",
        "stopped by an operator",
        "joint state is 0.123 s old, limit 0.100 s: the plant or the network is late; nothing usable for 0.11 s",
    ],
)
def test_sentences_that_explain(sentence):
    assert objection(sentence) == ""


@pytest.mark.parametrize(
    ("sentence", "why"),
    [
        ("", "empty"),
        ("   ", "empty"),
        ("LIMIT", "no sentence"),
        ("Traceback:\n  File x", "more than one line"),
        ("It stopped. Then somebody pressed the button of the other robot.", "more than one sentence"),
        ("joint " * 100, "600 characters"),
    ],
)
def test_texts_that_do_not(sentence, why):
    assert objection(sentence) == why or why == "600 characters" and "characters" in objection(sentence)


# -- data ----------------------------------------------------------------------------------------------------------


def test_data_lost_are_those_that_were_published_and_not_recorded():
    published = np.arange(0.0, 10.0, 0.1)
    assert lost_at(published, published[:80] + 0.001, 10.0) == pytest.approx(2.0)
    assert lost_at(published, published, 10.0) == 0.0
    assert lost_at(published[:50], published[:50], 10.0) == 0.0  # nothing was published since
    assert lost_at(published, np.zeros(0), 10.0) == pytest.approx(10.0)
