"""Models that the dynamics tests run on, and second implementations to compare with."""

import copy
from importlib.util import find_spec
from pathlib import Path

import mujoco
import numpy as np
import pinocchio

PENDULUM = """
<mujoco model="pendulum">
  <option timestep="0.002" integrator="Euler"/>
  <worldbody>
    <body name="bob" pos="0.1 0.2 0.3" euler="20 0 0">
      <joint name="pivot" type="hinge" axis="0 1 0" pos="0 0 0.5" damping="0.2" armature="0.01" stiffness="3" springref="20"/>
      <inertial pos="0 0.05 -0.3" mass="0.7" diaginertia="0.02 0.03 0.015"/>
      <site name="tip" pos="0 0 -0.5"/>
    </body>
  </worldbody>
  <actuator><motor name="pivot" joint="pivot" gear="2.5" ctrlrange="-3 3"/></actuator>
</mujoco>
"""

# Everything a tree may contain: several joints per body, skew axes, off-centre anchors, reference angles, fixed bodies
# with turned frames on moving and static bodies, branches, springs, servo actuators with force limits.
ZOO = """
<mujoco model="zoo">
  <compiler angle="radian" autolimits="true"/>
  <option timestep="0.002" integrator="implicitfast" gravity="0.5 -1 -9.5"/>
  <default><geom contype="0" conaffinity="0" density="500"/></default>
  <worldbody>
    <body name="stand" pos="0.1 0 0.4" euler="0.3 -0.2 0.9">
      <geom type="box" size="0.1 0.1 0.1"/>
      <site name="stand_site" pos="0 0 0.1"/>
      <body name="gantry" pos="0 0.2 0.1" euler="0.1 0.2 0.3">
        <joint name="slide" type="slide" axis="1 0 0" damping="2" armature="0.5"/>
        <joint name="swivel" type="hinge" axis="0 0 -1" pos="0.05 0.02 0.1" damping="0.3" ref="0.4"/>
        <joint name="tilt" type="hinge" axis="0.6 0 0.8" pos="-0.03 0.1 0" stiffness="7" springref="-0.2"/>
        <inertial pos="0.02 0.1 -0.04" mass="1.7" fullinertia="0.02 0.03 0.025 0.002 -0.003 0.001"/>
        <body name="plate" pos="0.1 0.2 0.3" euler="1 0.5 -0.7">
          <inertial pos="0.05 0 0.02" mass="0.4" fullinertia="0.004 0.003 0.005 0.0002 0.0003 -0.0001"/>
          <site name="plate_site" pos="0.1 0.1 0" euler="0.3 0.2 0.1"/>
          <body name="arm" pos="0.2 0 0" euler="0 1.5707963267948966 0">
            <joint name="elbow" type="hinge" axis="0 1 0" armature="0.02" damping="0.1" range="-2 2"/>
            <geom type="capsule" fromto="0 0 0 0.3 0 0.1" size="0.03"/>
            <body name="rod" pos="0.3 0 0.1">
              <joint name="extend" type="slide" axis="0.3 -0.5 0.81" damping="1"/>
              <geom type="box" pos="0.05 0 0" size="0.1 0.02 0.03"/>
            </body>
          </body>
        </body>
        <body name="tail" pos="-0.3 0 0" euler="-0.4 0.8 0">
          <joint name="wag" type="hinge" axis="-1 0 0" damping="0.05" armature="0.01"/>
          <geom type="ellipsoid" pos="0 0.1 -0.2" size="0.05 0.1 0.2"/>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator>
    <motor name="slide" joint="slide" gear="3" ctrlrange="-10 10"/>
    <position name="elbow" joint="elbow" kp="20" kv="2" gear="1.5" forcerange="-15 15"/>
    <velocity name="wag" joint="wag" kv="0.8"/>
    <general name="affine" joint="swivel" gaintype="affine" gainprm="2 0.5 0.3" biastype="affine" biasprm="1 -2 -0.4"/>
  </actuator>
</mujoco>
"""

# A free-flying trunk with two legs, its six freedoms as three slides and three hinges.
FLOATING = """
<mujoco model="floating">
  <option timestep="0.001" integrator="RK4"/>
  <default><geom contype="0" conaffinity="0" density="800"/><joint type="hinge"/></default>
  <worldbody>
    <body name="trunk" pos="0 0 1">
      <joint name="x" type="slide" axis="1 0 0"/>
      <joint name="y" type="slide" axis="0 1 0"/>
      <joint name="z" type="slide" axis="0 0 1"/>
      <joint name="yaw" axis="0 0 1"/>
      <joint name="pitch" axis="0 1 0"/>
      <joint name="roll" axis="1 0 0"/>
      <geom type="box" size="0.2 0.1 0.05"/>
      <body name="left_thigh" pos="0.1 0.1 0">
        <joint name="left_hip" axis="0 1 0"/>
        <geom type="capsule" fromto="0 0 0 0 0 -0.2" size="0.02"/>
        <body name="left_shank" pos="0 0 -0.2">
          <joint name="left_knee" axis="0 1 0"/>
          <geom type="capsule" fromto="0 0 0 0 0 -0.2" size="0.015"/>
        </body>
      </body>
      <body name="right_thigh" pos="0.1 -0.1 0">
        <joint name="right_hip" axis="1 0 0"/>
        <geom type="capsule" fromto="0 0 0 0 0 -0.2" size="0.02"/>
      </body>
    </body>
  </worldbody>
</mujoco>
"""

DOUBLE_PENDULUM = """
<mujoco model="double_pendulum">
  <option timestep="0.001" integrator="RK4"/>
  <worldbody>
    <body name="upper" pos="0 0 2">
      <joint name="shoulder" type="hinge" axis="0 1 0"/>
      <geom type="capsule" fromto="0 0 0 0 0 -1" size="0.03" mass="1" contype="0" conaffinity="0"/>
      <body name="lower" pos="0 0 -1">
        <joint name="elbow" type="hinge" axis="0 1 0"/>
        <geom type="capsule" fromto="0 0 0 0 0 -0.8" size="0.03" mass="0.6" contype="0" conaffinity="0"/>
      </body>
    </body>
  </worldbody>
</mujoco>
"""

# A free trunk of off-centre mass with a ball-jointed tail of two and a hinged arm, and a loose body of its own: balls at
# anchors off the bodies' origins, damping, armature, springs and friction on them.
BALLS = """
<mujoco model="balls">
  <compiler angle="radian"/>
  <option timestep="0.002" integrator="Euler" gravity="0.3 -0.5 -9.7"/>
  <default><geom contype="0" conaffinity="0" density="600"/></default>
  <worldbody>
    <body name="trunk" pos="0.3 -0.2 1" euler="0.4 0.2 -0.5">
      <freejoint name="base"/>
      <inertial pos="0.05 -0.03 0.08" mass="2.3" fullinertia="0.03 0.04 0.035 0.002 -0.004 0.003"/>
      <body name="tail1" pos="-0.2 0.05 0.1" euler="0.1 0.7 0.3">
        <joint name="root" type="ball" pos="0.02 -0.01 0.03" damping="0.05" armature="0.01" stiffness="1.5"/>
        <geom type="capsule" fromto="0 0 0 -0.3 0.05 0" size="0.03"/>
        <body name="tail2" pos="-0.3 0.05 0" euler="-0.4 0 0.2">
          <joint name="mid" type="ball"/>
          <geom type="box" pos="-0.1 0.02 0" size="0.1 0.02 0.03"/>
          <site name="tip" pos="-0.2 0 0.01" euler="0.2 0.1 0.4"/>
        </body>
      </body>
      <body name="arm" pos="0.2 0 0" euler="0 0.3 0">
        <joint name="elbow" type="hinge" axis="0 0.6 0.8" damping="0.1" ref="0.3"/>
        <geom type="capsule" fromto="0 0 0 0.25 0 0.05" size="0.025"/>
      </body>
    </body>
    <body name="post" pos="1 0 1.5" euler="0.5 0 0">
      <joint name="slide" type="slide" axis="0 0 1" damping="1"/>
      <joint name="gimbal" type="ball" pos="0 0.1 0"/>
      <geom type="ellipsoid" pos="0.05 0 -0.2" size="0.05 0.1 0.2"/>
    </body>
    <body name="loose" pos="0 1 1"><joint name="loose" type="free" damping="0.02" armature="0.03"/>
      <geom type="box" size="0.1 0.05 0.03" pos="0.01 0.02 0.05"/></body>
  </worldbody>
  <actuator><motor name="elbow" joint="elbow" ctrlrange="-2 2"/></actuator>
</mujoco>
"""

OWN = {
    "pendulum": PENDULUM,
    "cartpole": "cartpole",
    "double_cartpole": "double_cartpole",
    "panda": "panda",
    "zoo": ZOO,
    "floating": FLOATING,
}

# nq != nv
QUATERNIONS = {
    "balls": BALLS,
}

URDF = {
    "ur5": "ur_description/urdf/ur5_robot.urdf",
    "a1": "a1_description/urdf/a1.urdf",
    "solo12": "solo_description/robots/solo12.urdf",
    "kinova": "kinova_description/robots/kinova.urdf",
    "z1": "z1_description/urdf/z1.urdf",
}


def example_urdf(name):
    """Path of a robot in example-robot-data, or None where the package is not installed."""
    prefix = find_spec("cmeel")
    site = Path(pinocchio.__file__).resolve().parents[1]
    for root in (site, *site.parents, *([Path(prefix.origin).parent.parent] if prefix and prefix.origin else [])):
        for share in (root / "cmeel.prefix/share", root / "share"):
            path = share / "example-robot-data/robots" / URDF[name]
            if path.is_file():
                return path
    return None


def random_states(model, count, seed, spread=1.0):
    """q, v, u with one column per sample; controls inside their bounds."""
    rng = np.random.default_rng(seed)
    q = rng.uniform(-np.pi, np.pi, (model.nq, count)) * spread
    if "pitch" in model.joint_names:  # away from the angles where the three hinges of a trunk line up
        q[model.joint_index("pitch")] *= 0.4
    for link in model.links:
        if link.kind == "ball":
            quaternions = q[link.positions] / np.pi + (1 - min(spread, 1.0)) * np.array([[4.0], [0.0], [0.0], [0.0]])
            q[link.positions] = quaternions / np.linalg.norm(quaternions, axis=0)
    v = rng.normal(size=(model.nv, count)) * 3.0 * spread
    bound = np.minimum(np.where(np.isfinite(model.u_upper), model.u_upper, 5.0), 50.0)
    u = rng.uniform(-1, 1, (model.nu, count)) * bound[:, None]
    return q, v, u


def without_constraints(model):
    """A copy of the model's MjModel in which only forces act."""
    mj_model = copy.copy(model.mj_model)
    mj_model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    return mj_model


def mujoco_accelerations(mj_model, q, v, u):
    data, out = mujoco.MjData(mj_model), np.empty_like(v)
    for k in range(q.shape[1]):
        data.qpos, data.qvel = q[:, k], v[:, k]
        if mj_model.nu:
            data.ctrl = u[:, k]
        mujoco.mj_forward(mj_model, data)
        out[:, k] = data.qacc
    return out


def pinocchio_from_mujoco(m):
    """The same tree as a pinocchio.Model, built joint by joint; q measured from the reference."""
    model = pinocchio.Model()
    model.gravity.linear = m.opt.gravity.copy()
    joint_of, pose_of = [0], [pinocchio.SE3.Identity()]

    def pose(pos, quat):
        R = np.zeros(9)
        mujoco.mju_quat2Mat(R, quat)
        return pinocchio.SE3(R.reshape(3, 3), pos.copy())

    for i in range(1, m.nbody):
        parent = m.body_parentid[i]
        joint, placement = joint_of[parent], pose_of[parent] * pose(m.body_pos[i], m.body_quat[i])
        for j in range(m.body_jntadr[i], m.body_jntadr[i] + m.body_jntnum[i]):
            at_anchor = pinocchio.SE3(np.eye(3), m.jnt_pos[j].copy())
            kind = mujoco.mjtJoint(int(m.jnt_type[j])).name
            if kind == "mjJNT_FREE":
                joint = model.addJoint(0, pinocchio.JointModelTranslation(), pinocchio.SE3.Identity(), f"joint{j}_xyz")
                at_anchor = placement = pinocchio.SE3.Identity()
            motion = {
                "mjJNT_HINGE": lambda: pinocchio.JointModelRevoluteUnaligned(m.jnt_axis[j]),
                "mjJNT_SLIDE": lambda: pinocchio.JointModelPrismaticUnaligned(m.jnt_axis[j]),
            }.get(kind, pinocchio.JointModelSpherical)()
            joint = model.addJoint(joint, motion, placement * at_anchor, f"joint{j}")
            placement = at_anchor.inverse()
        if joint:
            inertia = pinocchio.Inertia(float(m.body_mass[i]), np.zeros(3), np.diag(m.body_inertia[i]))
            model.appendBodyToJoint(joint, inertia, placement * pose(m.body_ipos[i], m.body_iquat[i]))
        joint_of.append(joint)
        pose_of.append(placement)
    model.armature = m.dof_armature.copy()
    return model


def pinocchio_accelerations(model, joint_names, q, v, tau):
    """ABA with our order of joints; continuous joints get (cos, sin)."""
    data, out = model.createData(), np.empty_like(v)
    joints = [model.joints[model.getJointId(name)] for name in joint_names]
    order = [joint.idx_v for joint in joints]
    full_q, full_v, full_tau = pinocchio.neutral(model), np.zeros(model.nv), np.zeros(model.nv)
    for k in range(q.shape[1]):
        for joint, angle in zip(joints, q[:, k]):
            value = angle if joint.nq == 1 else (np.cos(angle), np.sin(angle))
            full_q[joint.idx_q : joint.idx_q + joint.nq] = value
        full_v[order], full_tau[order] = v[:, k], tau[:, k]
        out[:, k] = pinocchio.aba(model, data, full_q, full_v, full_tau)[order]
    return out


def in_pinocchios_order(model, q):
    """q (nq, count) from the reference, with quaternions (x, y, z, w)."""
    q = q.copy()
    for link in model.links:
        if link.kind == "ball":
            q[link.positions] = np.roll(q[link.positions], -1, axis=0)
        else:
            q[link.q_index] -= link.q_ref
    return q


def relative_error(a, b):
    """Largest error per sample, relative to the sample's largest entry."""
    scale = np.abs(b).max(axis=0)
    return float((np.abs(a - b).max(axis=0) / np.where(scale > 0, scale, 1.0)).max())
