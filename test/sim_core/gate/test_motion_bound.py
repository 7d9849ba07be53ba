"""No stream of commands takes a joint beyond its limits: attacks on whole simulated robots."""

import numpy as np
import pytest

from sim_core.gate import JointLimits, MotionBound
from sim_core.plant import MujocoPlant, joint_limits

SECONDS = 3.0


def limits(**changes):
    """One joint of 1 kg m^2 within +-1 rad, 2 rad/s and 10 N m."""
    one = {"lower": [-1.0], "upper": [1.0], "velocity": [2.0], "effort": [10.0], "inertia": [[1.0], [1.0]]}
    return JointLimits(("joint",), **{name: np.array(value) for name, value in {**one, **changes}.items()})


def bang_bang(plant, limits, rng):
    """Every motor at full effort, in directions drawn anew after random times."""
    due, effort = 0.0, limits.effort
    while True:
        if plant.t >= due:
            due, effort = (
                plant.t + rng.choice([0.004, 0.02, 0.1, 0.5]),
                limits.effort * rng.choice([-1, 1], len(effort)),
            )
        yield effort


def absurd_gains(plant, limits, rng):
    """A feedback law of 1e6 N m/rad about positions of up to 100 rad."""
    due, goal = 0.0, np.zeros(len(limits.joints))
    while True:
        if plant.t >= due:
            due, goal = plant.t + 0.1, rng.uniform(-100.0, 100.0, len(goal))
        yield 1e6 * (goal - plant.q)


def resonance(plant, limits, rng):
    """Full efforts that change sign at each joint's own frequency."""
    frequency = rng.uniform(0.3, 3.0, len(limits.joints))
    while True:
        yield limits.effort * np.sign(np.sin(2 * np.pi * frequency * plant.t))


@pytest.mark.parametrize("attack", [bang_bang, absurd_gains, resonance])
@pytest.mark.parametrize("robot, tick", [("panda", 0.002), ("dxl_arm", 0.002), ("dxl_arm", 0.01)])
def test_attacks_stay_within_the_limits(robot, tick, attack):
    plant = MujocoPlant(robot, tick=tick)
    allowed = joint_limits(plant.world)
    bound = MotionBound(allowed, plant.tick_period)
    fastest = beyond = unbounded = 0.0
    for seed in range(3):
        plant.reset(seed=seed)
        efforts = attack(plant, allowed, np.random.default_rng(seed))
        while plant.t < SECONDS:
            effort = bound(next(efforts), plant.q, plant.v, plant.t)
            assert (np.abs(effort) <= allowed.effort + 1e-12).all()
            plant.step(effort[plant.world.joint_of] / plant.world.ratio)
            fastest = max(fastest, float((np.abs(plant.true_v) / allowed.velocity).max()))
            beyond = max(beyond, float(np.maximum(plant.true_q - allowed.upper, allowed.lower - plant.true_q).max()))
    plant.reset(seed=0)
    efforts = attack(plant, allowed, np.random.default_rng(0))
    while plant.t < SECONDS:  # the attack is one: without the bound it breaks the limits
        effort = np.clip(next(efforts), -allowed.effort, allowed.effort)
        plant.step(effort[plant.world.joint_of] / plant.world.ratio)
        unbounded = max(unbounded, float((np.abs(plant.true_v) / allowed.velocity).max()))
    assert unbounded > 2.0
    assert fastest <= 1.05 and beyond <= 0.02


def late_loop(plant, allowed, attack, seed, lag):
    """An attack through a loop whose efforts begin to act 2 to 4 ms after the measurement and stay for 2 to 22 ms.

    Returns the fastest joint over its limit; lag: as the bound is told [s].
    """
    bound, rng = MotionBound(allowed, 0.004), np.random.default_rng(seed)
    plant.reset(seed=seed)
    efforts, effort, fastest = attack(plant, allowed, np.random.default_rng(seed)), np.zeros(len(allowed.joints)), 0.0
    while plant.t < SECONDS:
        following = bound(next(efforts), plant.q, plant.v, plant.t, lag)
        for acting, ticks in ((effort, rng.integers(1, 3)), (following, rng.integers(1, 12))):
            for _ in range(ticks):
                plant.step(acting[plant.world.joint_of] / plant.world.ratio)
                fastest = max(fastest, float((np.abs(plant.true_v) / allowed.velocity).max()))
        effort = following
    return fastest


@pytest.mark.parametrize("attack", [bang_bang, absurd_gains, resonance])
def test_a_loop_that_is_late_and_knows_it_stays_within_the_limits(attack):
    plant = MujocoPlant("dxl_arm", tick=0.002)
    allowed = joint_limits(plant.world)
    assert max(late_loop(plant, allowed, attack, seed, lag=0.028) for seed in range(3)) <= 1.05
    assert max(late_loop(plant, allowed, attack, seed, lag=0.0) for seed in range(3)) > 1.2


def test_what_holds_a_joint_remains_allowed_however_late_the_loop_is():
    """A constant effort without motion, as against gravity, passes whole; a step on top of it does not."""
    bound, rest = MotionBound(limits(), 0.002), np.zeros(1)
    assert MotionBound(limits(), 0.002)(np.array([10.0]), rest, rest, 0.0, lag=0.3) == pytest.approx(10.0 / 3.0)
    times = 0.002 * np.arange(4000)
    for t, load in zip(times, np.linspace(0.0, 8.0, len(times))):
        assert bound(np.array([load]), rest, rest, t, lag=0.3) == load
    assert bound(np.array([10.0]), rest, rest, times[-1], lag=0.3) < 9.0


def test_a_joint_that_is_pushed_freely_bears_no_load():
    """Without gravity all of the effort is acceleration: the bound stays what it was at rest, whatever was pushed."""
    bound, v, dt = MotionBound(limits(velocity=[1e3]), 0.002), np.zeros(1), 0.002
    for k in range(200):
        effort = bound(np.array([10.0]), np.zeros(1), v, k * dt, lag=0.3)
        v = v + effort * dt  # 1 kg m^2
    assert np.abs(bound._load).max() < 1e-9


def test_nothing_is_taken_from_a_joint_far_from_its_limits():
    bound = MotionBound(limits(), 0.002)
    wanted = np.array([10.0])
    assert bound(wanted, np.array([0.0]), np.array([0.5]), 0.0) == wanted
    assert bound(-wanted, np.array([0.0]), np.array([0.5]), 0.0) == -wanted


def test_at_the_velocity_limit_the_motor_brakes_with_all_it_has():
    bound = MotionBound(limits(), 0.002)
    for sign in (1.0, -1.0):
        assert sign * bound(sign * np.array([10.0]), np.array([0.0]), sign * np.array([2.0]), 0.0) == -10.0


def test_effort_falls_continuously_towards_a_limit():
    bound = MotionBound(limits(), 0.002)
    v = np.linspace(0.0, 2.5, 1001)
    effort = np.array([bound(np.array([10.0]), np.zeros(1), np.array([x]), 0.0)[0] for x in v])
    assert (np.diff(effort) <= 1e-12).all() and np.abs(np.diff(effort)).max() < 1.0


def test_the_ceiling_leaves_room_to_brake():
    """From any distance, at the speed the bound allows, half the effort stops the joint before its limit."""
    bound = MotionBound(limits(velocity=[1e6]), 0.002)
    for distance in (0.01, 0.1, 0.5, 1.5):
        speed = bound._speed_before(np.array([distance]))[0]
        assert speed**2 / (2 * 5.0) <= distance + 1e-12


def test_a_joint_without_limits_is_left_alone():
    free = limits(lower=[-np.inf], upper=[np.inf], velocity=[np.inf])
    assert MotionBound(free, 0.002)(np.array([10.0]), np.array([1e3]), np.array([1e3]), 0.0) == 10.0


def test_a_passive_joint_gets_no_effort_and_no_nan():
    passive = limits(effort=[0.0], velocity=[np.inf])
    assert MotionBound(passive, 0.002)(np.array([0.0]), np.array([5.0]), np.array([9.0]), 0.0) == 0.0


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"lower": [2.0]}, "joint joint: expected a lower limit below the upper one"),
        ({"velocity": [-1.0]}, "velocity: expected no negative limit"),
        ({"effort": [np.nan]}, "effort of 1 joints: expected numbers of shape"),
        ({"inertia": [[0.0], [1.0]]}, "inertia: expected positive numbers"),
        ({"upper": [1.0, 2.0]}, "upper of 1 joints: expected numbers of shape"),
    ],
)
def test_limits_that_are_none_are_refused(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        limits(**changes)


def test_no_joint_is_driven_with_more_than_its_power_and_braking_is_free():
    bound = MotionBound(limits(velocity=[20.0], lower=[-np.inf], upper=[np.inf], power=[4.0]), 1e-3)
    for v, wanted, allowed in [
        (1.0, 9.0, 4.0),
        (-1.0, -9.0, -4.0),
        (0.2, 9.0, 9.0),
        (1.0, -9.0, -9.0),
        (0.0, 9.0, 9.0),
    ]:
        assert bound(np.array([wanted]), np.zeros(1), np.array([v]), 0.0) == pytest.approx([allowed])


def test_a_model_names_the_power_of_its_joints():
    plant = MujocoPlant(
        '<mujoco model="slider"><custom><numeric name="power_limits" data="7"/></custom><worldbody><body>'
        '<joint name="rail" type="slide" axis="1 0 0"/><geom size="0.1"/></body></worldbody>'
        '<actuator><motor name="drive" joint="rail" ctrlrange="-100 100"/></actuator></mujoco>'
    )
    allowed = joint_limits(plant.world)
    assert allowed.power == pytest.approx([7.0])
    bound, mass, previous = MotionBound(allowed, plant.tick_period), plant.world.model.body_mass[-1], 0.0
    for _ in range(300):
        effort = bound(np.array([100.0]), plant.q, plant.v, plant.t)
        plant.step(effort)
        energy = 0.5 * mass * plant.true_v[0] ** 2
        if previous > 1.0:  # from where the power and not the effort limits it: dE = P dt
            assert energy - previous == pytest.approx(7.0 * plant.tick_period, rel=0.02)
        previous = energy
    assert previous > 2.0


def test_powers_are_one_for_each_joint():
    with pytest.raises(ValueError, match="power of 1 joints: expected numbers of shape"):
        limits(power=[1.0, 2.0])
