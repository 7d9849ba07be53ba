"""The plant driven by motors in shared memory: rest until all have torque, physics afterwards, nothing without a writer."""

import time
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy")

from hardware.emulation.world import DEAD_AFTER, SharedWorld
from nodes.plant.plant_world import NOT_RUN, PlantWorld
from nodes.plant.sim_loop import SimLoop
from sim_core.plant import MujocoPlant


@pytest.fixture
def stand(tmp_path, monkeypatch):
    # Only one test is about motors that fall silent; elsewhere a machine that is busy must not make them so.
    monkeypatch.setattr(SharedWorld.efforts, "__defaults__", (60.0,))
    plant = MujocoPlant("panda", wrench_site="flange")
    world = PlantWorld(str(tmp_path / "world"), plant)
    motors = SharedWorld.open(tmp_path / "world")
    return plant, world, motors, motors.indices(plant.joints)


def test_motors_in_shared_memory_move_the_plant_as_commands_do(stand):
    plant, world, motors, joints = stand
    rng, twin = np.random.default_rng(1), MujocoPlant("panda", wrench_site="flange")
    for _ in range(50):
        tau = rng.normal(0, 5, len(joints))
        motors.apply(joints, tau)
        world.drive(plant)
        plant.tick()
        world.publish(plant)
        twin.step(tau)
        state = motors.state()
        assert np.array_equal(state.q, twin.true_q) and np.array_equal(state.v, twin.true_v)
        assert np.array_equal(state.wrench, twin.wrench()) and state.t == twin.t


def test_held_until_every_servo_has_torque(stand):
    plant, world, motors, joints = stand
    assert world.held()
    motors.apply(joints, 0.0, driven=[True] * 6 + [False])
    assert world.held()
    motors.apply(joints, 0.0, driven=True)
    assert not world.held()
    motors.apply(joints, 0.0, driven=False)  # once released it falls like any robot
    assert not world.held()
    world.rest()
    assert world.held()


def test_motors_that_fall_silent_exert_nothing(stand, monkeypatch):
    plant, world, motors, joints = stand
    monkeypatch.undo()
    motors.apply(joints, 7.0)
    assert not motors.efforts(age_limit=0.0)[0].any()  # the newest word, too old for a limit of 0
    time.sleep(DEAD_AFTER + 0.03)
    world.drive(plant)
    plant.tick()
    assert np.array_equal(plant.effort, np.zeros(7))


def test_held_while_a_motor_that_lives_is_not_run(stand, monkeypatch):
    plant, world, motors, joints = stand
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr("hardware.emulation.world.time", SimpleNamespace(monotonic=lambda: clock.now))
    motors.apply(joints, 0.0, driven=True)
    assert not world.held()
    clock.now += 0.9 * NOT_RUN
    assert not world.held()
    motors.apply(joints[1:], 0.0)
    clock.now += 0.2 * NOT_RUN
    assert world.held()  # the first one waits for its turn
    motors.apply(joints[:1], 0.0)
    assert not world.held()
    clock.now += DEAD_AFTER + 0.01
    assert not world.held()  # dead: the robot falls


def test_what_passed_while_time_stood_still_is_not_caught_up_with(stand):
    plant, _, _, _ = stand
    held, ticks = [False], []
    loop = SimLoop(
        plant,
        on_tick=lambda p: ticks.append(time.monotonic()),
        on_idle=lambda: None,
        on_refused=lambda e: None,
        on_turn=lambda: None,
        held=lambda: held[0],
        real_time_factor=0.01,  # a tick in 0.2 s: no machine is that busy
        catch_up=60.0,
    )
    loop.start()
    try:
        loop.play()
        end = time.monotonic() + 60.0
        while len(ticks) < 2 and time.monotonic() < end:
            time.sleep(0.01)
        held[0] = True
        time.sleep(1.0)
        done = len(ticks)
        held[0] = False
        while len(ticks) < done + 3 and time.monotonic() < end:
            time.sleep(0.01)
    finally:
        loop.close()
    assert np.diff(ticks[done : done + 3]).min() > 0.1  # one after the other, none in a burst


def test_time_stands_still_on_the_stand(stand):
    plant, world, motors, joints = stand
    loop = SimLoop(
        plant,
        on_tick=lambda p: None,
        on_idle=lambda: None,
        on_refused=lambda e: None,
        on_turn=lambda: None,
        attend=lambda: world.drive(plant),
        held=world.held,
    )
    loop.start()
    loop.play()
    try:
        time.sleep(0.2)
        assert loop.call(lambda p: p.t) == 0.0
        end = time.monotonic() + 60.0
        while loop.call(lambda p: p.t) < 0.05 and time.monotonic() < end:
            motors.apply(joints, 0.0)
            time.sleep(0.002)
        assert 0.05 <= loop.call(lambda p: p.t) < 5.0  # the time at rest is not caught up
    finally:
        loop.close()
