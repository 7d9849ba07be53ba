"""The velocity limit of a servo in current mode while its driver stands still: the ceiling of its duty, in simulated time."""

import math
import types

import numpy as np
import pytest
from servo_bench import Bench

from hardware.dynamixel import protocol2
from hardware.dynamixel.commands import Goals
from hardware.dynamixel.goal_writer import GoalWriter
from hardware.dynamixel.joints import GroupState, Joint, JointArrays
from hardware.dynamixel.servo_setup import ServoLimits
from hardware.dynamixel.tables import CURRENT, MODELS

XM, LIMIT, RATE = MODELS["XM430-W350"], 3.0, 250.0
WATCHDOG = 10  # counts of 20 ms, as config/robots/dxl_arm has it
GAP = 0.36  # [s] that a driver stood still on a busy machine


class Driven:
    """One servo in current mode and the goals that a driver writes to it, as they are on the wire.

    Args:
        load: torque that pulls the horn back [N m]. ceiling: False: the duty is not bounded.
    """

    def __init__(self, load, ceiling=True, baud=4_000_000):
        self.bench = Bench(
            "{id: 1, model: XM430-W350, registers: {operating_mode: 0}, load_inertia: 0.02, load_torque: %g}" % -load
        )
        self.ceiling, self.sent = ceiling, []
        joint = Joint("a", 1, XM, CURRENT, max_velocity=LIMIT, max_effort=2.5)
        bus = types.SimpleNamespace(
            codec=protocol2, protocol=2.0, send=self.sent.append, transmission_time=lambda n: 10.0 * n / baud
        )
        limits = [ServoLimits(0, 80, 885, 1193, 350, 0, 4095)]
        self.writer = GoalWriter(bus, [joint], JointArrays([joint]), limits)
        self.state, self.goals = GroupState(["a"]), Goals(1)
        self.state.voltage[:] = 12.0
        self.path, self.fastest = [], 0.0
        self.bench.write(torque_enable=1, bus_watchdog=WATCHDOG)

    def written(self):
        """(goal PWM or None, goal current) of every frame sent since, in counts."""
        found = []
        for frame in self.sent:
            words = [int.from_bytes(frame[k : k + 2], "little", signed=True) for k in range(13, len(frame) - 2, 2)]
            assert (frame[8], len(words)) in ((100, 2), (102, 1))
            found.append((words[0] if len(words) == 2 else None, words[-1]))
        self.sent.clear()
        return found

    def run(self, seconds, law):
        """Cycles with effort law(t, q, qd) [N m]."""
        bench, state, goals = self.bench, self.state, self.goals
        for k in range(round(seconds * RATE)):
            state.q[:] = (bench.read("present_position") - 2048) * XM.count
            state.qd[:] = bench.read("present_velocity") * XM.velocity_unit
            goals.clear()
            goals.effort[:] = law(k / RATE, state.q[0], state.qd[0])
            state.t = bench.now
            self.writer.send(state, goals)
            for duty, current in self.written():
                bench.write(**({"goal_pwm": duty} if self.ceiling and duty is not None else {}), goal_current=current)
            bench.bus.servos[0].heard = bench.now
            bench.run(1.0 / RATE, self._note)

    def stand_still(self, seconds):
        """The driver does nothing for so long."""
        self.fastest = 0.0
        self.bench.run(seconds, self._note)
        return self.fastest

    def _note(self):
        self.path.append(float(self.bench.motors.q[0]))
        self.fastest = max(self.fastest, abs(float(self.bench.motors.v[0])))


@pytest.mark.parametrize("load", [0.5, 1.0])
def test_a_joint_that_falls_when_its_watchdog_bites_stays_within_its_limit(load):
    def fallen(ceiling):
        driven = Driven(load, ceiling)
        driven.run(0.5, lambda t, q, v: load - 30.0 * q - v)
        return driven.stand_still(GAP)

    assert fallen(True) < 1.05 * LIMIT
    assert fallen(False) > 1.3 * fallen(True)


@pytest.mark.parametrize("effort", [0.3, 1.0, 2.5])
def test_a_joint_that_goes_on_being_pushed_stays_within_its_limit(effort):
    def pushed(ceiling):
        driven = Driven(0.0, ceiling)
        driven.run(0.012, lambda t, q, v: effort)
        return driven.stand_still(GAP)

    assert pushed(True) < 1.05 * LIMIT
    assert pushed(False) > (1.3 * LIMIT if effort >= 1.0 else 0.0)


def test_full_efforts_that_change_sign_leave_no_speed_beyond_the_limit_to_a_driver_that_stops():
    fastest = []
    for cycles in range(1, 12):
        driven = Driven(0.0)
        driven.run(cycles / RATE, lambda t, q, v: 2.5 * (-1) ** int(t / 0.012))
        fastest.append(driven.stand_still(GAP))
    assert max(fastest) < 1.05 * LIMIT


@pytest.mark.parametrize("load", [0.0, 1.0])
def test_motion_within_the_limits_is_the_same_with_and_without_it(load):
    def law(t, q, v):
        return load + 40.0 * (0.3 * (1.0 - np.cos(4.0 * t)) - q) + 2.0 * (1.2 * np.sin(4.0 * t) - v)

    paths = []
    for ceiling in (True, False):
        driven = Driven(load, ceiling)
        driven.run(2.0, law)
        paths.append(driven.path)
    np.testing.assert_array_equal(*paths)


def test_every_goal_brings_its_ceiling():
    driven = Driven(0.0)
    state, goals, writer = driven.state, driven.goals, driven.writer
    motor = XM.motor

    def write(effort, speed, t):
        state.q[:], state.qd[:], state.t, goals.effort[:] = 0.0, speed, t, effort
        writer.send(state, goals)
        return driven.written()

    def volts(effort):
        return motor.resistance * abs(effort) / motor.torque_constant

    def counts(volts):
        return math.ceil(volts / 12.0 * 885 - 1e-9)

    def needed(effort, speed):
        return counts(1.3 * volts(effort) + motor.back_emf * abs(speed) + 0.04 * 12.0)

    goal = -round(0.5 / motor.torque_constant / 2.69e-3)
    assert write(-0.5, -1.0, 1.0) == [(needed(0.5, 1.0), goal)]
    assert write(-0.5, 1.0, 1.004) == [(needed(0.5, 1.0), goal)]  # as much the other way round
    assert write(-0.5, 0.0, 1.008) == [(needed(0.5, 0.0), goal)]
    mean = -0.5 * (1.0 - 0.98**2)  # what it has borne, on average, and then
    mean += 0.02 * (50.0 - mean)
    assert write(50.0, 0.0, 1.012) == [
        (counts(volts(mean) + 3.0 * motor.back_emf), 1193)
    ]  # no more than its limit takes
    assert write(0.1, np.nan, 1.016)[0][0] == 885  # not known how fast
    assert write(np.nan, 0.0, 1.02) == []


def test_a_bus_on_which_ceilings_would_hold_up_goals_has_none():
    driven = Driven(0.0, baud=115_200)
    driven.run(0.1, lambda t, q, v: 1.0)
    assert driven.bench.read("goal_pwm") == 885
