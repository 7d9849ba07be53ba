"""Folded arms: how wide the robot is, the way there and back, and a passage between walls that are higher than its elbows."""

import mujoco
import numpy as np
import pytest
from rehearsal import ROBOT, Rehearsal

from config.robot import load_robot
from sim_core.plant.rangefinders import rangefinders_of
from sim_core.telepresence.arm import ArmMode
from sim_core.telepresence.geom_extent import extents
from sim_core.telepresence.range_readings import HeardRange

#: [m] that a passage is wide, and the base
GAP, BASE = 0.80, 0.60


def width(plant):
    """Of every shape of the robot, across (y) [m]."""
    model, data = plant.world.model, plant.world.observe()
    root = model.body("base").id
    own = [g for g in range(model.ngeom) if model.body_rootid[model.geom_bodyid[g]] == root]
    low, high = extents(model, data, own, (0.0, 1.0, 0.0))
    return float(high.max() - low.min())


def folded(run):
    assert run.avatar.fold() == "" and {arm.mode for arm in run.avatar.arms} == {ArmMode.FOLDING}
    nearest = []
    run.run(
        6.0, move=lambda t: nearest.append(run.avatar.guard.nearest(np.concatenate([a.q for a in run.avatar.arms]))[0])
    )
    assert {arm.mode for arm in run.avatar.arms} == {ArmMode.HOLD}
    assert min(nearest) > run.avatar.guard.margin
    return run


def test_folded_it_is_as_narrow_as_its_base_and_it_unfolds(rehearsal):
    assert width(rehearsal.plant) > 1.0
    folded(rehearsal)
    for arm, index in rehearsal.avatar.arms_with_joints():
        assert rehearsal.q[index] == pytest.approx(arm.narrow, abs=0.02)
    assert width(rehearsal.plant) == pytest.approx(BASE, abs=0.01)
    assert rehearsal.plant.world.data.ncon == 0 or not touching(rehearsal.plant)
    assert rehearsal.avatar.go_home() == ""
    rehearsal.run(6.0)
    for arm, index in rehearsal.avatar.arms_with_joints():
        assert rehearsal.q[index] == pytest.approx(arm.home, abs=0.02) and arm.mode is ArmMode.HOLD


def touching(plant):
    """Pairs of bodies that touch, the floor's excepted."""
    model, data = plant.world.model, plant.world.data
    bodies = [tuple(model.geom_bodyid[g] for g in pair) for pair in data.contact.geom[: data.ncon]]
    return [pair for pair in bodies if 0 not in pair]


def test_an_arm_that_follows_a_hand_or_has_stopped_folds_nothing(rehearsal):
    rehearsal.clutch[0] = True
    rehearsal.run(0.1)
    assert "follows a hand" in rehearsal.avatar.fold()
    assert [arm.mode for arm in rehearsal.avatar.arms] == [ArmMode.FOLLOW, ArmMode.HOLD]


@pytest.mark.parametrize("narrow", [True, False])
def test_a_passage_with_high_walls(avatar_model, narrow):
    """Walls of 1.6 m on both sides: folded it drives through and touches nothing; as at home its arms meet them."""
    run = Rehearsal(avatar_model, rangefinders=rangefinders_of(ROBOT)).run(0.1)
    if narrow:
        folded(run)
    run.avatar.look_with(run.avatar.own_rangefinders())
    for name, side in (("left", 1.0), ("right", -1.0)):
        wall = '<geom type="box" size="0.3 0.05 0.8" mass="500"/>'
        run.plant.spawn(name, text=wall, position=(1.25, side * (0.5 * GAP + 0.05), 0.8))
    walls = {g for name in ("left", "right") for g in range(run.plant.world.model.ngeom) if _of(run, g, name)}
    met = set()

    def move(t):
        run.ranges = {one.site: HeardRange(one.range, run.now - one.stamp) for one in run.plant.ranges()}
        data, model = run.plant.world.data, run.plant.world.model
        for a, b in data.contact.geom[: data.ncon].tolist():
            if (a in walls) != (b in walls) and 0 not in (model.geom_bodyid[a], model.geom_bodyid[b]):
                met.add(model.body(model.geom_bodyid[b if a in walls else a]).name)

    run.stick = [1.0, 0.0, 0.0]
    run.run(12.0 if narrow else 4.0, move=move)
    if narrow:
        assert not met and run.q[0] > 1.25 + 0.3 + 0.5
    else:
        assert met and all("base" not in name for name in met)


def _of(run, geom, name):
    model = run.plant.world.model
    return (
        model.body(model.geom_bodyid[geom]).name.startswith(name + "/")
        or model.body(model.geom_bodyid[geom]).name == name
    )


def test_the_postures_mirror_each_other_and_are_within_their_limits():
    right, left = (np.array(arm.narrow) for arm in load_robot(ROBOT).task.arms)
    assert left == pytest.approx(right * [-1, 1, -1, 1, -1, 1, -1])
    model = mujoco.MjModel.from_xml_path(str(load_robot(ROBOT).model))
    for k, angle in enumerate(right, 1):
        low, high = model.joint(f"right_joint{k}").range
        assert low + 0.05 < angle < high - 0.05
