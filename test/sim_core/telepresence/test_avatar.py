"""The whole robot after an operator: samples in, MuJoCo moves, and what the operator let go of stays where it is."""

import mujoco
import numpy as np
import pytest
from rehearsal import DT, REST, ROBOT, Rehearsal
from scipy.spatial.transform import Rotation

from config.description import RobotError
from config.robot import load_robot
from sim_core.multibody import load_model
from sim_core.plant.rangefinders import rangefinders_of
from sim_core.telepresence.arm import ArmMode
from sim_core.telepresence.avatar import Avatar
from sim_core.telepresence.range_readings import HeardRange, RangeReadings
from sim_core.telepresence.session import State


def test_it_holds_itself_up_and_still(rehearsal):
    rehearsal.run(1.0)
    assert np.abs(rehearsal.q - rehearsal.model.q_home).max() < 5e-3


@pytest.mark.parametrize("side", ["right", "left"])
def test_an_arm_goes_where_the_hand_goes_and_turns_as_it_turns(rehearsal, side):
    k = ("right", "left").index(side)
    other = ("left", "right")[k]
    before, still = rehearsal.effector(side), rehearsal.effector(other)
    rehearsal.clutch[k] = True
    way, turn = np.array([0.05, 0.03, 0.06]), np.array([0.0, 0.2, 0.15])

    def move(t):
        share = min(1.0, t / 1.5)
        rehearsal.hands[k], rehearsal.turns[k] = REST[k] + share * way, share * turn

    rehearsal.run(3.0, move=move)
    after = rehearsal.effector(side)
    assert after.position - before.position == pytest.approx(way, abs=5e-3)
    turned = Rotation.from_matrix(after.rotation @ before.rotation.T).as_rotvec()
    assert turned == pytest.approx(turn, abs=0.03)
    assert rehearsal.effector(other).position == pytest.approx(still.position, abs=3e-3)
    assert rehearsal.avatar.session.state is State.TELEOP


def test_pressing_and_releasing_move_nothing(rehearsal):
    before = rehearsal.effector("right").position
    for _ in range(5):
        rehearsal.clutch[0] = not rehearsal.clutch[0]
        rehearsal.hands[0] = rehearsal.hands[0] + (0.0 if rehearsal.clutch[0] else 0.04)
        rehearsal.run(0.1)
        rehearsal.clutch[0] = False
        rehearsal.run(0.1)
    assert rehearsal.effector("right").position == pytest.approx(before, abs=3e-3)


def test_an_arm_is_no_faster_than_it_may_be(rehearsal):
    rehearsal.clutch[0] = True
    places = []

    def move(t):
        rehearsal.hands[0] = REST[0] + np.array([0.0, 0.0, 0.25 * np.sin(6.0 * t)])
        places.append(rehearsal.avatar.arms[0].effector(rehearsal.avatar.arms[0].q).position)

    rehearsal.run(2.0, move=move)
    speed = np.linalg.norm(np.diff(places, axis=0), axis=1) / DT
    assert 0.1 < speed.max() <= 0.2 * 1.1


def test_a_lost_link_holds_and_a_new_one_goes_on_without_a_jump(rehearsal):
    rehearsal.clutch[0] = True

    def move(t):
        rehearsal.hands[0] = REST[0] + np.array([0.0, 0.0, min(0.06, 0.1 * t)])

    rehearsal.stick = [1.0, 0.0, 0.0]
    rehearsal.run(1.0, move=move)
    assert rehearsal.avatar.base.velocity[0] == pytest.approx(0.198)
    rehearsal.run(0.9, heard=False)
    assert rehearsal.avatar.session.state is State.HOLD
    held = rehearsal.avatar.position.copy()
    rehearsal.run(1.5, heard=False)
    assert rehearsal.avatar.session.state is State.DISCONNECTED
    assert rehearsal.avatar.position == pytest.approx(held) and np.abs(rehearsal.v).max() < 0.02
    where = rehearsal.effector("right").position
    # The hand is elsewhere when it comes back, still clenched, in a new session.
    rehearsal.session, rehearsal.stick = "two", [0.0, 0.0, 0.0]
    rehearsal.hands[0] = REST[0] + 0.5
    rehearsal.run(0.3)
    assert rehearsal.avatar.session.state is State.HANDSHAKE
    assert rehearsal.avatar.position == pytest.approx(held)
    rehearsal.clutch[0] = False
    rehearsal.run(0.1)
    rehearsal.clutch[0] = True
    rehearsal.run(0.2)
    assert rehearsal.avatar.session.state is State.TELEOP
    assert rehearsal.effector("right").position == pytest.approx(where, abs=1e-3)


def test_the_supervisor_has_the_last_word(rehearsal):
    rehearsal.clutch[0], rehearsal.denied = True, "halted by the supervisor: stopped by an operator"
    before = rehearsal.avatar.position.copy()
    rehearsal.run(0.5, move=lambda t: rehearsal.hands.__setitem__(0, REST[0] + 0.1 * t))
    assert rehearsal.avatar.session.state is State.FAULT
    assert rehearsal.avatar.session.sentence == rehearsal.denied
    assert rehearsal.avatar.position == pytest.approx(before)
    rehearsal.denied = ""
    rehearsal.run(0.1)
    assert rehearsal.avatar.session.state is State.IDLE  # the hand has to open first


def test_an_arm_that_is_pressed_stops_alone_and_is_reset(rehearsal):
    rehearsal.push = ("right_link7", [0.0, 0.0, 900.0])
    rehearsal.run(0.6)
    rehearsal.push = ("right_link7", [0.0, 0.0, 0.0])
    right, left = rehearsal.avatar.arms
    assert right.mode is ArmMode.STOPPED and left.mode is ArmMode.HOLD
    assert right.message.startswith("The right arm is pressed ") and "reset_fault" in right.message
    rehearsal.clutch = [True, True]
    before = rehearsal.effector("left").position

    def move(t):
        for k in (0, 1):
            rehearsal.hands[k] = REST[k] + np.array([0.0, 0.0, min(0.05, 0.1 * t)])

    rehearsal.run(1.5, move=move)
    assert right.mode is ArmMode.STOPPED and "protective stop" in rehearsal.avatar.go_home()
    assert (rehearsal.effector("left").position - before)[2] == pytest.approx(0.05, abs=6e-3)  # the other one is of use
    rehearsal.clutch = [False, False]
    rehearsal.run(0.1)
    assert "the right arm's protective stop" in rehearsal.avatar.reset_fault(rehearsal.q)
    assert right.mode is ArmMode.HOLD
    assert rehearsal.avatar.reset_fault(rehearsal.q) == "There is no fault."
    assert rehearsal.avatar.go_home() == ""
    rehearsal.run(6.0)
    assert [arm.mode for arm in rehearsal.avatar.arms] == [ArmMode.HOLD, ArmMode.HOLD]
    index = rehearsal.avatar.arms_with_joints()[0][1]
    assert rehearsal.q[index] == pytest.approx(right.home, abs=0.01)


def test_arms_that_are_led_into_each_other_hold(rehearsal):
    rehearsal.clutch = [True, True]

    def move(t):
        for k, way in ((0, 1.0), (1, -1.0)):
            rehearsal.hands[k] = REST[k] + np.array([0.0, way * min(0.6, 0.15 * t), 0.0])

    rehearsal.run(5.0, move=move)
    told = np.concatenate([arm.q for arm in rehearsal.avatar.arms])
    assert rehearsal.avatar.guard.nearest(told)[0] >= rehearsal.avatar.guard.margin
    assert any("The arms hold: " in arm.message for arm in rehearsal.avatar.arms)


def test_the_base_drives_where_the_robot_looks(rehearsal):
    rehearsal.stick = [0.0, 0.0, 1.0]
    rehearsal.run(4.0)
    rehearsal.stick = [0.0, 0.0, 0.0]
    rehearsal.run(1.0)
    x, y, yaw = rehearsal.q[:3]
    assert yaw == pytest.approx(0.4 * 4.0, abs=0.3) and abs(x) + abs(y) < 0.02
    rehearsal.stick = [1.0, 0.0, 0.0]
    rehearsal.run(2.0)
    way = rehearsal.q[:2] - [x, y]
    heading = rehearsal.q[2]
    assert np.dot(way, [np.cos(heading), np.sin(heading)]) == pytest.approx(0.2 * 2.0 - 0.2**2 / 0.8, abs=0.03)
    assert abs(np.dot(way, [-np.sin(heading), np.cos(heading)])) < 0.01


def test_the_base_stops_when_the_operator_is_lost_also_without_a_clutch(rehearsal):
    rehearsal.stick = [1.0, 0.0, 0.0]
    rehearsal.run(1.0)
    x = rehearsal.avatar.position[0]
    rehearsal.run(1.0, heard=False)
    assert rehearsal.avatar.session.state is State.HOLD and not rehearsal.avatar.base.velocity.any()
    assert rehearsal.avatar.position[0] - x <= 0.2 * (0.2 + 2 * DT) + 0.2**2 / (2 * 0.8) + 1e-6


@pytest.fixture
def looking(avatar_model):
    """The same with the robot's own rangefinders, simulated."""
    run = Rehearsal(avatar_model, rangefinders=rangefinders_of(ROBOT)).run(0.1)
    run.avatar.look_with(run.avatar.own_rangefinders())
    return run


def heard(run):
    """To be called in each cycle: what the rangefinders say."""
    run.ranges = {one.site: HeardRange(one.range, run.now - one.stamp) for one in run.plant.ranges()}


def test_its_own_rangefinders_look_where_the_model_says(rehearsal):
    found = {finder.name: finder for finder in rehearsal.avatar.own_rangefinders()}
    bearings = {name.removeprefix("range_"): finder.bearing for name, finder in found.items()}
    assert abs(bearings["rear"]) == pytest.approx(np.pi)
    assert [bearings[name] for name in ("front", "front_right", "front_left")] == pytest.approx(
        [0.0, 0.17, -0.17], abs=1e-6
    )
    assert [bearings[f"left_{k}"] for k in (1, 2, 3, 4)] == pytest.approx([np.pi / 2] * 4)
    assert bearings["rear_right_corner"] == pytest.approx(0.873 - np.pi, abs=1e-6)
    assert (found["range_left_1"].field_of_view, found["range_left_1"].minimum) == (1.4, 0.02)
    assert found["range_rear_left_corner"].place == pytest.approx((-0.5, 0.3)) and found["range_rear"].minimum == 0.3


@pytest.mark.parametrize(
    ("stick", "place", "size", "turn"),
    [
        ((1.0, 0.0), (1.6, 0.0, 0.5), (0.1, 1.5, 0.5), 0.0),  # a wall ahead
        ((1.0, 0.0), (1.6, 0.0, 0.5), (0.1, 1.5, 0.5), 0.3),  # one at an angle
        ((1.0, 0.0), (1.3, 0.22, 0.25), (0.03, 0.03, 0.25), 0.0),  # a post in the way of a corner
        ((1.0, 0.0), (1.3, -0.12, 0.06), (0.1, 0.1, 0.06), 0.0),  # something low
        ((1.0, 0.3), (1.5, 0.4, 0.5), (0.1, 1.5, 0.5), 0.0),  # ahead, driven at obliquely
        ((0.0, 1.0), (0.0, 1.2, 0.25), (1.5, 0.1, 0.25), 0.0),  # a wall at the side, lower than the arms
        ((0.0, -1.0), (-0.4, -1.0, 0.25), (0.05, 0.05, 0.25), 0.0),  # a post at the other, behind
        ((-1.0, 0.0), (-1.6, 0.0, 0.5), (0.1, 1.5, 0.5), 0.0),  # a wall behind
        ((-1.0, 0.0), (-1.4, 0.25, 0.25), (0.03, 0.03, 0.25), 0.0),  # a post behind a corner
    ],
)
def test_the_base_stops_before_what_stands_in_its_way(looking, stick, place, size, turn):
    quaternion = (np.cos(turn / 2), 0.0, 0.0, np.sin(turn / 2))
    box = f'<geom type="box" size="{size[0]} {size[1]} {size[2]}" mass="1000"/>'
    looking.plant.spawn("box", text=box, position=place, quaternion=quaternion)
    looking.stick = [*stick, 0.0]
    speeds, nearest, said = [], [], []

    def move(t):
        heard(looking)
        said.append(looking.avatar.base.obstacle)
        speeds.append(np.linalg.norm(looking.v[:2]))
        nearest.append(gap(looking.plant))

    looking.run(9.0, move=move)
    limits = looking.avatar.base.limits
    assert 0.18 < max(speeds) <= 0.2 * 1.02 and speeds[-1] < 1e-3
    assert any("sees something" in sentence for sentence in said[-50:])
    kept = limits.stop_distance if stick[0] else limits.side_distance
    # Kept, and not by standing far off. Three standard deviations of a reading are 6 mm.
    assert min(nearest) >= kept - 0.008
    assert nearest[-1] <= kept + 0.06


@pytest.mark.parametrize("aside", [0.0, 0.02])
def test_the_base_passes_between_walls_that_are_wide_enough(looking, aside):
    """0.80 m for a base of 0.60 m; the walls are lower than the arms."""
    for name, side in (("left", 1.0), ("right", -1.0)):
        wall = '<geom type="box" size="0.6 0.05 0.25" mass="500"/>'
        looking.plant.spawn(name, text=wall, position=(1.6, side * 0.45 + aside, 0.25))
    looking.stick = [1.0, 0.0, 0.0]
    slowest = [1.0]

    def move(t):
        heard(looking)
        assert not looking.avatar.base.obstacle
        if t > 1.0:
            slowest[0] = min(slowest[0], looking.v[0])

    looking.run(15.0, move=move)
    assert looking.q[0] > 2.4 and slowest[0] > 0.12
    assert looking.q[1:3] == pytest.approx([0.0, 0.0], abs=5e-3)


def gap(plant):
    """Least distance of the box from a shape of the base [m]."""
    probe, model = plant.world.observe(), plant.world.model
    box, base = model.body("box").geomadr[0], model.body("base").id
    own = [g for g in range(model.ngeom) if model.geom_bodyid[g] == base]
    return min(mujoco.mj_geomDistance(model, probe, g, box, 5.0, None) for g in own)


def test_a_rangefinder_that_falls_silent_stops_the_base(looking):
    """As the node and the experiments hear them: a reading counts while it is young."""
    readings = RangeReadings(0.3)
    looking.stick = [1.0, 0.0, 0.0]
    silent_from = np.inf

    def move(t):
        for reading in looking.plant.ranges():
            if reading.site != "range_front_left" or reading.stamp < silent_from:
                readings.hear(reading.site, reading.range, reading.stamp, looking.now)
        looking.ranges = readings.fresh(looking.now)

    looking.run(1.0, move=move)
    assert looking.v[0] == pytest.approx(0.2, abs=0.01) and not looking.avatar.base.obstacle
    silent_from, x = looking.now, looking.q[0]
    looking.run(1.5, move=move)
    assert looking.avatar.base.obstacle == "The base stands: the rangefinder range_front_left says nothing."
    assert abs(looking.v[0]) < 0.01
    # on at full speed for a period of the rangefinder and the age limit, and then the way of braking, with the servos' own
    assert looking.q[0] - x <= 0.2 * 0.4 + 0.2**2 / (2.0 * 0.8) + 0.2 * 0.15
    looking.stick = [-1.0, 0.0, 0.0]
    looking.run(1.5, move=move)
    assert looking.v[0] == pytest.approx(-0.2, abs=0.01)  # the others still look where they look


def test_head_gripper_and_hand(rehearsal):
    names = list(rehearsal.model.joint_names)
    rehearsal.look = np.array([0.5, 0.1, 0.0])

    def close(t):
        rehearsal.trigger = [min(1.0, t), min(0.5, t)]

    rehearsal.run(1.5, move=close)
    at = dict(zip(names, rehearsal.q))
    home = dict(zip(names, rehearsal.model.q_home))
    assert at["head_yaw"] == pytest.approx(0.5, abs=0.01)
    assert at["head_pitch"] == pytest.approx(home["head_pitch"] + 0.1, abs=0.01)
    assert at["right_gripper"] == pytest.approx(0.0425, abs=1e-3)
    assert at["left_middle"] == pytest.approx(0.8, abs=0.05)
    rehearsal.look, rehearsal.trigger = np.zeros(3), [0.0, 0.0]
    rehearsal.run(1.0, heard=False)  # who is lost keeps what is held
    rehearsal.session = "two"
    rehearsal.run(1.0)  # and who comes back with an open hand too, until the trigger has been where the fingers are
    assert dict(zip(names, rehearsal.q))["right_gripper"] == pytest.approx(0.0425, abs=1e-3)
    rehearsal.run(1.0, move=lambda t: rehearsal.trigger.__setitem__(0, min(1.0, 2.0 * t)))
    rehearsal.run(1.0, move=lambda t: rehearsal.trigger.__setitem__(0, 0.0))
    assert dict(zip(names, rehearsal.q))["right_gripper"] == pytest.approx(0.0, abs=1e-3)


def head_yaw(rehearsal, yaw_of, seconds):
    """Times, the head's yaw as measured, and the headset's."""
    at, rows = list(rehearsal.model.joint_names).index("head_yaw"), []

    def move(t):
        rehearsal.look = np.array([yaw_of(t), 0.0, 0.0])
        rows.append((t, rehearsal.q[at], rehearsal.look[0]))

    rehearsal.run(seconds, move=move)
    return np.array(rows).T


@pytest.mark.parametrize("rate", [1.0, 2.4])  # [rad/s]: the faster one turns at 2.5 rad/s, of 3 that the head may
def test_the_head_follows_sixty_degrees_within_a_control_period(rehearsal, rate):
    t, q, _ = head_yaw(rehearsal, lambda t: np.pi / 3 * np.sin(rate * t), 4.0 * np.pi / rate)
    late = t > 2.0 * np.pi / rate
    # q = a sin(w t - w delay)
    basis = np.column_stack([np.sin(rate * t[late]), -np.cos(rate * t[late])])
    a, b = np.linalg.lstsq(basis, q[late], rcond=None)[0]
    assert 0.0 <= np.arctan2(b, a) / rate <= DT
    assert np.hypot(a, b) == pytest.approx(np.pi / 3, rel=0.02)


def test_a_jump_of_the_headset_is_followed_as_fast_as_the_neck_may_turn(rehearsal):
    rehearsal.run(0.2)
    t, q, _ = head_yaw(rehearsal, lambda t: np.pi / 3, 1.5)
    assert q[2] > 1e-3  # it has begun in the first period
    there = t[np.argmax(q > np.pi / 3 - np.deg2rad(1.0))]
    settings = rehearsal.avatar.settings
    # the way at its speed, one period, and the time constants of a critically damped servo
    assert there <= np.pi / 3 / settings.head_speed + DT + 2.0 / settings.bandwidth["head"]
    assert q[-1] == pytest.approx(np.pi / 3, abs=1e-3)


def test_where_straight_ahead_is_may_change_while_somebody_looks(rehearsal):
    index = [list(rehearsal.model.joint_names).index(f"head_{name}") for name in ("yaw", "pitch", "roll")]
    rehearsal.run(0.5, heard=False)  # who was heard last holds for a moment
    assert rehearsal.avatar.neck.set_offset((0.2, 0.5, -0.1)) == ""
    before = rehearsal.q[index]
    rehearsal.run(0.5, heard=False)
    assert rehearsal.q[index] == pytest.approx(before, abs=1e-3)  # nobody looks
    rehearsal.run(1.0)
    assert rehearsal.q[index] == pytest.approx([0.2, 0.5, -0.1], abs=5e-3)


def test_the_head_is_parked_while_nobody_looks_through_it(rehearsal):
    index = [list(rehearsal.model.joint_names).index(f"head_{name}") for name in ("yaw", "pitch", "roll")]
    rehearsal.look = np.array([0.6, -0.3, 0.2])
    rehearsal.run(0.8)
    assert rehearsal.q[index] == pytest.approx([0.6, 0.45, 0.2], abs=0.01)  # roll as well; home looks 0.75 down
    assert "an operator is connected" in rehearsal.avatar.park_head()
    rehearsal.run(2.5, heard=False)
    assert rehearsal.avatar.session.state is State.DISCONNECTED
    assert rehearsal.q[index] == pytest.approx([0.6, 0.45, 0.2], abs=0.01)  # lost for good: as it was
    assert rehearsal.avatar.park_head() == ""
    rehearsal.run(1.0, heard=False)
    rest = load_robot(ROBOT).task.park
    assert rehearsal.q[index] == pytest.approx(rest, abs=0.01)
    rehearsal.session, rehearsal.look = "two", np.zeros(3)
    rehearsal.run(0.8)
    assert rehearsal.q[index] == pytest.approx([0.0, 0.75, 0.0], abs=0.01)


@pytest.mark.parametrize(("parked", "falls"), [(True, False), (False, True)])
def test_a_parked_head_that_goes_limp_does_not_fall(avatar_model, parked, falls):
    """The neck's own dynamics in MuJoCo, everything else held."""
    model = mujoco.MjModel.from_xml_path(str(load_robot(ROBOT).model))
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    neck = [model.joint(f"head_{name}") for name in ("yaw", "pitch", "roll")]
    for joint, angle in zip(neck, load_robot(ROBOT).task.park if parked else (0.0, 0.1, 0.0)):
        data.qpos[joint.qposadr[0]] = angle
    held, free = data.qpos.copy(), [joint.qposadr[0] for joint in neck]
    for _ in range(1500):
        mujoco.mj_step(model, data)
        others = np.ones(model.nq, bool)
        others[free] = False
        data.qpos[others], data.qvel[np.setdiff1d(np.arange(model.nv), [j.dofadr[0] for j in neck])] = held[others], 0.0
    assert bool(abs(data.qpos[free[1]] - held[free[1]]) > 0.3) is falls


def test_a_glove_leads_the_hand_and_drops_nothing(rehearsal):
    avatar, index = rehearsal.avatar, rehearsal.avatar.grip.hand
    wanted = np.array([1.2, 1.0, 0.8, 0.6, 0.5, 1.5])
    avatar.grip.retargeting = Told(avatar.position[index].copy())
    rehearsal.glove = np.zeros(20)
    rehearsal.run(0.1)
    avatar.grip.retargeting = Told(wanted)
    rehearsal.run(1.5)
    assert rehearsal.q[index] == pytest.approx(wanted, abs=0.05)
    rehearsal.run(1.0, heard=False)  # who is lost keeps what is held
    avatar.grip.retargeting, rehearsal.session = Told(0.1 * wanted), "two"
    rehearsal.run(0.5)  # and who comes back with an open hand, too
    assert rehearsal.q[index] == pytest.approx(wanted, abs=0.05)
    rehearsal.glove = None  # nor does a trigger that takes the glove's place
    rehearsal.run(0.5)
    assert rehearsal.q[index] == pytest.approx(wanted, abs=0.05)


def test_a_shown_pose_is_shown_while_somebody_is_there(rehearsal):
    avatar, index = rehearsal.avatar, rehearsal.avatar.grip.hand
    avatar.grip.shown = np.array([1.0, 0.2, 0.2, 0.2, 0.3, 1.7])
    rehearsal.run(1.0, heard=False)
    assert np.abs(rehearsal.q[index] - avatar.grip.shown).max() > 0.3
    rehearsal.run(1.0)
    assert rehearsal.q[index] == pytest.approx(avatar.grip.shown, abs=0.05)


class Told:
    """A retargeting that says what it was told."""

    said = "told"

    def __init__(self, angles):
        self.angles = angles

    def __call__(self, glove):
        return self.angles


def test_another_robot_is_refused():
    with pytest.raises(RobotError, match="expected a task of kind teleoperate"):
        Avatar(load_robot("panda"), load_model("panda"))
