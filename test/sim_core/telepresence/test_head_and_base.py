"""The neck after a headset, and the base after a stick."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from config.description import Footprint
from sim_core.telepresence.clutch import OPENXR, UNITY, Pose
from sim_core.telepresence.head import Neck
from sim_core.telepresence.omni_base import BaseLimits, OmniBase, Rangefinder
from sim_core.telepresence.range_readings import HeardRange, RangeReadings

LOWER, UPPER = np.array([-1.4, -0.7, -0.5]), np.array([1.4, 1.0, 0.5])
DT = 0.008
AREA = Footprint(front=0.1, rear=0.1, side=0.1)
FULL = 0.198  # [m/s] that is asked of the base at full stick, so that it stays below 0.2


def headset(yaw=0.0, pitch=0.0, roll=0.0, facing=0.0, axes=OPENXR):
    """A headset that looks so in the robot's axes, worn by somebody who faces another way [rad]."""
    turn = Rotation.from_euler("z", facing) * Rotation.from_euler("ZYX", [yaw, pitch, roll])
    return Pose(np.zeros(3), axes.T @ turn.as_matrix() @ axes)


@pytest.mark.parametrize("axes", [OPENXR, UNITY])
@pytest.mark.parametrize("facing", [0.0, 1.1, -2.5])
def test_the_neck_turns_as_the_head_does_wherever_the_operator_faces(axes, facing):
    neck = Neck(LOWER, UPPER)
    neck.centre(headset(facing=facing, axes=axes), axes)
    for _ in range(1000):
        neck.follow(headset(0.6, -0.3, 0.2, facing, axes), DT, axes)
    assert neck.q == pytest.approx([0.6, -0.3, 0.2], abs=1e-9)


def test_sixty_degrees_within_its_speed_and_no_later():
    neck, seen = Neck(LOWER, UPPER, speed=3.0), []
    neck.centre(headset())
    for _ in range(200):
        seen.append(neck.follow(headset(np.pi / 3), DT)[0])
    assert np.diff([0.0, *seen]).max() <= 3.0 * DT + 1e-12
    assert seen[int(np.ceil(np.pi / 3 / (3.0 * DT))) - 1] == pytest.approx(np.pi / 3)
    slow = Neck(LOWER, UPPER)
    slow.centre(headset())
    for k in range(1, 200):  # slower than the neck: not a period late
        yaw = np.pi / 3 * np.sin(0.008 * k)
        assert slow.follow(headset(yaw), DT)[0] == pytest.approx(yaw, abs=1e-9)


def test_limits_offset_and_loss():
    neck = Neck(LOWER, UPPER, offset=(0.0, 0.4, 0.0))
    assert neck.follow(headset(1.0), DT) == pytest.approx([0.0, 0.4, 0.0])  # not centred yet
    neck.centre(headset())
    for _ in range(1000):
        neck.follow(headset(3.0, 1.4), DT)
    assert (neck.q <= UPPER).all() and (neck.q >= LOWER).all() and neck.q[0] == pytest.approx(1.4)
    before = neck.q.copy()
    assert neck.follow(None, 1.0) == pytest.approx(before)
    assert neck.set_offset((0.0, 0.0, 0.0)) == ""  # live
    for _ in range(1000):
        neck.follow(headset(0.1, 0.2), DT)
    assert neck.q == pytest.approx([0.1, 0.2, 0.0], abs=1e-9)


@pytest.mark.parametrize("offset", [(1.5, 0.0, 0.0), (0.0, -0.8, 0.0), (0.0, 0.0, np.nan), (np.inf, 0.0, 0.0)])
def test_an_offset_that_the_neck_cannot_have_is_refused(offset):
    neck = Neck(LOWER, UPPER, offset=(0.0, 0.4, 0.0))
    name = ("yaw", "pitch", "roll")[next(i for i, value in enumerate(offset) if value)]
    assert neck.set_offset(offset).startswith(f"{name}: expected an angle within the neck's limits, -")
    assert neck.offset == pytest.approx([0.0, 0.4, 0.0])


def test_a_parked_head_rests_until_a_headset_leads_it():
    neck = Neck(LOWER, UPPER, speed=3.0, rest=(0.1, 0.9, 0.0))
    neck.centre(headset())
    for _ in range(100):
        neck.follow(headset(0.8, -0.2, 0.1), DT)
    neck.follow(None, DT)
    assert neck.q == pytest.approx([0.8, -0.2, 0.1])  # it keeps its pose where nobody asks for more
    neck.park()
    ways = np.array([neck.follow(None, DT) for _ in range(100)])
    assert np.abs(np.diff(ways, axis=0)).max() <= 3.0 * DT + 1e-12 and ways[-1] == pytest.approx([0.1, 0.9, 0.0])
    for _ in range(100):
        neck.follow(headset(0.3), DT)
    assert neck.follow(None, DT) == pytest.approx([0.3, 0.0, 0.0])  # and is not parked any more
    neck.park()
    neck.start_at(np.zeros(3))
    assert neck.follow(None, DT) == pytest.approx(np.zeros(3))
    with pytest.raises(ValueError, match="park: expected angles within the neck's limits"):
        Neck(LOWER, UPPER, rest=(0.0, 1.2, 0.0))


def test_a_headset_centred_while_it_looks_down_keeps_its_inclination():
    neck = Neck(LOWER, UPPER)
    neck.centre(headset(pitch=0.5))
    for _ in range(1000):
        neck.follow(headset(pitch=0.5), DT)
    assert neck.q == pytest.approx([0.0, 0.5, 0.0], abs=1e-9)


def drive(base, stick, ranges=None, seconds=2.0):
    for _ in range(round(seconds / DT)):
        before = base.velocity.copy()
        base.follow(stick, {name: HeardRange(far, 0.0) for name, far in (ranges or {}).items()}, DT)
        change = base.velocity - before
        assert np.linalg.norm(change[:2]) <= 2.0 * DT * 0.4 + 1e-12 and abs(change[2]) <= 4.0 * DT * 0.8 + 1e-12
    return base.velocity


def test_full_stick_is_the_limit_in_every_direction():
    for angle in np.linspace(0.0, 2.0 * np.pi, 9):
        base = OmniBase()
        v = drive(base, (np.cos(angle), np.sin(angle), 1.0))
        assert np.linalg.norm(v[:2]) == pytest.approx(FULL) and v[2] == pytest.approx(0.4)
        assert (
            np.arctan2(v[1], v[0]) == pytest.approx(np.angle(np.exp(1j * angle)), abs=1e-9) or abs(angle - np.pi) < 1e-9
        )
    assert np.linalg.norm(drive(OmniBase(), (1.0, 1.0, -1.0))[:2]) == pytest.approx(FULL)


def test_dead_zone_and_release():
    assert drive(OmniBase(), (0.07, 0.0, -0.07)) == pytest.approx(np.zeros(3))
    base = OmniBase()
    drive(base, (1.0, 0.0, 0.0))
    travelled = 0.0
    while np.abs(base.velocity).max() > 0.0:
        travelled += base.follow(None, {}, DT)[0] * DT
    assert travelled <= 0.2**2 / (2 * 0.8) + 0.2 * DT  # v^2 / 2a, and a period


def test_what_a_rangefinder_sees_stops_the_way_there_and_no_other():
    finders = (Rangefinder("front", 0.0), Rangefinder("left", np.pi / 2))
    base, free = OmniBase(finders, footprint=AREA), {"front": np.inf, "left": np.inf}
    assert drive(base, (1.0, 0.0, 0.0), free)[0] == pytest.approx(FULL) and not base.obstacle
    v = drive(base, (1.0, 0.0, 0.0), {**free, "front": 0.3})
    assert v == pytest.approx(np.zeros(3)) and "front sees something 0.30 m away" in base.obstacle
    assert drive(base, (0.0, 1.0, 0.0), {**free, "front": 0.3})[1] == pytest.approx(FULL) and not base.obstacle
    assert drive(base, (0.0, 0.0, 1.0), {**free, "front": 0.3})[2] == pytest.approx(0.4)


def test_where_none_looks_it_is_slow_and_with_none_at_all_as_fast_as_ever():
    base = OmniBase((Rangefinder("front", 0.0),), footprint=AREA)
    free = {"front": np.inf}
    assert drive(base, (-1.0, 0.0, 0.0), free)[0] == pytest.approx(-0.1) and not base.obstacle
    assert drive(base, (0.0, 1.0, 0.0), free)[:2] == pytest.approx([0.0, 0.1])
    assert np.linalg.norm(drive(base, (1.0, 0.3, 0.0), free)[:2]) == pytest.approx(
        FULL, abs=1e-3
    )  # 17 degrees: within its cone
    assert np.linalg.norm(drive(base, (1.0, 0.5, 0.0), free)[:2]) == pytest.approx(0.1)  # 27 degrees: beside it
    assert drive(OmniBase(), (-1.0, 0.0, 0.0))[0] == pytest.approx(-FULL)


def test_a_rangefinder_that_cannot_tell_the_stop_distance_is_refused():
    with pytest.raises(ValueError, match=r"stop_distance: .* rangefinder front can tell, above 0.4 and below 5 \[m\]"):
        OmniBase((Rangefinder("front", 0.0, minimum=0.4, maximum=5.0),), footprint=AREA)
    with pytest.raises(ValueError, match="footprint: expected the base's"):
        OmniBase((Rangefinder("front", 0.0),))


@pytest.mark.parametrize("ranges", [{}, {"front": np.nan}])
def test_a_rangefinder_that_is_gone_is_an_obstacle(ranges):
    base = OmniBase((Rangefinder("front", 0.0),), footprint=AREA)
    assert drive(base, (1.0, 0.0, 0.0), ranges) == pytest.approx(np.zeros(3))
    assert "says nothing" in base.obstacle


@pytest.mark.parametrize("age", [0.0, 0.1, 0.29])
def test_it_stops_in_time(age):
    """From full speed towards a wall, by readings that are as old as they may be: the distance is kept, and nearly reached."""
    finder = Rangefinder("front", 0.0, field_of_view=0.05, place=(0.1, 0.0))
    base, x, wall, seen = OmniBase((finder,), footprint=AREA), 0.0, 2.0, []
    fastest = 0.0
    for k in range(3000):
        seen.append(wall - x)
        base.follow((1.0, 0.0, 0.0), {"front": HeardRange(seen[max(0, k - round(age / DT))], age)}, DT)
        x, fastest = x + base.velocity[0] * DT, max(fastest, base.velocity[0])
    assert fastest == pytest.approx(FULL) and base.velocity[0] == pytest.approx(0.0)
    assert BaseLimits().stop_distance <= wall - x < BaseLimits().stop_distance + 0.01


def test_a_thing_that_appears_is_braked_for_harder_than_a_stick_is_obeyed():
    base = OmniBase((Rangefinder("front", 0.0),), footprint=AREA)
    drive(base, (1.0, 0.0, 1.0), {"front": np.inf})
    way = turned = 0.0
    while np.abs(base.velocity[:2]).max() > 0.0:
        base.follow((1.0, 0.0, 0.0), {"front": HeardRange(0.31, 0.0)}, DT)
        way, turned = way + base.velocity[0] * DT, turned + base.velocity[2] * DT
    assert way <= FULL**2 / (2 * 0.8) + FULL * DT and turned <= 0.4**2 / (2 * 3.2) + 0.4 * DT


def test_the_speed_before_an_obstacle_is_what_can_be_braked():
    limits = BaseLimits(reaction=0.25, acceleration=0.4)
    to_go = np.array([0.01, 0.1, 0.3])
    v = limits.approach_speed(to_go)
    assert v * 0.25 + v**2 / (2.0 * 0.8) == pytest.approx(to_go)
    assert limits.approach_speed(0.0) == limits.approach_speed(-0.4) == limits.approach_speed(0.002) == 0.0
    assert limits.approach_speed(np.inf) == np.inf


def test_how_far_it_has_come_is_told_in_its_axes_of_then():
    base = OmniBase()
    drive(base, (1.0, 0.0, 0.0), seconds=2.0)
    assert base.moved(0.2) == pytest.approx([FULL * 0.2, 0.0, 0.0])
    drive(base, (1.0, 0.0, 1.0), seconds=2.0)
    turn, radius = 0.4 * 0.2, FULL / 0.4
    assert base.moved(0.2) == pytest.approx([radius * np.sin(turn), radius * (1.0 - np.cos(turn)), turn], abs=1e-6)
    assert not base.moved(0.0).any()


def test_readings_count_while_they_are_young_on_the_robots_clock():
    readings = RangeReadings(0.3)
    assert readings.fresh(10.0) == {}
    assert readings.hear("front", 1.2, 10.0, 10.0) and readings.hear("left", np.inf, 9.9, 10.0)
    fresh = readings.fresh(10.19)
    assert (fresh["front"].distance, fresh["left"].distance) == (1.2, np.inf)
    assert (fresh["front"].age, fresh["left"].age) == pytest.approx((0.19, 0.29))
    assert list(readings.fresh(10.25)) == ["front"] and readings.fresh(10.31) == {}
    assert not readings.hear("front", 5.0, 10.0, 10.4)  # it comes too late to be believed
    assert readings.hear("front", 0.8, 99.0, 10.4)  # a clock that is ahead earns no longer belief
    assert readings.fresh(10.69)["front"].distance == 0.8 and readings.fresh(10.71) == {}
    assert not readings.hear("front", 9.0, 10.3, 10.5)  # overtaken on its way
    assert readings.fresh(3.0) == {}  # time went back
    assert not readings.hear("front", np.nan, np.nan, 10.5)
    with pytest.raises(ValueError, match="expected a positive time"):
        RangeReadings(0.0)
