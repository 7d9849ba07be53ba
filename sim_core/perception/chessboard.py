"""A chessboard as a calibration target: its corners in a grey image, and its pose.

    corners = find_corners(image, (7, 5))               # inner corners per row and column
    seen = board_pose(corners, (7, 5), 0.03, K)         # seen.X_CT for hand_eye

Corners are saddles of brightness: the determinant of the Hessian is most negative there (Lucchese and Mitra 2002). The
lattice is grown from one saddle along edges, which have black on one side and white on the other. The board's
frame has its origin at the inner corner beside the black corner square, x along its rows, y along its columns and z into the
board; one of the two counts must be odd and the other even, else the board looks the same after half a turn.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import ndimage

__all__ = ["BoardPose", "board_pose", "board_points", "find_corners"]

SMOOTHING = 1.5  # [pixels] of the derivatives: below it noise makes saddles, above it small squares merge
STRONG = 0.15  # of the strongest saddle
REACH = 0.3  # of a step: how far a corner may lie from where its neighbours predict it
SEEDS = 12
RING, RADIUS = 32, 4.5  # samples around a corner, and how far away [pixels]; squares must be larger than twice that


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
    """
    if (counts[0] + counts[1]) % 2 == 0 or min(counts) < 2:
        raise ValueError(
            f"a board of {counts[0]} x {counts[1]} inner corners looks the same after half a turn: use one with an odd and "
            "an even number, at least 2"
        )
    grey = np.asarray(image, dtype=float)
    grey = grey.mean(axis=2) if grey.ndim == 3 else grey
    smooth = ndimage.gaussian_filter(grey, SMOOTHING)
    points = _crossings(smooth, _saddles(grey))
    if len(points) >= counts[0] * counts[1]:
        centre = np.argsort(np.linalg.norm(points - points.mean(axis=0), axis=1))
        for seed in centre[:SEEDS]:
            lattice = _grow(smooth, points, int(seed))
            found = _oriented(smooth, points, lattice, counts)
            if found is not None:
                return found
    raise ValueError(
        f"no chessboard of {counts[0]} x {counts[1]} inner corners fully in view ({len(points)} corners found): show "
        "all of it, sharp, with a white margin"
    )


def board_pose(corners: np.ndarray, counts: tuple[int, int], square: float, K: np.ndarray, rays=None) -> BoardPose:
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
    X = _pose_of_homography(_homography(points[:, :2], slopes))
    for _ in range(30):
        residual, J = _reprojection(X, points, slopes)
        step = np.linalg.lstsq(J, -residual, rcond=None)[0]
        X = _moved(X, step)
        if np.abs(step).max() < 1e-10:
            break
    residual, J = _reprojection(X, points, slopes)
    variance = float(residual @ residual) / max(len(residual) - 6, 1)
    return BoardPose(X, variance * np.linalg.inv(J.T @ J), focal * float(np.sqrt(variance)))


# -- corners -----------------------------------------------------------------------------------------
def _saddles(grey: np.ndarray) -> np.ndarray:
    """Saddles of brightness (u, v), shape (n, 2)."""

    def derivative(order_v: int, order_u: int):
        return ndimage.gaussian_filter(grey, SMOOTHING, order=(order_v, order_u))

    uu, vv, uv = derivative(0, 2), derivative(2, 0), derivative(1, 1)
    strength = uv**2 - uu * vv
    peaks = (strength == ndimage.maximum_filter(strength, size=7)) & (strength > STRONG * strength.max())
    v, u = np.nonzero(peaks)
    # The saddle point itself: where the gradient of the quadratic model vanishes.
    gu, gv = derivative(0, 1)[v, u], derivative(1, 0)[v, u]
    determinant = uu[v, u] * vv[v, u] - uv[v, u] ** 2
    du = -(vv[v, u] * gu - uv[v, u] * gv) / determinant
    dv = -(uu[v, u] * gv - uv[v, u] * gu) / determinant
    near = (np.abs(du) < 1.5) & (np.abs(dv) < 1.5)
    return np.stack([u + du, v + dv], axis=1)[near]


def _crossings(smooth: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Those points around which black and white alternate four times and half a turn changes nothing.

    Where squares end at the margin there are saddles too, but no crossings.
    """
    angle = np.arange(RING) * 2.0 * np.pi / RING
    u = points[:, :1] + RADIUS * np.cos(angle)
    v = points[:, 1:] + RADIUS * np.sin(angle)
    values = ndimage.map_coordinates(smooth, [v, u], order=1, mode="nearest")
    low, high = values.min(axis=1), values.max(axis=1)
    white = values > 0.5 * (low + high)[:, None]
    changes = (white != np.roll(white, 1, axis=1)).sum(axis=1)
    asymmetry = np.abs(values - np.roll(values, RING // 2, axis=1)).mean(axis=1)
    return points[(changes == 4) & (asymmetry < 0.2 * (high - low)) & (high - low > 10.0)]


def _is_edge(smooth: np.ndarray, a: np.ndarray, b: np.ndarray) -> bool:
    """Whether the way from a to b has opposite colours on its two sides all along."""
    along = b - a
    side = 0.25 * np.array([-along[1], along[0]])
    at = a + np.outer([0.3, 0.5, 0.7], along)
    values = ndimage.map_coordinates(smooth, np.vstack([at + side, at - side]).T[::-1], order=1, mode="nearest")
    left, right = values[:3], values[3:]
    contrast = left - right
    span = values.max() - values.min()
    return span > 10.0 and (np.abs(contrast) > 0.5 * span).all() and (np.sign(contrast) == np.sign(contrast[0])).all()


def _grow(smooth: np.ndarray, points: np.ndarray, seed: int) -> dict[tuple[int, int], int]:
    """Lattice (i, j) -> index of a point, from a seed on along edges; empty if the seed has no two edges."""
    distances = np.linalg.norm(points - points[seed], axis=1)
    neighbours = [int(k) for k in np.argsort(distances)[1:9] if _is_edge(smooth, points[seed], points[k])]
    axes = next(
        (
            (a, b)
            for a in neighbours
            for b in neighbours
            if abs(_cross(points[a] - points[seed], points[b] - points[seed])) > 0.3 * distances[a] * distances[b]
        ),
        None,
    )
    if axes is None:
        return {}
    lattice, used = {(0, 0): seed}, {seed}
    steps = {(1, 0): points[axes[0]] - points[seed], (0, 1): points[axes[1]] - points[seed]}
    steps |= {(-i, -j): -step for (i, j), step in list(steps.items())}
    local = {(0, 0): steps}
    front = [(0, 0)]
    while front:
        cell = front.pop(0)
        for direction, step in local[cell].items():
            target = cell[0] + direction[0], cell[1] + direction[1]
            if target in lattice:
                continue
            here = points[lattice[cell]]
            offsets = np.linalg.norm(points - (here + step), axis=1)
            k = int(np.argmin(offsets))
            if k in used or offsets[k] > REACH * np.linalg.norm(step) or not _is_edge(smooth, here, points[k]):
                continue
            lattice[target] = k
            used.add(k)
            # Perspective changes the step from cell to cell: the newest one is the best guess for the next.
            found = points[k] - here
            local[target] = {**local[cell], direction: found, (-direction[0], -direction[1]): -found}
            front.append(target)
    return lattice


def _oriented(smooth, points, lattice, counts) -> np.ndarray | None:
    """The lattice's points in the order of `board_points`, or None if it is not a board of that size."""
    if len(lattice) != counts[0] * counts[1]:
        return None
    cells = np.array(list(lattice))
    size = np.ptp(cells, axis=0) + 1
    if sorted(size) != sorted(counts):
        return None
    grid = np.empty((size[1], size[0], 2))
    for (i, j), k in lattice.items():
        grid[j - cells[:, 1].min(), i - cells[:, 0].min()] = points[k]
    if (size[0], size[1]) != counts:
        grid = grid.transpose(1, 0, 2)
    if _cross(grid[0, 1] - grid[0, 0], grid[1, 0] - grid[0, 0]) < 0.0:
        grid = grid[:, ::-1]  # seen from its front x, y and the view turn as in the image: u right, v down
    first, last = (
        _brightness(smooth, grid[r][:, c].reshape(-1, 2))
        for r, c in ((slice(0, 2), slice(0, 2)), (slice(-2, None), slice(-2, None)))
    )
    if first > last:  # the square inside the origin's corner is black, as the one outside
        grid = grid[::-1, ::-1]
    return grid.reshape(-1, 2).copy()


def _brightness(smooth: np.ndarray, corners: np.ndarray) -> float:
    """At the centre of a square given by its corners (4, 2)."""
    return float(ndimage.map_coordinates(smooth, corners.mean(axis=0)[::-1, None], order=1)[0])


def _cross(a: np.ndarray, b: np.ndarray) -> float:
    return float(a[0] * b[1] - a[1] * b[0])


# -- pose --------------------------------------------------------------------------------------------
def _homography(plane: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """H of slopes ~ H (x, y, 1), (3, 3), by the direct linear transformation with normalised coordinates (Hartley 1997)."""

    def normaliser(points):
        centre = points.mean(axis=0)
        scale = np.sqrt(2.0) / np.linalg.norm(points - centre, axis=1).mean()
        return np.array([[scale, 0.0, -scale * centre[0]], [0.0, scale, -scale * centre[1]], [0.0, 0.0, 1.0]])

    T, U = normaliser(plane), normaliser(slopes)
    p = np.column_stack([plane, np.ones(len(plane))]) @ T.T
    q = np.column_stack([slopes, np.ones(len(slopes))]) @ U.T
    zero = np.zeros_like(p)
    rows = np.vstack([np.hstack([p, zero, -q[:, :1] * p]), np.hstack([zero, p, -q[:, 1:2] * p])])
    H = np.linalg.svd(rows)[2][-1].reshape(3, 3)
    return np.linalg.inv(U) @ H @ T


def _pose_of_homography(H: np.ndarray) -> np.ndarray:
    H = H / np.sqrt(np.linalg.norm(H[:, 0]) * np.linalg.norm(H[:, 1]))
    H = H * np.sign(H[2, 2])  # before the camera
    U, _, Vt = np.linalg.svd(np.column_stack([H[:, 0], H[:, 1], np.cross(H[:, 0], H[:, 1])]))
    X = np.eye(4)
    X[:3, :3], X[:3, 3] = U @ Vt, H[:, 2]
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


def _moved(X: np.ndarray, step: np.ndarray) -> np.ndarray:
    from scipy.spatial.transform import Rotation

    moved = X.copy()
    moved[:3, :3] = Rotation.from_rotvec(step[:3]).as_matrix() @ X[:3, :3]
    moved[:3, 3] += step[3:]
    return moved
