"""The arm's spring, the bucket and the simulated pile: primitives in free space, jams, and the same again."""

from dataclasses import replace

import numpy as np
import pytest

from sim_core.excavation.arm_spring import SEVEN_JOINTS, ArmSpring, Deviation
from sim_core.excavation.bucket import Bucket
from sim_core.excavation.overhead_picture import View, over_blocks, painted
from sim_core.excavation.pile import Pile, PileSettings
from sim_core.excavation.policies import Follow
from sim_core.excavation.primitives import WIGGLE, PrimitiveSettings, displacements
from sim_core.excavation.reference_path import DEPTHS, PathSettings, make_reference_path
from sim_core.excavation.shipped_policies import shipped_policy
from sim_core.excavation.trial import run_trial
from sim_core.multibody import build, load_model
from sim_core.telepresence.arm_kinematics import ArmKinematics, pose_error
from sim_core.telepresence.clutch import Pose

pytestmark = pytest.mark.pure
HIGH = np.array([0.5, 0.0, 0.15, 0.0])  # over the pile
FEW = replace(PileSettings(), blocks=16, box=(0.22, 0.11))


def test_the_spring_is_that_of_joints_in_series():
    """Two joints, one of which only turns the bucket: stiffness along an arm of length a is K / a^2."""
    J = np.zeros((6, 4))
    J[0, 0], J[1, 1], J[2, 2], J[4, 3] = 0.5, 0.4, 0.25, 1.0
    spring = ArmSpring.of(J, np.diag([1.0, 2.0, 3.0, 0.5]), 100.0)
    np.testing.assert_allclose(spring.K, np.diag([400.0, 625.0, 1600.0, 100.0]), atol=1e-9)
    np.testing.assert_allclose(spring.M, np.diag([4.0, 12.5, 48.0, 0.5]), atol=1e-9)
    np.testing.assert_allclose(spring.D, 2 * np.sqrt(spring.K * spring.M), atol=1e-6)
    np.testing.assert_allclose(spring.torques(np.array([10.0, 0, 4.0, 2.0])), [5.0, 0, 1.0, 2.0])
    with pytest.raises(ValueError, match="cannot move"):
        ArmSpring.of(np.zeros((6, 4)), np.eye(4))


def test_the_numbers_of_the_seven_joints_are_those_of_an_arm():
    model = load_model("panda")
    arm = ArmKinematics(model, "flange", tool=Pose(np.array([0.0, 0.0, 0.12]), np.eye(3)))
    there = Pose(np.array([0.52, 0.0, 0.08]), np.diag([1.0, -1.0, -1.0]))
    q = arm.home
    for _ in range(40):  # towards the pose, and as near to home as that allows
        J, away = arm.at(q).J, pose_error(there, arm.at(q).pose)
        A = np.concatenate([J, 1e-3 * np.eye(7)])
        q = q + np.linalg.lstsq(A, np.r_[away, -1e-3 * (q - arm.home)], rcond=None)[0]
    spring = ArmSpring.of(arm.at(q).J, np.array(build.mass_matrix(model)(q, model.parameters.nominal)))
    np.testing.assert_allclose(spring.K, SEVEN_JOINTS.K, rtol=2e-3, atol=0.5)
    np.testing.assert_allclose(spring.M, SEVEN_JOINTS.M, rtol=2e-3, atol=2e-3)
    np.testing.assert_allclose(spring.J, SEVEN_JOINTS.J, atol=1e-3)


def test_a_load_that_stays_deflects_it_as_a_spring_without_overshoot():
    deviation, load = Deviation(SEVEN_JOINTS, 1e-3), np.array([10.0, -3.0, 20.0, 0.5])
    rest = np.linalg.solve(SEVEN_JOINTS.K, load)
    energies = []
    for _ in range(4000):
        deviation.step(load)
        away = deviation.place - rest
        energies.append(away @ SEVEN_JOINTS.K @ away + deviation.rate @ SEVEN_JOINTS.M @ deviation.rate)
    np.testing.assert_allclose(deviation.place, rest, atol=1e-6)
    assert np.all(np.diff(energies) <= 1e-12)  # what is stored above rest only falls: the damping feeds nothing


def test_the_bucket_is_open_in_front_and_holds_what_is_inside():
    bucket = Bucket()
    assert bucket.holds(np.array([[0, 0, 0], [0.03, 0.03, 0.02]])).all()
    assert not bucket.holds(np.array([[0.06, 0, 0], [0, 0.05, 0], [0, 0, -0.03], [0, 0, 0.06]])).any()
    parts = bucket.boxes()
    assert len(parts) == 4 + bucket.teeth
    foremost = min(part.offset[0] - part.half[0] - part.rounding for part in parts)
    assert foremost == pytest.approx(-0.5 * bucket.length - bucket.tooth)
    lowest = min(part.offset[2] - part.half[2] - part.rounding for part in parts)
    assert lowest == pytest.approx(-bucket.edge - bucket.wall)


def test_the_picture_shows_the_bucket_over_blocks_and_light_from_its_side():
    view = View(low=(0.0, 0.0), cell=0.01, shape=(8, 6))
    ramp = np.repeat(0.01 * np.arange(8.0)[:, None], 6, axis=1)
    body = np.zeros((8, 6), int)
    body[0] = -1
    heights, seen = over_blocks(ramp, body, np.array([[0.035, 0.025, 0.5], [0.035, 0.045, -1.0]]), view)
    assert seen[3, 2] == -2 and heights[3, 2] == 0.5 and seen[3, 4] == 0
    from_low, from_high = (
        painted(ramp, body, np.array([[0.8, 0.6, 0.4]]), np.array([s, 0, 1.0]) / 2**0.5, view) for s in (-1, 1)
    )
    assert from_low[4, 3, 0] > from_high[4, 3, 0] + 50 and from_low.dtype == np.uint8


@pytest.fixture(scope="module")
def over():
    pile = Pile(replace(FEW, primitives=PrimitiveSettings()))
    pile.reset(0, HIGH)
    return pile


@pytest.mark.parametrize("primitive", [3, 4, 7, WIGGLE])
def test_in_free_space_primitives_do_what_they_are_for(over, primitive):
    before = over.pose
    outcome = over.execute(primitive)
    moved = outcome.state.pose - before
    expected = displacements()[primitive]
    assert np.abs(moved - expected)[:3].max() < 1e-3 and abs(moved[3] - expected[3]) < 0.01
    assert not outcome.jammed and outcome.peak < 0.1
    if primitive == WIGGLE:
        assert abs(outcome.moved[0] - 0.02) < 2e-3 and outcome.moved[1:].max() < 1e-3
    assert outcome.state.image.shape == (64, 32, 3)


def test_a_jam_stops_within_a_tick_and_says_so():
    pile = Pile(replace(FEW, force_limit=3.0, picture=False))
    pile.reset(1, HIGH - [0.01, 0, 0.12, 0])
    for _ in range(12):
        began = pile.world.time
        outcome = pile.execute(5)
        if outcome.jammed:
            break
    assert outcome.jammed and outcome.held > 3.0 and outcome.peak >= outcome.held
    lasts = pile.settings.primitives.translation / pile.settings.primitives.speed
    assert pile.world.time - began <= lasts + 1e-9
    assert pile._over == pytest.approx(0.02, abs=1.1e-3)  # the first tick at or beyond 20 ms


def test_equal_seeds_dig_the_same_and_others_do_not():
    path = make_reference_path(PathSettings(start=0.53, drag=0.05))
    pile = Pile(FEW)
    one, two, other = (run_trial(pile, Follow(path, FEW.primitives), path, seed, 2) for seed in (5, 5, 6))
    for name in ("actions", "poses", "forces", "images", "peaks"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    assert np.abs(one.poses[0] - other.poses[0]).max() > 1e-6
    assert 1 <= len(one.actions) <= 2 and one.images.shape == (len(one.actions) + 1, 64, 32, 3)
    with pytest.raises(RuntimeError, match="call reset"):
        Pile(FEW).execute(0)


def test_the_planner_that_is_shipped_comes_to_the_end_of_a_path_without_a_jam():
    """On a pile that weights were tuned on; planners of a network that has not seen planners dig go to and fro where the path begins."""
    pile, path = Pile(), make_reference_path(PathSettings(depth=DEPTHS["shallow"]))
    trial = run_trial(pile, shipped_policy("bf5", path, pile.settings.primitives), path, seed=30_000)
    assert trial.finished and not trial.jammed and WIGGLE not in trial.actions
    assert path.progress(trial.closest[-1]) > 0.9 and trial.held.max() < pile.settings.force_limit
