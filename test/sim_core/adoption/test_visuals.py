"""What a robot that somebody brings looks like: its shapes where they belong, and nothing else of it changed."""

import xml.etree.ElementTree as ElementTree

import mujoco
import numpy as np
import pytest
import trimesh
from brought_arms import spatial

from sim_core.adoption import adopted
from sim_core.adoption.adopt import name_of
from sim_core.adoption.adopter import adopt
from sim_core.adoption.side_file import SideFile
from sim_core.adoption.visuals import MOST, coarser, visuals_of
from sim_core.plant.robot_urdf import robot_urdf

LOOKS = {
    "link2": """<visual><origin xyz="0.1 -0.02 0.3" rpy="0.4 -0.7 1.9"/><geometry><box size="0.2 0.1 0.04"/></geometry>
      <material name="red"/></visual>
      <visual><geometry><sphere radius="0.03"/></geometry></visual>""",
    "link4": """<visual><origin rpy="0 1.2 0.5"/><geometry><cylinder radius="0.02" length="0.3"/></geometry>
      <material name="inline"><color rgba="0 0 1 0.5"/></material></visual>""",
    "flange": """<visual><origin xyz="0.01 0 0"/><geometry><mesh filename="package://my_arm/meshes/cup.stl"
      scale="0.001 0.001 0.002"/></geometry></visual>""",
}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def bring(tmp_path):
    """Writes an arm with looks into a package, which has a mesh in millimetres; gives the file."""
    package = tmp_path / "my_arm"
    (package / "meshes").mkdir(parents=True)
    (package / "urdf").mkdir()
    trimesh.creation.box(extents=(20.0, 40.0, 60.0)).export(package / "meshes" / "cup.stl")

    def written(looks=LOOKS, materials='<material name="red"><color rgba="1 0 0 1"/></material>'):
        robot = ElementTree.fromstring(spatial())
        robot.append(ElementTree.fromstring(materials))
        for link in robot.findall("link"):
            link.extend(ElementTree.fromstring(f"<all>{looks.get(link.get('name'), '')}</all>"))
        path = package / "urdf" / "arm.urdf"
        path.write_text(ElementTree.tostring(robot, encoding="unicode"))
        return path

    return written


def understood(path):
    return adopt(path, name_of(path), SideFile())


def seen(model, body):
    """(type, size, pose in the world, colour) of a body's geoms, at zero."""
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    b = model.body(body).id
    return [
        (model.geom_type[g], model.geom_size[g], data.geom_xpos[g].copy(), data.geom_xmat[g].copy(), model.geom_rgba[g])
        for g in range(model.ngeom)
        if model.geom_bodyid[g] == b
    ]


def test_simple_shapes_are_where_mujoco_has_them(bring):
    path = bring({link: look for link, look in LOOKS.items() if link != "flange"})
    ours = understood(path).model
    text = path.read_text().replace(
        "</robot>",
        '<mujoco><compiler discardvisual="false" fusestatic="false" balanceinertia="true"/></mujoco></robot>',
    )
    theirs = mujoco.MjModel.from_xml_string(text)
    for body, count in (("link2", 2), ("link4", 1)):
        mine, known = seen(ours, body), seen(theirs, body)
        assert len(mine) == len(known) == count
        for a, b in zip(mine, known):
            assert a[0] == b[0]
            np.testing.assert_allclose(a[1], b[1], atol=1e-9)
            np.testing.assert_allclose(a[2], b[2], atol=1e-7)
            np.testing.assert_allclose(a[3], b[3], atol=1e-7)
    assert seen(ours, "link2")[0][4] == pytest.approx((1, 0, 0, 1))
    assert seen(ours, "link4")[0][4] == pytest.approx((0, 0, 1, 0.5))


def corners(model, body):
    """Vertices of a body's only mesh in the axes of the body (n, 3)."""
    (g,) = [g for g in range(model.ngeom) if model.geom_bodyid[g] == model.body(body).id]
    mesh = int(model.geom_dataid[g])
    first, count = int(model.mesh_vertadr[mesh]), int(model.mesh_vertnum[mesh])
    R = np.zeros(9)
    mujoco.mju_quat2Mat(R, model.geom_quat[g])
    return model.mesh_vert[first : first + count] @ R.reshape(3, 3).T + model.geom_pos[g]


def test_a_mesh_is_where_its_file_says(bring):
    found = corners(understood(bring()).model, "flange")
    np.testing.assert_allclose(found.min(axis=0), (0.01 - 0.01, -0.02, -0.06), atol=1e-6)
    np.testing.assert_allclose(found.max(axis=0), (0.01 + 0.01, 0.02, 0.06), atol=1e-6)


def test_collada_brings_its_unit_and_its_colours(bring, tmp_path):
    pytest.importorskip("collada")
    boxes = [trimesh.creation.box(extents=(100.0, 200.0, 300.0)) for _ in range(2)]
    boxes[1].apply_translation((500.0, 0.0, 0.0))
    for box, colour in zip(boxes, ((255, 128, 0, 255), (0, 0, 255, 255))):
        box.visual.face_colors = colour
    text = trimesh.exchange.dae.export_collada(boxes).decode()
    file = tmp_path / "my_arm" / "meshes" / "two.dae"
    document = ElementTree.fromstring(text)
    asset = next(element for element in document.iter() if element.tag.endswith("}asset"))
    ElementTree.SubElement(asset, asset.tag.replace("asset", "unit"), meter="0.001", name="millimeter")
    file.write_bytes(ElementTree.tostring(document))
    look = {"link3": '<visual><geometry><mesh filename="package://my_arm/meshes/two.dae"/></geometry></visual>'}
    (visual,), notes = visuals_of(ElementTree.parse(bring(look)).getroot(), tmp_path / "my_arm" / "urdf")
    assert notes == [] and len(visual.pieces) == 2
    first, second = sorted(visual.pieces, key=lambda piece: piece.vertices[:, 0].max())
    np.testing.assert_allclose(np.ptp(first.vertices, axis=0), (0.1, 0.2, 0.3), atol=1e-6)
    np.testing.assert_allclose(second.vertices.mean(axis=0), (0.5, 0.0, 0.0), atol=1e-6)
    assert first.rgba == pytest.approx((1.0, 0.5, 0.0, 1.0), abs=0.01)
    assert second.rgba == pytest.approx((0.0, 0.0, 1.0, 1.0), abs=0.01)
    assert len(seen(understood(bring(look)).model, "link3")) == 2


def test_looks_weigh_nothing_and_touch_nothing(bring):
    plain, dressed = (understood(bring(looks)).model for looks in ({}, LOOKS))
    for quantity in ("body_mass", "body_inertia", "body_ipos", "dof_armature", "jnt_range"):
        np.testing.assert_array_equal(getattr(plain, quantity), getattr(dressed, quantity))
    shapes = [g for g in range(dressed.ngeom) if dressed.geom_bodyid[g]]
    assert len(shapes) == 4
    assert not dressed.geom_contype[shapes].any() and not dressed.geom_conaffinity[shapes].any()


def test_the_model_travels_as_one_text(bring, tmp_path):
    """So the topic that carries it is enough for everybody who draws it, RViz included."""
    path = bring()
    files = understood(path).files
    for file in (tmp_path / "my_arm" / "meshes").iterdir():
        file.unlink()
    model = mujoco.MjModel.from_xml_string(files["arm.xml"])
    assert model.nmesh == 1
    urdf = ElementTree.fromstring(robot_urdf(model, tmp_path / "stl"))
    (mesh,) = urdf.iterfind("link/visual/geometry/mesh")
    written = trimesh.load_mesh(mesh.get("filename").removeprefix("file://"))
    np.testing.assert_allclose(sorted(np.ptp(written.vertices, axis=0)), (0.02, 0.04, 0.12), atol=1e-6)


def test_what_cannot_be_shown_is_said_and_rods_take_its_place(bring, tmp_path):
    (tmp_path / "my_arm" / "meshes" / "cup.stl").write_text("no mesh at all")
    looks = {
        "link1": '<visual><geometry><mesh filename="package://elsewhere/a.stl"/></geometry></visual>',
        "link2": '<visual><geometry><mesh filename="package://my_arm/meshes/cup.stl"/></geometry></visual>',
        "link3": '<visual><geometry><torus radius="1"/></geometry></visual><visual/>',
        "link4": '<visual><geometry><box size="1 1"/></geometry></visual>',
        "link5": '<visual><geometry><sphere radius="-1"/></geometry></visual>',
    }
    found = understood(bring(looks))
    notes = " ".join(found.notes)
    assert "Meshes are not on this machine: package://elsewhere/a.stl." in notes
    assert (
        "Shapes cannot be read: cup.stl (" in notes and "<torus> of link3, <box> of link4, <sphere> of link5" in notes
    )
    kinds = {int(found.model.geom_type[g]) for g in range(found.model.ngeom) if found.model.geom_bodyid[g]}
    assert kinds == {int(mujoco.mjtGeom.mjGEOM_CYLINDER), int(mujoco.mjtGeom.mjGEOM_CAPSULE)}


def test_a_changed_mesh_renews_the_robot(bring, tmp_path):
    path = bring()
    before = adopted(str(path))
    assert adopted(str(path)) == before
    trimesh.creation.box(extents=(20.0, 40.0, 90.0)).export(tmp_path / "my_arm" / "meshes" / "cup.stl")
    assert adopted(str(path)) != before


@pytest.mark.parametrize("faces", [80 * 4**4, 80 * 4**5])
def test_a_coarser_mesh_has_the_same_shape(faces):
    level = int(np.log2(faces / 20) / 2)
    sphere = trimesh.creation.icosphere(subdivisions=level, radius=0.1)
    sphere.apply_translation((1.0, 2.0, 3.0))
    assert len(sphere.faces) == faces
    vertices, triangles = coarser(sphere.vertices, sphere.faces)
    assert MOST / 3 < len(triangles) <= MOST
    np.testing.assert_allclose(np.linalg.norm(vertices - (1.0, 2.0, 3.0), axis=1), 0.1, atol=0.004)
    few = trimesh.Trimesh(vertices, triangles)
    assert few.volume == pytest.approx(sphere.volume, rel=0.03)


def test_a_small_mesh_stays_as_it_is():
    box = trimesh.creation.box()
    vertices, triangles = coarser(box.vertices, box.faces)
    assert trimesh.Trimesh(vertices, triangles).volume == pytest.approx(1.0) and len(triangles) == 12
