"""Motors and protections of the emulated servos, against data sheets and closed forms; the clock is the test's."""

import math

import numpy as np
import pytest
from servo_bench import Bench, stands

from hardware.dynamixel.emulated_models import RPM
from hardware.dynamixel.emulated_motors import AMBIENT
from hardware.dynamixel.emulated_servo import ACCELERATION_UNIT

XM = "{id: 1, model: XM430-W350, registers: {operating_mode: %d}, load_inertia: 0.01, %s}"


def xm(mode, more="gear_ratio: 1"):
    return Bench(XM % (mode, more))


NO_LOAD = {
    "XM430-W350": 46,
    "XM430-W210": 77,
    "XM540-W270": 30,
    "XM540-W150": 53,
    "XL430-W250": 61,
    "XL330-M288": 103,
    "MX-28(2.0)": 55,
    "MX-64(2.0)": 63,
    "MX-106(2.0)": 45,
    "XH430-W350": 30,
    "XH430-W210": 50,
    "XL330-M077": 383,
}


@pytest.mark.parametrize("model", NO_LOAD)
def test_no_load_speed_is_the_data_sheets(model):
    bench = Bench("{id: 1, model: '%s', registers: {operating_mode: 16}}" % model)
    bench.write(torque_enable=1, goal_pwm=885)
    bench.run(1.5)
    assert bench.read("present_velocity") * 0.229 == pytest.approx(NO_LOAD[model], rel=0.03)
    bench.write(goal_pwm=-885)
    bench.run(1.5)
    assert bench.read("present_velocity") * 0.229 == pytest.approx(-NO_LOAD[model], rel=0.03)


@pytest.mark.parametrize(("model", "rpm", "unit"), [("MX-28", 55, 0.114), ("AX-12A", 59, 0.111), ("AX-18A", 97, 0.111)])
def test_no_load_speed_under_protocol_1(model, rpm, unit):
    bench = Bench("{id: 1, model: '%s', registers: {cw_angle_limit: 0, ccw_angle_limit: 0}}" % model)
    bench.write(torque_enable=1, moving_speed=1023)
    bench.run(1.5)
    speed = bench.read("present_speed")
    assert bench.bus.servos[0].spec.zero_count == {"MX-28": 2048}.get(model, 512)
    assert speed < 1024 and speed * unit == pytest.approx(rpm, rel=0.03)
    bench.write(moving_speed=1024 + 1023)
    bench.run(1.5)
    assert bench.read("present_speed") - 1024 == pytest.approx(speed, abs=2)


def test_stall_torque_and_current_are_the_data_sheets():
    bench = xm(16)
    bench.motors.locked[:] = True
    bench.motors.refresh()
    bench.write(torque_enable=1, goal_pwm=885)
    bench.run(0.05)
    assert bench.read("present_current") * 2.69e-3 == pytest.approx(2.3, abs=2.69e-3)
    assert bench.motors.tau[0] == pytest.approx(4.1, rel=1e-6)
    bench.write(goal_pwm=442)
    bench.run(0.05)
    assert bench.motors.tau[0] == pytest.approx(4.1 * 442 / 885, rel=1e-6)


def test_current_mode_gives_the_current_asked_for_until_the_supply_ends():
    bench = xm(0)
    bench.write(torque_enable=1, goal_current=100)
    bench.run(0.02)
    assert bench.read("present_current") == 100
    assert bench.motors.tau[0] == pytest.approx(1.783 * 0.269, rel=1e-3)
    bench.run(3.0)
    # at speed the back-EMF leaves V - k_e v over the winding: less than was asked for, balanced by friction
    m = bench.motors
    assert m.v[0] * m.k_e[0] + m.R[0] * m.i[0] == pytest.approx(12.0, rel=1e-6)
    assert m.tau[0] == pytest.approx(m.friction[0] + m.viscous[0] * m.v[0], rel=1e-3)


def test_torque_accelerates_by_the_inertia_behind_the_gear():
    bench = xm(0, "gear_ratio: 2.0, direction: -1")
    m = bench.motors
    m.friction[:] = m.viscous[:] = 0.0
    m.refresh()
    bench.write(torque_enable=1, goal_current=100)
    bench.run(0.02)
    assert m.J[0] == pytest.approx(0.012 + 0.01 / 4)
    assert m.v[0] == pytest.approx(1.783 * 0.269 / m.J[0] * 0.02, rel=2e-3)


def test_dry_friction_holds_what_is_below_it():
    bench = xm(0)
    bench.write(torque_enable=1, goal_current=7)  # 0.034 N m under 0.04 N m
    bench.run(0.5)
    assert bench.motors.v[0] == 0.0 and bench.read("present_position") == 2048


def test_limits_clamp_what_goals_may_ask_for():
    bench = xm(5)
    bench.motors.locked[:] = True
    bench.motors.refresh()
    bench.write(current_limit=400, pwm_limit=600)
    bench.write(torque_enable=1, goal_current=150, goal_position=4000)
    bench.run(0.3)
    assert bench.read("present_current") == 150
    bench.write(torque_enable=0)
    bench.write(operating_mode=3)
    bench.write(torque_enable=1, goal_position=4000)
    bench.run(0.3)
    assert bench.read("present_current") == 400 and bench.read("present_pwm") == 600


def test_torque_off_is_open_circuit():
    bench = xm(3)
    bench.motors.v[:] = 3.0
    bench.run(0.1)
    m = bench.motors
    assert m.i[0] == 0.0 and m.tau[0] == 0.0 and m.u[0] == 0.0
    slowed = (0.04 + 0.002 * 3.0) / m.J[0] * 0.1
    assert m.v[0] == pytest.approx(3.0 - slowed, abs=0.01)


def test_position_step_ends_at_the_goal_without_overshoot_to_speak_of():
    bench = xm(3)
    bench.write(torque_enable=1, goal_position=3072)
    top = [0]
    bench.run(1.5, lambda: top.__setitem__(0, max(top[0], bench.motors.q[0])))
    assert abs(bench.read("present_position") - 3072) <= 5  # what dry friction leaves without an integral part
    assert top[0] < (3072 + 120) * 2 * math.pi / 4096
    bench.write(position_i_gain=2000)
    bench.run(2.0)
    assert abs(bench.read("present_position") - 3072) <= 1


def test_integral_part_carries_a_constant_load():
    bench = xm(3, "load_torque: -0.8")
    bench.write(torque_enable=1, goal_position=2048)
    bench.run(1.0)
    sagged = 2048 - bench.read("present_position")
    stiffness = 800 / 128 / 885 * 4.1  # N m per count, data-sheet stall torque at full duty
    assert sagged == pytest.approx(0.8 / stiffness, abs=0.04 / stiffness + 1)
    bench.write(position_i_gain=3000)
    bench.run(3.0)
    assert abs(2048 - bench.read("present_position")) <= 2


def test_velocity_mode_reaches_its_goal_under_load():
    bench = xm(1, "load_torque: -0.5")
    bench.write(torque_enable=1, goal_velocity=100)
    bench.run(3.0)
    assert bench.read("present_velocity") == pytest.approx(100, abs=1)
    bench.write(profile_acceleration=20, goal_velocity=-100)
    ramp = 200 * 0.229 * RPM / (20 * ACCELERATION_UNIT)  # [s]
    bench.run(ramp / 2)
    assert bench.bus.motors.v_ref[0] == pytest.approx(0.0, abs=0.03)


def test_trapezoid_takes_the_time_its_corners_give():
    bench = xm(3)
    bench.write(profile_velocity=100, profile_acceleration=50)
    bench.write(torque_enable=1, goal_position=2048 + 1024)
    v, a, d = 100 * 0.229 * RPM, 50 * ACCELERATION_UNIT, math.pi / 2
    assert d > v * v / a  # it has a plateau
    track = []
    bench.run(d / v + v / a + 0.1, lambda: track.append((bench.motors.q_ref[0], bench.motors.v_ref[0])))
    q_ref, v_ref = np.array(track).T
    arrived = np.argmax(np.abs(q_ref - 3072 * 2 * math.pi / 4096) < 1e-6) * 1e-3
    assert arrived == pytest.approx(d / v + v / a, abs=0.01)
    assert v_ref.max() == pytest.approx(v, rel=1e-3) and np.abs(np.diff(v_ref)).max() <= a * 1e-3 * 1.5
    assert q_ref.max() <= 3072 * 2 * math.pi / 4096 + 1e-9
    assert bench.read("moving_status") & 1


def test_time_based_profile_takes_the_time_it_is_given():
    bench = Bench("{id: 1, model: XM430-W350, registers: {drive_mode: 4}}")
    bench.write(profile_velocity=1000, profile_acceleration=200)  # 1 s, of which 0.2 s to accelerate
    bench.write(torque_enable=1, goal_position=3048)
    goal = 3048 * 2 * math.pi / 4096
    bench.run(0.95)
    assert bench.motors.q_ref[0] < goal - 1e-3
    bench.run(0.1)
    assert bench.motors.q_ref[0] == pytest.approx(goal, abs=1e-6)


def test_measured_velocity_lags_by_the_filters_5_ms():
    bench = xm(3)
    m = bench.motors
    m.friction[:] = m.viscous[:] = 0.0
    m.refresh()
    m.v[:] = 1.0
    bench.run(0.005)
    assert m.v_meas[0] == pytest.approx(1 - math.exp(-1), abs=0.08)
    bench.run(0.05)
    assert m.v_meas[0] == pytest.approx(1.0, abs=1e-3)


def test_present_values_are_in_the_registers_units():
    bench = xm(3)
    m = bench.motors
    m.q[0], m.v_meas[0] = 2048.6 * 2 * math.pi / 4096, -2.4 * 0.229 * RPM
    assert bench.read("present_position") == 2049 and bench.read("present_velocity") == -2
    reverse = Bench("{id: 1, model: XM430-W350, zero_count: -1000, registers: {drive_mode: 1, homing_offset: 24}}")
    assert reverse.read("present_position") == 1000 + 24
    reverse.motors.q[0] += 2 * math.pi / 4096 * 100
    reverse.run(0.001)
    assert reverse.read("present_position") == 1000 + 24 - 100


def test_turns_are_counted_and_cleared():
    bench = xm(4)
    bench.write(torque_enable=1, goal_position=2048 + 2 * 4096)
    bench.run(4.0)
    assert bench.read("present_position") == pytest.approx(2048 + 2 * 4096, abs=6)
    bench.bus.servos[0].clear_turns()
    bench.run(0.001)
    assert bench.read("present_position") == pytest.approx(2048, abs=6)
    q = bench.motors.q[0]
    bench.run(0.5)
    assert bench.motors.q[0] == pytest.approx(q, abs=0.02)  # the goal went with it
    bench.write(goal_position=-20000)
    bench.run(1.0)
    bench.bus.servos[0].boot(bench.now)
    bench.run(0.001)
    assert 0 <= bench.read("present_position") < 4096  # a single-turn encoder knows no more after power-up


def test_temperature_follows_the_heat():
    bench = xm(0)
    m = bench.motors
    m.locked[:] = True
    m.heat_capacity[:] = 0.4  # a hundred times faster than the model's
    m.refresh()
    bench.write(torque_enable=1, goal_current=200)
    power, tau = (0.538**2) * m.R[0], 13.0 * 0.4
    bench.run(tau)
    assert m.temperature[0] - AMBIENT == pytest.approx(power * 13.0 * (1 - math.exp(-1)), rel=0.02)


def test_overheating_takes_the_torque_until_reboot():
    bench = xm(3)
    bench.write(torque_enable=1)
    bench.motors.temperature[0] = 81.0
    bench.run(0.01)
    servo = bench.bus.servos[0]
    assert bench.read("hardware_error_status") == 4 and bench.read("torque_enable") == 0 and servo.alert == 0x80
    bench.write(torque_enable=1)
    assert bench.read("torque_enable") == 0
    bench.motors.temperature[0] = 30.0
    bench.run(0.01)
    assert bench.read("hardware_error_status") == 4
    servo.switch_off(bench.now + 0.3)
    bench.run(0.31)
    assert bench.read("hardware_error_status") == 0 and servo.alert == 0
    bench.write(torque_enable=1)
    assert bench.read("torque_enable") == 1


def test_an_error_that_does_not_shut_down_only_warns():
    bench = xm(3)
    bench.write(torque_enable=1)
    bench.motors.V[0] = 9.0
    bench.run(0.01)
    assert (
        bench.read("hardware_error_status") == 1
        and bench.read("torque_enable") == 1
        and bench.read("present_input_voltage") == 90
    )
    bench.motors.V[0] = 12.0
    bench.run(0.01)
    assert bench.read("hardware_error_status") == 0


def test_overload_comes_after_two_seconds_of_stalling():
    bench = xm(3)
    bench.motors.locked[:] = True
    bench.motors.refresh()
    bench.write(torque_enable=1, goal_position=4000)
    bench.run(1.9)
    assert bench.read("hardware_error_status") == 0
    bench.run(0.2)
    assert bench.read("hardware_error_status") == 32 and bench.read("torque_enable") == 0 and bench.motors.tau[0] == 0.0


def test_mx28_overload_ends_with_its_torque_limit():
    bench = Bench("{id: 1, model: MX-28}")
    bench.motors.locked[:] = True
    bench.motors.refresh()
    bench.write(torque_enable=1, goal_position=4000)
    bench.run(2.2)
    assert bench.bus.servos[0].alert == 32 and bench.read("torque_limit") == 0 and bench.motors.tau[0] == 0.0
    bench.write(torque_limit=1023)
    bench.run(0.1)
    assert bench.bus.servos[0].alert == 0 and bench.motors.tau[0] > 1.0


@pytest.mark.parametrize(
    ("mode", "goal"),
    [(0, {"goal_current": 100}), (1, {"goal_velocity": 150}), (4, {"goal_position": 100_000}), (16, {"goal_pwm": 500})],
)
def test_watchdog_stops_and_locks_the_goals(mode, goal):
    bench = xm(mode)
    bench.write(torque_enable=1, bus_watchdog=5)
    servo = bench.bus.servos[0]
    servo.heard = bench.now
    bench.write(**goal)
    bench.run(0.099)
    assert not servo.table.goals_locked and bench.motors.v[0] > 0.5
    bench.run(0.021)
    assert servo.table.goals_locked and bench.read("bus_watchdog") == 255
    bench.run(1.5)
    assert abs(bench.motors.v[0]) < 0.1
    name, value = next(iter(goal.items()))
    register = servo.table.registers[name]
    with pytest.raises(Exception) as refused:
        bench.write(**goal)
    assert refused.value.number == 4
    bench.write(bus_watchdog=3)
    assert servo.table.goals_locked  # only 0 ends it
    bench.write(bus_watchdog=0)
    servo.heard = bench.now
    bench.write(**goal)
    bench.run(0.3)
    assert bench.motors.v[0] > 0.5 and register.size in (2, 4)


@pytest.mark.parametrize("inertia", [0.0, 0.005, 0.02])
@pytest.mark.parametrize("speed", [0.5, 1.0, 2.0, 3.0])
def test_a_joint_that_is_led_by_positions_stands_within_120_ms_of_the_last_one(inertia, speed):
    """A position a hundred times a second; what overshoots the last one is held by the watchdog of 100 ms, where it is."""
    bench = Bench("{id: 1, model: XM430-W350, registers: {operating_mode: 4}, load_inertia: %g}" % inertia)
    bench.write(torque_enable=1)
    for k in range(80):
        bench.write(goal_position=2048 + round(k * 0.01 * speed * 2048 / math.pi))
        bench.run(0.01 if k < 79 else 0.0)
    bench.write(bus_watchdog=5)
    bench.bus.servos[0].heard = bench.now
    assert bench.motors.v[0] == pytest.approx(speed, rel=0.05)
    assert 0.05 < stands(bench) <= 0.12


@pytest.mark.parametrize(
    "gains, at_least, at_most", [({}, 0.5, 0.8), ({"velocity_p_gain": 1000, "velocity_i_gain": 16383}, 0.12, 0.24)]
)
def test_a_joint_in_velocity_mode_does_not(gains, at_least, at_most):
    """The figures of docs/hardware/dynamixel.md: after the watchdog the velocity loop's integral has to unwind."""
    bench = Bench("{id: 1, model: XM430-W350, registers: {operating_mode: 1}, load_inertia: 0.01}")
    bench.write(torque_enable=1, **gains)
    bench.write(goal_velocity=150)
    bench.run(1.0)
    bench.write(bus_watchdog=5)
    bench.bus.servos[0].heard = bench.now
    assert bench.motors.v[0] > 3.0 and at_least < stands(bench) < at_most


def test_mode_change_resets_gains_and_goals():
    bench = xm(3)
    bench.write(position_p_gain=77, profile_velocity=9, operating_mode=4)
    assert (bench.read("position_p_gain"), bench.read("profile_velocity"), bench.read("goal_position")) == (
        800,
        0,
        2048,
    )


def test_mx28_joint_mode_keeps_speed_and_limits():
    bench = Bench("{id: 1, model: MX-28}")
    bench.write(moving_speed=100, torque_enable=1, goal_position=3072)
    bench.run(0.5)
    assert bench.motors.v_meas[0] == pytest.approx(100 * 0.114 * RPM, rel=0.05)
    bench.run(2.0)
    assert bench.read("present_position") == pytest.approx(3072, abs=8) and bench.read("moving") == 0
