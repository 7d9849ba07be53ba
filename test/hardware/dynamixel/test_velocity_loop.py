"""Velocity mode without an integral part in the servo: the driver's loop on an emulated servo, in simulated time."""

import numpy as np
import pytest
from servo_bench import Bench, stands

from hardware.dynamixel.commands import Goals
from hardware.dynamixel.device import GroupOptions, ServoGroup
from hardware.dynamixel.joints import GroupState, Joint
from hardware.dynamixel.tables import MODELS, POSITION, VELOCITY
from hardware.dynamixel.velocity_loop import VelocityLoop, proportional_gain, velocity_range
from hardware.link import DeviceError

RATE = 100.0  # [Hz]
WATCHDOG = 3  # counts of 20 ms, as the driver arms it


class Led:
    """One servo, its master's velocity loop, and the wire between them.

    Args:
        model: of the servo. inertia, torque: of the load [kg m^2, N m].
    """

    def __init__(self, model, inertia, torque=0.0):
        self.model, self.joint = MODELS[model], Joint("wheel", 1, MODELS[model], VELOCITY)
        self.bench = bench = Bench(
            f"{{id: 1, model: {model}, registers: {{operating_mode: 1, velocity_limit: {velocity_range(self.joint)}}}, "
            f"load_inertia: {inertia:g}, load_torque: {torque:g}}}"
        )
        bench.write(velocity_p_gain=proportional_gain(self.joint), velocity_i_gain=0, torque_enable=1)
        bench.write(bus_watchdog=WATCHDOG)
        self.loop, self.state, self.goals = VelocityLoop([self.joint]), GroupState(["wheel"]), Goals(1)
        self.state.voltage[:] = self.model.motor.volts
        self.speed = self.fastest = 0.0

    def run(self, seconds, velocity):
        """Cycles of reading and writing; notes the speeds that the horn has."""
        bench, unit = self.bench, self.model.velocity_unit
        for _ in range(round(seconds * RATE)):
            bench.bus.servos[0].heard = bench.now
            self.state.qd[:] = bench.read("present_velocity") * unit
            self.goals.clear()
            self.goals.velocity[:] = velocity
            self.loop.drive(self.state, self.goals, 1.0 / RATE)
            bench.write(goal_velocity=round(self.goals.velocity[0] / unit))
            bench.run(1.0 / RATE, self._note)

    def _note(self):
        self.speed = float(self.bench.motors.v[0])
        self.fastest = max(self.fastest, abs(self.speed))

    def die(self):
        """The master's last word is now."""
        self.bench.bus.servos[0].heard = self.bench.now


LOADS = [
    ("XM430-W350", 0.0),
    ("XM430-W350", 0.005),
    ("XM430-W350", 0.02),
    ("XM540-W270", 0.0),
    ("XM540-W270", 0.04),
    ("XL430-W250", 0.005),
    ("XL330-M288", 0.0),
]


@pytest.mark.parametrize("model, inertia", LOADS)
def test_a_joint_whose_master_died_stands_within_120_ms(model, inertia):
    """Watchdog and braking together, from the last word on; 0.9 of the no-load speed at most."""
    no_load = MODELS[model].motor.no_load * 2.0 * np.pi / 60.0
    for speed in (0.25 * no_load, -0.6 * no_load, 0.9 * no_load):
        led = Led(model, inertia)
        led.run(1.0, speed)
        led.die()
        assert 0.05 < stands(led.bench) <= 0.12, speed


@pytest.mark.parametrize("model, inertia", LOADS)
def test_a_joint_that_is_told_to_stop_stands_within_80_ms_for_good(model, inertia):
    led = Led(model, inertia)
    led.run(1.0, 0.6 * MODELS[model].motor.no_load * 2.0 * np.pi / 60.0)
    led.run(0.08, 0.0)
    led.fastest = 0.0
    led.run(1.0, 0.0)
    assert led.fastest < 0.05


@pytest.mark.parametrize("model, inertia", LOADS)
def test_velocities_are_reached_without_overshoot(model, inertia):
    no_load = MODELS[model].motor.no_load * 2.0 * np.pi / 60.0
    for speed in (0.2 * no_load, 0.8 * no_load):
        led = Led(model, inertia)
        led.run(0.3, speed)
        assert led.speed == pytest.approx(speed, rel=0.05, abs=0.03) and led.fastest < 1.05 * speed + 0.02
        led.run(0.7, -speed)
        assert led.speed == pytest.approx(-speed, rel=0.02, abs=0.03)


def test_a_load_is_carried_while_the_master_lives_and_creeps_when_it_is_dead():
    """The price, as docs/hardware/dynamixel.md has it: creeping at tau R / (k_t (k_d V + k_e)), friction taken off."""
    led = Led("XM430-W350", 0.01, torque=-0.5)
    led.run(1.5, 1.0)
    assert led.speed == pytest.approx(1.0, abs=0.03)
    led.run(1.5, 0.0)
    assert led.speed == pytest.approx(0.0, abs=0.03)
    led.die()
    led.bench.run(0.5, led._note)
    motor = MODELS["XM430-W350"].motor
    brake = 3.0 * motor.torque_constant * motor.back_emf / motor.resistance  # N m s/rad, STIFFNESS 2
    assert led.speed == pytest.approx(-(0.5 - 0.04) / brake, rel=0.05)


def test_a_joint_that_its_watchdog_stopped_sets_out_again_without_overshoot():
    led = Led("XM430-W350", 0.005)
    led.run(1.0, 2.0)
    led.die()
    led.bench.run(0.3)  # the driver has stood still
    led.bench.write(bus_watchdog=0)
    led.bench.write(bus_watchdog=WATCHDOG)
    led.loop.reset(np.array([0]))
    led.fastest = 0.0
    led.run(1.0, 2.0)
    assert led.fastest < 1.03 * 2.0 and led.speed == pytest.approx(2.0, abs=0.03)


def test_others_keep_their_goals_and_the_servo_its_own_integral_if_told_so():
    xm = MODELS["XM430-W350"]
    joints = [
        Joint("a", 1, xm, POSITION),
        Joint("b", 2, xm, VELOCITY, velocity_integral="servo"),
        Joint("c", 3, xm, VELOCITY),
    ]
    loop, state, goals = VelocityLoop(joints), GroupState("abc"), Goals(3)
    state.qd[:], state.voltage[:] = 0.0, 12.0
    goals.velocity[:] = 1.0
    loop.drive(state, goals, 1.0)
    assert loop.which.tolist() == [False, False, True] and goals.velocity.tolist()[:2] == [1.0, 1.0]
    assert goals.velocity[2] > 1.4
    goals.velocity[:] = np.nan
    loop.drive(state, goals, 1.0)
    assert np.isnan(goals.velocity).all()
    with pytest.raises(DeviceError, match="driver or servo"):
        Joint("d", 4, xm, VELOCITY, velocity_integral="both")


def test_servos_led_by_velocities_are_watched_over_more_closely():
    xm = MODELS["XM430-W350"]
    joints = [
        Joint("a", 1, xm, POSITION),
        Joint("b", 2, xm, VELOCITY),
        Joint("c", 3, xm, VELOCITY, velocity_integral="servo"),
    ]
    for rate, watchdog, counts in (
        (100.0, 0.1, [5, 3, 5]),
        (40.0, 0.1, [5, 4, 5]),
        (100.0, 0.04, [2, 2, 2]),
        (100.0, 0.0, [0, 0, 0]),
    ):
        group = ServoGroup("", 1_000_000, joints, GroupOptions(rate=rate, bus_watchdog=watchdog))
        assert group._watch.tolist() == counts
