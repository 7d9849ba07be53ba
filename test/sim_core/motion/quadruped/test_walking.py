"""The robot walks: programme, network, estimate, gait, and the plant's sensors that they live on."""

import numpy as np
import pytest

from config.robot import robot_folder
from sim_core.motion.quadruped.controller import TrotController
from sim_core.motion.quadruped.estimator import BaseEstimate
from sim_core.motion.quadruped.gait import STAND, TROT, Gait
from sim_core.motion.quadruped.imitation import RandomTargets, collect
from sim_core.motion.quadruped.robot import QuadrupedRobot, rotation_rpy
from sim_core.motion.quadruped.stance import GuardedNetStance, QpStance
from sim_core.motion.quadruped.stance_net import StanceNet
from sim_core.motion.quadruped.swing import SwingLegs
from sim_core.motion.quadruped.walking import Target, walk
from sim_core.plant import MujocoPlant, PlantError

NOISE = dict(position_noise=5e-4, velocity_noise=0.02, orientation_noise=2e-3, gyro_noise=0.01, accelerometer_noise=0.1)
SHIPPED = robot_folder("quadruped") / "stance.safetensors"


@pytest.fixture(scope="module")
def robot():
    return QuadrupedRobot.load("quadruped")


def plant(**options):
    return MujocoPlant("quadruped", stop_state="hold", **options)


@pytest.fixture(scope="module")
def by_programme(robot):
    return walk(plant(**NOISE), TrotController(robot, QpStance(robot)), lambda t: Target((0.3, 0.0)), 4.0, 1 / 160)


def test_it_walks_and_the_estimate_is_the_truth(by_programme):
    trace = by_programme
    assert np.isnan(trace.fallen) and trace.t[-1] > 3.9
    assert trace.velocity_error(1.5) < 0.06 and np.abs(trace.array("tilt")).max() < 0.1
    error = (trace.array("estimate") - trace.array("velocity"))[trace.after(1.5)]
    assert np.abs(error[:, :2]).max() < 0.05 and np.abs(error[:, :2].mean(0)).max() < 0.01


def test_it_does_what_it_is_asked_to(robot, by_programme):
    """Mean speed within 3 %, turning within 5 %, height within 5 mm: also with a load, late torques, and sideways."""
    loaded = dict(command_delay=0.004, scenario=[dict(action="scale", target="trunk.mass", factor=1.15)])
    goal = Target((0.1, -0.1), 0.4)
    other = walk(plant(**NOISE, **loaded), TrotController(robot, QpStance(robot)), lambda t: goal, 6.5, 1 / 160)
    for trace, asked, from_ in ((by_programme, Target((0.3, 0.0)), 2.0), (other, goal, 3.5)):
        assert trace.mean_velocity_error(from_) < 0.03 * np.hypot(*asked.velocity)
        assert trace.array("yaw_rate")[trace.after(from_)].mean() == pytest.approx(asked.yaw_rate, rel=0.05, abs=0.01)
        assert trace.mean_height(from_) == pytest.approx(0.27 - robot.com[2], abs=0.005)


def test_the_swinging_foot_moves_as_its_references_say(robot):
    """Velocities and accelerations are the rates of angles and velocities."""
    swing = SwingLegs(robot, TROT.stance, TROT.swing)
    base = BaseEstimate(
        np.array([0.02, -0.03, 0.4]),
        rotation_rpy(0.02, -0.03),
        np.array([0.3, 0.1, 0.02]),
        np.array([0.1, 0.0, 0.3]),
        0.29,
    )
    swing.lift(np.ones(4, bool), robot.feet(robot.home) + (-0.03, 0.01, 0.0))
    at = lambda s: swing.joints(np.full(4, s), base, np.array([0.25, 0.0, 0.0]), 0.2)
    h = 1e-5
    for s in (0.1, 0.37, 0.5, 0.8, 0.98):
        (before, rate_before, _), (_, rate, change), (after, rate_after, _) = at(s - h), at(s), at(s + h)
        # The damping of the inverse costs 1e-4 over the Jacobian's squared singular values, under 2 %.
        np.testing.assert_allclose(rate, (after - before) / (2 * h * TROT.swing), atol=0.02 * np.abs(rate).max())
        np.testing.assert_allclose(
            change, (rate_after - rate_before) / (2 * h * TROT.swing), atol=0.04 * np.abs(change).max()
        )


def test_feet_leave_and_meet_the_ground_by_the_clock(by_programme):
    standing, touching = by_programme.array("standing"), by_programme.array("touching")
    after = by_programme.after(1.0)
    assert (standing == touching)[after].mean() > 0.9
    assert standing[after].mean() == pytest.approx(TROT.duty, abs=0.05)
    assert (standing[:, 0] == standing[:, 3]).mean() > 0.9  # diagonal pairs


def test_the_shipped_network_walks_as_well(robot, by_programme):
    solver = GuardedNetStance(robot, StanceNet.load(SHIPPED))
    assert solver.net.meta["transitions"] == 9000 and solver.net.parameters == 47_436
    trace = walk(plant(**NOISE), TrotController(robot, solver), lambda t: Target((0.3, 0.0)), 4.0, 1 / 160)
    assert np.isnan(trace.fallen) and solver.fallbacks <= 0.01 * len(trace.t)
    assert trace.velocity_error(1.5) <= 1.5 * by_programme.velocity_error(1.5)
    assert by_programme.mean_height(1.5) - trace.mean_height(1.5) <= 0.03
    assert np.median(by_programme.time) >= 10 * np.median(trace.time)


def test_same_seed_same_walk_and_a_fall_ends_it(robot):
    first, second = (
        walk(plant(seed=4, **NOISE), TrotController(robot, QpStance(robot)), lambda t: Target(), 0.3, 1 / 160)
        for _ in range(2)
    )
    assert (first.array("torques") == second.array("torques")).all()
    fallen = walk(
        plant(),
        TrotController(robot, QpStance(robot)),
        lambda t: Target(),
        3.0,
        1 / 160,
        disturb=lambda t, torques: 0.0 * torques if t < 0.1 else torques + 60 * np.array([1, 0, 0] * 4),
    )
    assert fallen.fallen < 3.0 and np.isnan(fallen.velocity_error(0.0)) and np.isnan(fallen.mean_height(0.0))


def test_transitions_are_the_programmes_own_answers(robot):
    data = collect(plant(**NOISE), robot, transitions=60, episode=40, seed=1)
    assert data.observations.shape == (60, 41) and data.torques.shape == (60, 12) and set(data.episode) == {0, 1}
    rng = np.random.default_rng(0)
    goals = [RandomTargets(rng, 300.0)(t) for t in np.arange(0, 300, 1.5)]
    assert np.mean([goal == Target() for goal in goals]) == pytest.approx(0.2, abs=0.1)
    assert all(
        -0.3 <= goal.velocity[0] <= 0.5 and abs(goal.velocity[1]) <= 0.2 and abs(goal.yaw_rate) <= 0.6 for goal in goals
    )


def test_gaits():
    assert np.isnan(TROT.swing_phase(0.0)).all() and np.isnan(STAND.swing_phase(1.23)).all()
    t = np.arange(0, 1, 0.001)
    phases = np.array([TROT.swing_phase(x) for x in t])
    np.testing.assert_allclose(np.isnan(phases).mean(0), 0.6, atol=0.01)
    lifted = ~np.isnan(phases)
    assert (lifted[:, 0] == lifted[:, 3]).all() and not (lifted[:, 0] & lifted[:, 1]).any()
    assert np.nanmin(phases) >= 0 and 0.99 < np.nanmax(phases) < 1
    with pytest.raises(ValueError, match="four offsets"):
        Gait(0.3, 0.2, (0, 0.5, 0.5, 1.0))


def test_imu_and_feet_of_a_standing_robot():
    robot = plant()
    for _ in range(1500):  # servos with the default bandwidth sink under the trunk, then rest
        robot.tick()
    imu, R = robot.imu(), robot.world.data.body("trunk").xmat.reshape(3, 3)
    np.testing.assert_allclose(R @ imu.linear_acceleration, [0, 0, 9.81], atol=0.1)
    assert np.linalg.norm(imu.quaternion) == pytest.approx(1) and np.abs(imu.angular_velocity).max() < 0.05
    assert robot.feet == ["FL_foot", "FR_foot", "RL_foot", "RR_foot"] and (robot.foot_forces() >= 0).all()
    with pytest.raises(PlantError, match="has no IMU"):
        MujocoPlant("cartpole").imu()


def test_noise_of_the_imu_has_the_deviation_asked_for():
    noisy = plant(orientation_noise=0.02, gyro_noise=0.3, accelerometer_noise=0.5)
    samples = [noisy.imu() for _ in range(600)]
    assert np.std([s.angular_velocity for s in samples], 0) == pytest.approx(0.3, rel=0.15)
    assert np.std([s.linear_acceleration for s in samples], 0) == pytest.approx(0.5, rel=0.15)
    assert 2 * np.std([s.quaternion[1:] for s in samples], 0) == pytest.approx(0.02, rel=0.15)


def test_frames_of_a_floating_robot_follow_its_base():
    robot = plant()
    robot.world.data.qpos[:3] = 1.0, 2.0, 0.5
    np.testing.assert_allclose(robot.world.pose_of_nominal().body("trunk").xpos, [1.0, 2.0, 0.5])
