"""A chessboard as a calibration target: its corners in a grey image, and its pose.

    corners = find_corners(image, (7, 4))               # inner corners per row and column
    seen = board_pose(corners, (7, 4), 0.03, K)         # seen.X_CT for hand_eye

OpenCV finds the board and its corners; it is imported when one of these functions is called first. The board's frame has
its origin at the inner corner beside the black corner square, x along its rows, y along its columns and z into the board;
one of the two counts must be odd and the other even, else the board looks the same after half a turn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

import numpy as np
from scipy.spatial.transform import Rotation

from config.tiers import require
from sim_core.perception.poses import displaced

__all__ = ["BoardPose", "board_pose", "board_points", "find_corners"]

# Chosen by 150 drawn boards of 17 to 52 pixels a square and noise of 2 and 6 grey levels: corners by cornerSubPix over half a
# square, of the image blurred by 1.5 pixels, err by 0.019 to 0.027 pixels (root mean square). The same over 11 x 11 pixels
# without the blur: 0.045 to 0.051; findChessboardCornersSB with CALIB_CB_ACCURACY: 0.022 to 0.076, and fifty times slower.
BLUR = 1.5  # [pixels]
SHARE = 0.5  # of the shortest edge of a square: how far the window around a corner reaches


@dataclass(frozen=True)
class BoardPose:
    """A board seen.

    Attributes:
        X_CT: pose of the board in the camera's optical frame, shape (4, 4) [-, m].
        covariance: shape (6, 6): rotation vector in the camera's axes [rad], then position [m].
        rms: of the corners about their projections, per axis [pixels].
    """

    X_CT: np.ndarray
    covariance: np.ndarray
    rms: float


def board_points(counts: tuple[int, int], square: float) -> np.ndarray:
    """Inner corners in the board's frame [m], row by row, shape (columns * rows, 3); counts = (per row, per column)."""
    x, y = np.meshgrid(np.arange(counts[0]), np.arange(counts[1]))
    return square * np.stack([x.ravel(), y.ravel(), np.zeros(x.size)], axis=1)


def find_corners(image: np.ndarray, counts: tuple[int, int]) -> np.ndarray:
    """The board's inner corners to a fraction of a pixel, in the order of `board_points`.

    Args:
        image: grey, shape (h, w), or colour, shape (h, w, 3).
        counts: inner corners (per row, per column), one odd, one even.

    Returns:
        Pixel coordinates (u, v), integers at pixel centres, shape (n, 2).

    Raises:
        ValueError: no board of that size is fully in view, or the counts leave its orientation open.
        MissingTierError: OpenCV is not installed.
    """
    if (counts[0] + counts[1]) % 2 == 0 or min(counts) < 2:
        raise ValueError(
            f"a board of {counts[0]} x {counts[1]} inner corners looks the same after half a turn: use one with an odd and "
            "an even number, at least 2"
        )
    cv2 = _opencv()
    grey = np.asarray(image)
    grey = np.rint(grey.mean(axis=2) if grey.ndim == 3 else grey).astype(np.uint8)
    found, corners = cv2.findChessboardCorners(
        grey, counts, flags=cv2.CALIB_CB_ADAPTIVE_THRESH | cv2.CALIB_CB_NORMALIZE_IMAGE | cv2.CALIB_CB_FAST_CHECK
    )
    if not found:
        raise ValueError(
            f"no chessboard of {counts[0]} x {counts[1]} inner corners fully in view: show all of it, sharp, with a white "
            "margin"
        )
    grid = corners.reshape(counts[1], counts[0], 2)
    reach = max(3, int(SHARE * min(np.linalg.norm(np.diff(grid, axis=axis), axis=2).min() for axis in (0, 1))))
    blurred = cv2.GaussianBlur(grey, (0, 0), BLUR)
    until = (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, 100, 1e-4)
    corners = cv2.cornerSubPix(blurred, corners, (reach, reach), (-1, -1), until)
    return _oriented(blurred, corners.reshape(counts[1], counts[0], 2).astype(float))


def board_pose(
    corners: np.ndarray,
    counts: tuple[int, int],
    square: float,
    K: np.ndarray,
    rays: Callable[[np.ndarray], np.ndarray] | None = None,
) -> BoardPose:
    """Pose of the board from its corners.

    Args:
        corners: of `find_corners`, shape (n, 2).
        counts: inner corners (per row, per column); square: edge of a square [m].
        K: camera matrix, shape (3, 3).
        rays: for a camera with distortion: maps pixels (n, 2) to slopes (x/z, y/z) (n, 2); None: a pinhole.
    """
    points = board_points(counts, square)
    K = np.asarray(K, dtype=float)
    slopes = rays(corners) if rays is not None else (corners - K[:2, 2]) / np.diag(K)[:2]
    focal = float(np.sqrt(K[0, 0] * K[1, 1]))
    X = _first_pose(points, slopes)
    for _ in range(30):
        residual, J = _reprojection(X, points, slopes)
        step = np.linalg.lstsq(J, -residual, rcond=None)[0]
        X = displaced(X, step)
        if np.abs(step).max() < 1e-10:
            break
    residual, J = _reprojection(X, points, slopes)
    variance = float(residual @ residual) / max(len(residual) - 6, 1)
    return BoardPose(X, variance * np.linalg.inv(J.T @ J), focal * float(np.sqrt(variance)))


def _opencv() -> ModuleType:
    require("calibration", "finding a chessboard")
    import cv2

    return cv2


def _oriented(grey: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Corners (rows, columns, 2) as OpenCV orders them, in the order of `board_points`, shape (n, 2)."""
    right, down = grid[0, 1] - grid[0, 0], grid[1, 0] - grid[0, 0]
    if right[0] * down[1] - right[1] * down[0] < 0.0:
        grid = grid[:, ::-1]  # seen from its front x, y and the view turn as in the image: u right, v down
    if _brightness(grey, grid[:2, :2]) > _brightness(grey, grid[-2:, -2:]):
        grid = grid[::-1, ::-1]  # the square inside the origin's corner is black, as the one outside
    return grid.reshape(-1, 2).copy()


def _brightness(grey: np.ndarray, corners: np.ndarray) -> float:
    """At the centre of a square given by its corners, shape (2, 2, 2)."""
    u, v = np.rint(corners.mean(axis=(0, 1))).astype(int)
    return float(grey[v, u])


def _first_pose(points: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """Pose of a flat board by infinitesimal plane-based estimation (Collins and Bartoli 2014), shape (4, 4)."""
    cv2 = _opencv()
    _, turn, shift = cv2.solvePnP(points, slopes, np.eye(3), None, flags=cv2.SOLVEPNP_IPPE)
    X = np.eye(4)
    X[:3, :3], X[:3, 3] = Rotation.from_rotvec(turn[:, 0]).as_matrix(), shift[:, 0]
    return X


def _reprojection(X: np.ndarray, points: np.ndarray, slopes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Projected less seen slopes, (2 n,), and the derivative by a turn in the camera's axes and a shift, (2 n, 6)."""
    turned = points @ X[:3, :3].T
    p = turned + X[:3, 3]
    inverse = 1.0 / p[:, 2]
    residual = p[:, :2] * inverse[:, None] - slopes
    by_p = np.zeros((len(p), 2, 3))
    by_p[:, 0, 0] = by_p[:, 1, 1] = inverse
    by_p[:, :, 2] = -p[:, :2] * inverse[:, None] ** 2
    turn = np.zeros((len(p), 3, 3))  # d(exp(r) q)/dr = -[q]x
    turn[:, 0, 1], turn[:, 0, 2], turn[:, 1, 2] = turned[:, 2], -turned[:, 1], turned[:, 0]
    turn -= np.swapaxes(turn, 1, 2)
    return residual.ravel(), np.concatenate([by_p @ turn, by_p], axis=2).reshape(-1, 6)
