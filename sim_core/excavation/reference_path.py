"""The path that a bucket is to follow: it digs into the pile, is dragged towards the base, and closes.

Source: Zhu, PhD thesis (University of Illinois 2023), sections 6.4.3 and 7.5. The thesis gives the phases; slope, corner radius,
depths of the shallow and the medium path, and the rules for ties and for the window are chosen here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["DEPTHS", "TURN_LENGTH", "Closest", "PathSettings", "ReferencePath", "make_reference_path", "wrap"]

#: depth below the surface while the bucket is dragged [m]
DEPTHS = {"shallow": 0.045, "medium": 0.0525, "deep": 0.085}
#: [m] that counts as much as a radian: the weight of the angle in the tracking distance
TURN_LENGTH = 0.15
#: by which the nearest point of a path goes on with one motion at most [m]: two motions' length
STEP = 0.03
TIE = 1e-7  # points that are nearer to each other than this are equally near [m]


def wrap(angle: np.ndarray) -> np.ndarray:
    """Angles (...) [rad] in (-pi, pi]."""
    return -((-np.asarray(angle) + np.pi) % (2.0 * np.pi) - np.pi)


@dataclass(frozen=True)
class PathSettings:
    """Shape of a reference path.

    Attributes:
        start: x of the first point [m]. above: by how much that is over the surface [m].
        surface: z of the bucket's middle when a level bucket touches the surface [m].
        depth: below the surface while dragged [m]. drag: length of the straight part towards the base [m].
        slope: of the way down against the surface [rad]. attack, level, closed: alpha while digging, dragging, at the end [rad].
        corner: radius of the blend between digging and dragging [m]. spacing: of the samples [m]; when the bucket turns in
            place, samples are as far apart in `turn_length` times angle.
        turn_length: [m/rad] by which turning in place counts as length of the path. 0: as published, where the whole of the
            closing has no length, so that no progress is made by it.

    Raises:
        ValueError: a length that is not positive, or a corner that does not fit.
    """

    start: float = 0.56
    above: float = 0.02
    surface: float = 0.025
    depth: float = DEPTHS["medium"]
    drag: float = 0.12
    slope: float = 1.0
    attack: float = -0.9
    level: float = 0.0
    closed: float = 0.7
    corner: float = 0.02
    spacing: float = 0.003
    turn_length: float = TURN_LENGTH

    def __post_init__(self) -> None:
        for name in ("depth", "drag", "corner", "spacing"):
            if not getattr(self, name) > 0.0:
                raise ValueError(f"expected a positive {name} [m], found {getattr(self, name)}")
        if not 0.0 < self.slope < np.pi / 2.0:
            raise ValueError(f"the way down is steeper than level and not vertical, found a slope of {self.slope} rad")
        cut = self.corner * np.tan(self.slope / 2.0)
        if cut > min(self.drag, (self.above + self.depth) / np.sin(self.slope)):
            raise ValueError(f"a corner of {self.corner} m does not fit a depth of {self.depth} m: make it smaller")


@dataclass(frozen=True, eq=False)
class Closest:
    """Points of a path that are nearest to poses.

    Attributes:
        index: of the point (...). distance: in position (...) [m].
        bound: whether a point outside of the window would be nearer (...); None where nobody asked.
    """

    index: np.ndarray
    distance: np.ndarray
    bound: np.ndarray | None


@dataclass(frozen=True, eq=False)
class ReferencePath:
    """Samples of a path.

    Attributes:
        poses: (n, 4) x, y, z [m], alpha [rad]; y is 0.
        arc: length from the start (n,) [m], turning in place counted as the settings say. way: without it (n,) [m].
        settings: that it was made of.
    """

    poses: np.ndarray
    arc: np.ndarray
    way: np.ndarray
    settings: PathSettings

    def closest(
        self, poses: np.ndarray, last: int | np.ndarray = 0, back: float = 0.02, ahead: float = STEP, watch: bool = True
    ) -> Closest:
        """Nearest points in position, ignoring the angle, of poses that one motion has led to.

        Where several are equally near, as while the bucket closes, the one of the smallest angle to the pose wins among
        those not before `last`; among all if there is none.

        Args:
            poses: (..., 4). last: index of the point that was accepted before the motion, of all or of each (...).
            back, ahead: the window, in arc length around it [m]. A path is followed, not jumped along: a bucket that is
                dragged over the top of a pile comes near the dragging without having dug.
            watch: whether to say where the window binds.
        """
        poses = np.asarray(poses, float)
        flat, shape = poses.reshape(-1, 4), poses.shape[:-1]
        last = np.broadcast_to(last, shape).reshape(-1)
        low = np.searchsorted(self.arc, self.arc - back)[last]
        high = np.searchsorted(self.arc, self.arc + ahead, side="right")[last]
        # Windows differ in length: a row's last point stands for those that it lacks.
        window = np.minimum(low[:, None] + np.arange(int((high - low).max(initial=1))), high[:, None] - 1)
        square = _square_distances(flat[:, None], self.poses[window])
        rows = np.arange(len(flat))
        first = square.argmin(1)
        nearest, index = np.sqrt(square[rows, first]), window[rows, first]
        # Only the points at which the bucket closes share their place.
        rows = np.flatnonzero(self.way[index] == self.way[-1])
        if len(rows):
            tied = np.sqrt(square[rows]) <= nearest[rows, None] + TIE
            later = tied & (window[rows] >= last[rows, None])
            tied = np.where(later.any(1, keepdims=True), later, tied)
            angle = np.abs(wrap(flat[rows, 3, None] - self.poses[window[rows], 3]))
            index[rows] = window[rows, np.argmin(np.where(tied, angle, np.inf), axis=1)]
        bound = None
        if watch:
            bound = (np.sqrt(_square_distances(flat[:, None], self.poses).min(1)) < nearest - TIE).reshape(shape)
        return Closest(index.reshape(shape), nearest.reshape(shape), bound)

    def errors(self, poses: np.ndarray, last: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Distances in position (n,) [m] and in angle (n,) [rad] of poses (n, 4) from the points that are nearest in both.

        Args:
            last: index of the point nearest in position (n,), no farther from which than 0.05 m along the path is looked.
        """
        apart = poses[:, None] - self.poses
        place, angle = np.linalg.norm(apart[..., :3], axis=-1), np.abs(wrap(apart[..., 3]))
        near = np.abs(self.way - self.way[last][:, None]) <= 0.05
        index = np.argmin(np.where(near, place**2 + (TURN_LENGTH * angle) ** 2, np.inf), axis=1)
        rows = np.arange(len(poses))
        return place[rows, index], angle[rows, index]

    def progress(self, index: np.ndarray | int) -> np.ndarray:
        """Share of the path's length before points (...), in [0, 1]."""
        return self.arc[index] / self.arc[-1]

    def after(self, index: int, length: float) -> int:
        """The point that lies a length [m] behind another, the last one at most."""
        return min(int(np.searchsorted(self.arc, self.arc[index] + length - 1e-12)), len(self.arc) - 1)

    def finished(self, pose: np.ndarray, index: int, progress: float = 0.96, angle: float = 0.1) -> bool:
        """Whether a bucket at a pose (4,), nearest to a point, has come to the end, in position and in angle [rad]."""
        return bool(self.way[index] >= progress * self.way[-1] and abs(wrap(pose[3] - self.poses[-1, 3])) <= angle)


def make_reference_path(settings: PathSettings = PathSettings()) -> ReferencePath:
    """Down along the slope, around the corner, straight towards the base, and closing in place."""
    s = settings
    cut = s.corner * np.tan(s.slope / 2.0)
    down = (s.above + s.depth) / np.sin(s.slope) - cut
    way = np.array([-np.cos(s.slope), -np.sin(s.slope)])
    enter = np.array([s.start, s.surface + s.above])
    t = _steps(down, s.spacing)
    digging = np.column_stack([enter + t[:, None] * way, np.full(len(t), s.attack)])
    u = _steps(s.slope, s.spacing / s.corner)
    centre = digging[-1, :2] + s.corner * np.array([-np.sin(s.slope), np.cos(s.slope)])
    heading = s.slope - u
    around = centre - s.corner * np.column_stack([-np.sin(heading), np.cos(heading)])
    corner = np.column_stack([around, s.attack + (s.level - s.attack) * u / s.slope])
    t = _steps(s.drag - cut, s.spacing)
    dragging = np.column_stack([corner[-1, :2] - t[:, None] * [1.0, 0.0], np.full(len(t), s.level)])
    turns = s.level + np.sign(s.closed - s.level) * _steps(abs(s.closed - s.level), s.spacing / TURN_LENGTH)
    closing = np.column_stack([np.repeat(dragging[-1:, :2], len(turns), axis=0), turns])
    xza = np.concatenate([digging, corner[1:], dragging[1:], closing[1:]])
    poses = np.column_stack([xza[:, 0], np.zeros(len(xza)), xza[:, 1], xza[:, 2]])
    pieces = np.hypot(*np.diff(xza[:, :2], axis=0).T)
    counted = np.where(pieces < 1e-12, s.turn_length * np.abs(np.diff(xza[:, 2])), pieces)
    return ReferencePath(poses, np.r_[0.0, np.cumsum(counted)], np.r_[0.0, np.cumsum(pieces)], s)


def _steps(length: float, spacing: float) -> np.ndarray:
    return np.linspace(0.0, length, max(1, int(np.ceil(length / spacing - 1e-9))) + 1)


def _square_distances(poses: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Of positions (..., 4) [m^2], coordinate by coordinate: equal points are equally far to the bit."""
    found = np.square(poses[..., 0] - points[..., 0])
    found += np.square(poses[..., 2] - points[..., 2])
    found += np.square(poses[..., 1])
    return found
