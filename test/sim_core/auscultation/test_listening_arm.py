"""The arm that listens: what presses on its membrane, what it reaches, and that it begins anywhere without a jump."""

import mujoco
import numpy as np
import pytest

from sim_core.auscultation.listening_arm import ListeningArm
from sim_core.auscultation.placement import Outcome, Phase, Placement, PlacementConfig
from sim_core.auscultation.pressing_force import PressingForce, WristLoad, wrist_load
from sim_core.multibody import load_model
from sim_core.telepresence.arm_ik import QpIk
from sim_core.telepresence.arm_joints import greatest_torques
from sim_core.telepresence.clutch import Pose

DT = 0.008
P, N = np.array([0.5, 0.0, 0.3]), np.array([0.0, 0.0, 1.0])
TOOL = Pose(np.array([0.0, 0.0, 0.03]), np.eye(3))


@pytest.fixture(scope="module")
def model():
    return load_model("panda")


@pytest.fixture
def arm(model):
    return ListeningArm(model, "hand_site", tool=TOOL)


def follow(arm, force=lambda depth, t: 0.0, until=lambda arm: not arm.busy, longest=60.0, hold=None):
    """Joints that are where they are told to be, or where `hold` says (n,); rows (t, told, depth, pose)."""
    rows, t, q = [], 0.0, arm.told if hold is None else hold
    while t < longest:
        placement = arm.placement
        depth = 0.0 if placement is None else float((placement.point - arm.pose(q).position) @ placement.normal)
        motion = arm.cycle(q, np.zeros_like(q), force(depth, t), DT)
        rows.append((t, motion.position, depth, arm.pose(motion.position)))
        if until(arm):
            break
        q, t = motion.position if hold is None else hold, t + DT
    return rows


def spring(depth, t):
    return 1500.0 * max(0.0, depth)


def speeds(rows):
    """Of the membrane (rows - 1,) [m/s], and of the fastest joint [rad/s]."""
    places, told = np.array([row[3].position for row in rows]), np.array([row[1] for row in rows])
    return np.linalg.norm(np.diff(places, axis=0), axis=1) / DT, np.abs(np.diff(told, axis=0)).max(axis=1) / DT


# ---- the force -------------------------------------------------------------------------------------------------

WRISTS = """<mujoco><worldbody><body name="hand"><joint type="ball"/><geom size="0.1" mass="2"/>
  <body name="tool" pos="0 0 0.1" quat="0.9 0.1 0.3 -0.2"><geom size="0.01" mass="0.3"/>
    <site name="wrist" quat="0.5 -0.5 0.5 0.5"/>
    <body name="stethoscope" pos="0.02 0 0.03" quat="0.7 0 0.7 0"><geom size="0.02" mass="0.12" pos="0.01 0 0"/>
      <site name="membrane" pos="0 0 0.03"/></body></body></body></worldbody>
  <sensor><force site="wrist"/></sensor></mujoco>"""


@pytest.fixture(scope="module")
def wrists():
    """A sensor whose axes are not the membrane's, and two pieces beyond it."""

    class Model:
        mj_model = mujoco.MjModel.from_xml_string(WRISTS)

    return Model


@pytest.mark.parametrize("seed", range(5))
def test_the_weight_is_taken_away_however_the_hand_is_turned(wrists, seed):
    """MuJoCo holds the hand still and presses on the membrane; what is left of the reading is that force."""
    mj, rng, pressed = wrists.mj_model, np.random.default_rng(seed), 7.0
    data = mujoco.MjData(mj)
    data.qpos[:] = rng.standard_normal(4)
    mujoco.mj_forward(mj, data)
    membrane = data.site("membrane").xmat.reshape(3, 3)
    data.xfrc_applied[mj.body("stethoscope").id, :3] = -pressed * membrane[:, 2]
    mujoco.mj_forward(mj, data)
    inertia = np.zeros((mj.nv, mj.nv))
    mujoco.mj_fullM(mj, data, inertia)
    data.qfrc_applied[:] = -inertia @ data.qacc
    mujoco.mj_forward(mj, data)
    assert np.abs(data.qacc).max() < 1e-9
    force = PressingForce(wrist_load(wrists, "wrist", "membrane"))
    force.feel(np.r_[-data.sensordata, np.zeros(3)], membrane, 1.0)
    assert force.at(1.0) == pytest.approx(pressed, abs=1e-9)


def test_a_driver_that_knows_the_tool_leaves_no_weight(wrists):
    assert np.linalg.norm(wrist_load(wrists, "wrist", "membrane").weight) == pytest.approx(0.42 * 9.81)
    assert not wrist_load(wrists, "wrist", "membrane", compensated=True).weight.any()


def test_a_membrane_that_moves_against_its_sensor_is_refused():
    class Model:
        mj_model = mujoco.MjModel.from_xml_string(
            """<mujoco><worldbody><body><geom size="0.1"/><joint/><site name="wrist"/>
            <body><joint/><geom size="0.1"/><site name="membrane"/></body></body></worldbody></mujoco>"""
        )

    with pytest.raises(ValueError, match="a joint moves the site 'membrane' against the site 'wrist'"):
        wrist_load(Model, "wrist", "membrane")
    with pytest.raises(KeyError, match="sensor"):
        wrist_load(Model, "sensor", "membrane")


def test_the_low_pass_knows_how_much_time_has_passed():
    """A step that is felt for 40 ms is answered by 1 - exp(-2 pi f t), however often it was told."""
    load = WristLoad(np.zeros(3), np.array([0.0, 0.0, 1.0]), np.eye(3))
    for steps in (2, 10, 40):
        force = PressingForce(load, cutoff=25.0)
        force.feel(np.zeros(6), np.eye(3), 0.0)
        for k in range(steps):
            force.feel(np.array([0.0, 0.0, -7.0, 0.0, 0.0, 0.0]), np.eye(3), 0.04 * (k + 1) / steps)
        assert force.at(0.04) == pytest.approx(7.0 * (1.0 - np.exp(-2.0 * np.pi)))


def test_silence_is_no_force():
    force = PressingForce(WristLoad(np.zeros(3), np.array([0.0, 0.0, 1.0]), np.eye(3)), patience=0.05)
    assert np.isnan(force.at(0.0))
    force.feel(np.array([0.0, 0.0, -7.0, 0.0, 0.0, 0.0]), np.eye(3), 1.0)
    for broken in (np.full(6, np.nan), np.r_[np.inf, np.zeros(5)]):
        force.feel(broken, np.eye(3), 1.03)
    force.feel(np.array([0.0, 0.0, -70.0, 0.0, 0.0, 0.0]), np.eye(3), 0.9)  # came late
    assert force.at(1.04) == pytest.approx(7.0) and np.isnan(force.at(1.06))
    force.forget()
    assert np.isnan(force.at(1.0))


# ---- the arm ---------------------------------------------------------------------------------------------------


def test_a_placement_is_led_to_its_end_and_the_arm_comes_home(arm):
    placement = arm.place(P, N)
    rows = follow(arm, spring)
    assert placement.outcome is Outcome.RECORDED and not arm.busy
    of_membrane, of_joint = speeds(rows)
    assert of_membrane.max() <= placement.config.transit and of_joint.max() < 1.0
    assert arm.pose(arm.told).position == pytest.approx(P + 0.08 * N, abs=1e-3)
    assert arm.go_home() == "" and arm.homing
    rows = follow(arm, until=lambda arm: not arm.homing)
    np.testing.assert_array_equal(arm.told, arm.kinematics.home)
    of_membrane, of_joint = speeds(rows)
    assert of_membrane.max() <= placement.config.transit and of_joint.max() <= arm.limits.joint
    assert min(row[3].position[2] for row in rows) > P[2] + 0.06  # never lower than the stand-off
    assert len(rows) * DT < 30.0


def test_a_command_says_how_the_joints_go_on(arm):
    arm.place(P, N)
    q, told = arm.told, []
    for _ in range(200):
        motion = arm.cycle(q, np.zeros(7), 0.0, DT)
        told.append((motion.position, motion.velocity))
        q = motion.position
    for (before, _), (after, velocity) in zip(told, told[1:]):
        np.testing.assert_allclose(after, before + velocity * DT, atol=1e-12)
    np.testing.assert_allclose(motion.kp[[0, 6]], [96.0 * np.sqrt(87.0), 96.0 * np.sqrt(12.0)])
    # At rest the feed-forward is what bears the arm: it does not move.
    data = mujoco.MjData(arm.kinematics.model.mj_model)
    data.qpos[:] = q
    data.ctrl[:] = arm.cycle(q, np.zeros(7), 0.0, 0.0).effort
    mujoco.mj_forward(arm.kinematics.model.mj_model, data)
    assert np.abs(data.qacc).max() < 1e-6


@pytest.mark.parametrize("seed", range(4))
def test_it_begins_wherever_its_joints_are(arm, seed):
    q = np.random.default_rng(seed).uniform(arm.kinematics.lower, arm.kinematics.upper)
    arm.start_at(q)
    motion = arm.cycle(q, np.zeros(7), np.nan, DT)
    np.testing.assert_array_equal(motion.position, q)
    assert not motion.velocity.any()
    assert arm.go_home() == ""
    rows = follow(arm, until=lambda arm: not arm.homing, longest=120.0)
    assert speeds(rows)[0].max() <= arm.config.transit and not arm.homing


def test_a_joint_at_its_stop_is_not_told_to_go_beyond(arm):
    arm.start_at(arm.kinematics.upper + 1e-4)
    np.testing.assert_array_equal(arm.told, arm.kinematics.upper)


def test_a_placement_that_was_stopped_in_contact_comes_back_from_where_the_arm_is(arm):
    placement = arm.place(P, N)
    follow(arm, spring, until=lambda arm: placement.recorded > 1.0)
    arm.stop("halted by the supervisor")
    assert placement.outcome is Outcome.ARM_STOPPED and placement.phase is Phase.RETREAT
    # Meanwhile somebody pushed the arm 3 cm aside.
    aside = arm.pose(arm.told).position + [0.0, 0.03, 0.004]
    pushed, ik = arm.told, QpIk(arm.kinematics, period=np.inf)
    for _ in range(100):
        pushed = ik.step(Pose(aside, arm.target.rotation), pushed, pushed)
    arm.start_at(pushed)
    rows = follow(arm, spring)
    places = np.array([row[3].position for row in rows])
    assert placement.ended and placement.outcome is Outcome.ARM_STOPPED and "supervisor" in placement.why
    np.testing.assert_allclose(places[0], aside, atol=1e-3)
    np.testing.assert_allclose(places[:, :2], aside[:2] * np.ones((len(places), 1)), atol=2e-3)  # straight up
    assert (np.diff(places[:, 2]) > -1e-5).all() and places[-1, 2] == pytest.approx(P[2] + 0.08, abs=2e-3)
    assert speeds(rows)[0].max() <= placement.config.transit


def test_a_pause_in_the_air_leaves_it_where_it_is(arm):
    placement = arm.place(P, N)
    follow(arm, until=lambda arm: False, longest=2.0)
    arm.start_at(arm.told)
    assert placement.ended and placement.outcome is Outcome.ARM_STOPPED
    held = arm.told
    follow(arm, until=lambda arm: False, longest=1.0)
    np.testing.assert_array_equal(arm.told, held)


def test_a_force_on_the_way_leads_back_as_it_came(arm):
    begin = arm.target.position
    placement = arm.place(P, N)
    rows = follow(arm, lambda depth, t: 12.0 * (1.0 < t < 1.5))
    assert placement.outcome is Outcome.TOO_MUCH_FORCE
    np.testing.assert_allclose(arm.target.position, begin, atol=1e-3)
    assert speeds(rows)[0].max() <= placement.config.transit


@pytest.mark.parametrize(
    "point, normal, says",
    [
        ([1.2, 0.0, 0.3], N, "no nearer to the stand-off than"),
        ([0.5, 0.0, 0.02], N, "beyond the point it would come down to -10 mm (at least 30 mm)"),
        ([0.1, 0.0, 0.4], N, "m of the base's axis (at least 0.2 m)"),
        ([-0.45, 0.0, 0.3], N, "On the way to the stand-off it would come within 0.0"),
    ],
)
def test_what_is_out_of_reach_is_told_before_anything_moves(arm, point, normal, says):
    before = arm.told.copy()
    assert says in arm.out_of_reach(np.array(point), np.array(normal))
    np.testing.assert_array_equal(arm.told, before)


def test_what_is_in_reach_is_reached(arm):
    rng = np.random.default_rng(3)
    for _ in range(5):
        point, normal = P + rng.uniform(-0.1, 0.1, 3) * [1.0, 1.0, 0.5], N + [*rng.uniform(-0.5, 0.5, 2), 0.0]
        assert arm.out_of_reach(point, normal) == ""
        placement = arm.place(point, normal, PlacementConfig(duration=0.5))
        follow(arm, spring)
        assert placement.outcome is Outcome.RECORDED


def test_the_way_home_waits_for_who_holds_the_arm_and_ends_where_it_meets_something(arm):
    arm.start_at(arm.kinematics.home - 0.3)
    held = arm.told.copy()
    arm.go_home()
    follow(arm, until=lambda arm: False, longest=5.0, hold=held)
    assert arm.homing and np.abs(arm.told - held).max() < 0.06
    arm.start_at(held)
    arm.go_home()
    follow(arm, lambda depth, t: 12.0 * (t > 1.0), until=lambda arm: not arm.homing)
    assert np.abs(arm.told - arm.kinematics.home).max() > 0.1


def test_one_thing_at_a_time(arm):
    arm.place(P, N)
    with pytest.raises(RuntimeError, match="a placement is under way"):
        arm.place(P, N)
    assert "A placement is under way" in arm.go_home()


def test_a_joint_without_a_motor_cannot_listen():
    with pytest.raises(ValueError, match="expected a motor with a limited torque at every joint"):
        greatest_torques(load_model("double_cartpole"))


# ---- a recording that is made elsewhere ------------------------------------------------------------------------


def test_the_recording_ends_when_it_is_there_and_not_before(arm):
    late = PlacementConfig(duration=1.0, overtime=3.0)
    placement = arm.place(P, N, late)
    follow(arm, spring, until=lambda arm: placement.recorded > 2.0)
    assert placement.phase is Phase.RECORD
    placement.finish()
    follow(arm, spring)
    assert placement.outcome is Outcome.RECORDED and len(placement.trace) * DT == pytest.approx(2.0, abs=0.02)


def test_a_recording_that_never_comes_is_not_waited_for_for_ever(arm):
    placement = arm.place(P, N, PlacementConfig(duration=1.0, overtime=3.0))
    follow(arm, spring)
    assert placement.outcome is Outcome.NO_SOUND and "3 s after its end" in placement.why


def test_what_is_finished_too_early_was_not_recorded():
    placement = Placement(P, N, Pose(P + [0.0, 0.0, 0.2], np.diag([1.0, -1.0, -1.0])))
    placement.finish()
    assert placement.outcome is None and placement.phase is Phase.TRANSIT
    with pytest.raises(RuntimeError, match="nothing stopped"):
        placement.go_on(placement.step(Pose(P + [0.0, 0.0, 0.2], np.diag([1.0, -1.0, -1.0])), 0.0, DT))
    placement.cancel("the microphone is silent", Outcome.NO_SOUND)
    assert placement.outcome is Outcome.NO_SOUND


def test_the_robots_own_stethoscope_is_weighed():
    """The robot with a stethoscope: sensor and membrane share their axes, and 0.12 kg hang on the sensor."""
    load = wrist_load(load_model("panda_stethoscope"), "wrist", "membrane")
    assert np.linalg.norm(load.weight) == pytest.approx(0.12 * 9.81, rel=1e-6)
    np.testing.assert_allclose(load.outward, [0.0, 0.0, 1.0], atol=1e-9)


def test_no_joint_is_asked_to_go_faster_than_the_robot_lets_it(monkeypatch):
    model = load_model("panda_stethoscope")
    arm = ListeningArm(model, "membrane")
    arm.start_at(arm.kinematics.home)
    arm.place(np.array([0.5, 0.1, 0.3]), np.array([0.0, 0.0, 1.0]))
    leap = np.array([0.0, -0.5, 0.2, 0.0, 0.0, 0.0, 0.1])
    monkeypatch.setattr(arm._ik, "step", lambda target, q, preferred: q + leap)
    for dt in (0.002, 0.008, 0.016):
        motion = arm.cycle(arm.told, np.zeros(7), 0.0, dt)
        assert np.abs(motion.velocity / model.v_limit).max() == pytest.approx(0.6)
        assert np.allclose(motion.velocity / motion.velocity[1], leap / leap[1])  # all joints alike
