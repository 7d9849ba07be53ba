"""A robot whose time nobody can stop: its controller is switched off and on, and the path goes on.

A Panda at half speed stands for it: its servos hold it without commands, as those of a real arm do.
"""

import threading

import pytest
from lifecycle_msgs.msg import State

from scripting import Outcome, Robot, ScriptError
from scripting.following import follow
from scripting.motion import RealMotion

pytestmark = pytest.mark.graph


@pytest.fixture(scope="module")
def connection(domain, patient):
    with Robot.start(
        "panda", refit=False, real_time_factor=0.5, params_file=patient(state_age_limit=5.0, command_age_limit=2.0)
    ) as robot:
        robot.go()
        yield robot._ready


def test_it_stands_and_goes_on(connection):
    client, monitor = connection.client, connection.monitor
    motion = RealMotion(client, monitor, "adaptive_mpc")
    first = follow(client, monitor, motion, 0.8, True, lambda t: None, threading.Event())
    assert first.outcome is Outcome.SUCCEEDED, first
    assert motion.stands() and client.lifecycle_state("adaptive_mpc") == State.PRIMARY_STATE_INACTIVE
    # The supervisor misses the commands; the verb that comes next knows why.
    assert client.until(lambda: monitor.halted, 120.0, "while the supervisor halted")
    second = follow(client, monitor, motion, 0.5, True, lambda t: None, threading.Event())
    assert second.outcome is Outcome.SUCCEEDED, second
    assert second.tracking_error < 0.02  # from the path's beginning it would be 0.15 m away


def test_a_halt_of_somebody_else_is_not_lifted(connection):
    client, monitor = connection.client, connection.monitor
    RealMotion(client, monitor, "adaptive_mpc").stand()
    assert client.until(lambda: monitor.halted, 120.0, "while the supervisor halted")
    other = RealMotion(client, monitor, "adaptive_mpc")
    result = follow(client, monitor, other, 0.5, True, lambda t: None, threading.Event())
    assert result.outcome is Outcome.HALTED and "no joint command" in result.message


def test_a_disarmed_robot_stays_where_it_is_until_it_is_armed(connection):
    client, monitor = connection.client, connection.monitor
    if monitor.halted:
        assert connection.press("resume") == ""
    assert client.until(lambda: not monitor.halted, 120.0, "while the halt was lifted")
    assert connection.press("disarm") == ""
    assert client.until(lambda: monitor.disarmed, 120.0, "while the supervisor disarmed")
    motion = RealMotion(client, monitor, "adaptive_mpc")
    with pytest.raises(ScriptError, match=r"disarmed by an operator: call arm\(\) first"):
        follow(client, monitor, motion, 0.5, True, lambda t: None, threading.Event())
    assert connection.press("arm") == ""
    assert client.until(lambda: not monitor.disarmed, 120.0, "while the supervisor armed")
    assert follow(client, monitor, motion, 0.5, True, lambda t: None, threading.Event()).outcome is Outcome.SUCCEEDED
