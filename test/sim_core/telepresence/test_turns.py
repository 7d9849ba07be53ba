"""Rotation vectors against scipy's, from nothing to a half turn about every kind of axis."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from sim_core.telepresence.turns import rotation_matrix, rotation_vector, yaw_pitch_roll

AXES = [*np.eye(3), *-np.eye(3), *np.random.default_rng(0).normal(size=(40, 3))]
ANGLES = (0.0, 1e-200, 1e-120, 1e-12, 1e-6, 0.3, 1.5, 2.2, 3.0, np.pi - 1e-6)


@pytest.mark.parametrize("angle", ANGLES)
def test_there_and_back(angle):
    for axis in AXES:
        vector = angle * axis / np.linalg.norm(axis)
        R = rotation_matrix(vector)
        assert R == pytest.approx(Rotation.from_rotvec(vector).as_matrix(), abs=2e-15)
        assert rotation_vector(R) == pytest.approx(vector, rel=1e-8, abs=2e-15)
        assert rotation_vector(R) == pytest.approx(Rotation.from_matrix(R).as_rotvec(), abs=1e-14)


def test_a_half_turn_is_one_either_way():
    for axis in AXES:
        vector = np.pi * axis / np.linalg.norm(axis)
        found = rotation_vector(rotation_matrix(vector))
        assert min(np.abs(found - vector).max(), np.abs(found + vector).max()) < 1e-14


def test_more_than_a_half_turn_is_less_the_other_way():
    for axis in AXES:
        unit = axis / np.linalg.norm(axis)
        assert rotation_vector(rotation_matrix(4.0 * unit)) == pytest.approx((4.0 - 2.0 * np.pi) * unit, abs=1e-14)


@pytest.mark.parametrize("pitch", [0.0, 0.4, -1.2, 1.57, np.pi / 2 - 1e-6, np.pi / 2, -np.pi / 2])
@pytest.mark.filterwarnings("ignore:Gimbal lock")
def test_angles_of_a_head(pitch):
    for yaw, roll in ((0.0, 0.0), (0.7, -0.3), (-2.9, 3.0)):
        R = Rotation.from_euler("ZYX", [yaw, pitch, roll]).as_matrix()
        found = yaw_pitch_roll(R)
        assert Rotation.from_euler("ZYX", found).as_matrix() == pytest.approx(R, abs=1e-9)
        if abs(pitch) < 1.5:
            assert found == pytest.approx([yaw, pitch, roll], abs=1e-12)
