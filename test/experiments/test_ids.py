"""Interactive differentiable simulation: what its experiments are made of, against closed forms and differences."""

import numpy as np
import pytest

from experiments.problems.ids_arm import end_points, random_arm, random_motion, rank, recovered

pytestmark = pytest.mark.pure


def test_an_arm_without_twists_is_a_planar_one():
    theta = np.array([0.1, 0.2, 1.0, 0.5, 0.0, 0.0])
    q = np.array([[0.3, 0.4], [-1.0, 2.0]])
    points, _ = end_points(theta, q)
    first, second = q[:, 0], q.sum(axis=1)
    x, y = np.cos(first) + 0.5 * np.cos(second), np.sin(first) + 0.5 * np.sin(second)
    np.testing.assert_allclose(points, np.stack([x, y, np.full(2, 0.3)], axis=1), atol=1e-14)


def test_derivatives_of_an_arm_equal_central_differences():
    rng = np.random.default_rng(1)
    theta, q, h = random_arm(rng), random_motion(rng, steps=5), 1e-6
    _, J = end_points(theta, q)
    for k in range(12):
        step = h * (np.arange(12) == k)
        difference = (end_points(theta + step, q)[0] - end_points(theta - step, q)[0]) / (2 * h)
        np.testing.assert_allclose(J[:, :, k], difference, atol=1e-9)


def test_an_arm_is_found_again_and_its_last_twist_is_not():
    rng = np.random.default_rng(2)
    theta, q = random_arm(rng), random_motion(rng)
    points, J = end_points(theta, q)
    assert rank(theta, q) == 11
    np.testing.assert_array_equal(J[:, :, 11], 0.0)
    found = recovered(theta + 0.05 * rng.standard_normal(12), q, points)
    assert found.errors[0] > 0.01 and found.errors[-1] < 1e-5
    with pytest.raises(ValueError, match="joint angles"):
        end_points(theta, q[:, :3])
