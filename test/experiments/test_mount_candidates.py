"""The candidates of the mount design study: what the names mean, and models whose arms are where the kinematics say."""

import mujoco
import numpy as np
import pytest

from experiments.problems.mount_candidates import (
    ARMS,
    CHOSEN,
    GRIPPERS,
    JOINTS,
    LENGTH,
    PUBLISHED_ARMS,
    SIGNS,
    TABLE,
    Candidate,
    compact,
    kinematics,
    postures,
    scene,
    shapes,
    targets,
)
from experiments.telepresence import teleop_ik
from sim_core.plant.avatar.mounts import ARM_MOUNTS, GRIPPER_MOUNTS, OTHER_READINGS
from sim_core.telepresence.compact_posture import MirroredArms


def test_mounts_that_are_published_as_equally_wide_have_the_same_part_to_the_side():
    aside = {name: -mount.rotation[1, 2] for name, mount in ARM_MOUNTS.items()}
    for one in aside:
        for other in aside:
            wider = np.sign(PUBLISHED_ARMS[one][0] - PUBLISHED_ARMS[other][0])
            assert wider == np.sign(round(aside[one] - aside[other], 9)), (one, other)
    # and the other readings contradict the published widths
    assert -OTHER_READINGS["45 down, to the side and down"].rotation[1, 2] == pytest.approx(aside["45 sideways"])
    assert -OTHER_READINGS["45 + 45, by azimuth and elevation"].rotation[1, 2] < aside["45 sideways"] - 0.2


def test_both_experiments_mean_the_same_arm():
    mine, theirs = kinematics(Candidate(CHOSEN)), teleop_ik.arm(teleop_ik.CHOSEN)
    for one, other in ((mine.base, theirs.base), (mine.tool, theirs.tool)):
        assert one.position == pytest.approx(other.position, abs=1e-9)
        assert one.rotation == pytest.approx(other.rotation, abs=1e-9)


@pytest.mark.parametrize("candidate", [*ARMS[1:3], *GRIPPERS], ids=lambda c: f"{c.arm}-{c.side}-{c.gripper}")
def test_the_model_is_where_the_kinematics_say(candidate):
    arm, model = kinematics(candidate), scene(candidate)[1]
    data, waiting = mujoco.MjData(model), compact(CHOSEN, 1)
    for q in np.random.default_rng(0).uniform(arm.lower, arm.upper, (3, JOINTS)):
        data.qpos[:] = postures(candidate, q[None], waiting)[0]
        mujoco.mj_kinematics(model, data)
        site, pose = data.site(f"{candidate.side}_hand_site"), arm.at(q).pose
        assert site.xpos == pytest.approx(pose.position, abs=1e-6)
        assert site.xmat.reshape(3, 3) == pytest.approx(pose.rotation, abs=1e-6)


def test_shapes_of_the_arm_end_at_its_fingers():
    for candidate in GRIPPERS:
        model, found = scene(candidate)[1], shapes(candidate)
        bodies = {
            kind: {model.body(model.geom_bodyid[g]).name for g in getattr(found, kind)} for kind in ("links", "wrist")
        }
        side = candidate.side
        assert bodies["links"] == {*(f"{side}_link{k}" for k in range(2, 8)), f"{side}_palm"}
        assert bodies["wrist"] == {f"{side}_link7"}
        fingers = [model.body(model.geom_bodyid[g]).name for g in found.fingers]
        assert len(fingers) == {"right": 2, "left": 10}[side] and all(name.startswith(side) for name in fingers)
        assert model.geom(found.table).name == TABLE


def test_hands_of_both_sides_are_led_alike():
    for right, left in zip(targets("right", 4, 0), targets("left", 4, 0)):
        assert left.position == pytest.approx(right.position * (1, -1, 1))
        assert left.rotation[:, 2] == pytest.approx(right.rotation[:, 2] * (1, -1, 1))  # what the hands point to
        assert np.linalg.det(left.rotation) == pytest.approx(1.0)


@pytest.mark.parametrize(("name", "most", "least"), [("45 down", 0.80, 0.4), ("sideways", 1.0, 0.80)])
def test_a_narrowest_posture_is_free_symmetric_and_within_limits(name, most, least):
    found, model = compact(name, 1), scene(Candidate(name), table=False)[1]
    assert found.excess == 0.0 and found.length <= LENGTH and least < found.width <= most
    joints = [model.joint(f"right_joint{k}") for k in range(1, JOINTS + 1)]
    for joint, q in zip(joints, found.right):
        assert joint.range[0] <= q <= joint.range[1]
    data = mujoco.MjData(model)
    data.qpos[:] = found.posture
    mujoco.mj_kinematics(model, data)
    for k in range(1, JOINTS + 1):
        right, left = data.body(f"right_link{k}").xpos, data.body(f"left_link{k}").xpos
        assert left == pytest.approx(right * (1, -1, 1), abs=1e-9)


def test_a_gripper_that_is_high_is_above_the_flange_and_one_that_is_low_below():
    """The flange looks down in both, as the gripper looks ahead."""
    for name, sign in (("high", 1.0), ("low", -1.0)):
        mount = GRIPPER_MOUNTS[name]
        ahead, up = mount.rotation[:, 2], mount.rotation[:, 0]
        assert ahead == pytest.approx([1.0, 0.0, 0.0]) and up == pytest.approx([0.0, 0.0, -1.0])
        assert sign * (up @ mount.position) > 0.0


def test_arms_that_turn_as_mirror_images():
    model = scene(Candidate(CHOSEN), table=False)[1]
    right, left = ([f"{side}_joint{k}" for k in range(1, JOINTS + 1)] for side in ("right", "left"))
    robot = MirroredArms(model, ("right_link0", "left_link0"), right, left, SIGNS)
    assert robot.measured(np.array([0.0, -1.0, 0.0, -2.0, 0.0, 1.5, 0.0])).excess == 0.0
    inward = robot.measured(np.array([0.0, 1.0, 1.57, -0.5, 0.0, 1.5, 0.0]))
    outward = robot.measured(np.array([0.0, 1.0, -1.57, -0.5, 0.0, 1.5, 0.0]))
    assert (inward.excess > 0.0) != (outward.excess > 0.0)  # one way the hands meet, the other way they do not
