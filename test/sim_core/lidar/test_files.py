"""Scenes from files: what is read is what was written, and what cannot be read is said."""

import math

import numpy as np
import pytest
import trimesh

from sim_core.lidar.files import mesh_of_file, scene_of_file, scene_of_yaml
from sim_core.lidar.material import GLASS, Material
from sim_core.lidar.of_mjcf import scene_of_mjcf
from sim_core.lidar.scan import Lidar
from sim_core.lidar.scene import Body, Scene, rotation
from sim_core.lidar.settings import LidarSettings
from sim_core.lidar.shapes import ball, box

pytestmark = pytest.mark.pure
WALL = {"wall": Material(albedo=0.6)}
YAML = """
materials:
  wall: {albedo: 0.6}
  glass: {index: 1.5, transmission: 1.0}
bodies:
  - {name: block, mesh: block.%s, scale: 0.001, material: wall, pose: [0.5, 0.1, 0.0, 0.0, 0.0, 0.4], soft: true}
  - {name: vase, mesh: vase.obj, material: glass, pose: [0.3, -0.2, 0.0, 0.0, 0.0, 0.0]}
"""


def written(folder, kind):
    for name, mesh, scale in (
        ("block." + kind, box((0.2, 0.3, 0.4), "wall"), 1000.0),
        ("vase.obj", ball(0.05, "wall"), 1.0),
    ):
        trimesh.Trimesh(mesh.vertices * scale, mesh.faces, process=False).export(folder / name)
    (folder / "scene.yaml").write_text(YAML % kind)
    return folder / "scene.yaml"


@pytest.mark.parametrize("kind", ["obj", "stl", "ply"])
def test_a_scene_of_files_is_scanned_as_one_made_in_code(tmp_path, kind):
    scene = scene_of_yaml(written(tmp_path, kind))
    made = Scene(
        (
            Body("block", box((0.2, 0.3, 0.4), "wall"), (0.5, 0.1, 0, 0, 0, 0.4)),
            Body("vase", ball(0.05, "glass"), (0.3, -0.2, 0, 0, 0, 0)),
        ),
        WALL | {"glass": GLASS},
    )
    assert scene.body("block").soft and scene.materials["glass"] == GLASS
    found, wanted = (Lidar(s).scan().range for s in (scene, made))
    seen = np.isfinite(wanted)
    assert np.array_equal(np.isfinite(found), seen) and seen.any()
    assert np.median(np.abs(found - wanted)[seen]) < 1e-6  # files hold single precision


def test_what_is_wrong_with_a_file_is_said(tmp_path):
    path = written(tmp_path, "obj")
    with pytest.raises(FileNotFoundError, match="nothing is there"):
        mesh_of_file(tmp_path / "none.obj", "wall")
    (tmp_path / "empty.obj").write_text("v 0 0 0\n")
    with pytest.raises(ValueError, match="no triangles"):
        mesh_of_file(tmp_path / "empty.obj", "wall")
    for change, said in (
        (("albedo: 0.6", "colour: 1"), "some of albedo"),
        (("albedo: 0.6", "albedo: 6"), "between 0 and 1"),
        (("material: wall", "material: paint"), "'paint'"),
        (("scale: 0.001", "size: 0.001"), "body 0 has"),
        (("bodies:", "things:"), "list of 'bodies'"),
    ):
        path.write_text((YAML % "obj").replace(*change))
        with pytest.raises(ValueError, match=said):
            scene_of_yaml(path)


MJCF = """
<mujoco>
  <asset>
    <material name="wall"/><material name="clear"/>
    <mesh name="tetra" vertex="0 0 0  0.2 0 0  0 0.2 0  0 0 0.2"/>
  </asset>
  <worldbody>
    <geom name="floor" type="plane" size="2 2 1" pos="0 0 -1" material="wall"/>
    <body name="a.b" pos="1 0 0" euler="20 -30 40">
      <geom type="box" size="0.1 0.2 0.3" pos="0.05 0 0" euler="0 0 30" material="wall"/>
      <geom type="cylinder" size="0.1 0.3" pos="0 0.5 0" material="wall"/>
      <geom type="mesh" mesh="tetra" pos="0 0 0.4" material="wall"/>
    </body>
    <body name="round" pos="0 1 0">
      <geom type="sphere" size="0.2" material="clear"/>
      <geom type="capsule" size="0.1 0.2" pos="0.6 0 0" material="wall"/>
      <geom type="ellipsoid" size="0.1 0.2 0.3" pos="-0.6 0 0" material="wall"/>
    </body>
  </worldbody>
</mujoco>
"""


def test_an_mjcf_model_is_met_where_mujoco_meets_it(tmp_path):
    import mujoco

    (tmp_path / "model.xml").write_text(MJCF)
    scene = scene_of_mjcf(tmp_path / "model.xml", WALL | {"clear": GLASS})
    assert [b.name for b in scene.bodies] == ["world", "a_b", "round"]
    assert set(scene.body("round").mesh.material) == {"clear", "wall"}
    model = mujoco.MjModel.from_xml_path(str(tmp_path / "model.xml"))
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    assert rotation(scene.body("a_b").pose[3:]) == pytest.approx(data.xmat[1].reshape(3, 3), abs=1e-12)
    aim = np.random.default_rng(0).normal(size=(4000, 3))
    aim /= np.linalg.norm(aim, axis=1)[:, None]
    distance, geom = np.empty(len(aim)), np.empty(len(aim), np.int32)
    mujoco.mj_multiRay(model, data, np.zeros(3), aim.ravel(), None, True, -1, geom, distance, None, len(aim), 1e3)
    lidar = Lidar(scene, LidarSettings(beams=1))
    ours = lidar.tracer.cast(np.array(list(lidar.values.values())), 0.0 * aim, aim)[0]
    both = (geom >= 0) & np.isfinite(ours)
    # round bodies are polyhedra here, whose rims rays may miss
    assert (both == (geom >= 0)).mean() > 0.99 and (both == np.isfinite(ours)).mean() > 0.99
    flat = both & np.isin(geom, [0, 1, 3])
    assert np.mean(np.abs(ours - distance)[flat] < 1e-9) > 0.97 and np.median(np.abs(ours - distance)[both]) < 1e-3


def test_a_geom_of_an_unknown_material_is_refused_or_of_the_default(tmp_path):
    (tmp_path / "model.xml").write_text(MJCF)
    with pytest.raises(ValueError, match="clear, which is none of wall"):
        scene_of_mjcf(tmp_path / "model.xml", WALL)
    assert set(scene_of_mjcf(tmp_path / "model.xml", WALL, "wall").body("round").mesh.material) == {"wall"}
    assert math.isclose(scene_of_mjcf(tmp_path / "model.xml", WALL, "wall").body("round").pose[1], 1.0)


SHAPES = """
materials:
  wall: {albedo: 0.6}
  dark: {albedo: 0.1}
bodies:
  - {name: walls, room: [2.0, 1.0, 0.3], material: wall}
  - {name: board, stripes: [0.03, 4, 0.3], material: [wall, dark], pose: [0.5, 0, 0, 0, 0, 0], soft: true}
values: {sensor.x: -0.3, diode.c: 0.01}
"""


def test_a_scene_of_shapes_is_that_made_in_code(tmp_path):
    (tmp_path / "scene.yaml").write_text(SHAPES)
    scene, values = scene_of_file(tmp_path / "scene.yaml")
    assert values == {"sensor.x": -0.3, "diode.c": 0.01} and scene.body("board").soft
    assert scene.body("board").mesh.material[::2] == ("wall", "dark", "wall", "dark")
    ahead = Lidar(scene, LidarSettings(beams=1, middle=0.02), values | {"diode.c": 0.0}).scan().range[0]
    assert ahead == pytest.approx(0.8 / math.cos(0.02), abs=1e-3)


@pytest.mark.parametrize(
    "old, new, said",
    [
        ("room: [2.0, 1.0, 0.3]", "room: [2.0, 1.0]", "a room is told by 3 numbers, found 2"),
        ("room: [2.0, 1.0, 0.3]", "room: [2.0, -1.0, 0.3]", "positive"),
        ("room: [2.0, 1.0, 0.3]", "cave: 3", "one of mesh"),
        ("room: [2.0, 1.0, 0.3]", "room: [2.0, 1.0, 0.3], mesh: a.obj", "one of mesh"),
        ("sensor.x: -0.3", "sensor.height: 1", "no parameter"),
        ("sensor.x: -0.3", "sensor.x: .nan", "finite"),
        ("material: wall", "material: fog", "none of the scene's materials"),
        ("bodies:", "bodies: [", "no YAML"),
    ],
)
def test_what_is_no_scene_of_shapes_is_said(tmp_path, old, new, said):
    (tmp_path / "scene.yaml").write_text(SHAPES.replace(old, new, 1))
    with pytest.raises(ValueError, match=said):
        scene_of_file(tmp_path / "scene.yaml")
    with pytest.raises(FileNotFoundError, match="nothing is there"):
        scene_of_file(tmp_path / "other.yaml")
