"""Import of models: what is read, what is refused, what is noted."""

import dataclasses

import articulated_models as zoo
import mujoco
import numpy as np
import pytest

from config import share
from sim_core.multibody import ModelError, load_model
from sim_core.multibody.model import build
from sim_core.multibody.model.model import model_hash
from sim_core.multibody.model.options import ModelOptions

ARM = """
<mujoco model="arm">
  <compiler angle="radian" autolimits="true"/>
  {top}
  <worldbody>
    <body name="link" {body}>
      <joint name="hinge" type="hinge" axis="0 1 0" {joint}/>
      <geom name="geom" type="capsule" fromto="0 0 0 0 0 0.5" size="0.05" {geom}/>
      <site name="tip" pos="0 0 0.5"/>
      <body name="tool" pos="0 0 0.5"><geom type="sphere" size="0.05" contype="0" conaffinity="0"/></body>
    </body>
    {world}
  </worldbody>
  {bottom}
</mujoco>
"""


def arm(**parts):
    return ARM.format(**{k: "" for k in ("top", "body", "joint", "geom", "world", "bottom")} | parts)


UNSUPPORTED = {
    "equality": (
        dict(bottom='<equality><weld name="grip" body1="link" body2="world"/></equality>'),
        r"equality constraint 'grip' \(weld\).*Remove it",
    ),
    "tendon": (
        dict(bottom='<tendon><fixed name="cable"><joint joint="hinge" coef="1"/></fixed></tendon>'),
        "tendon 'cable'",
    ),
    "muscle": (
        dict(bottom='<actuator><muscle name="biceps" joint="hinge" lengthrange="0 1"/></actuator>'),
        "muscle dynamics of actuator 'biceps'",
    ),
    "filter": (
        dict(bottom='<actuator><general name="slow" joint="hinge" dyntype="filter" dynprm="0.1"/></actuator>'),
        "filter dynamics of actuator 'slow'.*dyntype",
    ),
    "site actuator": (
        dict(bottom='<actuator><motor name="jet" site="tip"/></actuator>'),
        "site transmission of actuator 'jet'.*Drive a joint",
    ),
    "wind": (dict(top='<option density="1.2" wind="0 1 0"/>'), "wind .*medium is at rest"),
    "gravity compensation": (dict(body='gravcomp="1"'), "gravity compensation of body 'link'"),
    "nonlinear damping": (dict(joint='damping="1 0.5"'), "nonlinear stiffness or damping of joint 'hinge'"),
    "mocap": (dict(world='<body name="target" mocap="true"/>'), "mocap body 'target'"),
}


@pytest.mark.parametrize("case", UNSUPPORTED)
def test_unsupported_elements_are_named(case):
    parts, message = UNSUPPORTED[case]
    with pytest.raises(ModelError, match=message):
        load_model(arm(**parts))


def test_sources_that_cannot_be_read(tmp_path):
    with pytest.raises(ModelError, match="No robot named 'pandaa'. Known: .*panda"):
        load_model("pandaa")
    with pytest.raises(ModelError, match="No model file"):
        load_model(tmp_path / "robot.xml")
    with pytest.raises(ModelError, match="not well-formed"):
        load_model("<mujoco>")
    with pytest.raises(ModelError, match="expected <mujoco> or <robot>"):
        load_model("<sdf/>")
    with pytest.raises(ModelError, match="compiler refuses"):
        load_model("<mujoco><worldbody><body><joint/></body></worldbody></mujoco>")
    with pytest.raises(ModelError, match="no joints"):
        load_model('<mujoco><worldbody><body><geom size="1"/></body></worldbody></mujoco>')


def test_robots_of_an_installed_package(tmp_path, monkeypatch):
    """Without the source tree, the folder is share/refit/config/robots of some AMENT prefix."""
    folder = tmp_path / "share/refit/config/robots"
    folder.mkdir(parents=True)
    (folder / "arm").mkdir()
    (folder / "arm" / "arm.xml").write_text(arm())
    monkeypatch.setattr(share, "_SOURCE_TREE", tmp_path / "nowhere")
    monkeypatch.setenv("AMENT_PREFIX_PATH", f"/elsewhere:{tmp_path}")
    assert load_model("arm").joint_names == ("hinge",)
    monkeypatch.setenv("AMENT_PREFIX_PATH", "")
    with pytest.raises(ModelError, match="source the workspace"):
        load_model("arm")


def test_what_only_the_plant_does_is_noted():
    floor = '<geom name="floor" type="plane" size="1 1 1"/>'
    text = arm(world=floor, joint='range="-1 1" frictionloss="0.3"', geom='contype="1"')
    notes = " ".join(load_model(text).notes)
    assert "Contacts act in the plant only" in notes and "link" in notes
    assert "limits act in the plant only" in notes and "hinge" in notes
    assert "riction" not in notes
    assert "Friction loss acts in the plant only" in " ".join(load_model(text, friction=False).notes)
    assert "tanh-smoothed" in " ".join(load_model(text, friction_law="smooth").notes)
    assert load_model("cartpole").notes == ()


def test_fixed_body_keeps_its_own_inertia():
    """Weighing the hand as its own body: same motion as merging it, and addressable."""
    model = load_model("panda")
    layout = model.parameters
    assert np.isclose(layout.nominal[layout.index("hand.mass")], 0.76)
    assert model.body("hand").link == model.body("link7").link
    q, v, u = zoo.random_states(model, 5, seed=1)
    heavy = layout.values({"hand.mass": 1.76})
    mj_model = zoo.without_constraints(model)
    hand = mj_model.body("hand")
    # p keeps h and I: adding 1 kg at the hand's origin moves the COM.
    c = hand.ipos * 0.76 / 1.76
    shift = 0.76 * (hand.ipos @ hand.ipos * np.eye(3) - np.outer(hand.ipos, hand.ipos)) - 1.76 * (
        c @ c * np.eye(3) - np.outer(c, c)
    )
    R = np.zeros(9)
    mujoco.mju_quat2Mat(R, hand.iquat)
    R = R.reshape(3, 3)
    moments, axes = np.linalg.eigh(R @ np.diag(hand.inertia) @ R.T + shift)
    axes *= np.sign(np.linalg.det(axes))
    hand.mass, hand.ipos, hand.inertia = 1.76, c, moments
    mujoco.mju_mat2Quat(hand.iquat, axes.flatten())
    mj_model.body_sameframe[hand.id] = 0
    reference = zoo.mujoco_accelerations(mj_model, q, v, u)
    assert zoo.relative_error(build.accel(model)(q, v, u, heavy).full(), reference) < 1e-9


def test_bounds_and_limits():
    model = load_model("panda")
    assert model.nq == model.nv == model.nu == 7 and model.nx == 14
    assert np.allclose(model.u_upper, [87] * 4 + [12] * 3) and np.allclose(model.u_lower, -model.u_upper)
    assert np.allclose(model.v_limit, [2.175] * 4 + [2.61] * 3)
    assert np.isclose(model.q_lower[3], -3.0718) and np.isclose(model.q_upper[5], 3.7525)
    assert model.actuator_names == model.joint_names == model.actuator_joints
    cart = load_model("cartpole")
    assert np.all(np.isinf(cart.q_upper)) and np.allclose(cart.u_upper, 200)
    motor = '<actuator><motor name="m" joint="hinge" forcerange="-4 4" ctrlrange="-9 3"/></actuator>'
    forced = load_model(arm(bottom=motor))
    assert np.allclose([forced.u_lower[0], forced.u_upper[0]], [-4, 3])


def test_clamped_motors_agree_with_mujoco():
    """Two motors on one joint with a limit on their sum, and gain on a limited force."""
    text = arm(
        joint='actuatorfrcrange="-3 5"',
        bottom='<actuator><motor name="a" joint="hinge" gear="2"/>'
        '<position name="b" joint="hinge" kp="8" forcerange="-4 2"/></actuator>',
    )
    model = load_model(text)
    q, v, u = zoo.random_states(model, 200, seed=2)
    reference = zoo.mujoco_accelerations(zoo.without_constraints(model), q, v, u)
    assert zoo.relative_error(build.accel(model)(q, v, u, model.parameters.nominal).full(), reference) < 1e-10


URDF = """
<robot name="two_link">
  <link name="base"/>
  <joint name="shoulder" type="revolute">
    <origin xyz="0 0 0.4" rpy="0 0 0.3"/><parent link="base"/><child link="upper"/><axis xyz="0 1 0"/>
    <limit lower="-2" upper="1.5" effort="30" velocity="3"/><dynamics damping="0.4"/>
  </joint>
  <link name="upper"><inertial><origin xyz="0.1 0.02 0.2"/><mass value="1.5"/>
    <inertia ixx="0.02" iyy="0.03" izz="0.025" ixy="0.001" ixz="0.002" iyz="-0.001"/></inertial>
    <visual><geometry><mesh filename="package://nowhere/mesh.stl"/></geometry></visual></link>
  <joint name="slide" type="prismatic">
    <origin xyz="0 0 0.5" rpy="0.2 0 0"/><parent link="upper"/><child link="lower"/><axis xyz="0 0 1"/>
    <limit lower="0" upper="0.3" effort="20" velocity="1"/>
  </joint>
  <link name="lower"><inertial><origin xyz="0 0 0.1"/><mass value="0.8"/>
    <inertia ixx="0.01" iyy="0.01" izz="0.002" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="mount" type="fixed"><origin xyz="0 0.05 0.2" rpy="0 0.4 0"/><parent link="lower"/><child link="tool"/></joint>
  <link name="tool"><inertial><origin xyz="0.01 0 0"/><mass value="0.3"/>
    <inertia ixx="0.001" iyy="0.001" izz="0.001" ixy="0" ixz="0" iyz="0"/></inertial></link>
</robot>
"""

MJCF = """
<mujoco model="two_link">
  <compiler angle="radian" autolimits="true" eulerseq="XYZ"/>
  <worldbody><body name="base">
    <body name="upper" pos="0 0 0.4" euler="0 0 0.3">
      <joint name="shoulder" axis="0 1 0" range="-2 1.5" damping="0.4" actuatorfrcrange="-30 30"/>
      <inertial pos="0.1 0.02 0.2" mass="1.5" fullinertia="0.02 0.03 0.025 0.001 0.002 -0.001"/>
      <body name="lower" pos="0 0 0.5" euler="0.2 0 0">
        <joint name="slide" type="slide" axis="0 0 1" range="0 0.3" actuatorfrcrange="-20 20"/>
        <inertial pos="0 0 0.1" mass="0.8" diaginertia="0.01 0.01 0.002"/>
        <body name="tool" pos="0 0.05 0.2" euler="0 0.4 0">
          <inertial pos="0.01 0 0" mass="0.3" diaginertia="0.001 0.001 0.001"/>
        </body>
      </body>
    </body>
  </body></worldbody>
  <actuator><motor name="shoulder" joint="shoulder"/><motor name="slide" joint="slide"/></actuator>
</mujoco>
"""


def test_urdf_and_mjcf_import_alike(tmp_path):
    path = tmp_path / "two_link.urdf"
    path.write_text(URDF)
    urdf, mjcf = load_model(path), load_model(MJCF)
    assert urdf.parameters.names == mjcf.parameters.names
    assert np.allclose(urdf.parameters.nominal, mjcf.parameters.nominal, atol=1e-14)
    for field in ("q_lower", "q_upper", "u_lower", "u_upper"):
        assert np.allclose(getattr(urdf, field), getattr(mjcf, field))
    assert urdf.body("tool").has_inertia and np.allclose(urdf.v_limit, [3, 1])
    q, v, u = zoo.random_states(mjcf, 50, seed=3)
    p = mjcf.parameters.nominal
    assert zoo.relative_error(build.accel(urdf)(q, v, u, p).full(), build.accel(mjcf)(q, v, u, p).full()) < 1e-12


def test_same_model_same_hash():
    a, b = load_model("panda"), load_model("panda")
    assert a.hash == b.hash and len(a.hash) == 64
    assert load_model("panda", friction=True).hash != a.hash
    assert load_model(a.xml.replace("0.629769", "0.7")).hash == a.hash, "a static body's mass changes nothing"
    assert load_model(a.xml.replace('mass="0.76"', 'mass="0.77"')).hash != a.hash


def test_an_option_that_comes_later_leaves_hashes_alone():
    @dataclasses.dataclass(frozen=True)
    class Later(ModelOptions):
        viscosity: float = 0.0

    old = load_model("cartpole")
    assert model_hash(dataclasses.replace(old, options=Later())) == old.hash
    assert model_hash(dataclasses.replace(old, options=Later(viscosity=1.0))) != old.hash


def test_friction_and_geometry_enter_only_on_request():
    plain, rich = load_model("panda"), load_model("panda", friction=("joint1",), geometry=("hand",))
    assert not any(n.endswith(".frictionloss") or ".pos." in n for n in plain.parameters.names)
    assert [n for n in rich.parameters.names if n not in plain.parameters.names] == [
        "joint1.frictionloss",
        "hand.pos.x",
        "hand.pos.y",
        "hand.pos.z",
    ]
    q, v, u = zoo.random_states(plain, 20, seed=4)
    same = build.accel(rich)(q, v, u, rich.parameters.nominal).full()
    assert np.allclose(same, build.accel(plain)(q, v, u, plain.parameters.nominal).full(), rtol=1e-10)
    slowed = build.accel(rich)(q, v, u, rich.parameters.values({"joint1.frictionloss": 2.0})).full()
    M = build.mass_matrix(rich)
    for k in range(3):
        change = M(q[:, k], rich.parameters.nominal).full() @ (slowed - same)[:, k]
        assert np.allclose(change, np.r_[-2.0 * np.sign(v[0, k]), np.zeros(6)], atol=1e-9)
    smooth = load_model("panda", friction=("joint1",), friction_law="smooth")
    v[0] *= 0.01
    p = smooth.parameters.values({"joint1.frictionloss": 2.0})
    rubbed, free = (build.accel(smooth)(q, v, u, x).full() for x in (p, smooth.parameters.nominal))
    change = build.mass_matrix(smooth)(q[:, 0], p).full() @ (rubbed - free)[:, 0]
    assert np.allclose(change, np.r_[-2.0 * np.tanh(v[0, 0] / 0.01), np.zeros(6)], atol=1e-9)
    with pytest.raises(ModelError, match="geometry names .*elbow"):
        load_model("panda", geometry=("elbow",))
    with pytest.raises(ModelError, match="friction names"):
        load_model("panda", friction=("elbow",))
    with pytest.raises(ValueError, match="friction_velocity must be positive"):
        load_model("panda", friction_velocity=0.0)
    with pytest.raises(ValueError, match='friction_law must be "constraint" or "smooth", found "coulomb"'):
        load_model("panda", friction_law="coulomb")


def test_smooth_joint_limits():
    """Inside: nothing. Beyond: spring k d, and the damper resists motion."""
    model = load_model(arm(joint='range="-1 1"'), joint_limits=True)
    force = build.joint_force(model)
    p, o = model.parameters.nominal, model.options

    def tau(q, v):
        return float(force(q, v, np.zeros(0), p))

    assert abs(tau(0.5, 0.0)) < 1e-12 and abs(tau(-0.5, 3.0)) < 1e-12
    assert np.isclose(tau(1.1, 0.0), -o.limit_stiffness * 0.1, rtol=1e-3)
    assert np.isclose(tau(-1.1, 0.0), o.limit_stiffness * 0.1, rtol=1e-3)
    assert np.isclose(tau(1.1, 2.0) - tau(1.1, 0.0), -o.limit_damping * 2.0, rtol=1e-3)
    assert np.isfinite(tau(50.0, 0.0)) and np.isfinite(tau(-50.0, 0.0))


def test_disabled_effects_are_zero_in_p():
    model = load_model(arm(joint='damping="1"', top='<option><flag gravity="disable" damper="disable"/></option>'))
    p = model.parameters
    assert p.nominal[p.index("gravity.z")] == 0 and p.nominal[p.index("hinge.damping")] == 0


def test_unknown_parameter_names_get_help():
    p = load_model("panda").parameters
    with pytest.raises(KeyError, match="Known: hand.mass"):
        p.index("hand.weight")
    with pytest.raises(KeyError, match="friction=True"):
        p.index("joint1.frictionloss")
