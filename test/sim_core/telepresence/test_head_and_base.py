"""The neck after a headset, and the base after a stick."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from sim_core.telepresence.clutch import OPENXR, UNITY, Pose
from sim_core.telepresence.head import Neck
from sim_core.telepresence.omni_base import BaseLimits, OmniBase, Rangefinder

LOWER, UPPER = np.array([-1.4, -0.7, -0.5]), np.array([1.4, 1.0, 0.5])
DT = 0.008


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
    neck.offset = np.zeros(3)  # live
    for _ in range(1000):
        neck.follow(headset(0.1, 0.2), DT)
    assert neck.q == pytest.approx([0.1, 0.2, 0.0], abs=1e-9)


def test_a_headset_centred_while_it_looks_down_keeps_its_inclination():
    neck = Neck(LOWER, UPPER)
    neck.centre(headset(pitch=0.5))
    for _ in range(1000):
        neck.follow(headset(pitch=0.5), DT)
    assert neck.q == pytest.approx([0.0, 0.5, 0.0], abs=1e-9)


def drive(base, stick, ranges=None, seconds=2.0):
    for _ in range(round(seconds / DT)):
        before = base.velocity.copy()
        base.follow(stick, ranges or {}, DT)
        assert np.abs(base.velocity - before).max() <= 2.0 * DT * 0.8 + 1e-12
    return base.velocity


def test_full_stick_is_the_limit_in_every_direction():
    for angle in np.linspace(0.0, 2.0 * np.pi, 9):
        base = OmniBase()
        v = drive(base, (np.cos(angle), np.sin(angle), 1.0))
        assert np.linalg.norm(v[:2]) == pytest.approx(0.2) and v[2] == pytest.approx(0.4)
        assert (
            np.arctan2(v[1], v[0]) == pytest.approx(np.angle(np.exp(1j * angle)), abs=1e-9) or abs(angle - np.pi) < 1e-9
        )
    assert np.linalg.norm(drive(OmniBase(), (1.0, 1.0, -1.0))[:2]) == pytest.approx(0.2)


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
    base, free = OmniBase(finders), {"front": np.inf, "left": np.inf}
    drive(base, (1.0, 0.0, 0.0), free)
    assert not base.obstacle
    v = drive(base, (1.0, 0.0, 0.0), {**free, "front": 0.3})
    assert v == pytest.approx(np.zeros(3)) and "front sees something 0.30 m away" in base.obstacle
    assert drive(base, (-1.0, 0.0, 0.0), {**free, "front": 0.3})[0] == pytest.approx(-0.2) and not base.obstacle
    assert drive(base, (0.0, 0.0, 1.0), {**free, "front": 0.3})[2] == pytest.approx(0.4)


@pytest.mark.parametrize("ranges", [{}, {"front": np.nan}])
def test_a_rangefinder_that_is_gone_is_an_obstacle(ranges):
    base = OmniBase((Rangefinder("front", 0.0),))
    assert drive(base, (1.0, 0.0, 0.0), ranges) == pytest.approx(np.zeros(3))
    assert "says nothing" in base.obstacle


def test_it_stops_in_time():
    """From full speed towards a wall: the way from the threshold on is shorter than the threshold."""
    base, x, wall = OmniBase((Rangefinder("front", 0.0),)), 0.0, 2.0
    for _ in range(5000):
        base.follow((1.0, 0.0, 0.0), {"front": wall - x}, DT)
        x += base.velocity[0] * DT
    assert 0.3 < wall - x <= BaseLimits().stop_distance
