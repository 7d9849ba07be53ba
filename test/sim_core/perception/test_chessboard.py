"""Chessboards drawn by ray casting: corners, pose, and the hand-eye calibration from images alone."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from sim_core.perception.chessboard import _reprojection, board_points, board_pose, find_corners
from sim_core.perception.hand_eye import hand_eye
from sim_core.perception.poses import displaced

COUNTS, SQUARE = (7, 4), 0.03
K = np.array([[610.0, 0.0, 320.0], [0.0, 610.0, 240.0], [0.0, 0.0, 1.0]])
CENTRE = np.array([0.09, 0.045, 0.0])


def pose(rotation_vector, position):
    X = np.eye(4)
    X[:3, :3] = Rotation.from_rotvec(rotation_vector).as_matrix()
    X[:3, 3] = position
    return X


def draw(X_CT, noise=2.0, seed=0, samples=3):
    """640x480 image of the board, black squares outside two opposite ends of its diagonal, a white margin on grey."""
    offsets = (np.arange(samples) + 0.5) / samples - 0.5
    image = np.zeros((480, 640))
    R, p = X_CT[:3, :3], X_CT[:3, 3]
    for dv in offsets:
        for du in offsets:
            u, v = np.meshgrid(np.arange(640) + du, np.arange(480) + dv)
            rays = np.stack([(u - K[0, 2]) / K[0, 0], (v - K[1, 2]) / K[1, 1], np.ones_like(u)], axis=-1)
            depth = (R[:, 2] @ p) / (rays @ R[:, 2])
            on_board = (rays * depth[..., None] - p) @ R / SQUARE
            i, j = np.floor(on_board[..., 0]).astype(int), np.floor(on_board[..., 1]).astype(int)
            inside = (i >= -1) & (i < COUNTS[0]) & (j >= -1) & (j < COUNTS[1])
            margin = (i >= -2) & (i <= COUNTS[0]) & (j >= -2) & (j <= COUNTS[1])
            image += np.where(inside, np.where((i + j) % 2 == 0, 30.0, 220.0), np.where(margin, 220.0, 110.0))
    image = image / samples**2 + np.random.default_rng(seed).normal(0.0, noise, image.shape)
    return np.clip(np.rint(image), 0, 255).astype(np.uint8)


def looking_at_board(rng, distance):
    """A pose of the board before the camera, tilted up to 35 degrees and turned at will."""
    R = Rotation.from_rotvec(rng.uniform(-0.6, 0.6, 3) * [1, 1, 0]) * Rotation.from_rotvec(
        [0, 0, rng.uniform(-np.pi, np.pi)]
    )
    X = np.eye(4)
    X[:3, :3] = R.as_matrix()
    X[:3, 3] = [*rng.uniform(-0.03, 0.03, 2), distance] - X[:3, :3] @ CENTRE
    return X


def project(X_CT):
    p = board_points(COUNTS, SQUARE) @ X_CT[:3, :3].T + X_CT[:3, 3]
    return p[:, :2] / p[:, 2:] * np.diag(K)[:2] + K[:2, 2]


@pytest.mark.parametrize("seed", range(4))
def test_corners_and_pose(seed):
    X = looking_at_board(np.random.default_rng(seed), 0.45)
    corners = find_corners(draw(X, seed=seed), COUNTS)
    error = corners - project(X)
    assert np.sqrt((error**2).mean()) < 0.06 and np.abs(error).max() < 0.3
    seen = board_pose(corners, COUNTS, SQUARE, K)
    turn = np.rad2deg(np.linalg.norm(Rotation.from_matrix(seen.X_CT[:3, :3] @ X[:3, :3].T).as_rotvec()))
    assert turn < 0.2 and np.linalg.norm(seen.X_CT[:3, 3] - X[:3, 3]) < 0.0007
    assert 0.005 < seen.rms < 0.08
    e = np.concatenate([Rotation.from_matrix(seen.X_CT[:3, :3] @ X[:3, :3].T).as_rotvec(), seen.X_CT[:3, 3] - X[:3, 3]])
    assert e @ np.linalg.solve(seen.covariance, e) < 40.0  # corner errors are not quite independent


def test_pose_from_exact_corners_and_its_derivative():
    X = looking_at_board(np.random.default_rng(9), 0.5)
    seen = board_pose(project(X), COUNTS, SQUARE, K)
    np.testing.assert_allclose(seen.X_CT, X, atol=1e-9)
    points, slopes = board_points(COUNTS, SQUARE), (project(X) - K[:2, 2]) / 610.0
    _, J = _reprojection(X, points, slopes)
    for k in range(6):
        step = 1e-6 * np.eye(6)[k]
        numeric = (
            _reprojection(displaced(X, step), points, slopes)[0] - _reprojection(displaced(X, -step), points, slopes)[0]
        ) / 2e-6
        np.testing.assert_allclose(J[:, k], numeric, atol=1e-6)


def test_hand_eye_from_images_alone():
    """Eight images of a board on a table, the camera on the hand: 1 mm and 0.15 degrees."""
    rng = np.random.default_rng(4)
    X_HC, X_BT = pose([0.02, -0.03, 1.57], [0.05, 0.0, 0.06]), pose([np.pi, 0.0, 0.2], [0.5, 0.0, 0.0])
    X_BH, X_CT = [], []
    for n in range(8):
        X = looking_at_board(rng, rng.uniform(0.35, 0.5))
        X_BH.append(X_BT @ np.linalg.inv(X_HC @ X))
        X_CT.append(board_pose(find_corners(draw(X, seed=n, samples=2), COUNTS), COUNTS, SQUARE, K).X_CT)
    result = hand_eye(X_BH, X_CT)
    assert np.linalg.norm(result.X[:3, 3] - X_HC[:3, 3]) < 1e-3
    assert np.rad2deg(np.linalg.norm(Rotation.from_matrix(result.X[:3, :3] @ X_HC[:3, :3].T).as_rotvec())) < 0.15
    assert np.linalg.norm(result.X[:3, 3] - X_HC[:3, 3]) < 4.0 * np.sqrt(np.trace(result.covariance[3:, 3:]))


def test_refusals():
    X = looking_at_board(np.random.default_rng(1), 0.45)
    image = draw(X)
    with pytest.raises(ValueError, match="half a turn"):
        find_corners(image, (7, 5))
    with pytest.raises(ValueError, match="no chessboard of 8 x 5"):
        find_corners(image, (8, 5))
    with pytest.raises(ValueError, match="fully in view"):
        X[:3, 3] += [0.25, 0.0, 0.0]
        find_corners(draw(X), COUNTS)
    with pytest.raises(ValueError, match="no chessboard"):
        find_corners(np.random.default_rng(0).integers(0, 255, (480, 640)), COUNTS)
