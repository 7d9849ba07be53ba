"""What is derived of a robot that somebody brings, against closed forms; and files that cannot be used."""

import mujoco
import numpy as np
import pytest
import yaml
from brought_arms import HEADER, joint, link, planar, spatial

from config.description import PayloadDemo, Track
from config.robot import load_robot, node_settings, robot_names
from sim_core.adoption import AdoptionError, adopted, is_model_file
from sim_core.adoption.adopt import name_of
from sim_core.adoption.adopter import EFFORT, adopt
from sim_core.adoption.derivation import LOAD, ROTOR_TIME, SPEED, anatomy_of, demonstration_of
from sim_core.adoption.side_file import read_side_file, side_file_of
from sim_core.multibody import load_model
from sim_core.plant import MujocoPlant


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def write(tmp_path):
    def written(text, name="my_arm.urdf"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return written


@pytest.fixture
def planar_arm(write):
    """Two rods move in a plane, and no figure eight across it: their home has to be said."""
    write("home: {shoulder: -0.5, elbow: 1.0}", "my_arm.refit.yaml")

    def written(**changes):
        return write(planar(**changes))

    return written


def understood(path):
    return adopt(path, name_of(path), read_side_file(side_file_of(path)))


# -- derivations -----------------------------------------------------------------------------------


def test_tool_and_payload_are_those_of_the_longest_chain(write):
    found = understood(write(spatial()))
    m = found.model
    assert [m.joint(j).name for j in found.arm.joints] == [f"joint{k}" for k in range(1, 7)]
    assert m.body(found.arm.tool_body).name == "flange" and not found.arm.position.any()
    assert m.body(found.arm.payload_body).name == "link6"  # the flange has no mass
    assert found.demonstration.reach == pytest.approx(0.4 + 0.35 + 0.05 + 0.1 + 0.12)


@pytest.mark.parametrize(
    "fingers",
    [
        joint("left", "flange", "l", x=0.05, axis="0 1 0", kind="prismatic", range=(0.0, 0.04))
        + joint("right", "flange", "r", x=0.05, axis="0 -1 0", kind="prismatic", range=(0.0, 0.04)),
        joint("gripper", "flange", "l", x=0.05) + joint("weld", "l", "r", kind="fixed"),
    ],
    ids=["two fingers", "a joint called gripper"],
)
def test_fingers_are_not_the_arm_s(write, fingers):
    found = understood(write(spatial(link("l", 0.05, 0.02) + link("r", 0.05, 0.02) + fingers)))
    assert len(found.arm.joints) == 6 and found.model.nu == (8 if "left" in fingers else 7)
    assert found.model.body(found.arm.tool_body).name == "flange"


def test_a_tool_without_a_frame_is_at_the_last_link_s_centre_of_mass(planar_arm):
    found = understood(planar_arm())
    assert found.model.body(found.arm.tool_body).name == "fore"
    np.testing.assert_allclose(found.arm.position, [0.15, 0.0, 0.0])
    assert found.demonstration.reach == pytest.approx(0.3 + 0.15)


def test_rotors_are_added_where_a_joint_would_be_faster_than_any_motor_s(planar_arm):
    """effort / (free inertia + armature) reaches the velocity limit in ROTOR_TIME, or more slowly."""
    found = understood(planar_arm(effort=600.0))
    m, data = found.model, mujoco.MjData(found.model)
    mujoco.mj_forward(m, data)
    bare, M = m.dof_armature.copy(), np.zeros((m.nv, m.nv))
    mujoco.mj_fullM(m, data, M)
    free = 1.0 / np.diag(np.linalg.inv(M - np.diag(bare)))
    np.testing.assert_allclose(bare + free, np.maximum(ROTOR_TIME * 600.0 / 2.0, free), rtol=1e-12)
    assert (bare > 0.0).all() and found.derived == (0, 1)
    assert not understood(planar_arm(effort=1.5)).derived  # rods that such motors take 5 ms and more to speed up


def test_home_is_free_to_move_and_holds_itself(write):
    found = understood(write(spatial()))
    m, data = found.model, mujoco.MjData(found.model)
    data.qpos[:] = found.home
    mujoco.mj_forward(m, data)
    assert (np.abs(data.qfrc_bias) < 0.6 * 60.0).all() and (np.abs(found.home) < 0.7 * 2.5 + 1e-9).all()
    Jp, Jr = np.zeros((3, m.nv)), np.zeros((3, m.nv))
    mujoco.mj_jacBody(m, data, Jp, Jr, found.arm.tool_body)
    assert np.linalg.svd(np.vstack([Jp / found.demonstration.reach, Jr]), compute_uv=False)[-1] > 0.1
    assert data.xpos[found.arm.tool_body][2] > 0.1 and data.xpos[found.arm.tool_body][0] > 0.0
    again = understood(write(spatial()))
    assert np.array_equal(found.home, again.home)  # the same file, the same robot


def test_path_and_payload_by_closed_form():
    """One driven slide along y and one along z carry a mass: speeds and margins are plain."""
    xml = """<mujoco><worldbody><body name="y"><joint name="y" type="slide" axis="0 1 0"/><inertial pos="0 0 0" mass="1"
      diaginertia="1 1 1"/><body name="z" pos="0.5 0 0"><joint name="z" type="slide" axis="0 0 1"/><inertial pos="0 0 0"
      mass="2" diaginertia="1 1 1"/></body></body></worldbody><actuator><motor joint="y"/><motor joint="z"/></actuator></mujoco>"""
    m = mujoco.MjModel.from_xml_string(xml)
    arm = anatomy_of(m)
    velocity, effort = np.array([0.2, 10.0]), np.array([1e3, 60.0])
    shown = demonstration_of(m, arm, np.zeros(2), velocity, effort)
    # The tool's speed along y is at most 2 pi width / period, and no more than SPEED of the limit.
    assert shown.period == pytest.approx(2 * np.pi * shown.width / (SPEED * 0.2), rel=2e-3)
    assert shown.mass == pytest.approx(LOAD * (60.0 - 2 * 9.81) / 9.81, rel=0.05)


def test_weights_scale_with_reach_speed_and_effort(planar_arm, write):
    """The same arm twice as large and ten times as strong: its cost differs by the squares."""
    small = yaml.safe_load(understood(planar_arm(effort=6.0)).files["robot.yaml"])["task"]["weights"]
    large = planar(effort=60.0, velocity=4.0).replace('xyz="0.3 0 0.0"', 'xyz="0.6 0 0.0"')
    large = yaml.safe_load(understood(write(large.replace('xyz="0.15 0 0"', 'xyz="0.3 0 0"'))).files["robot.yaml"])
    large = large["task"]["weights"]
    assert small["position"] / large["position"] == pytest.approx(4.0, rel=0.01)
    assert small["control"] / large["control"] == pytest.approx(100.0, rel=0.01)
    assert small["rate"] / large["rate"] == pytest.approx(4.0, rel=0.01)
    assert large["control"] == pytest.approx(1.0 / (EFFORT * 60.0) ** 2, rel=0.01)


# -- the folder ------------------------------------------------------------------------------------


def test_everything_takes_the_folder_that_is_made(write):
    path = write(spatial(), "Big Arm-7.urdf")
    folder = adopted(str(path))
    described, model, plant = load_robot(folder), load_model(folder), MujocoPlant(folder)
    assert described.name == "big_arm_7" and described.task_as(Track).payload_body == "link6"
    assert described.demo_as(PayloadDemo).mass > 0.0 and node_settings(folder, "adaptive_mpc")["mode"] == "track"
    assert plant.joints == list(model.joint_names) == [f"joint{k}" for k in range(1, 7)]
    np.testing.assert_allclose(model.u_upper, 60.0)
    np.testing.assert_allclose(model.v_limit, 2.0)
    np.testing.assert_allclose(plant.q, model.q_home)
    assert model.q_home.any()


def test_the_dynamics_are_those_of_the_file(planar_arm):
    """What is added to the model moves nothing, rotors apart."""
    path = planar_arm(effort=1.5)
    folder, q, v = adopted(str(path)), np.array([0.3, -0.7]), np.array([0.5, 1.0])
    bare, taken = load_model(str(path)), load_model(folder)
    for model in (bare, taken):
        data = mujoco.MjData(model.mj_model)
        data.qpos[:], data.qvel[:] = q, v
        mujoco.mj_forward(model.mj_model, data)
        model_acceleration = data.qacc.copy()
        if model is bare:
            expected = model_acceleration
    np.testing.assert_allclose(model_acceleration, expected, rtol=1e-12)


def test_a_folder_is_kept_until_its_file_or_side_file_changes(write):
    path = write(spatial())
    first = adopted(str(path))
    assert adopted(str(path)) == first
    write("title: Something else\n", "my_arm.refit.yaml")
    second = adopted(str(path))
    assert second != first and load_robot(second).title == "Something else"
    path.write_text(spatial().replace('effort="60.0"', 'effort="50.0"'))
    assert adopted(str(path)) not in (first, second)


def test_what_a_xacro_includes_renews_the_folder_wherever_it_lies(write, tmp_path):
    (tmp_path / "parts").mkdir()
    part = write(spatial().replace("<robot", '<robot xmlns:xacro="http://www.ros.org/wiki/xacro"'), "parts/arm.xacro")
    whole = '<robot name="anything" xmlns:xacro="http://www.ros.org/wiki/xacro"><xacro:include filename="%s"/></robot>'
    path = write(whole % part, "my_arm.urdf.xacro")
    first = adopted(str(path))
    assert adopted(str(path)) == first
    part.write_text(part.read_text().replace('effort="60.0"', 'effort="50.0"'))
    np.testing.assert_allclose(load_model(adopted(str(path))).u_upper, 50.0)


def test_a_robot_of_the_project_by_its_model_file_is_that_robot():
    folder = load_robot("panda").folder
    assert adopted(str(folder / "panda.xml")) == str(folder)
    assert load_robot(folder / "panda.xml").title == load_robot("panda").title


def test_names_of_robots_and_folders_pass():
    assert adopted("panda") == "panda" and adopted("/somewhere/my_arm") == "/somewhere/my_arm"
    assert is_model_file("a.urdf") and is_model_file("b.urdf.xacro") and not is_model_file("panda")


def test_a_file_does_not_replace_a_robot_of_the_project(write):
    assert "panda" in robot_names() and name_of(write(planar(), "panda.urdf")) == "panda_file"
    assert name_of(write(planar(), "7-arm.v2.urdf")) == "r7_arm"


def test_every_joint_of_an_mjcf_is_known_with_or_without_attributes(write):
    """A joint without an axis and a type turns about z: the default."""
    xml = """<mujoco model="x"><worldbody><body name="a"><joint name="j1"/>
      <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.03" mass="1"/><body name="b" pos="0.3 0 0">
      <joint name="j2" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.03" mass="1"/></body></body>
      </worldbody><actuator><motor name="m1" joint="j1" ctrlrange="-9 9"/><motor name="m2" joint="j2" ctrlrange="-9 9"/>
      </actuator></mujoco>"""
    write("home: {j1: -0.5, j2: 1.0}", "turning_arm.refit.yaml")
    np.testing.assert_allclose(load_model(adopted(str(write(xml, "turning_arm.xml")))).q_home, [-0.5, 1.0])


def test_mjcf_servos_become_motors_with_their_limits(write):
    xml = """<mujoco model="x"><worldbody><body name="a"><joint name="j1" axis="0 1 0" range="-2 2" limited="true"/>
      <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.03" mass="1"/><body name="b" pos="0.3 0 0">
      <joint name="j2" axis="0 1 0" range="-2 2" limited="true"/><geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.03"
      mass="1"/></body></body></worldbody><actuator><position name="p1" joint="j1" kp="100" forcerange="-40 40"/>
      <motor name="m2" joint="j2" ctrlrange="-9 9" ctrllimited="true" gear="3"/></actuator></mujoco>"""
    write("home: {j1: -0.5, j2: 1.0}", "servo_arm.refit.yaml")
    found = understood(write(xml, "servo_arm.xml"))
    assert any("'p1' was made a torque motor" in note for note in found.notes)
    np.testing.assert_allclose(found.effort, [40.0, 27.0])
    plant = MujocoPlant(adopted(str(write(xml, "servo_arm.xml"))))
    np.testing.assert_allclose(
        plant.world.ratio * plant.u_upper, [27.0, 40.0][:: (1 if plant.world.actuators[0] == "m2" else -1)]
    )


# -- what its owner says ---------------------------------------------------------------------------


def test_a_side_file_has_the_last_word(write):
    path = write(spatial())
    write(
        """
title: Workshop arm
tool: {body: link6, position: [0.2, 0.0, 0.0]}
payload_body: link5
home: {joint2: -0.8, joint3: 1.2}
velocity: {joint1: 1.5}
effort: {joint6: 5.0}
armature: {joint1: 0.3}
damping: {joint1: 0.7}
payload: 0.4
path_width: 0.05
nodes: workshop.yaml
weights: {position: 1.0, rotation: 2.0, posture: 3.0, rate: 4.0, control: 5.0, smoothness: 6.0}
""",
        "my_arm.refit.yaml",
    )
    write("/**/adaptive_mpc:\n  ros__parameters: {horizon: 31}\n", "workshop.yaml")
    folder = adopted(str(path))
    described, model = load_robot(folder), load_model(folder)
    task = described.task_as(Track)
    assert (described.title, task.payload_body, task.weights.smoothness) == ("Workshop arm", "link5", 6.0)
    assert described.demo_as(PayloadDemo).mass == 0.4
    np.testing.assert_allclose(model.q_home, [0.0, -0.8, 1.2, 0.0, 0.0, 0.0])
    assert model.v_limit[0] == 1.5 and model.u_upper[5] == 5.0
    mj = model.mj_model
    assert mj.dof_armature[0] == 0.3 and mj.dof_damping[0] == 0.7
    np.testing.assert_allclose(mj.site("tool").pos, [0.2, 0.0, 0.0])
    settings = node_settings(folder, "adaptive_mpc")
    assert (settings["horizon"], settings["path_width"], settings["mode"]) == (31, 0.05, "track")


@pytest.mark.parametrize(
    "text, sentence",
    [
        ("tol: {body: link6}", "tol is no key here; did you mean tool?"),
        ("tool: {body: hand}", "tool.body: expected one of base, link1, .*found 'hand'"),
        ("payload_body: flange", "expected a payload body with mass, 'flange' has none"),
        ("home: {elbow: 1.0}", "home: expected joints out of joint1, .*found 'elbow'"),
        ("velocity: {joint1: fast}", "velocity.joint1: expected a number"),
        ("nodes: nowhere.yaml", "nowhere.yaml, named as nodes, cannot be read"),
        ("title: [", "is no YAML"),
    ],
)
def test_a_side_file_that_cannot_be_used_is_refused_in_a_sentence(write, text, sentence):
    path = write(spatial())
    write(text, "my_arm.refit.yaml")
    with pytest.raises(AdoptionError, match=sentence) as refused:
        adopted(str(path))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "text, name, sentence",
    [
        (None, "gone.urdf", "no model file at .*gone.urdf; check the path"),
        ("<robot", "bad.urdf", "is not well-formed XML"),
        ("<sdf/>", "bad.urdf", r"expected <robot> \(URDF\) or <mujoco> \(MJCF\) at the top, found <sdf>"),
        (HEADER + link("base") + "</robot>", "still.urdf", "expected at least one driven joint"),
        (
            planar(effort=0.0),
            "weak.urdf",
            "expected an effort limit of every driven joint, found none of shoulder, elbow",
        ),
        (planar(range=(0.0, 0.01)), "stiff.urdf", "no posture was found .* give one as home, or another tool"),
        (
            '<mujoco><worldbody><body name="a"><joint name="j"/></body></worldbody></mujoco>',
            "massless.xml",
            "refuses it",
        ),
    ],
)
def test_a_file_that_is_no_robot_is_refused_in_a_sentence(write, tmp_path, text, name, sentence):
    path = tmp_path / name if text is None else write(text, name)
    with pytest.raises(AdoptionError, match=sentence) as refused:
        adopted(str(path))
    assert "\n" not in str(refused.value)
