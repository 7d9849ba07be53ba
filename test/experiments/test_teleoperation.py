"""The whole loop through a bad link: what the operator let go of, and what is too old, moves nothing."""

import numpy as np
import pytest

from experiments.problems.teleop_drive import BEGIN, Drive, driven, overshoot
from experiments.problems.teleoperation import Track
from sim_core.telepresence.session import State


def test_the_arm_follows_through_delay_jitter_and_loss():
    outcome = driven(Drive(0.1, 0.05, 0.005, 1, 5.5))
    assert len(outcome.latencies) and (outcome.latencies > 0.1).all() and (outcome.latencies < 0.16).all()
    assert outcome.overshoot < 4e-3 and outcome.speed_after < 5e-3 and outcome.gate_refused == 0
    assert outcome.refused["order"] > 0 and outcome.true_ages.max() < 0.25
    assert outcome.moved > 0.05


def test_what_is_older_than_its_limit_moves_nothing_and_the_operator_reads_why():
    outcome = driven(Drive(0.3, 0.0, 0.002, 0, 5.0))
    assert outcome.moved < 1e-3 and not len(outcome.ages)
    assert "older than its age limit" in outcome.sentence


def test_an_outage_holds_releases_and_ends_by_itself():
    outcome = driven(Drive(0.05, 0.0, 0.0, 0, BEGIN + 2.6 + 2.5, outage=2.6))
    assert {State.HOLD, State.DISCONNECTED, State.HANDSHAKE} <= set(outcome.states)
    assert outcome.hold_after == pytest.approx(0.2, abs=0.02)
    assert outcome.rejoined < 2.0 and outcome.followed < 3.0 and outcome.drift < 1e-3


def test_overshoot_is_what_leaves_the_box_of_what_was_asked_since_the_clutch():
    n = 6
    zero = np.zeros((n, 3))
    asked, effector = zero.copy(), zero.copy()
    asked[:, 0] = [9.0, 0.0, 0.1, 0.2, 0.2, 0.2]
    effector[:, 0] = [5.0, 1.0, 1.05, 1.15, 1.23, 0.98]
    follows = np.array([False, True, True, True, True, True])
    track = Track(np.arange(n), zero, asked, effector, np.zeros(n), follows, np.zeros(n), zero)
    assert overshoot(track) == pytest.approx(0.03)
