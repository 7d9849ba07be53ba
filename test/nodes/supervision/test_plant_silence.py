"""A plant whose time stands still is asked why: one answer that gets lost halts nobody, silence does."""

import signal
import time

import numpy as np
import pytest
from refit_interfaces.msg import SupervisorStatus
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from simulation_interfaces.srv import GetSimulationState

from nodes.framework.polled import create_polled_service, take_requests
from nodes.framework.qos import CLOCK, LEDGER, STATE

LIMIT = 4.0  # [s] of wall time


class Still:
    """A cart-pole whose clock has stopped, and which answers as it is told.

    Args:
        ros: the client in the graph.
        answers: takes the number of a question, from 0, and says whether it is answered.
    """

    def __init__(self, ros, answers):
        self._ros, self._answers, self.asked = ros, answers, 0
        self.states = ros.listen(SupervisorStatus, "supervisor/status", LEDGER)
        self._clock = ros.node.create_publisher(Clock, "clock", CLOCK)
        self._joints = ros.node.create_publisher(JointState, "joint_states", STATE)
        self._service = create_polled_service(ros.node, GetSimulationState, "get_simulation_state")

    def turn(self):
        """Say the same time and state again, and answer what was asked."""
        clock = Clock()
        clock.clock.sec = 5
        self._clock.publish(clock)
        state = JointState(name=["slider", "hinge"], position=[0.0, np.pi], velocity=[0.0, 0.0], effort=[0.0, 0.0])
        state.header.stamp.sec = 5
        self._joints.publish(state)
        for _, header in take_requests(self._service):
            if self._answers(self.asked):
                self._service.send_response(GetSimulationState.Response(), header)
            self.asked += 1
        self._ros.spin(0.02)

    def until(self, condition, what):
        self._ros.until(lambda: self.turn() or condition(), what=what)

    @property
    def halted(self):
        return [status for status in self.states if status.state == SupervisorStatus.STATE_HALTED]


@pytest.fixture
def still(ros):
    def start(answers):
        plant = Still(ros, answers)
        plant.supervisor = ros.start(
            "supervisor", robot="cartpole", use_sim_time=True, clock_age_limit=LIMIT, auto_arm=True
        )
        ros.up("supervisor")
        return plant

    return start


def test_an_answer_that_gets_lost_halts_nobody(still):
    plant = still(lambda number: number > 0)
    plant.until(lambda: plant.asked > 20, "questions that are answered")
    assert plant.states and not plant.halted


def test_silence_halts_with_a_sentence(still):
    plant = still(lambda number: False)
    plant.until(lambda: plant.halted, "a halt")
    assert plant.halted[0].code == SupervisorStatus.CODE_PLANT_LOST
    assert f"the plant has not answered for {LIMIT:.1f} s" in plant.halted[0].message
    assert plant.asked == 4  # all within the limit


def test_a_supervisor_that_was_not_run_takes_its_own_silence_for_nobodys(still):
    """It is stopped with a question out for longer than the limit, and the answer comes a second after it goes on."""
    answering = True
    plant = still(lambda number: answering)
    plant.until(lambda: plant.asked > 5, "questions that are answered")
    answering, asked = False, plant.asked
    plant.until(lambda: plant.asked > asked, "a question that is not")
    plant.supervisor.send_signal(signal.SIGSTOP)
    time.sleep(LIMIT + 1.0)
    plant.supervisor.send_signal(signal.SIGCONT)
    resumed, asked = time.monotonic(), plant.asked
    plant.until(lambda: time.monotonic() > resumed + 1.0, "a second")
    answering = True
    plant.until(lambda: plant.asked > asked + 20, "questions that are answered")
    assert not plant.halted
