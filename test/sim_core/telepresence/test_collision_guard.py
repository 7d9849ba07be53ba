"""Capsules that enclose what they stand for, distances against a search, and crossing arms that MuJoCo never finds touching."""

import mujoco
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.spatial.transform import Rotation

from config.description import Capsule
from config.robot import load_robot
from sim_core.multibody import load_model
from sim_core.plant.avatar.builder import AvatarDesign, build
from sim_core.plant.avatar.mounts import ARM_MOUNTS, mirrored
from sim_core.telepresence.clutch import Pose
from sim_core.telepresence.collision_guard import Box, CollisionGuard, GuardedArm, segment_distance

ARM = "panda"
TORSO = (
    Capsule("torso", (-0.08, 0.0, 0.4), (-0.06, 0.0, 1.2), 0.11),
    Capsule("head", (-0.02, 0.0, 1.3), (0.0, 0.0, 1.6), 0.13),
)


@pytest.fixture(scope="module")
def panda():
    return load_model(ARM)


@pytest.fixture(scope="module")
def guard(panda):
    mount = ARM_MOUNTS["45 down"]
    arms = [
        GuardedArm(side, panda, Pose(m.position, m.rotation), load_robot(ARM).capsules)
        for side, m in (("right", mount), ("left", mirrored(mount)))
    ]
    return CollisionGuard(arms, TORSO)


def test_segments_are_as_far_apart_as_a_search_finds():
    rng = np.random.default_rng(0)
    p1, q1, p2, q2 = rng.normal(size=(4, 60, 3))
    q1[:5], q2[5:10], q2[10:15] = p1[:5], p2[5:10], p2[10:15] + 2.0 * (q1 - p1)[10:15]  # points, and parallel ones
    found = segment_distance(p1, q1, p2, q2)
    for k in range(60):

        def gap(x, k=k):
            return np.linalg.norm(p1[k] + x[0] * (q1[k] - p1[k]) - p2[k] - x[1] * (q2[k] - p2[k]))

        searched = min(minimize(gap, x0, bounds=[(0, 1), (0, 1)]).fun for x0 in ((0.5, 0.5), (0, 1), (1, 0)))
        assert found[k] == pytest.approx(searched, abs=1e-4)
        assert found[k] <= searched + 1e-9


def test_capsules_enclose_the_arms_shapes():
    """Points on every geom of the Panda, of its hand excepted, lie within the capsule of their body."""
    model = mujoco.MjModel.from_xml_path(str(load_robot(ARM).model))
    rng = np.random.default_rng(1)
    capsules = {capsule.body: capsule for capsule in load_robot(ARM).capsules}
    tried = 0
    for g in range(model.ngeom):
        body = model.body(model.geom_bodyid[g]).name
        if body not in capsules:
            continue
        way = rng.normal(size=(400, 3))
        way /= np.linalg.norm(way, axis=1, keepdims=True)
        size, kind = model.geom_size[g], model.geom_type[g]
        if kind == mujoco.mjtGeom.mjGEOM_BOX:
            points = rng.choice([-1.0, 1.0], size=(400, 3)) * size
        elif kind == mujoco.mjtGeom.mjGEOM_CAPSULE:
            points = size[0] * way + np.outer(rng.choice([-1.0, 1.0], 400), (0, 0, size[1]))
        else:
            assert kind == mujoco.mjtGeom.mjGEOM_CYLINDER
            flat = way * (1, 1, 0)
            flat *= size[0] / np.linalg.norm(flat, axis=1, keepdims=True)
            points = flat + np.outer(rng.choice([-1.0, 1.0], 400), (0, 0, size[1]))
        quat = model.geom_quat[g]
        points = Rotation.from_quat(np.roll(quat, -1)).apply(points) + model.geom_pos[g]
        c = capsules[body]
        a, d = np.array(c.start), np.array(c.end) - np.array(c.start)
        t = np.clip((points - a) @ d / (d @ d), 0, 1)
        assert np.linalg.norm(points - a - np.outer(t, d), axis=1).max() <= c.radius + 1e-6, (body, g)
        tried += 1
    assert tried > 20


def test_at_home_nothing_is_near(guard):
    home = home_of_both()
    distance, which = guard.nearest(home)
    assert distance > 0.05, which
    assert guard.pass_or_hold(home, home) == (pytest.approx(home), "")


def home_of_both():
    from sim_core.plant.avatar.home import HOME

    return np.array([HOME[f"{side}_joint{k}"] for side in ("right", "left") for k in range(1, 8)])


def test_a_thousand_crossing_targets_never_touch(guard, panda):
    """Both arms are sent at 0.05 rad a cycle to random postures in each other's way; MuJoCo looks at where they are let."""
    model = build(AvatarDesign()).compile()
    data = mujoco.MjData(model)
    address = [model.joint(f"{side}_joint{k}").qposadr[0] for side in ("right", "left") for k in range(1, 8)]
    mujoco.mj_resetDataKeyframe(model, data, 0)
    arm_of = {
        b: side
        for b in range(model.nbody)
        for side in ("right", "left")
        if model.body(b).name.startswith(f"{side}_link")
    }
    lower, upper = np.tile(panda.q_lower, 2), np.tile(panda.q_upper, 2)
    rng, home = np.random.default_rng(2), home_of_both()
    q, held, nearest = home, 0, np.inf
    for number in range(1000):
        if number % 20 == 0:
            q = home
        # what crosses: shoulders turned inwards
        goal = np.clip(home + rng.normal(scale=1.2, size=14), lower, upper)
        for _ in range(12):
            step = np.clip(goal - q, -0.05, 0.05)
            q, why = guard.pass_or_hold(q, q + step)
            if why:
                held += 1
                assert why.startswith("The arms hold: ") and " and " in why
                break
        data.qpos[address] = q
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_collision(model, data)
        for contact in data.contact:
            bodies = {arm_of.get(model.geom_bodyid[g]) for g in contact.geom}
            if bodies == {"right", "left"}:
                nearest = min(nearest, contact.dist)
        assert guard.nearest(q)[0] > 0.0
    assert nearest > 0.0
    assert held > 100  # the targets do cross


def test_a_table_is_kept_clear_of_and_left_again(guard):
    home = home_of_both()
    guard.boxes.append(Box("the table", Pose(np.array([0.6, 0.0, 0.7]), np.eye(3)), np.array([0.4, 0.6, 0.03])))
    try:
        q, why = home.copy(), ""
        for _ in range(100):
            down = q.copy()
            down[1] -= 0.03  # the right elbow sinks
            q, why = guard.pass_or_hold(q, down)
            if why:
                break
        assert "the table" in why and guard.nearest(q)[0] >= guard.margin
        deep = q.copy()
        deep[1] -= 0.1
        back = deep.copy()
        back[1] += 0.03
        assert guard.nearest(deep)[0] < guard.margin
        assert guard.pass_or_hold(deep, back)[1] == ""  # who is too near may go away
    finally:
        guard.boxes.clear()


def test_a_fast_step_does_not_leap_through(guard):
    """From one side of the other arm to its other side, both of which are free."""
    home = home_of_both()
    rng = np.random.default_rng(3)
    leaps = 0
    for _ in range(400):
        far = home + rng.normal(scale=1.5, size=14)
        if guard.nearest(far)[0] < 0.01:
            continue
        middle = min(guard.nearest(home + (far - home) * s)[0] for s in np.linspace(0, 1, 80))
        if middle < -0.01:
            leaps += 1
            assert guard.pass_or_hold(home, far)[1]
    assert leaps > 3
