"""A search: what counts as an attempt, when it ends, and that it goes on from its state as if nothing had happened."""

import json

import numpy as np
import pytest

from sim_core.scooping.bed.actions import grid
from sim_core.scooping.bed.rendering import Picture
from sim_core.scooping.planning.scoop_planner import ScoopPlanner
from sim_core.scooping.planning.search import Search

pytestmark = pytest.mark.pure

ACTIONS = grid(places=(3, 2), yaws=2, levels=2)


class Known:
    """Expects what it was told to, less 10 cm3 for each trial, so that trials matter."""

    def __init__(self, seed=0):
        self.mean = np.random.default_rng(seed).uniform(10e-6, 60e-6, len(ACTIONS))

    def expects(self, seen, trials):
        return self.mean - 1e-5 * len(trials.volumes) * (np.arange(len(ACTIONS)) % 3), np.full(len(ACTIONS), 5e-6)


def picture(seed=0):
    rng = np.random.default_rng(seed)
    height = rng.uniform(0.1, 0.12, (60, 90)).astype(np.float32)
    return Picture(rng.integers(0, 255, (60, 90, 3)).astype(np.uint8), height, np.array([-0.45, -0.3]), 0.01)


def search(budget=5, threshold=100e-6):
    return Search(ScoopPlanner(ACTIONS, Known(), size=16), threshold, budget)


def test_it_ends_with_a_scoop_that_is_enough():
    s = search()
    s.observe(picture())
    first = s.ask()
    s.settle(first, 40e-6)
    assert not s.ended and not s.success
    s.observe(picture(1))
    second = s.ask()
    assert second.index != first.index
    s.settle(second, 101e-6)
    assert s.success and "scoop 2 holds 101 cm3, 100 were asked for" in s.ended
    assert [a.mean for a in s.attempts] == [first.mean, second.mean]


def test_what_cannot_be_planned_is_no_attempt_and_what_was_stopped_is_one():
    s = search(budget=2)
    s.observe(picture())
    refused = s.ask()
    s.refuse(refused, "the elbow would touch the tray")
    assert (
        s.ask().index != refused.index
        and not s.attempts
        and s.refused == [(refused.index, "the elbow would touch the tray")]
    )
    s.settle(s.ask(), 0.0, "too much force")
    assert len(s.attempts) == 1 and s.planner.history[-1][1] == 0.0
    s.settle(s.ask(), 30e-6)
    assert "the budget of 2 scoops is used; the best brought 30 of 100 cm3" in s.ended


def test_two_scoops_in_a_row_of_which_nothing_is_known_end_it():
    s = search()
    s.observe(picture())
    s.lose(s.ask(), "the camera is gone")
    s.settle(s.ask(), 1e-6)
    s.lose(s.ask(), "the camera is gone")
    assert not s.ended
    again = s.ask()
    s.lose(again, "the force sensor is silent")
    assert "the force sensor is silent" in s.ended
    assert len(s.planner.history) == 1  # nothing was learnt of the lost ones, which may be tried again
    assert s.ask().index == again.index


def test_it_ends_when_nothing_is_left():
    s = search(budget=100)
    s.observe(picture())
    for _ in range(len(ACTIONS)):
        s.refuse(s.ask(), "out of reach")
    assert s.ask() is None and "no scoop is left to try" in s.ended


def test_a_killed_search_goes_on_with_the_same_suggestion():
    s = search()
    s.observe(picture())
    s.settle(s.ask(), 20e-6)
    s.observe(picture(1))
    s.refuse(s.ask(), "out of reach")
    kept = json.loads(json.dumps(s.state()))
    again = Search.resume(kept, ACTIONS, Known())
    for one in (s, again):
        one.observe(picture(2))
    ours, theirs = s.ask(), again.ask()
    assert (ours.index, ours.worth, ours.mean) == (theirs.index, theirs.worth, theirs.mean)
    assert again.attempts == s.attempts and again.refused == s.refused


@pytest.mark.parametrize(
    "change, says",
    [(lambda d: d.update(version=9), "version 1, this one 9"), (lambda d: d.pop("planner"), "lacks planner")],
)
def test_a_state_that_is_not_whole_is_refused(change, says):
    state = search().state()
    change(state)
    with pytest.raises(ValueError, match=says):
        Search.resume(state, ACTIONS, Known())


def test_a_threshold_is_above_zero():
    with pytest.raises(ValueError, match="threshold"):
        search(threshold=0.0)
