"""What the base keeps away from, in every direction and while it turns: true distances between the shapes of robot and things."""

import mujoco
import numpy as np
import pytest
from base_drive import ROBOT, BaseDrive, post, wall

from config.description import Footprint, Teleoperate
from config.robot import load_robot
from sim_core.telepresence.avatar import Avatar
from sim_core.telepresence.base_clearance import BaseClearance, Rangefinder
from sim_core.telepresence.omni_base import BaseLimits
from sim_core.telepresence.range_readings import HeardRange

AREA = Footprint(front=0.3, rear=0.5, side=0.2)
LIMITS = BaseLimits()
#: [m] three standard deviations of a reading, and what is between two rays
NOISE = 0.008


@pytest.fixture(scope="module")
def avatar(avatar_model):
    return Avatar(load_robot(ROBOT), avatar_model)


def still(ages):
    return np.zeros((len(ages), 3))


def test_the_footprint_holds_every_shape_of_the_base_and_no_more():
    model = mujoco.MjModel.from_xml_path(str(load_robot(ROBOT).model))
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    said = load_robot(ROBOT).task_as(Teleoperate).footprint
    probe = mujoco.MjSpec()
    for name, centre in (("front", (1.0 + said.front, 0, 0.5)), ("rear", (-1.0 - said.rear, 0, 0.5))):
        probe.worldbody.add_geom(name=name, type=mujoco.mjtGeom.mjGEOM_BOX, size=(1.0, 2.0, 0.6), pos=centre)
    for name, y in (("left", 1.0 + said.side), ("right", -1.0 - said.side)):
        probe.worldbody.add_geom(name=name, type=mujoco.mjtGeom.mjGEOM_BOX, size=(2.0, 1.0, 0.6), pos=(0, y, 0.5))
    spec = mujoco.MjSpec.from_file(str(load_robot(ROBOT).model))
    for geom in probe.worldbody.geoms:
        spec.worldbody.add_geom(name=geom.name, type=geom.type, size=geom.size, pos=geom.pos)
    model = spec.compile()
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    own = [g for g in range(model.ngeom) if model.geom_bodyid[g] == model.body("base").id]
    for name in ("front", "rear", "left", "right"):
        other = model.geom(name).id
        nearest = min(mujoco.mj_geomDistance(model, data, g, other, 1.0, None) for g in own)
        assert nearest == pytest.approx(0.0, abs=2e-3), name


def test_the_velocity_towards_a_place_is_that_of_the_point_that_faces_it():
    """By a difference of distances after a small motion, for places all round."""
    rng = np.random.default_rng(3)
    clearance = BaseClearance((), AREA, 0.35, 0.03)
    places = rng.uniform(-1.0, 1.0, (200, 2))
    places = places[(np.abs(places[:, 1]) > 0.21) | (places[:, 0] > 0.31) | (places[:, 0] < -0.51)]
    towards, to_go = clearance._towards(places, np.zeros_like(places))
    motion, dt = np.array([0.13, -0.08, 0.3]), 1e-6
    c, s = np.cos(motion[2] * dt), np.sin(motion[2] * dt)
    later = (places - motion[:2] * dt) @ np.array([[c, -s], [s, c]])
    _, to_go_later = clearance._towards(later, np.zeros_like(places))
    assert towards @ motion == pytest.approx((to_go - to_go_later) / dt, abs=1e-4)


def test_a_reading_stands_for_its_whole_arc_where_the_base_has_moved_since():
    finder = Rangefinder("ahead", 0.0, 0.5, 0.02, place=(0.3, 0.0))
    clearance = BaseClearance((finder,), AREA, 0.35, 0.03)
    around = clearance.around({"ahead": HeardRange(1.0, 0.2)}, still)
    straight = around.to_go[around.straight]
    assert straight.max() == pytest.approx(1.0 - 0.35) and straight.min() == pytest.approx(
        np.cos(0.25) - 0.35, abs=0.02
    )
    assert around.to_go[~around.straight] == pytest.approx(np.full(13, 0.97), abs=0.05)
    gone = clearance.around({"ahead": HeardRange(1.0, 0.2)}, lambda ages: np.outer(ages, [1.0, 0.0, 0.0]))
    assert gone.to_go[gone.straight].max() == pytest.approx(0.8 - 0.35)
    aside = clearance.around(
        {"ahead": HeardRange(1.0, 0.2)}, lambda ages: np.tile([0.0, 0.0, np.pi / 2], (len(ages), 1))
    )
    assert not aside.straight.any()  # it has turned left: the place is at its right now
    assert (aside.towards[:, 1] < -0.8).all()


@pytest.mark.parametrize("reading", [{}, {"ahead": HeardRange(np.nan, 0.0)}, {"ahead": HeardRange(0.3, 0.0)}])
def test_silence_and_the_least_reading_may_be_a_touch(reading):
    finder = Rangefinder("ahead", 0.0, 0.5, 0.3, place=(0.31, 0.0))
    around = BaseClearance((finder,), AREA, 0.35, 0.03).around(reading, still)
    assert (around.to_go < 0.0).all() and (around.approach(np.array([0.1, 0.0, 0.0])) > 0.05).all()
    assert (around.approach(np.array([-0.1, 0.0, 0.0])) == 0.0).all()


def test_what_cannot_be_told_is_refused():
    side = Rangefinder("left", np.pi / 2, 0.7, 0.3)
    with pytest.raises(ValueError, match="side_distance: .* rangefinder left can tell, above 0.3 and"):
        BaseClearance((side,), AREA, 0.35, 0.03)
    deep = Rangefinder("left", np.pi / 2, 0.7, 0.2, place=(0.0, 0.0))
    BaseClearance((deep,), AREA, 0.35, 0.03)  # within the base, its least range is nearly at the edge


@pytest.mark.parametrize("direction", range(16))
def test_full_stick_in_every_direction(avatar, direction):
    """At a wall square to the way, at a post in the middle of the way, and at one that only a corner would touch."""
    angle = 2.0 * np.pi * direction / 16
    ahead, across = np.array([np.cos(angle), np.sin(angle)]), np.array([-np.sin(angle), np.cos(angle)])
    drive = BaseDrive(avatar, wall(angle, 1.1), post(*(0.95 * ahead)), post(*(0.9 * ahead + 0.25 * across)))
    least, motion = drive.run((*ahead, 0.0), 5.5)
    assert drive.base.obstacle.startswith(("The base stands: ", "The base keeps off: "))
    kept = LIMITS.stop_distance if direction in (0, 8) else LIMITS.side_distance  # straight ahead and behind, or not
    assert least >= kept - NOISE
    if direction % 4 == 0:
        assert least <= kept + 0.06 and np.abs(motion).max() < 1e-9


@pytest.mark.parametrize("turn", [1.0, -1.0])
@pytest.mark.parametrize("corner", [(0.26, 0.30), (0.26, -0.30), (-0.50, 0.30), (-0.50, -0.30)])
def test_a_corner_turns_towards_a_post_and_stops(avatar, corner, turn):
    """The post stands where the corner would pass, a sixth of a turn on and nearer."""
    radius, before = np.hypot(*corner), np.arctan2(corner[1], corner[0])
    for on in (0.5, 1.0):
        at = before + turn * on
        drive = BaseDrive(avatar, post(radius * np.cos(at), radius * np.sin(at)))
        begun = drive.clearance()
        least, motion = drive.run((0.0, 0.0, turn), 4.0)
        assert least >= min(begun, LIMITS.side_distance) - NOISE
        assert motion == pytest.approx(np.zeros(3), abs=1e-9) and abs(drive.pose[2]) < on
        where = drive.pose[:2].copy()
        away = -np.array([np.cos(at - drive.pose[2]), np.sin(at - drive.pose[2])])
        least, _ = drive.run((*away, 0.0), 1.0)  # away from it is free
        assert least >= min(begun, LIMITS.side_distance) - NOISE and np.linalg.norm(drive.pose[:2] - where) > 0.1


def test_turning_beside_walls_and_driving_obliquely_while_turning(avatar):
    for bearing, stick in ((np.pi / 2, (0.0, 0.0, 1.0)), (0.0, (0.3, 0.4, -1.0)), (np.pi, (-0.6, 0.2, 1.0))):
        drive = BaseDrive(avatar, wall(bearing, 0.52 if bearing == np.pi / 2 else 0.95))
        least, _ = drive.run(stick, 6.0)
        assert least >= LIMITS.side_distance - NOISE


def test_a_post_of_ten_centimetres_is_seen_wherever_it_comes_within_what_is_kept(avatar):
    """Along the edge of all that the base keeps free, with the footprint at rest: none slips between two cones."""
    said = load_robot(ROBOT).task_as(Teleoperate).footprint
    at_rest = LIMITS.side_distance + 0.05
    places = [(x, side * (said.side + at_rest)) for side in (-1, 1) for x in np.arange(-said.rear, said.front, 0.025)]
    straight = LIMITS.stop_distance + 0.05
    for y in np.arange(-said.side, said.side + 0.01, 0.025):
        places += [(said.front + straight, y), (-said.rear - straight, y)]
    drive = BaseDrive(avatar, post(0.0, 0.0))
    for x, y in places:
        drive.put(x, y)
        drive.finders.reset(0.0, 0)
        seen = [one.range for one in drive.finders.read(0.0, lambda: (drive.model, drive.data))]
        assert min(seen) < 0.5, (x, y)


def test_a_silent_rangefinder_stops_its_sector_alone(avatar):
    for name, blocked, free in (
        ("range_left_2", (0.0, 1.0, 0.0), (1.0, 0.0, 0.0)),
        ("range_rear_right_corner", (0.0, -1.0, 0.0), (1.0, 0.0, 0.0)),
        ("range_rear", (-1.0, 0.0, 0.0), (0.0, 1.0, 0.0)),
    ):
        drive = BaseDrive(avatar)
        drive.silent = (name,)
        assert drive.run(blocked, 1.0)[1] == pytest.approx(np.zeros(3), abs=1e-9)
        assert drive.base.obstacle == f"The base stands: the rangefinder {name} says nothing."
        assert np.linalg.norm(drive.run(free, 1.5)[1]) == pytest.approx(0.198, abs=1e-3)


def test_along_a_passage_and_out_of_it(avatar):
    """0.80 m between walls for a base of 0.60 m, three centimetres off its middle, with a stick that is not straight."""
    drive = BaseDrive(avatar, *(wall(side * np.pi / 2, 0.40 + side * 0.03) for side in (1, -1)))
    least, motion = drive.run((1.0, 0.2, 0.0), 6.0)
    assert motion[0] > 0.05 and drive.pose[0] > 0.5  # with a wall at its side it is slow, and goes on
    assert least >= LIMITS.side_distance - NOISE
    assert np.linalg.norm(drive.run((0.0, -0.3, 0.0), 0.5)[1]) > 0.02  # away from the wall
