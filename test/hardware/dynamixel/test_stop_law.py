"""What a joint does that nobody commands, on a joint whose motion is computed: no bus, no servo, no clock."""

from types import SimpleNamespace

import numpy as np
import pytest

from hardware.dynamixel.commands import EffortLoop, Goals, StopLaw
from hardware.dynamixel.device import ServoGroup
from hardware.dynamixel.joints import GroupState, Joint, JointArrays
from hardware.dynamixel.tables import MODELS

CURRENT = 0
INERTIA, DAMPING, DT = 0.02, 0.03, 1.0 / 250.0  # [kg m^2], [N m s/rad], [s]
MOST = np.full(1, 2.5)  # [N m]


class Rig:
    """One joint under a load [N m], its law, and where it has been."""

    def __init__(self, q=0.0, v=0.0):
        self.law = StopLaw(
            JointArrays([Joint("a", 1, MODELS["XM430-W350"], CURRENT)]), EffortLoop([6.0], [12.0], [0.5]), "hold"
        )
        self.state, self.goals = GroupState(["a"]), Goals(1)
        self.q, self.v, self.path = q, v, []

    def run(self, seconds, load, effort=None, position=None):
        """The law's own efforts, or those of a commander."""
        for _ in range(round(seconds / DT)):
            self.state.q[:], self.state.qd[:] = self.q, 0.024 * np.round(self.v / 0.024)  # as servos resolve
            self.goals.clear()
            if effort is not None:
                self.goals.effort[:] = effort
            if position is not None:
                self.goals.position[:] = position
            self.law.fill(self.state, self.goals, DT, MOST)
            tau = np.clip(self.goals.effort, -MOST, MOST)
            self.law.loop.observe(tau, DT)
            for _ in range(10):
                self.v += 0.1 * DT * (float(tau[0]) + load - DAMPING * self.v) / INERTIA
                self.q += 0.1 * DT * self.v
            self.path.append(self.q)
        return np.array(self.path[-round(seconds / DT) :])

    def fall(self, seconds, load):
        """Without torque and without the law, as while the driver stands still."""
        for _ in range(round(seconds / DT * 10)):
            self.v += 0.1 * DT * (load - DAMPING * self.v) / INERTIA
            self.q += 0.1 * DT * self.v


@pytest.mark.parametrize("speed", [-1.5, 0.3, 2.0])
@pytest.mark.parametrize("load", [-0.7, 0.0, 0.7])
def test_a_moving_joint_stays_where_it_comes_to_rest(speed, load):
    rig = Rig()
    rig.run(1.0, load, effort=-load)  # it stands, and the loop learns what that takes
    rig.v = speed
    rig.run(0.02, load, effort=-load)
    stopped = rig.q
    way = rig.run(3.0, load)
    assert abs(way - stopped).max() < abs(speed) * 0.5 / 6.0 + 0.02  # k_d / k_p is the time constant of the loop
    assert np.ptp(way[round(0.5 / DT) :]) < 0.004


@pytest.mark.parametrize("load", [0.04, 0.4, -0.4])
def test_a_joint_that_is_caught_does_not_creep(load):
    """It held 0.8 N m before it fell to where the load is another one."""
    rig = Rig()
    rig.run(2.0, -0.8, effort=0.8)
    rig.fall(0.1, -0.8)
    rig.fall(0.2, load)
    rig.law.catch(np.ones(1, bool))
    way = rig.run(3.0, load)
    assert np.ptp(way[round(0.6 / DT) :]) < 0.004


def test_a_standing_joint_goes_back_to_where_it_was_stopped():
    """A load that comes while it holds moves it for as long as the integral takes, not for good."""
    rig = Rig()
    rig.run(1.0, 0.0, effort=0.0)
    rig.run(0.5, 0.0)
    way = rig.run(4.0, 0.6)
    assert abs(way).max() > 0.02 and abs(way[-1]) < 0.003


def test_a_command_ends_a_stop():
    """Positions that come while a joint still stops are followed by the whole loop, its integral included."""
    rig = Rig()
    rig.run(1.0, 0.5, effort=-0.5)
    rig.v = 2.0
    rig.run(0.02, 0.5)  # the law stops it
    assert rig.law._stopping.any()
    before = rig.law.loop.integral.copy()
    rig.run(DT, 0.9, position=0.5)
    assert rig.law.loop.integral != before
    assert rig.run(3.0, 0.9, position=0.5)[-1] == pytest.approx(0.5, abs=0.003)


def test_a_position_that_was_commanded_is_held():
    rig = Rig()
    rig.law.hold[:] = 0.2
    assert rig.run(3.0, 0.3)[-1] == pytest.approx(0.2, abs=0.003)


def test_answers_from_before_a_silence_hide_no_fall():
    """A driver that stood still finds the old answers first; where the joint is by now comes with the next ones."""
    caught = []
    state = GroupState(["a", "b"])
    group = SimpleNamespace(
        options=SimpleNamespace(bus_watchdog=0.2),
        joint_state=state,
        stop_law=SimpleNamespace(catch=lambda where: caught.append(where.tolist())),
        _heard=np.zeros(2),
        _seen=np.full(2, np.nan),
        _unled_at=np.full(2, -np.inf),
    )
    state.valid[:] = True
    for now, q in (
        (10.0, (0.5, 0.1)),
        (10.004, (0.5, 0.1)),
        (12.0, (0.5, 0.1)),
        (12.004, (-0.3, 0.12)),
        (12.2, (-0.5, 0.3)),
    ):
        state.q[:] = q
        ServoGroup._release_what_fell(group, now)
    assert [where for where in caught if any(where)] == [[True, False]]
