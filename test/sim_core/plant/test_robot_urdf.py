"""The URDF made of a model says what the MJCF says: against MuJoCo and, by two parsers, Pinocchio and our own reader."""

import xml.etree.ElementTree as ElementTree

import mujoco
import numpy as np
import pytest

from config.robot import robot_file, robot_names
from sim_core.multibody import build, load_model
from sim_core.plant.robot_urdf import robot_urdf

# What the shipped robots have not: several joints per body, skew axes, off-centre anchors, reference angles, a turned and
# loaded site, a pitch of 90 degrees, a coupling of joints, a mesh, and a second body in the world.
ODD = """
<mujoco model="odd">
  <compiler angle="radian" autolimits="true"/>
  <option gravity="0 0 -9.81"/>
  <asset><mesh name="wedge" vertex="0 0 0  0.1 0 0  0 0.1 0  0 0 0.2"/></asset>
  <worldbody>
    <body name="table" pos="1 0 0"><geom type="box" size="0.1 0.2 0.3"/></body>
    <body name="stand" pos="0.1 0 0.4" euler="0.3 -0.2 0.9">
      <geom type="mesh" mesh="wedge" rgba="1 0 0 1"/>
      <body name="gantry" pos="0 0.2 0.1" euler="0.1 0.2 0.3">
        <joint name="slide" type="slide" axis="1 0 0" damping="2" ref="0.1" range="-1 2"/>
        <joint name="swivel" axis="0 0 -1" pos="0.05 0.02 0.1" damping="0.3" ref="0.4"/>
        <joint name="tilt" axis="0.6 0 0.8" pos="-0.03 0.1 0"/>
        <inertial pos="0.02 0.1 -0.04" mass="1.7" fullinertia="0.02 0.03 0.025 0.002 -0.003 0.001"/>
        <body name="arm" pos="0.2 0 0" euler="0.4 1.5707963267948966 0.2">
          <joint name="elbow" axis="0 1 0" range="-2 2" frictionloss="0.3"/>
          <geom type="capsule" fromto="0 0 0 0.3 0 0.1" size="0.03"/>
          <site name="tip" pos="0.3 0 0.1" euler="0.3 0.2 0.1"/>
          <body name="rod" pos="0.3 0 0.1">
            <joint name="extend" type="slide" axis="0.3 -0.5 0.81" damping="1"/>
            <geom type="box" pos="0.05 0 0" size="0.1 0.02 0.03"/>
          </body>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator><motor joint="elbow" gear="3" ctrlrange="-2 4"/></actuator>
</mujoco>
"""
ROBOTS = {**{name: str(robot_file(name)) for name in robot_names()}, "odd": ODD}


def compiled(name):
    source = ROBOTS[name]
    m = mujoco.MjModel.from_xml_string(source) if "<" in source else mujoco.MjModel.from_xml_path(source)
    # What URDF cannot say.
    m.dof_armature[:] = m.opt.density = m.opt.viscosity = 0.0
    m.opt.gravity[:] = 0.0, 0.0, -9.81
    m.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    return m


def is_free(m):
    return m.jnt_type[0] == mujoco.mjtJoint.mjJNT_FREE


def motions(m, count=20):
    """(qpos, qvel, force) at random, free bases anywhere."""
    rng, data = np.random.default_rng(3), mujoco.MjData(m)
    for _ in range(count):
        data.qpos[:] = m.qpos0
        mujoco.mj_integratePos(m, data.qpos, rng.normal(size=m.nv), 1.0)
        yield data.qpos.copy(), rng.normal(size=m.nv), rng.normal(size=m.nv) * 5.0


def truth(m, data, qpos, qvel, force):
    """MuJoCo's accelerations and mass matrix, without damping and friction; data is left posed."""
    data.qpos[:], data.qvel[:], data.qfrc_applied[:] = qpos, qvel, force
    m.dof_damping[:] = 0.0
    m.jnt_stiffness[:] = 0.0
    mujoco.mj_forward(m, data)
    M = np.zeros((m.nv, m.nv))
    mujoco.mj_fullM(m, data, M)
    return data.qacc.copy(), M


def apart(a, b):
    return np.abs(a - b).max() / max(np.abs(b).max(), 1.0)


@pytest.mark.parametrize("name", ROBOTS)
def test_pinocchio_finds_the_same_kinematics_inertias_and_dynamics(name, tmp_path):
    pinocchio = pytest.importorskip("pinocchio")
    m = compiled(name)
    data, text, free = mujoco.MjData(m), robot_urdf(m, tmp_path), is_free(m)
    p = (
        pinocchio.buildModelFromXML(text, pinocchio.JointModelFreeFlyer())
        if free
        else pinocchio.buildModelFromXML(text)
    )
    pd = p.createData()
    assert p.nv == m.nv
    joints = [p.joints[p.getJointId(m.joint(j).name)] for j in range(free, m.njnt)]
    order = [*range(6 * free), *(joint.idx_v for joint in joints)]
    for qpos, qvel, force in motions(m):
        qacc, M = truth(m, data, qpos, qvel, force)
        q, v, tau = pinocchio.neutral(p), np.zeros(p.nv), np.zeros(p.nv)
        T = np.eye(m.nv)  # from MuJoCo's velocities to Pinocchio's, whose free body moves in its own axes
        if free:
            q[:7] = [*qpos[:3], *qpos[4:7], qpos[3]]
            T[:3, :3] = data.body(1).xmat.reshape(3, 3).T
        for joint, angle in zip(joints, qpos[7 * free :]):
            q[joint.idx_q : joint.idx_q + joint.nq] = angle if joint.nq == 1 else (np.cos(angle), np.sin(angle))
        v[order], tau[order] = T @ qvel, T @ force
        pinocchio.framesForwardKinematics(p, pd, q)
        for kind, count, where in (("body", m.nbody, data.xpos), ("site", m.nsite, data.site_xpos)):
            turned = data.xmat if kind == "body" else data.site_xmat
            for i in range(1 if kind == "body" else 0, count):
                pose = pd.oMf[p.getFrameId(getattr(m, kind)(i).name, pinocchio.FrameType.BODY)]
                np.testing.assert_allclose(pose.translation, where[i], atol=1e-9)
                np.testing.assert_allclose(pose.rotation.ravel(), turned[i], atol=1e-9)
        upper = pinocchio.crba(p, pd, q)
        symmetric = np.triu(upper) + np.triu(upper, 1).T
        assert apart(T.T @ symmetric[np.ix_(order, order)] @ T, M) < 1e-9
        a = T.T @ pinocchio.aba(p, pd, q, v, tau)[order]
        if free:  # the acceleration of a moving point in turning axes
            a[:3] += np.cross(T[:3, :3].T @ (T @ qvel)[3:6], qvel[:3])
        assert apart(a, qacc) < 1e-9


def independent(m):
    """G (nv, n) of v = G w, where w are the velocities of the joints that follow no other (shifts are zero here)."""
    G, followers = np.eye(m.nv), []
    for e in range(m.neq):
        follower, leader = (m.jnt_dofadr[j[e]] for j in (m.eq_obj1id, m.eq_obj2id))
        G[follower], shift = m.eq_data[e, 1] * G[leader], m.eq_data[e, 0]
        assert m.eq_type[e] == mujoco.mjtEq.mjEQ_JOINT and shift == 0.0 and not np.any(m.eq_data[e, 2:5])
        followers.append(follower)
    return np.delete(G, followers, axis=1)


@pytest.mark.parametrize("name", ROBOTS)
def test_our_own_reader_finds_the_same(name, tmp_path):
    m = compiled(name)
    data, free = mujoco.MjData(m), is_free(m)
    model = load_model(robot_urdf(m, tmp_path), floating_base=bool(free))
    again, there = model.mj_model, mujoco.MjData(model.mj_model)
    again.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    np.testing.assert_allclose(again.dof_damping[6 * free :], m.dof_damping[6 * free :], rtol=1e-12)
    np.testing.assert_allclose(again.dof_frictionloss[6 * free :], m.dof_frictionloss[6 * free :], rtol=1e-12)
    limited = m.jnt_limited.astype(bool)
    np.testing.assert_allclose(again.jnt_range[limited], m.jnt_range[limited])
    driven = [m.actuator(i).trnid[0] for i in range(m.nactuator)]
    np.testing.assert_allclose(
        again.jnt_actfrcrange[driven, 1],
        [np.abs(m.actuator_ctrlrange[i]).max() * m.actuator_gear[i, 0] for i in range(m.nactuator)],
    )
    accelerations, G = build.forward_dynamics(model) if not free else None, independent(m)
    leads = np.linalg.pinv(G)
    for qpos, qvel, force in motions(m):
        if accelerations is not None:  # joints that follow others lie where those put them
            qpos, qvel = G @ (leads @ qpos), G @ (leads @ qvel)
        qacc, M = truth(m, data, qpos, qvel, force)
        if accelerations is not None:
            ours = accelerations(leads @ qpos, leads @ qvel, G.T @ force, model.parameters.nominal).full().ravel()
            assert apart(ours, np.linalg.solve(G.T @ M @ G, G.T @ M @ qacc)) < 1e-9
        again_qacc, again_M = truth(again, there, qpos, qvel, force)
        assert apart(again_M, M) < 1e-9 and apart(again_qacc, qacc) < 1e-9
        for i in range(1, m.nbody):
            np.testing.assert_allclose(there.body(m.body(i).name).xpos, data.body(i).xpos, atol=1e-9)


def test_shapes_become_those_that_urdf_knows(tmp_path):
    """Mass is spread over the capsule's length: its parts must lie where the capsule does. The mesh comes as it is."""
    m = compiled("odd")
    robot = ElementTree.fromstring(robot_urdf(m, tmp_path))
    links = {link.get("name"): link for link in robot.findall("link")}
    capsule = [shape[1][0] for shape in links["arm"].findall("visual")]
    assert [shape.tag for shape in capsule] == ["cylinder", "sphere", "sphere"]
    assert float(capsule[0].get("length")) == pytest.approx(np.hypot(0.3, 0.1))
    ends = [[float(x) for x in v.find("origin").get("xyz").split()] for v in links["arm"].findall("visual")[1:]]
    np.testing.assert_allclose(sorted(ends), [[0, 0, 0], [0.3, 0, 0.1]], atol=1e-12)
    assert links["table"].find("visual/geometry/box").get("size") == "0.2 0.4 0.6"
    mesh = links["stand"].find("visual")
    file = mesh.find("geometry/mesh").get("filename")
    assert file.startswith("file://") and len(list(tmp_path.iterdir())) == 1
    again = mujoco.MjModel.from_xml_string(
        f'<mujoco><asset><mesh name="m" file="{file.removeprefix("file://")}"/></asset>'
        '<worldbody><body name="b"><geom type="mesh" mesh="m"/></body></worldbody></mujoco>'
    )
    stand = m.body("stand")
    assert again.body("b").mass == pytest.approx(stand.mass, rel=1e-6)
    offset = [float(x) for x in mesh.find("origin").get("xyz").split()]
    np.testing.assert_allclose(offset, m.geom_pos[stand.geomadr[0]], atol=1e-9)
    assert mesh.find("material/color").get("rgba") == "1.0 0.0 0.0 1.0"


def test_joints_that_follow_others_mimic_them():
    m = mujoco.MjModel.from_xml_string(
        '<mujoco><worldbody><body name="a"><joint name="a" ref="10"/><geom size="0.1"/>'
        '<body name="b"><joint name="b" ref="20"/><geom size="0.1"/></body></body></worldbody>'
        '<equality><joint joint1="b" joint2="a" polycoef="0.1 2 0 0 0"/></equality></mujoco>'
    )
    mimic = ElementTree.fromstring(robot_urdf(m)).find("joint[@name='b']/mimic")
    assert mimic.get("joint") == "a" and float(mimic.get("multiplier")) == 2.0
    assert float(mimic.get("offset")) == pytest.approx(np.deg2rad(20) + 0.1 - 2 * np.deg2rad(10))


@pytest.mark.parametrize("name", ROBOTS)
def test_there_is_one_base_link(name):
    robot = ElementTree.fromstring(robot_urdf(compiled(name)))
    names = [link.get("name") for link in robot.findall("link")]
    assert names.count("base_link") == 1 and len(set(names)) == len(names)
    assert len({joint.get("name") for joint in robot.findall("joint")}) == len(names) - 1
