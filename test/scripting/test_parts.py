"""What needs no graph: imports, results, what was learnt, tasks, usage that makes no sense."""

import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from scripting import EpisodeResult, Learnt, Outcome, PathResult, Robot, ScriptError, UsageError
from scripting.own_domain import given_or_own_domain
from scripting.tasks import OneAtATime, Task


@pytest.mark.process
def test_import_is_cheap():
    code = "import sys, scripting; print({'rclpy', 'mujoco', 'casadi', 'torch', 'numpy'} & set(sys.modules) or 'none')"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "none"


@pytest.mark.parametrize("robot, sentence", [("pandaa", "No robot named 'pandaa'"), ("swimmer3", "no nodes.yaml")])
def test_robots_that_cannot_be_started(robot, sentence):
    with pytest.raises(UsageError, match=sentence) as caught:
        Robot.start(robot)
    assert "\n" not in str(caught.value)


def test_graphs_of_one_machine_have_domains_of_their_own(monkeypatch):
    monkeypatch.delenv("ROS_DOMAIN_ID", raising=False)
    with given_or_own_domain() as first, given_or_own_domain() as second:
        assert first != second and {first, second} <= set(range(20, 101))
        monkeypatch.setenv("ROS_DOMAIN_ID", str(first))
        with given_or_own_domain() as third:  # what a person gives is not a claim
            assert third == first


def test_every_outcome_but_success_says_what_to_do():
    assert all("call" in o.value or "look" in o.value for o in Outcome if o is not Outcome.SUCCEEDED)


def test_results_are_true_where_they_succeeded():
    assert PathResult(Outcome.SUCCEEDED, duration=2.0, tracking_error=0.001).check()
    assert str(PathResult(Outcome.SUCCEEDED, "", 2.0, 0.001)) == "followed the path for 2.00 s, 1.0 mm beside it (RMS)"
    halted = PathResult(Outcome.HALTED, "joint3 is at 4.0", 1.0, 0.2)
    assert not halted and "joint3 is at 4.0" in str(halted) and "resume()" in str(halted)
    with pytest.raises(ScriptError, match=r"joint3 is at 4.0.*resume\(\)"):
        halted.check()
    assert not EpisodeResult(Outcome.REFUSED)


def parameter(name, value, **fields):
    known = dict(std=0.1, lower=value - 0.2, upper=value + 0.2, unit="kg", excited=True, at_bound=False)
    return SimpleNamespace(name=name, value=value, **(known | fields))


def test_what_was_learnt_is_a_mapping_and_a_table():
    message = SimpleNamespace(
        parameters=[parameter("hand.mass", 2.5), parameter("hand.com.x", 0.0, unit="m", excited=False)],
        revision=4,
        window_start=1.0,
        window_end=2.0,
        message="better by half",
    )
    learnt = Learnt.from_message(message)
    mass = learnt["hand.mass"]
    assert (mass.value, mass.std, mass.interval, mass.unit) == (2.5, 0.1, (2.3, 2.7), "kg")
    assert list(learnt) == ["hand.mass", "hand.com.x"] and learnt.revision == 4 and learnt.window == (1.0, 2.0)
    table = str(learnt).splitlines()
    assert table[1].split() == ["hand.mass", "2.5", "0.1", "2.3", "to", "2.7", "kg"]
    assert table[2].endswith("not determined by the motion")
    assert "95 %" in str(mass)


def test_nothing_was_learnt():
    assert not Learnt({}) and str(Learnt({})) == "nothing was learnt yet"


def test_a_task_is_waited_for_and_cancelled():
    task = Task(lambda cancelled: cancelled.wait(600.0), "waiting")
    assert not task.is_done()
    with pytest.raises(TimeoutError, match="waiting is not done after 0.05 s"):
        task.result(0.05)
    task.cancel()
    assert task.result(60.0) is True and task.is_done()


def test_a_task_hands_its_error_over():
    def work(cancelled):
        raise ScriptError("nothing works")

    with pytest.raises(ScriptError, match="nothing works"):
        Task(work, "failing").result(60.0)


def test_one_verb_at_a_time():
    verbs, inside = OneAtATime("panda"), threading.Event()
    task = verbs.begin(lambda cancelled: inside.set() or cancelled.wait(600.0), "first")
    assert inside.wait(60.0)
    with pytest.raises(UsageError, match="panda is busy"):
        verbs.run(lambda cancelled: None)
    verbs.cancel(60.0)
    assert task.is_done() and verbs.run(lambda cancelled: 7) == 7


def test_a_failed_verb_lets_the_next_one_run():
    verbs = OneAtATime("panda")
    with pytest.raises(ZeroDivisionError):
        verbs.run(lambda cancelled: 1 / 0)
    assert verbs.run(lambda cancelled: 7) == 7


@pytest.mark.graph
def test_joining_an_empty_domain_is_one_sentence(domain, withheld):
    began = time.monotonic() - withheld()
    with pytest.raises(UsageError, match=rf"no robot in ROS domain {domain}, namespace 'left' within 1 s") as caught:
        Robot.join(namespace="left", timeout=1.0)
    assert time.monotonic() - withheld() - began < 10.0 and "\n" not in str(caught.value)
