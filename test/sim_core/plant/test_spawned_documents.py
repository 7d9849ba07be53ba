"""Ordinary MJCF and URDF documents as objects of the scene: they fall, collide and go, and bring no scene with them."""

import mujoco
import numpy as np
import pytest
import trimesh

from sim_core.plant import EntityError, MujocoPlant

MUG = """
<mujoco model="kitchen">
  <option timestep="0.004" gravity="0 0 3"/>
  <worldbody>
    <light pos="0 0 3"/>
    <camera name="overview"/>
    <geom name="floor" type="plane" size="1 1 0.1"/>
    <body name="mug" pos="0 0 0.1">
      <freejoint/>
      <geom type="cylinder" size="0.03 0.05" mass="0.3"/>
      <body name="lid" pos="0 0 0.06"><joint name="lid" axis="1 0 0"/><geom type="box" size="0.03 0.03 0.002" mass="0.02"/></body>
    </body>
  </worldbody>
  <keyframe><key qpos="0 0 1 1 0 0 0 0"/></keyframe>
</mujoco>
"""
DOOR = """<?xml version="1.0"?>
<!-- a door in its frame -->
<robot name="door">
  <link name="frame">
    <inertial><mass value="2"/><inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"/></inertial>
    <collision><geometry><box size="0.2 0.2 0.2"/></geometry></collision>
  </link>
  <link name="leaf"><inertial><mass value="1"/><inertia ixx="0.01" ixy="0" ixz="0" iyy="0.01" iyz="0" izz="0.01"/></inertial></link>
  <joint name="hinge" type="revolute">
    <parent link="frame"/><child link="leaf"/><axis xyz="0 0 1"/><limit lower="-1" upper="1" effort="1" velocity="1"/>
  </joint>
</robot>
"""


@pytest.mark.parametrize("text, mass, inner", [(MUG, 0.32, "thing/lid"), (DOOR, 3.0, "thing/hinge")])
@pytest.mark.parametrize("by_uri", [False, True])
def test_a_document_falls_and_goes(arm, tmp_path, text, mass, inner, by_uri):
    path = tmp_path / "a thing.xml"
    path.write_text(text)
    plant = MujocoPlant(arm)
    size, step = plant.world.model.nq, plant.world.model.opt.timestep
    what = {"uri": path.as_uri().replace(" ", "%20")} if by_uri else {"text": text}
    plant.spawn("thing", **what, position=(5.0, 0.0, 100.0))
    m = plant.world.model
    thing = m.body("thing").id
    assert m.body_subtreemass[thing] == pytest.approx(mass)
    assert inner in [m.joint(i).name for i in range(m.njnt)] and m.nq == size + 8
    assert m.opt.timestep == step and m.opt.gravity[2] == -9.81
    assert not any(m.geom_type[g] == mujoco.mjtGeom.mjGEOM_PLANE for g in range(m.ngeom) if m.geom_bodyid[g] == thing)
    before = plant.entity_state("thing")
    for _ in range(100):
        plant.tick()
    t, after = plant.t, plant.entity_state("thing")
    assert after.linear[2] == pytest.approx(-9.81 * t, rel=1e-6) and after.position[2] < before.position[2]
    plant.set_entity_state("thing", position=(6.0, 0.0, 50.0))
    np.testing.assert_allclose(plant.entity_state("thing").position, [6.0, 0.0, 50.0])
    plant.delete("thing")
    assert list(plant.entities()) == ["arm"] and plant.world.model.nq == size


def test_what_no_object_can_be_is_refused_with_a_reason(arm):
    plant = MujocoPlant(arm)
    with pytest.raises(EntityError, match="2 bodies of the resource are free"):
        body = '<body><freejoint/><geom size="0.1"/></body>'
        plant.spawn("two", text=f"<mujoco><worldbody>{body}{body}</worldbody></mujoco>")
    with pytest.raises(EntityError, match="not well-formed"):
        plant.spawn("broken", text="<robot name='a'><link></robot>")
    assert list(plant.entities()) == ["arm"]


@pytest.mark.parametrize("kind", ["mjcf", "mjcf in assets", "urdf", "urdf of a package"])
def test_meshes_lie_beside_their_document(arm, tmp_path, kind):
    """Wherever the plant was started."""
    folder = tmp_path / "cup" / "model"
    for name in ("cup.stl", "assets/cup.stl"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        trimesh.creation.box(extents=(0.1, 0.2, 0.3)).export(folder / name)
    mesh = {"urdf": "cup.stl", "urdf of a package": "package://cup/model/assets/cup.stl"}.get(kind)
    text = (
        f'''<robot name="cup"><link name="cup"><inertial><mass value="0.2"/><inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1"
        iyz="0" izz="0.1"/></inertial><visual><geometry><mesh filename="{mesh}"/></geometry></visual></link></robot>'''
        if mesh
        else f"""<mujoco>{'<compiler meshdir="assets"/>' if kind == "mjcf in assets" else ""}<asset><mesh name="cup" file="cup.stl"/></asset>
        <worldbody><body><freejoint/><geom type="mesh" mesh="cup" mass="0.2"/></body></worldbody></mujoco>"""
    )
    path = folder / ("cup.urdf" if mesh else "cup.xml")
    path.write_text(text)
    plant = MujocoPlant(arm)
    plant.spawn("cup", uri=str(path), position=(5.0, 0.0, 1.0))
    m = plant.world.model
    assert m.nmesh == 1 and m.body_subtreemass[m.body("cup").id] == pytest.approx(0.2)
    np.testing.assert_allclose(sorted(np.ptp(m.mesh_vert, axis=0)), (0.1, 0.2, 0.3), atol=1e-6)


def test_a_mesh_that_is_not_there_is_named(arm, tmp_path):
    path = tmp_path / "cup.urdf"
    path.write_text(
        '<robot name="cup"><link name="cup"><visual><geometry><mesh filename="package://nowhere/cup.stl"/></geometry>'
        "</visual></link></robot>"
    )
    with pytest.raises(EntityError, match="'package://nowhere/cup.stl' of the resource is not on the machine"):
        MujocoPlant(arm).spawn("cup", uri=path.as_uri())
