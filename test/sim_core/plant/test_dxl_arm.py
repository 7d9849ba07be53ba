"""The Dynamixel arm's model: what its header says, and what its sensors see."""

import mujoco
import numpy as np
import pytest

from sim_core.multibody import load_model
from sim_core.plant import MujocoPlant

SERVO = 0.082
ROOM, ROBOT = np.array([1, 1, 0, 0, 0, 0], np.uint8), np.array([0, 0, 1, 0, 0, 0], np.uint8)


@pytest.fixture(scope="module")
def arm():
    model = load_model("dxl_arm")
    data = mujoco.MjData(model.mj_model)
    data.qpos[:] = model.q_home
    mujoco.mj_forward(model.mj_model, data)
    return model, data


def test_it_weighs_what_its_parts_weigh_and_can_hold_itself(arm):
    model, data = arm
    m = model.mj_model
    moving = m.body("shoulder_link").id
    servos = [
        g
        for g in range(m.ngeom)
        if m.body_rootid[m.geom_bodyid[g]] == m.body("base_link").id
        and np.allclose(sorted(m.geom_size[g]), [0.01425, 0.017, 0.02325])
    ]
    assert len(servos) == 7
    # Seven servos but the waist's, then frames, sensor and gripper: nothing else may weigh.
    assert m.body_subtreemass[moving] == pytest.approx(
        6 * SERVO + 0.025 + 0.05 + 0.02 + 0.018 + 0.016 + 0.012 + 0.05 + 0.054, abs=1e-9
    )
    assert m.body("hand").mass[0] == pytest.approx(SERVO + 0.054)
    assert (np.abs(data.qfrc_bias) < 0.74).all() and (model.u_upper == 2.5).all()
    # Stretched out it still holds itself.
    data.qpos[:] = [0, np.pi / 2, -np.pi / 2, 0, 0, 0]
    mujoco.mj_forward(m, data)
    assert data.site("hand_site").xpos[0] == pytest.approx(0.453) and 1.6 < -data.qfrc_bias[1] < 2.5
    data.qpos[:] = model.q_home
    mujoco.mj_forward(m, data)
    np.testing.assert_allclose(data.site("hand_site").xpos, [0.28, 0, 0.2], atol=1e-6)


def test_its_wrist_feels_the_hand_and_the_camera_sees_it(arm):
    plant = MujocoPlant("dxl_arm", tick=0.004, stop_state="hold", wrench_site="ft_sensor")
    for _ in range(100):
        plant.tick()
    assert np.abs(plant.q - plant.world.home()[0]).max() < 1e-6
    weight = 9.81 * (SERVO + 0.054)
    np.testing.assert_allclose(plant.wrench()[:3], [weight, 0, 0], atol=1e-6)  # the hand is level: its x points down
    model, data = arm
    camera, eye = model.mj_model.camera("realsense"), data.cam("realsense")
    hand = eye.xmat.reshape(3, 3).T @ (data.site("hand_site").xpos - eye.xpos)
    assert -hand[2] > 0.3  # nearest depth of a D435i
    assert abs(np.degrees(np.arctan2(hand[1], -hand[2]))) < camera.fovy[0] / 2
    np.testing.assert_allclose(
        -eye.xmat.reshape(3, 3)[:, 2], data.site("realsense").xmat.reshape(3, 3)[:, 0], atol=1e-12
    )


def test_its_scanner_sees_the_room_and_nothing_of_its_own_base(arm):
    model, data = arm
    m, site = model.mj_model, data.site("urg")
    angles = np.deg2rad(np.linspace(-120, 120, 241))
    rays = np.stack([np.cos(angles), np.sin(angles), np.zeros_like(angles)], 1) @ site.xmat.reshape(3, 3).T

    def scan(groups):
        distance, geom = np.zeros(len(rays)), np.zeros(len(rays), np.int32)
        mujoco.mj_multiRay(
            m,
            data,
            site.xpos.copy(),
            rays.ravel().copy(),
            groups,
            1,
            m.body("laser").id,
            geom,
            distance,
            None,
            len(rays),
            10.0,
        )
        return distance, {m.geom(g).name for g in geom if g >= 0}

    distance, seen = scan(ROOM)
    assert {"wall_front", "wall_left", "wall_right", "crate", "pillar", "cube", "can"} <= seen and "floor" not in seen
    assert distance.min() > 0.02 and distance.max() < 4.095  # all within a URG-04LX's range
    assert distance[120] == pytest.approx(1.8 - 0.02 - 0.12, abs=1e-6)
    own, _ = scan(ROBOT)
    assert (own < 0).all()
