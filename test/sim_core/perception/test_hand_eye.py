"""Hand-eye calibration: exact without noise, unbiased and as certain as it says with noise, and its refusals."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from sim_core.perception import hand_eye as module
from sim_core.perception.hand_eye import hand_eye, park_martin
from sim_core.perception.poses import displaced

SIGMA = np.deg2rad(0.2), 0.001  # of a seen target pose: rotation, translation per axis


def pose(rotation_vector, position):
    X = np.eye(4)
    X[:3, :3] = Rotation.from_rotvec(rotation_vector).as_matrix()
    X[:3, 3] = position
    return X


X_TRUE = pose([0.1, -0.2, 1.5], [0.03, -0.06, 0.09])
Y_TRUE = pose([3.0, 0.2, 0.1], [0.6, 0.1, 0.05])


def views(n, rng, camera="hand", sigma=(0.0, 0.0)):
    """n poses of the hand, and the target as the camera sees it."""
    X_BH, X_CT = [], []
    for _ in range(n):
        A = pose(np.array([3.0, 0.0, 0.0]) + rng.uniform(-0.6, 0.6, 3), [0.5, 0.1, 0.45] + rng.uniform(-0.15, 0.15, 3))
        seen = np.linalg.inv(X_TRUE) @ np.linalg.inv(A if camera == "hand" else np.linalg.inv(A)) @ Y_TRUE
        seen[:3, :3] = (
            Rotation.from_rotvec(rng.normal(0, sigma[0], 3) if sigma[0] else np.zeros(3)).as_matrix() @ seen[:3, :3]
        )
        seen[:3, 3] += rng.normal(0, 1, 3) * sigma[1]
        X_BH.append(A)
        X_CT.append(seen)
    return np.array(X_BH), np.array(X_CT)


def error(result):
    return np.concatenate(
        [Rotation.from_matrix(result.X[:3, :3] @ X_TRUE[:3, :3].T).as_rotvec(), result.X[:3, 3] - X_TRUE[:3, 3]]
    )


@pytest.mark.parametrize("camera", ["hand", "base"])
@pytest.mark.parametrize("n", [3, 4, 15])
def test_exact_without_noise(camera, n):
    result = hand_eye(*views(n, np.random.default_rng(n), camera), camera=camera)
    np.testing.assert_allclose(result.X, X_TRUE, atol=1e-9)
    np.testing.assert_allclose(result.target, Y_TRUE, atol=1e-9)


def test_closed_form_alone_is_exact_without_noise():
    np.testing.assert_allclose(park_martin(*views(5, np.random.default_rng(0))), X_TRUE, atol=1e-10)


@pytest.mark.parametrize(("camera", "sigma"), [("hand", None), ("base", SIGMA)])
def test_errors_are_as_large_as_stated(camera, sigma):
    """120 calibrations from 15 views: no bias; 95 % regions hold 95 % of the truths (chi^2 of 6; 4 binomial sigma)."""
    rng, runs = np.random.default_rng(7), 120
    errors, distances, rotations, translations = [], [], [], []
    for _ in range(runs):
        result = hand_eye(*views(15, rng, camera, SIGMA), camera=camera, sigma=sigma)
        e = error(result)
        errors.append(e)
        distances.append(e @ np.linalg.solve(result.covariance, e))
        rotations.append(result.sigma_rotation)
        translations.append(result.sigma_translation)
    errors = np.array(errors)
    assert np.abs(errors.mean(axis=0)).max() < 4 * errors.std(axis=0).max() / np.sqrt(runs)
    assert np.linalg.norm(errors[:, :3], axis=1).mean() < np.deg2rad(0.2)
    assert np.linalg.norm(errors[:, 3:], axis=1).mean() < 0.0025
    inside = np.mean(np.array(distances) < 12.592)
    # With the noise estimated from 78 degrees of freedom the region is a little too small (F for chi^2): 93.5 %.
    expected = 0.95 if sigma else 0.935
    assert abs(inside - expected) < 4 * np.sqrt(0.05 * 0.95 / runs)
    assert np.mean(rotations) == pytest.approx(SIGMA[0], rel=0.05)
    assert np.mean(translations) == pytest.approx(SIGMA[1], rel=0.05)


def test_refinement_is_better_than_the_closed_form():
    rng = np.random.default_rng(3)
    closed, refined = [], []
    for _ in range(40):
        A, B = views(15, rng, sigma=SIGMA)
        closed.append(np.linalg.norm(park_martin(A, B)[:3, 3] - X_TRUE[:3, 3]))
        refined.append(np.linalg.norm(hand_eye(A, B).X[:3, 3] - X_TRUE[:3, 3]))
    assert np.mean(refined) < 0.9 * np.mean(closed)


def test_derivative_against_differences():
    A, B = views(4, np.random.default_rng(1), sigma=(1e-7, 1e-7))
    _, J = module._residuals(A, B, X_TRUE, Y_TRUE)
    for k in range(12):
        step = np.zeros(12)
        step[k] = 1e-6
        plus = module._residuals(A, B, displaced(X_TRUE, step[:6]), displaced(Y_TRUE, step[6:]))[0]
        minus = module._residuals(A, B, displaced(X_TRUE, -step[:6]), displaced(Y_TRUE, -step[6:]))[0]
        np.testing.assert_allclose(J[:, k], (plus - minus) / 2e-6, atol=1e-6)


def test_refusals():
    rng = np.random.default_rng(2)
    A, B = views(5, rng)
    with pytest.raises(ValueError, match="at least 3"):
        hand_eye(A[:2], B[:2])
    with pytest.raises(ValueError, match="as many"):
        hand_eye(A, B[:4])
    with pytest.raises(ValueError, match="hand or base"):
        hand_eye(A, B, camera="head")
    one_axis = np.array([pose([0.0, 0.0, a], [0.4, a, 0.3]) for a in (0.0, 0.4, 0.9, 1.3)])
    seen = np.linalg.inv(one_axis @ X_TRUE) @ Y_TRUE
    with pytest.raises(ValueError, match="one axis"):
        hand_eye(one_axis, seen)
    shifts = np.array([pose([0.0, 0.0, 0.1], [0.4 + a, a, 0.3]) for a in (0.0, 0.1, 0.2)])
    with pytest.raises(ValueError, match="one axis"):
        hand_eye(shifts, np.linalg.inv(shifts @ X_TRUE) @ Y_TRUE)
