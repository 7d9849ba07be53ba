"""A textured plate in MuJoCo: its heights, that it can be spawned, and that a wrist's camera sees what the closed form says."""

import os

import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from sim_core.plant import PlantError
from sim_core.plant.scene import Entity, build_model, entity_content
from sim_core.plant.textured_plate import HALF, textured_plate, textured_plate_mjcf
from sim_core.telepresence.texture.depth_pictures import true_depth
from sim_core.telepresence.texture.height_map import height_map
from sim_core.telepresence.texture.recognition import known_surfaces
from sim_core.telepresence.texture.scans import true_heights
from sim_core.telepresence.texture.spectrum import texture_of_heights, texture_of_map
from sim_core.telepresence.texture.surfaces import PITCH, texture_surface

EMPTY = "<mujoco><worldbody><light pos='0 0 2'/></worldbody></mujoco>"


def test_the_height_field_has_the_surfaces_heights():
    surface = texture_surface("gravel", 3)
    model = build_model(EMPTY, [textured_plate(surface, (0.0, 0.0, 0.0), (0.0, 0.0, 1.0))])
    n = int(model.hfield_nrow[0])
    heights = model.hfield_data.reshape(n, n) * model.hfield_size[0, 2] + model.geom_pos[0, 2]
    line = np.linspace(-HALF, HALF, n)
    # MuJoCo centres the geometry of a height field as it is
    assert heights == pytest.approx(surface.heights(line, line), abs=2e-6) and line[1] - line[0] == pytest.approx(PITCH)


def test_it_is_spawned_like_any_other_entity():
    text = entity_content("", textured_plate_mjcf(texture_surface("rock", 1)))
    model = build_model(EMPTY, [Entity("stone", text, position=(0.0, 0.0, 1.0)), Entity("ball", "<mujoco><worldbody>"
        "<geom type='sphere' size='0.02' mass='0.1'/></worldbody></mujoco>", position=(0.0, 0.0, 1.1))])  # fmt: skip
    assert model.nhfield == 1 and model.njnt == 2


def test_it_can_be_touched():
    text = textured_plate_mjcf(texture_surface("rock", 1))
    ball = Entity(
        "ball",
        "<mujoco><worldbody><geom type='sphere' size='0.01' mass='0.1'/></worldbody></mujoco>",
        position=(0, 0, 0.03),
    )
    model = build_model(EMPTY, [Entity("stone", text, parent="world"), ball])
    data = mujoco.MjData(model)
    for _ in range(300):
        mujoco.mj_step(model, data)
    assert 0.005 < data.body("ball").xpos[2] < 0.015


def test_a_normal_has_a_direction():
    with pytest.raises(PlantError, match="must have a direction"):
        textured_plate(texture_surface("rock", 1), normal=(0.0, 0.0, 0.0))


@pytest.mark.skipif(os.environ.get("MUJOCO_GL", "disable") == "disable", reason="no headless OpenGL here")
@pytest.mark.parametrize("kind", ["gravel", "grooves"])
def test_the_wrist_sees_what_the_closed_form_says(kind):
    from sim_core.plant.rendered_camera import RenderedCamera

    surface = texture_surface(kind, 3003)
    plate = textured_plate(surface)
    X_WS = np.eye(4)
    X_WS[:3, :3] = Rotation.from_quat(np.roll(plate.quaternion, -1)).as_matrix()
    X_WS[:3, 3] = plate.position
    with RenderedCamera("avatar", "right_wrist", 640, 480, [plate]) as camera:
        views = [camera.render() for _ in range(6)]
        camera._renderer.update_scene(camera._data, camera._camera)
        drawn, K = camera._true_depth(), camera.K
    X_CS = np.linalg.inv(views[0].pose) @ X_WS
    expected = true_depth(surface, X_CS, K, (480, 640))[160:320, 220:420]
    off = np.abs(drawn[160:320, 220:420] - expected)
    assert np.median(off) < 1e-5 and np.quantile(off, 0.95) < 3e-5
    depths = np.rint(1e3 * np.array([view.depth for view in views])) * 1e-3
    scan = height_map(depths, K)
    texture, truth = texture_of_map(scan), texture_of_heights(true_heights(surface, X_CS, scan), scan.pitch)
    assert scan.distance == pytest.approx(0.302, abs=2e-3)
    assert texture.roughness == pytest.approx(truth.roughness, rel=0.06)
    assert texture.frequency == pytest.approx(truth.frequency, rel=0.02)
    assert known_surfaces().recognise(texture).name == kind
