"""The avatar's model: the file is what the builder writes, and the robot stands as it should."""

import mujoco
import numpy as np
import pytest

from config.robot import load_robot
from sim_core.plant import MujocoPlant
from sim_core.plant.avatar.__main__ import document
from sim_core.plant.avatar.builder import AvatarDesign, build
from sim_core.plant.avatar.mounts import ARM_MOUNTS, GRIPPER_MOUNTS, mirrored

ROBOT = "avatar"


@pytest.fixture(scope="module")
def model():
    return mujoco.MjModel.from_xml_path(str(load_robot(ROBOT).model))


def at_home(model):
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_forward(model, data)
    return data


def test_the_file_is_what_the_builder_writes():
    assert load_robot(ROBOT).model.read_text() == document()


def test_hands_are_before_the_chest_and_mirror_each_other(model):
    data = at_home(model)
    right, left = (data.body(f"{side}_palm") for side in ("right", "left"))
    assert right.xpos * (1, -1, 1) == pytest.approx(left.xpos, abs=1e-3)
    assert 0.25 < right.xpos[0] < 0.5 and -0.3 < right.xpos[1] < -0.15 and 0.9 < right.xpos[2] < 1.15
    for palm in (right, left):  # they look forward, and a little down
        forward = palm.xmat.reshape(3, 3)[:, 2]
        assert forward[0] > 0.9 and abs(forward[1]) < 0.05 and -0.4 < forward[2] < -0.2
    assert data.ncon == 0


def test_eyes_look_at_the_hands_and_stand_apart_by_their_baseline(model):
    data = at_home(model)
    left, right = (data.cam(f"{side}_eye") for side in ("left", "right"))
    assert np.linalg.norm(left.xpos - right.xpos) == pytest.approx(0.064, abs=1e-6)
    middle = 0.5 * (left.xpos + right.xpos)
    sight = -left.xmat.reshape(3, 3)[:, 2]
    for side in ("right", "left"):
        way = data.site(f"{side}_hand_site").xpos - middle
        assert np.degrees(np.arccos(way @ sight / np.linalg.norm(way))) < 35.0  # half of the 70 degrees it sees
    wide = build(AvatarDesign(baseline=0.07)).compile()
    assert wide.cam("left_eye").pos[1] - wide.cam("right_eye").pos[1] == pytest.approx(0.07)


@pytest.mark.parametrize("mount", ARM_MOUNTS)
def test_every_mount_is_a_rotation_whose_mirror_image_builds(mount):
    chosen = ARM_MOUNTS[mount]
    for one in (chosen, mirrored(chosen)):
        assert np.allclose(one.rotation @ one.rotation.T, np.eye(3)) and np.linalg.det(one.rotation) > 0.0
    model = build(AvatarDesign(arm_mount=chosen)).compile()
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    assert data.body("right_link0").xpos * (1, -1, 1) == pytest.approx(data.body("left_link0").xpos)
    assert data.body("right_link0").xmat.reshape(3, 3)[:, 2] == pytest.approx(chosen.rotation[:, 2])


@pytest.mark.parametrize("mount", GRIPPER_MOUNTS)
def test_every_gripper_mount_builds(mount):
    model = build(AvatarDesign(gripper_mount=(GRIPPER_MOUNTS[mount],) * 2)).compile()
    data = at_home(model)
    flange = data.site("right_flange").xmat.reshape(3, 3)
    along = flange[:, 2] @ data.body("right_palm").xmat.reshape(3, 3)[:, 2]
    assert along == pytest.approx({"low": 0.0, "high": 0.0, "end": 1.0}[mount], abs=1e-9)


def test_fingers_follow_their_motors_and_it_holds_itself_up():
    plant = MujocoPlant(ROBOT, tick=0.002, stop_state="hold")
    before = plant.true_q.copy()
    for _ in range(1000):
        plant.tick()
    assert np.abs(plant.true_q - before).max() < 6e-3  # the followers' constraint gives a little
    at = dict(zip(plant.joints, plant.true_q))
    for finger in ("index", "middle", "ring", "pinky"):
        assert at[f"left_{finger}_follower"] == pytest.approx(at[f"left_{finger}"], abs=8e-3)
    assert at["right_gripper_follower"] == pytest.approx(at["right_gripper"], abs=1e-3)


def test_a_gripper_holds_what_it_grips():
    """A box of 0.5 kg between the pads stays there under gravity, and falls from an open gripper."""
    box = """<mujoco><worldbody><body name="box"><freejoint/>
      <geom type="box" size="0.02 0.02 0.04" mass="0.5" friction="1 0.02 0.0005"/></body></worldbody></mujoco>"""
    spec = build()
    for body in spec.bodies:  # the arms stand still: what is tried is the grip
        body.gravcomp = 1.0
    child = mujoco.MjSpec.from_string(box)
    spec.worldbody.add_frame().attach_body(child.body("box"), "held_", "")
    for key in spec.keys:
        spec.delete(key)
    model = spec.compile()
    data = mujoco.MjData(model)
    at = {name: model.joint(name).qposadr[0] for name in (model.joint(j).name for j in range(model.njnt)) if name}
    home = MujocoPlant(ROBOT)
    fallen = {}
    for effort in (40.0, -40.0):
        mujoco.mj_resetData(model, data)
        for name, value in zip(home.joints, home.true_q):
            data.qpos[at[name]] = value
        mujoco.mj_kinematics(model, data)
        site = data.site("right_hand_site")
        free = next(j for j in range(model.njnt) if model.jnt_type[j] == mujoco.mjtJoint.mjJNT_FREE)
        start = model.jnt_qposadr[free]
        data.qpos[start : start + 3] = site.xpos - 0.005 * site.xmat.reshape(3, 3)[:, 2]
        mujoco.mju_mat2Quat(data.qpos[start + 3 : start + 7], site.xmat)
        held = data.qpos.copy()
        motor = model.actuator("right_gripper").id
        grip = at["right_gripper"]
        for step in range(1500):
            # the arms stand still: what is tried is the grip
            for name, address in at.items():
                if "gripper" not in name:
                    data.qpos[address] = held[address]
            keep = [model.joint(name).dofadr[0] for name in at if "gripper" not in name]
            data.qvel[keep] = 0.0
            if step < 300:
                data.qpos[start : start + 7], data.qvel[model.jnt_dofadr[free] : model.jnt_dofadr[free] + 6] = (
                    held[start : start + 7],
                    0.0,
                )
            data.ctrl[motor] = effort
            mujoco.mj_step(model, data)
        fallen[effort] = held[start + 2] - data.qpos[start + 2]
        assert 0.0 - 2e-3 <= data.qpos[grip] <= 0.0425 + 2e-3
    assert fallen[40.0] < 0.02 < 0.3 < fallen[-40.0]
