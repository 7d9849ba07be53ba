"""Arms that change on their path: the loop without ROS, what it finds, and how its cells are judged."""

import numpy as np
import pytest

from config.robot import robot_names
from experiments.adaptive_mpc.refit_changes import SIZES, arm, cell, judge, report
from experiments.problems.changed_arm import CHANGE, Drive, Driven, Round, changes, drive, hand_truth, relearnt
from reporting import Result
from sim_core.control.refit import Refit


@pytest.mark.parametrize("label", SIZES["full"][0])
def test_there_are_ten_changes_and_the_plant_takes_them(label, tmp_path, monkeypatch):
    if label not in robot_names():  # what is adopted is not left behind; robots of ours share their kernels
        monkeypatch.setenv("REFIT_CACHE", str(tmp_path))
    robot = arm(label)
    assert len(changes(robot)) >= 10
    for name in changes(robot):
        assert np.isfinite(drive(Drive(robot, name, False, 0, CHANGE + 1.05)).rmse)


@pytest.fixture
def fits(monkeypatch):
    """The results of all fits of a test."""
    results, attempt = [], Refit.attempt

    def noted(*args, **words):
        fit = attempt(*args, **words)
        results.append(fit.result)
        return fit

    monkeypatch.setattr(Refit, "attempt", noted)
    return results


def test_a_payload_is_learnt_late_and_its_truth_is_held(fits):
    run = Drive("panda", "payload", True, 0, 3.5)
    learnt = drive(run)
    assert learnt.rmse < 0.5 * drive(Drive("panda", "payload", False, 0, 3.5)).rmse
    after = [r for r in learnt.rounds if r.accepted and r.inside]
    assert after and all(r.delay >= 0.05 and r.explained for r in after) and abs(after[-1].error) < 0.1
    last = [fit for fit in fits if fit.accepted][-1]
    assert max(last.suspects.values()) < 0.2 and "speak for" not in last.reason
    # One at a time: the next fit begins only when the last one's result is there.
    begun = np.array([r.time for r in learnt.rounds])
    assert np.all(np.diff(begun) >= np.array([r.delay for r in learnt.rounds])[:-1] - 1e-9)


def test_the_hands_truth_is_the_body_and_what_it_holds():
    empty, full = hand_truth("panda", []), hand_truth("panda", changes("panda")["payload"])
    assert full["hand.mass"] - empty["hand.mass"] == pytest.approx(2.0)
    moment = full["hand.mass"] * full["hand.com.z"] - empty["hand.mass"] * empty["hand.com.z"]
    assert moment == pytest.approx(2.0 * 0.08)


def test_worse_than_none_beyond_noise_is_a_miss_and_so_are_intervals_that_miss(tmp_path):
    held = Round(2.0, True, "", True, {"mass": True, "com": False}, 0.0, 0.1, 0.1)
    unsure = Round(2.0, True, "", False, {"mass": False, "com": False}, 0.0, 0.1, 0.1)
    worse = cell("payload", [(Driven(1e-3, ()), Driven(1.2e-3, (held, unsure), 3.1)) for _ in range(3)])
    assert worse["ratio"] == pytest.approx(1.2) and (worse["inside"], worse["truths"]) == (3, 6)
    assert worse["unexplained"] == 3
    result = Result("worse")
    judge(result, "panda", [worse])
    assert [check.passed for check in result.checks] == [False, False, False]
    noisy = cell("payload", [(Driven(1e-3, ()), Driven(r * 1e-3, (), 0.6)) for r in (0.7, 1.4, 1.1)])
    other = cell("one motor at 80 %", [(Driven(1e-3, ()), Driven(1e-3, ())) for _ in range(3)])
    judge(result := Result("noisy"), "panda", [noisy, other])
    assert result.passed
    page = tmp_path / "report.html"
    report(result).write(page)
    assert ">nan<" not in page.read_text()


def test_a_payload_is_known_once_every_set_in_use_is_near_it():
    def said(time, error, accepted=True):
        return Round(time, accepted, "", True, {}, error, 0.1, 0.1)

    known = [said(1.4, 0.0), said(2.0, 0.3), said(2.3, 0.05), said(2.6, -0.4, accepted=False), said(2.9, -0.02)]
    assert relearnt(known, 0.1) == pytest.approx(2.3 + 0.1 - CHANGE)
    assert relearnt([*known, said(3.2, 0.2)], 0.1) == np.inf and relearnt([said(1.4, 0.0)], 0.1) == np.inf


def test_weak_motors_are_suspected_where_no_residual_shows_them_and_the_intervals_allow_for_them(fits):
    """The servo arm's readings are too coarse for the residuals to tell; the mass in the hand alone would be said to 7 % and be wrong."""
    learnt = drive(Drive("dxl_arm", "all motors at 90 %", True, 0, 3.4, asks=False))
    said = [r for r in learnt.rounds if r.accepted and r.inside and r.explained]
    assert said and all(held for r in said for held in r.inside.values())
    last = [fit for fit in fits if fit.accepted][-1]
    assert last.explained and last.misfit < 1.3 and last.suspects["motors' strength"] > 0.9
    assert "the data speak for motors' strength other than" in last.reason
