"""The four movements of a scoop: angles, lengths and plane as published, and no jump in place or speed."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from sim_core.scooping.arm.primitive import Phase, PrimitiveConfig, ScoopAction, ScoopTrajectory, blade_rotation
from sim_core.telepresence.arm_kinematics import pose_error

pytestmark = pytest.mark.pure

POINT = np.array([0.55, -0.1, 0.12])
ACTIONS = [
    ScoopAction(POINT, 0.0, 0.03, "soft"),
    ScoopAction(POINT, np.deg2rad(135.0), 0.08, "hard"),
    ScoopAction(POINT, -2.1, 0.05, "hard"),
]


def states(trajectory, count=401):
    times = np.linspace(0.0, trajectory.duration, count)
    return times, [trajectory.at(t) for t in times]


def of(rows, phase):
    return [state for state in rows if state.phase is phase]


def slope(state):
    """The angle of the floor, from the axes alone: 90 degrees straight down, 180 level."""
    x = state.pose.rotation[:, 0]
    forward = np.linalg.norm(x[:2]) * np.sign(x[:2] @ np.cross(state.pose.rotation[:, 1], [0.0, 0.0, 1.0])[:2])
    return np.rad2deg(np.arctan2(-x[2], -forward)) % 360.0


@pytest.mark.parametrize("angle, x, z", [(90, (0, 0, -1), (1, 0, 0)), (180, (1, 0, 0), (0, 0, 1))])
def test_an_angle_of_90_degrees_points_down_and_180_is_level(angle, x, z):
    R = blade_rotation(0.0, np.deg2rad(angle))
    assert np.allclose(R[:, 0], x) and np.allclose(R[:, 2], z) and np.allclose(R[:, 1], [0, 1, 0])
    assert np.isclose(np.linalg.det(R), 1.0)


@pytest.mark.parametrize("action", ACTIONS)
def test_the_four_movements_have_their_published_angles_and_lengths(action):
    trajectory = ScoopTrajectory(action)
    _, rows = states(trajectory)
    forward = np.array([np.cos(action.yaw), np.sin(action.yaw), 0.0])
    assert [phase for phase in Phase if of(rows, phase)] == list(Phase)
    assert np.allclose(trajectory.start.position, action.point)

    into = np.array([state.pose.position for state in of(rows, Phase.PENETRATE)])
    assert np.allclose([slope(state) for state in of(rows, Phase.PENETRATE)], 135.0)
    way = trajectory.at(trajectory.ends[0]).pose.position - action.point
    assert np.isclose(way[2], -action.depth) and np.isclose(way @ forward, action.depth)  # a slope of one
    assert np.allclose(np.cross(into - action.point, way), 0.0)  # along the blade

    drag = trajectory.at(trajectory.ends[1]).pose.position - trajectory.at(trajectory.ends[0]).pose.position
    assert np.allclose(drag, 0.06 * forward)
    assert np.allclose([slope(state) for state in of(rows, Phase.DRAG)], 135.0)

    closing = [slope(state) for state in of(rows, Phase.CLOSE)]
    assert np.all(np.diff(closing) >= 0.0) and closing[-1] > 189.5
    assert np.isclose(slope(trajectory.at(trajectory.ends[2])), 190.0)

    lift = trajectory.end.position - trajectory.at(trajectory.ends[2]).pose.position
    assert np.allclose(lift, [0.0, 0.0, 0.02])
    assert np.allclose([slope(state) for state in of(rows, Phase.LIFT)], 190.0)


@pytest.mark.parametrize("action", ACTIONS)
def test_it_stays_in_one_vertical_plane_without_roll(action):
    _, rows = states(ScoopTrajectory(action))
    left = np.array([-np.sin(action.yaw), np.cos(action.yaw), 0.0])
    assert np.allclose([(state.pose.position - action.point) @ left for state in rows], 0.0)
    assert np.allclose([state.pose.rotation[:, 1] for state in rows], left)


def test_it_closes_about_its_pivot():
    config = PrimitiveConfig(pivot=(-0.03, 0.02))
    _, rows = states(ScoopTrajectory(ACTIONS[2], config))
    pivots = [state.pose.position + state.pose.rotation @ [-0.03, 0.0, 0.02] for state in of(rows, Phase.CLOSE)]
    assert np.ptp(pivots, axis=0).max() < 1e-12


@pytest.mark.parametrize("action", ACTIONS)
def test_neither_place_nor_speed_jumps_and_both_limits_hold(action):
    config = PrimitiveConfig()
    trajectory = ScoopTrajectory(action)
    times, rows = states(trajectory, 1501)
    dt = times[1]
    twists = np.array([state.twist for state in rows])
    linear, angular = np.linalg.norm(twists[:, :3], axis=1), np.linalg.norm(twists[:, 3:], axis=1)
    assert linear.max() <= config.speed * (1 + 1e-9) and angular.max() <= config.turning * (1 + 1e-9)
    assert linear.max() > 0.99 * config.speed  # the limits are made use of
    assert np.abs(np.diff(twists, axis=0)).max() < 0.02
    assert np.allclose(twists[[0, -1]], 0.0)
    for end in trajectory.ends[:3]:
        assert np.allclose(trajectory.at(end).twist, 0.0)
        before, after = trajectory.at(end - 1e-9).pose, trajectory.at(end + 1e-9).pose
        assert np.linalg.norm(pose_error(after, before)) < 1e-9
    # central differences of the poses are the twists
    for k in range(1, len(rows) - 1, 97):
        a, b = rows[k - 1].pose, rows[k + 1].pose
        assert np.allclose((b.position - a.position) / (2 * dt), twists[k, :3], atol=1e-4)
        turned = Rotation.from_matrix(b.rotation @ a.rotation.T).as_rotvec() / (2 * dt)
        assert np.allclose(turned, twists[k, 3:], atol=1e-3)


def test_outside_its_time_it_is_at_its_ends():
    trajectory = ScoopTrajectory(ACTIONS[0])
    assert np.array_equal(trajectory.at(-1.0).pose.position, trajectory.start.position)
    assert np.allclose(trajectory.at(trajectory.duration + 5.0).pose.position, trajectory.end.position)


@pytest.mark.parametrize(
    "wrong",
    [
        dict(point=[0.0, 0.0]),
        dict(point=[0.0, np.nan, 0.0]),
        dict(depth=0.0),
        dict(depth=float("inf")),
        dict(stiffness="medium"),
        dict(yaw=np.nan),
    ],
)
def test_what_is_no_scoop_is_refused(wrong):
    with pytest.raises(ValueError, match="|".join(wrong) if "point" not in wrong and "yaw" not in wrong else "begins"):
        ScoopAction(**{**dict(point=POINT, yaw=0.0, depth=0.05), **wrong})


@pytest.mark.parametrize("wrong", [dict(attack=np.deg2rad(80.0)), dict(closing=np.deg2rad(170.0)), dict(speed=0.0)])
def test_settings_that_make_no_scoop_are_refused(wrong):
    with pytest.raises(ValueError, match="expected"):
        PrimitiveConfig(**wrong)
