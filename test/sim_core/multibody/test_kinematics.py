"""Frames against MuJoCo, velocities against derivatives."""

import articulated_models as zoo
import casadi as ca
import mujoco
import numpy as np
import pytest

from sim_core.multibody.model import build

FRAMES = {
    "zoo": ("stand", "stand_site", "gantry", "plate", "plate_site", "arm", "rod", "tail"),
    "panda": ("link1", "link4", "link7", "hand", "hand_site", "flange"),
    "double_cartpole": ("pivot", "pole2", "pole1_tip", "pole2_tip"),
}


@pytest.mark.parametrize("name", FRAMES)
def test_poses_agree_with_mujoco(load, name):
    model = load(name)
    q, _, _ = zoo.random_states(model, 20, seed=1)
    data = mujoco.MjData(model.mj_model)
    for frame in FRAMES[name]:
        pose = build.frame_pose(model, frame)
        for k in range(q.shape[1]):
            data.qpos = q[:, k]
            mujoco.mj_kinematics(model.mj_model, data)
            reference = data.site(frame) if frame in model.frame_names else data.body(frame)
            r, R = (out.full() for out in pose(q[:, k], model.parameters.nominal))
            assert np.allclose(r[:, 0], reference.xpos, atol=1e-12)
            assert np.allclose(R, reference.xmat.reshape(3, 3), atol=1e-12)


@pytest.mark.parametrize("name", FRAMES)
def test_velocity_is_the_derivative_of_the_pose(load, name):
    model = load(name)
    q, v, p = ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv), model.parameters.nominal
    frame = FRAMES[name][-1]
    r, R = build.frame_pose(model, frame)(q, p)
    r_dot = ca.jtimes(r, q, v)
    spin = ca.jtimes(R, q, v) @ R.T
    w = ca.vertcat(spin[2, 1], spin[0, 2], spin[1, 0])
    derivative = ca.Function("derivative", [q, v], [w, r_dot])
    velocity = build.frame_velocity(model, frame)
    for _k, (qk, vk) in enumerate(zip(*(a.T for a in zoo.random_states(model, 10, seed=2)[:2]))):
        for ours, reference in zip(velocity(qk, vk, p), derivative(qk, vk)):
            assert np.allclose(ours.full(), reference.full(), atol=1e-11)


def test_tool_point_of_the_ready_pose(load):
    """Franka's ready pose puts the tool point at (0.307, 0, 0.487) m, pointing down (its documentation)."""
    model = load("panda")
    r, R = (out.full() for out in build.frame_pose(model, "hand_site")(model.q_home, model.parameters.nominal))
    assert np.allclose(r[:, 0], [0.307, 0.0, 0.487], atol=1e-3)
    assert np.allclose(R[:, 2], [0, 0, -1], atol=1e-12)


def test_lengths_move_the_tip(load):
    model = load("double_cartpole")
    p = model.parameters.values({"pole2.pos.z": 0.7, "pole2_tip.pos.z": 0.4})
    tip = build.frame_position(model, "pole2_tip")
    assert np.allclose(tip([0.3, 0, 0], p).full()[:, 0], [0.3, 0, 1 + 0.7 + 0.4])
    assert np.allclose(tip([0, np.pi / 2, -np.pi / 2], p).full()[:, 0], [0.7, 0, 1.4])


def test_unknown_frame_lists_the_known_ones(load):
    with pytest.raises(KeyError, match="hand_site.*bodies: link0"):
        build.frame_position(load("panda"), "gripper")
