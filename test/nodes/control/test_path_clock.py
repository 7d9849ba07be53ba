"""After an outage of control the path goes on from where it was, and the arm does not chase it at full effort."""

import numpy as np
import pytest

pytest.importorskip("rclpy")

from config.robot import load_robot
from nodes.control.adaptive_mpc_config import AdaptiveMpcConfig
from nodes.control.robot_task import control_task
from nodes.framework.actuation import Actuation
from sim_core.command import Command, Mode
from sim_core.control.ampc import AdaptiveMpc, AmpcConfig
from sim_core.control.path_clock import PathClock
from sim_core.multibody import load_model
from sim_core.plant import MujocoPlant

TICK, TICKS = 0.002, 8  # servo period [s], and its multiple between commands
BEGIN, OUTAGE, AFTER = 5.5, 1.0, 0.6  # [s]
LIMIT = 0.1  # [s] gap that is no outage yet


def test_it_runs_with_the_stamps():
    clock = PathClock(2.0, LIMIT)
    stamps = 2.0 + np.cumsum([0.0, 0.016, 0.016, 0.09, 0.016, 0.1])
    assert [clock.advance(s) for s in stamps] == pytest.approx(stamps - 2.0)


def test_after_an_outage_it_goes_on_from_where_it_was_and_catches_up():
    clock = PathClock(0.0, LIMIT)
    stamps = np.arange(0.0, 1.0, 0.02)
    before = [clock.advance(s) for s in stamps][-1]
    assert clock.advance(before + 1.0) == pytest.approx(before + PathClock.CATCH_UP * LIMIT)
    behind = 1.0 - PathClock.CATCH_UP * LIMIT
    # d(behind)/dt = 1 - CATCH_UP: made up for after behind / (CATCH_UP - 1), not earlier.
    done = behind / (PathClock.CATCH_UP - 1.0)
    later = before + 1.0 + np.arange(0.02, done + 0.2, 0.02)
    lag = later - [clock.advance(s) for s in later]
    assert np.all(lag[later < before + 1.0 + done - 0.02] > 1e-3) and lag[-1] == pytest.approx(0.0, abs=1e-12)


def test_waiting_on_purpose_is_not_made_up_for():
    clock = PathClock(0.0, LIMIT)
    before = [clock.advance(s) for s in np.arange(0.0, 1.0, 0.02)][-1]
    clock.stand_still(60.0)
    R = PathClock.RAMP  # constant acceleration from rest, then full speed
    after = np.array([0.0, 0.05, 0.1, 0.15])
    assert [clock.advance(60.0 + s) for s in after] == pytest.approx(before + after**2 / (2 * R))
    rest = np.arange(0.2, R + 0.5, 0.05)
    assert [clock.advance(60.0 + s) for s in rest][-1] == pytest.approx(before + rest[-1] - R / 2)


def fastest_joint_after_outage(task, clock):
    """Largest |velocity| / limit of any joint from the first command after an outage on; the arm holds a load it knows nothing of."""
    plant = MujocoPlant(
        "panda",
        stop_state="hold",
        command_age_limit=LIMIT,
        scenario="[{time: 1.0, action: attach, frame: hand, mass: 2.0}]",
    )
    model, mpc, actuation = task.model, AdaptiveMpc(task, AmpcConfig()), Actuation(task.model)
    n, fastest = model.nq, 0.0
    for k in range(round((BEGIN + OUTAGE + AFTER) / TICK)):
        t = plant.t
        if k % TICKS == 0 and not BEGIN <= t < BEGIN + OUTAGE:
            c = mpc.command(np.concatenate([plant.q, plant.v]), clock(t))
            plant.command(
                Command(
                    Mode.FEEDBACK, t, plant.joints, actuation.effort(c.u), c.x_ref[:n], c.x_ref[n:], actuation.gain(c.K)
                )
            )
        plant.tick()
        if t >= BEGIN + OUTAGE:
            fastest = max(fastest, np.max(np.abs(plant.true_v) / model.v_limit))
    return fastest


def test_the_arm_returns_calmly_where_chasing_would_pass_its_limits():
    task = control_task(load_robot("panda"), load_model("panda"), AdaptiveMpcConfig(control_period=TICK * TICKS), 24)
    assert fastest_joint_after_outage(task, lambda t: t) > 1.0
    assert fastest_joint_after_outage(task, PathClock(0.0, LIMIT).advance) < 0.5
