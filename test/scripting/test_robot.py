"""Every verb on running graphs: a Panda that follows its path, a cart-pole that runs episodes, in lock-step with time free.

Nothing here is timed against the wall clock, so that a busy machine changes no result.
"""

import math
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from scripting import GraphError, Outcome, Robot, ScriptError, UsageError

pytestmark = pytest.mark.graph

QUICK = dict(lockstep=True, real_time_factor=0)
PAYLOAD = {"action": "attach", "frame": "hand", "mass": 2.0}


@pytest.fixture(scope="module")
def robots(domain, patient, tmp_path_factory):
    """Both in one domain, a namespace separates them; they get ready at the same time."""
    # A supervisor that gets no time while the others run on would halt them.
    limits = patient(state_age_limit=5.0, future_limit=5.0, command_age_limit=5.0)
    with (
        Robot.start("panda", record=tmp_path_factory.mktemp("panda"), params_file=limits, **QUICK) as panda,
        Robot.start("cartpole", namespace="left", prior="start", params_file=limits, **QUICK) as cartpole,
    ):
        yield panda.wait_until_ready(), cartpole.wait_until_ready()


@pytest.fixture(scope="module")
def panda(robots):
    return robots[0]


@pytest.fixture(scope="module")
def cartpole(robots):
    return robots[1]


@pytest.fixture
def fresh(panda):
    """The Panda at its start, at time zero, with nothing in its hand."""
    panda.world.restore()
    if panda.world.time > 0.0:  # in lock-step a controller that has answered time zero does not answer it again
        panda.world.reset(time=True, state=True, spawned=True)
    return panda


def wait_until(condition, deadline=120.0):
    """AssertionError if it does not become true within so many seconds."""
    end = time.monotonic() + deadline
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


# ---- a path ------------------------------------------------------------------------------------------------------


def test_nothing_moves_before_a_verb(fresh):
    assert fresh.world.stands_still and fresh.world.time == 0.0
    assert not fresh.halted


def test_follow_path(fresh):
    seen = []
    result = fresh.follow_path(1.0, progress=seen.append)
    assert result.outcome is Outcome.SUCCEEDED, result
    assert 1.0 <= result.duration <= fresh.world.time and result.tracking_error < 0.01
    assert seen == sorted(seen) and seen[-1] == result.duration
    assert fresh.world.stands_still
    # It goes on where it stopped: from the path's beginning the arm would be far away.
    assert fresh.follow_path(0.5).tracking_error < 0.01
    assert fresh.world.time >= 1.5


def test_a_payload_is_learnt(fresh):
    fresh.follow_path(0.6).check()
    fresh.change_world([PAYLOAD])
    fresh.follow_path(1.5).check()
    deadline = time.monotonic() + 120.0  # the last fit may still run
    mass = None
    while mass is None or abs(mass.value - 2.0) > 0.1:
        assert time.monotonic() < deadline, str(fresh.learnt())
        fresh.follow_path(0.5).check()
        mass = fresh.learnt().get("hand.payload.mass")
    assert mass.unit == "kg" and mass.interval[0] < mass.value < mass.interval[1]
    assert fresh.learnt("hand.payload.mass")["hand.payload.mass"].unit == "kg"
    with pytest.raises(GraphError, match="its.temper was not learnt within 0.2 s; known is:\n"):
        fresh.learnt("its.temper", timeout=0.2)


def test_changes_add_up_and_are_undone(fresh):
    fresh.change_world([{**PAYLOAD, "name": "first"}])
    fresh.change_world([{**PAYLOAD, "name": "second", "time": 0.1}])
    fresh.follow_path(0.3).check()
    # An event that cannot happen changes nothing, and says what can.
    with pytest.raises(UsageError, match="first"):
        fresh.change_world([{**PAYLOAD, "name": "first"}])
    with pytest.raises(UsageError, match="also needs frame"):
        fresh.change_world([{"action": "attach", "fram": "hand", "mass": 2.0}])
    fresh.change_world([{"action": "detach", "name": "first"}, {"action": "detach", "name": "second"}])
    fresh.follow_path(0.1).check()


def test_objects_come_and_go(fresh):
    fresh.world.spawn("box", "refit:box?mass=0.5", position=(0.5, 0.5, 0.5))
    with pytest.raises(UsageError, match="box"):
        fresh.world.spawn("box", "refit:box")
    fresh.world.remove("box")
    with pytest.raises(UsageError, match="box"):
        fresh.world.remove("box")


def test_a_task_is_asked_and_cancelled(fresh):
    task = fresh.start_path(1000.0)
    with pytest.raises(TimeoutError):
        task.result(0.2)
    with pytest.raises(UsageError, match="panda is busy"):
        fresh.follow_path(1.0)
    wait_until(lambda: fresh.world.time > 0.2)
    task.cancel()
    result = task.result(120.0)
    assert result.outcome is Outcome.CANCELED and result.duration <= fresh.world.time < 1000.0
    assert fresh.world.stands_still


def test_stop_ends_what_moves(fresh):
    task = fresh.start_path(1000.0)
    fresh.stop()
    assert task.is_done() and fresh.world.stands_still
    fresh.go()
    assert not fresh.world.stands_still
    fresh.stop()
    assert fresh.world.stands_still


def test_going_on_after_the_path(fresh):
    assert fresh.follow_path(0.2, stop_after=False)
    assert not fresh.world.stands_still
    assert fresh.follow_path(0.2)
    assert fresh.world.stands_still


def test_a_reset_by_somebody_else_is_told(fresh):
    fresh.follow_path(0.5)
    begun = fresh.world.time
    task = fresh.start_path(1000.0)
    # Far enough that time has not come back there before the script looks again.
    wait_until(lambda: fresh.world.time > begun + 2.0)
    fresh.world.reset(time=True)
    result = task.result(120.0)
    assert result.outcome is Outcome.INTERRUPTED and "went back" in result.message


def test_a_halt_is_a_result_until_it_is_lifted(fresh):
    fresh.change_world([{"action": "actuator_gain", "factor": 0.0}])  # the arm falls
    result = fresh.follow_path(10.0)
    assert result.outcome is Outcome.HALTED and "limit" in result.message or "outside" in result.message
    assert fresh.halted
    with pytest.raises(ScriptError, match="still at fault"):
        fresh.resume()
    fresh.world.restore()
    fresh.world.reset(time=True)
    fresh.go()

    def lifted() -> bool:
        try:
            fresh.resume()
        except ScriptError:  # until the first good state has been seen
            pass
        return not fresh.halted

    wait_until(lifted)
    assert fresh.follow_path(0.3), fresh.halted


@pytest.mark.parametrize("duration", [0.0, -1.0, math.inf, math.nan])
def test_a_duration_that_makes_no_sense(panda, duration):
    with pytest.raises(UsageError, match="duration"):
        panda.follow_path(duration)


# ---- episodes ----------------------------------------------------------------------------------------------------


def test_run_episode(cartpole):
    result = cartpole.run_episode()
    assert result.outcome is Outcome.SUCCEEDED, result
    assert 0.0 < result.score <= 1.0 and result.refits >= 1
    assert "pole.mass" in cartpole.learnt()
    assert cartpole.world.stands_still
    assert cartpole.run_episode(steps=20, refit_at_end=False).refits == 0


def test_an_episode_is_cancelled(cartpole):
    task = cartpole.start_episode(steps=100_000)
    with pytest.raises(TimeoutError):
        task.result(0.3)
    task.cancel()
    assert task.result(120.0).outcome is Outcome.CANCELED


def test_verbs_that_a_robot_does_not_have(panda, cartpole):
    with pytest.raises(UsageError, match="panda has no run_episode: its controller follows a path: follow_path"):
        panda.run_episode()
    with pytest.raises(UsageError, match="cartpole has no follow_path: its controller runs episodes: run_episode"):
        cartpole.start_path(1.0)


# ---- joining -----------------------------------------------------------------------------------------------------


def test_joining_from_another_process_leaves_the_graph_running(fresh):
    fresh.follow_path(1.0)
    revision = fresh.learnt().revision
    script = f"""
import time
from scripting import Robot
with Robot.join() as robot:
    robot.wait_until_ready()
    end = time.monotonic() + 120.0
    while robot.learnt().revision < {revision}:  # what was said before it joined
        assert time.monotonic() < end, robot.learnt()
        time.sleep(0.02)
    assert robot.name == "panda"
    print(robot.follow_path(0.5).outcome.name, robot.world.stands_still)
    robot.start_path(1000.0)
"""
    child = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert child.stdout.split() == ["SUCCEEDED", "True"], child.stderr
    assert child.returncode == 0
    assert fresh.world.stands_still  # what it moved when it left stands
    assert fresh.follow_path(0.2)


def test_two_robots_of_one_domain(panda, cartpole):
    with Robot.join(namespace="left") as joined:
        assert joined.name == "cartpole"
        assert joined.run_episode(steps=10)


def test_closing_from_another_thread_ends_a_wait(domain):
    joined = Robot.join()
    task = joined.start_path(1000.0)
    closing = threading.Thread(target=joined.close)
    closing.start()
    closing.join(60.0)
    assert not closing.is_alive() and task.is_done()
    joined.close()
    with pytest.raises(UsageError, match="closed"):
        joined.follow_path(1.0)


def test_a_dead_graph_is_told(panda):
    """The last test of this file: the Panda's graph ends."""
    task = panda.start_path(1000.0)
    os.kill(panda._graph.pid, signal.SIGINT)
    with pytest.raises(GraphError, match=r"(the graph ended|the supervisor shut down) .*\n.*graph.log, last lines:"):
        task.result(120.0)
    panda.close()
    panda.close()
