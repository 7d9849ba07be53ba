"""Ways of the blade through the air: they begin, rest and end where they shall, and neither place nor speed jumps."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from sim_core.scooping.arm.blade_path import BladePath, Place, place_of
from sim_core.scooping.arm.primitive import blade_rotation
from sim_core.telepresence.arm_kinematics import pose_error
from sim_core.telepresence.clutch import Pose

pytestmark = pytest.mark.pure

A = Place(np.array([0.5, 0.1, 0.2]), -2.5, np.deg2rad(190.0))
B = Place(np.array([0.5, 0.1, 0.5]), -2.5, np.deg2rad(190.0))
C = Place(np.array([0.3, -0.3, 0.5]), 2.9, np.deg2rad(135.0))
SPEED, TURNING = 0.3, 1.2


@pytest.mark.parametrize("seed", range(5))
def test_a_place_is_read_back_from_its_pose(seed):
    rng = np.random.default_rng(seed)
    place = Place(rng.uniform(-1, 1, 3), rng.uniform(-np.pi, np.pi), rng.uniform(0.1, 2 * np.pi - 0.1))
    found = place_of(place.pose)
    assert np.allclose(found.pose.rotation, place.pose.rotation) and found.yaw == pytest.approx(place.yaw)
    assert found.angle == pytest.approx(place.angle)


@pytest.mark.parametrize("roll", [0.0, 0.2])
def test_it_passes_its_places_smoothly_and_within_its_speeds(roll):
    begin = Pose(A.position, A.pose.rotation @ Rotation.from_rotvec([roll, 0.0, 0.0]).as_matrix())
    path = BladePath(begin, [B, C], SPEED, TURNING)
    times = np.linspace(0.0, path.duration, 3001)
    poses, twists = zip(*(path.at(t) for t in times))
    twists, dt = np.array(twists), times[1]
    assert np.abs(pose_error(begin, poses[0])).max() < 1e-9 and np.abs(pose_error(C.pose, poses[-1])).max() < 1e-9
    assert min(np.abs(pose_error(B.pose, pose)).max() for pose in poses) < 2e-3
    assert np.linalg.norm(twists[:, :3], axis=1).max() <= SPEED * 1.001
    assert np.linalg.norm(twists[:, 3:], axis=1).max() <= TURNING * 1.001
    assert np.abs(np.diff(twists, axis=0)).max() < 0.01 and np.abs(twists[[0, -1]]).max() < 1e-9
    for k in range(1, len(times) - 1, 83):
        moved = (poses[k + 1].position - poses[k - 1].position) / (2 * dt)
        turned = Rotation.from_matrix(poses[k + 1].rotation @ poses[k - 1].rotation.T).as_rotvec() / (2 * dt)
        assert np.allclose(moved, twists[k, :3], atol=1e-3) and np.allclose(turned, twists[k, 3:], atol=2e-3)


def test_a_load_is_never_rolled():
    path = BladePath(A.pose, [B, Place(C.position, C.yaw, A.angle)], SPEED, TURNING)
    for t in np.linspace(0.0, path.duration, 200):
        rotation = path.at(t)[0].rotation
        assert abs(rotation[2, 1]) < 1e-12 and np.isclose(rotation[2, 0], np.sin(np.deg2rad(10.0)))


def test_the_yaw_goes_by_its_numbers():
    """From -2.5 to 2.9 it turns back through zero, which a wrist can undo, not on through pi."""
    path = BladePath(B.pose, [C], SPEED, TURNING)
    middle = path.at(path.duration / 2)[0].rotation
    assert np.allclose(middle[:, 1], blade_rotation(0.2, 2.0)[:, 1], atol=1e-3)


def test_before_and_after_its_time_it_rests():
    path = BladePath(A.pose, [B], SPEED, TURNING)
    for t, place in ((-1.0, A), (path.duration + 1.0, B)):
        pose, twist = path.at(t)
        assert np.allclose(pose.position, place.position) and not twist.any()
    pose, twist = BladePath(A.pose, [], SPEED, TURNING).at(0.3)
    assert np.allclose(pose.position, A.position) and not twist.any()
