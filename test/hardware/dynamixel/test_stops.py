"""The servo group against the emulated bus: commands, stops and what servos are told of themselves."""

import math
import time

import numpy as np
import pytest
from servo_groups import (
    CURRENT,
    PATIENCE,
    POSITION,
    VELOCITY,
    XM,
    position_goals,
    servo,
    truth,
    until,
)

from hardware.dynamixel.bus import Bus
from hardware.dynamixel.commands import JointFeedback, Law, VelocityStream
from hardware.dynamixel.joints import Joint
from hardware.dynamixel.tables import MODELS
from hardware.dynamixel.trajectory import Outcome, Tolerances, Trajectory, TrajectoryFollower
from hardware.link import State


# ---- commands and stops --------------------------------------------------------------------------
def arm(emulated, grouped, load=0.8, **options):
    emulator = emulated([servo(1, load_inertia=0.02), servo(2, load_inertia=0.02)])
    joints = [
        Joint("a", 1, XM, CURRENT, max_effort=3.0),
        Joint("b", 2, XM, CURRENT, direction=-1, gear_ratio=2.0, max_effort=3.0),
    ]
    group = grouped(emulator, joints, rate=200.0, **options)
    emulator.set(load={1: load, 2: 0.0})
    return emulator, group


def test_hold_carries_a_load_without_sagging(emulated, grouped, withheld):
    emulator, group = arm(emulated, grouped)
    until(lambda: abs(group.joint_state.effort[0]) > 0.3, "the load")

    def moved_in_silence():
        """After a command that holds the load: the joint should stay where it stands, without a transient."""
        until(lambda: abs(group.joint_state.q[0]) < 0.02 and abs(group.joint_state.qd[0]) < 0.03, "the recovery")
        feedback = JointFeedback(group.arrays, group.loop, np.ones(2, bool), 0.1)
        n, holding = 2, group.loop.integral.copy()
        gain = np.hstack([np.diag([10.0, 10.0]), np.diag([0.8, 0.8])])
        group.take(feedback)
        for _ in range(60):
            now = time.monotonic()
            feedback.set(Law.FEEDBACK, now, now, holding, np.zeros(n), np.zeros(n), gain)
            time.sleep(0.01)
            assert group.take(feedback) == ""
        until(lambda: group.source is None, "the end of the command")
        assert "no command for" in group.source_ended
        stood, before = group.joint_state.q.copy(), len(group.samples)
        until(lambda: len(group.samples) > before + 100, "half a second")
        return np.abs(np.array([q for _, q, _ in group.samples[before:]]) - stood).max()

    for _ in range(10):  # a loop that the machine does not run holds nothing
        waited = withheld() + withheld(emulator.pid)
        moved = moved_in_silence()
        if moved < 0.03 or withheld() + withheld(emulator.pid) - waited < 0.1:
            break
    assert moved < 0.03
    assert abs(truth(emulator, 1)["position"]) < 0.05


def test_a_joint_that_fell_while_the_bus_was_silent_holds_where_it_is(emulated, grouped):
    emulator, group = arm(emulated, grouped, bus_watchdog=0.2)
    until(lambda: abs(group.joint_state.effort[0]) > 0.3, "the load")
    # At zero, or where it fell to while the machine did not run who leads it.
    until(
        lambda: np.ptp([q[0] for _, q, _ in group.samples[-100:]]) < 0.02 and len(group.samples) > 100, "the recovery"
    )
    stood = truth(emulator, 1)["position"]
    emulator.inject("silence")
    emulator.set(load={1: 2.0, 2: 0.0})
    until(lambda: abs(truth(emulator, 1)["position"] - stood) > 0.5, "the fall")
    emulator.set(load={1: 0.8, 2: 0.0})
    emulator.clear("silence")
    before = len(group.samples)
    until(lambda: len(group.samples) > before + 400, "two seconds")
    assert abs(truth(emulator, 1)["position"] - stood) > 0.4 and abs(truth(emulator, 1)["velocity"]) < 0.1


@pytest.mark.parametrize(("stop_state", "falls"), [("zero", True), ("damped", True), ("hold", False)])
def test_stop_states(emulated, grouped, stop_state, falls):
    emulator, group = arm(emulated, grouped, load=1.2, stop_state=stop_state)
    if falls:
        until(lambda: abs(truth(emulator, 1)["position"]) > 0.5, "the fall")
        # Damped by 0.5 N m s/rad, 1.2 N m move the joint at less than 2.4 rad/s; faster where a busy machine held the cycle up.
        assert stop_state == "zero" or np.median([abs(truth(emulator, 1)["velocity"]) for _ in range(15)]) < 2.5
    else:
        before = len(group.samples)
        until(lambda: len(group.samples) > before + 200, "a second")
        assert abs(truth(emulator, 1)["position"]) < 0.3


def test_efforts_have_the_sign_and_size_of_the_joint(emulated, grouped):
    emulator, group = arm(emulated, grouped, load=0.0, stop_state="zero")
    feedback = JointFeedback(group.arrays, group.loop, np.ones(2, bool), 60.0)
    now = time.monotonic()
    emulator.inject("stall")
    feedback.set(Law.EFFORT, now, now, np.array([0.9, 0.9]), np.zeros(2), np.zeros(2), np.zeros((2, 4)))
    assert group.take(feedback) == ""
    until(lambda: np.abs(group.joint_state.effort - 0.9).max() < 0.02, "the effort")
    k_t = XM.motor.torque_constant
    assert truth(emulator, 1)["current"] == pytest.approx(0.9 / k_t, abs=0.01)
    assert truth(emulator, 2)["current"] == pytest.approx(-0.9 / k_t / 2.0, abs=0.01)  # turned round, and geared
    emulator.clear("stall")
    until(lambda: (group.joint_state.qd > 0.1).all(), "both joints moving forward")


def test_one_source_at_a_time(emulated, grouped):
    emulator = emulated([servo(1)])
    group = grouped(emulator, [Joint("a", 1, XM, POSITION)])
    stream = position_goals(group, [0.1], timeout=1.0)
    wide = np.full(1, np.inf)
    follower = TrajectoryFollower(
        Trajectory([5.0], [[0.4]]),
        Tolerances(wide, wide, np.full(1, 0.05), wide, 5.0),
        [0],
        time.monotonic(),
        group.names,
    )
    assert "forward_position_controller commands the servos" in group.take(follower)
    until(lambda: group.take(follower) == "", "the stream's silence")
    assert "joint_trajectory_controller" in group.take(stream)
    until(lambda: follower.outcome is not None, "the end")
    assert follower.outcome is Outcome.SUCCESSFUL and group.joint_state.q[0] == pytest.approx(0.4, abs=0.05)
    assert group.take(stream) == ""
    group.set_torque(False)
    assert "torque is off" in group.take(follower) and truth(emulator, 1)["torque_enable"] == 0


def test_velocities_end_with_their_stream(emulated, grouped):
    emulator = emulated([servo(1)])
    group = grouped(emulator, [Joint("wheel", 1, XM, VELOCITY, max_velocity=2.0, min_rad=-100.0, max_rad=100.0)])
    stream, speeds = VelocityStream([0], 1.0), []

    def runs():
        stream.set([9.0], time.monotonic())
        assert group.take(stream) == ""
        speeds.append(truth(emulator, 1)["velocity"])
        return len(speeds) > 60 and speeds[-20:] == pytest.approx([2.0] * 20, abs=0.1)

    until(runs, "motion at the joint's limit")
    # Nothing is in the servo that would have to unwind, and its watchdog is the shorter one.
    for item, value in (("velocity_i_gain", 0), ("velocity_p_gain", 1128), ("bus_watchdog", 3)):
        assert group.services.get_item(1, item) == value
    # On a busy machine the watchdog may stop it for a moment before that.
    until(lambda: "no velocity" in group.source_ended, "the end of the stream")
    until(lambda: abs(truth(emulator, 1)["velocity"]) < 0.02, "the stop")


@pytest.mark.parametrize("policy", ["off", "hold", "brake"])
def test_the_declared_stop_is_confirmed(emulated, grouped, policy):
    emulator = emulated([servo(1), servo(2), servo(3)])
    joints = [
        Joint("a", 1, XM, CURRENT),
        Joint("b", 2, XM, POSITION),
        Joint("c", 3, XM, VELOCITY, min_rad=-100.0, max_rad=100.0),
    ]
    group = grouped(emulator, joints, on_deactivate=policy, rate=100.0)
    stream = VelocityStream([2], 30.0)
    stream.set([2.0], time.monotonic())
    assert group.take(stream) == ""
    until(lambda: group.joint_state.qd[2] > 1.5, "motion")
    assert group.disable(PATIENCE) and group.state is State.READY and "stop" not in group.faults
    servos = emulator.stats()["servos"]
    assert [entry["torque_enable"] for entry in servos] == [int(policy == "hold")] * 3
    if policy != "off":
        until(lambda: all(abs(entry["velocity"]) < 0.1 for entry in emulator.stats()["servos"]), "rest")
    if policy == "hold":  # by the servo itself, against a load, though nobody talks to it any more
        stood = truth(emulator, 1)["position"]
        emulator.set(load={1: 0.3})
        time.sleep(0.7)
        assert abs(truth(emulator, 1)["position"] - stood) < 0.1
        group.enable()  # the joint takes effort again
        until(lambda: group.state is State.STREAMING, "streaming")
        assert group.services.get_item(1, "operating_mode") == CURRENT


def test_a_hot_servo_gets_half_its_current(emulated, grouped):
    emulator, group = arm(emulated, grouped, load=0.0)
    emulator.set(temperature={1: 71.0})
    until(lambda: "a/hot" in group.warnings, "the warning")
    assert group.limits.most.tolist() == [3.0, 3.0]
    emulator.set(temperature={1: 78.0})
    until(lambda: group.limits.most[0] == 1.5, "the derating")
    assert group.limits.most[1] == 3.0 and "half its current" in group.warnings["a/hot"]


def test_eeprom_is_written_only_where_different(emulated, grouped):
    emulator = emulated([servo(1, registers={"return_delay_time": 250, "shutdown": 20})])
    group = grouped(emulator, [Joint("a", 1, XM, CURRENT, current_limit=1.0, position_p=600)], torque_on_activate=False)
    assert [
        group.services.get_item(1, name)
        for name in ("return_delay_time", "operating_mode", "current_limit", "shutdown", "position_p_gain")
    ] == [0, 0, round(1.0 / 2.69e-3), 20, 600]
    asked = []
    write = Bus.write
    group.close()
    try:
        Bus.write = lambda bus, id, address, data: asked.append(address) or write(bus, id, address, data)
        second = grouped(emulator, [Joint("a", 1, XM, CURRENT, current_limit=1.0)], torque_on_activate=False)
    finally:
        Bus.write = write
    assert asked and all(address >= 64 for address in asked)
    with pytest.raises(Exception, match="access error|no item"):
        second.set_torque(True)
        second.services.set_item(1, "operating_mode", 3)
    with pytest.raises(Exception, match="no item 'goal_postion'"):
        second.services.set_item(1, "goal_postion", 3)


def test_a_wrong_model_is_named(emulated, grouped):
    emulator = emulated([servo(1, "XL430-W250")])
    group = grouped(emulator, [Joint("a", 1, XM, POSITION)], wait=False)
    until(lambda: "expected XM430-W350 at id 1, found XL430-W250" in group.last_error, "the complaint")


def test_pwm_servos_take_efforts_by_their_data_sheet(emulated, grouped):
    """XL430 senses no current: u = (R i + k_e omega) / V."""
    model = MODELS["XL430-W250"]
    emulator = emulated([servo(1, "XL430-W250")])
    group = grouped(emulator, [Joint("a", 1, model, 16, min_rad=-math.inf, max_rad=math.inf)], stop_state="zero")
    feedback = JointFeedback(group.arrays, group.loop, np.ones(1, bool), 60.0)
    emulator.inject("stall")
    now = time.monotonic()
    feedback.set(Law.EFFORT, now, now, np.array([0.5]), np.zeros(1), np.zeros(1), np.zeros((1, 2)))
    assert group.take(feedback) == ""
    expected = pytest.approx(0.5 / model.motor.torque_constant, rel=0.05)
    until(lambda: truth(emulator, 1)["current"] == expected, "the current")
    assert np.isnan(group.joint_state.effort[0])
