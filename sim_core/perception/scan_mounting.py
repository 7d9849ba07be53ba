"""Where a laser scanner is mounted, from scans of walls whose places are known.

    walls = box((0.0, 0.0), (4.0, 3.0))                       # a room, in the robot's base frame
    mounting = estimate_mounting(angles, scans, walls, guess=(0.2, 0.0, 0.0))
    print(mounting.report())

The mount is still while it scans. A range is where the ray meets the nearest wall; residuals are weighted by the
sensor's accuracy and by how well they fit (Tukey's biweight), so that people and furniture in the way count for nothing.

Upright walls say where the scanner is and which way it faces. A tilt only stretches what it sees, by 1 / cos(tilt): it
shows itself when it is large and opposite walls are both known, and without its sign. A leaning board shows it with
its sign. What the scans do not determine is left at the guess, is named, and keeps the prior's variance.

Frames: base B (z up), scanner S (x ahead, y left); X_BS by x, y, height and R = Rz(yaw) Ry(pitch) Rx(roll).
Source of the weights: Huber and Ronchetti, Robust Statistics (2009), 4.8 and 7.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["Mounting", "Wall", "box", "estimate_mounting", "predicted_ranges"]

NAMES = ("x", "y", "yaw", "pitch", "roll")
UNITS = ("m", "m", "rad", "rad", "rad")
PRIOR = np.array([0.5, 0.5, 0.5, 0.2, 0.2])  # standard deviations of a guess by eye
TILT_START = 0.1  # [rad] where a search for a tilt begins: at zero its derivative vanishes
TUKEY = 4.685  # 95 % efficiency for Gaussian errors
SIGNIFICANT = 13.8  # chi2 of two parameters exceeded by chance once in a thousand


@dataclass(frozen=True)
class Wall:
    """A plane patch in the base frame.

    Attributes:
        a, b: ends of its foot, at height 0, each (2,) [m].
        lean: angle by which it leans, from upright towards the right of the way from a to b [rad].
    """

    a: tuple[float, float]
    b: tuple[float, float]
    lean: float = 0.0

    def __post_init__(self) -> None:
        if np.hypot(self.b[0] - self.a[0], self.b[1] - self.a[1]) < 1e-6:
            raise ValueError(f"A wall has two different ends, not {self.a} twice.")


def box(center: Sequence[float], size: Sequence[float], yaw: float = 0.0) -> list[Wall]:
    """The four walls of a rectangular room or box.

    Args:
        center, size: in the base frame, each (2,) [m].
        yaw: by which it is turned [rad].
    """
    c, s = np.cos(yaw), np.sin(yaw)
    corners = np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]]) * np.asarray(size, float) / 2.0
    corners = corners @ np.array([[c, s], [-s, c]]) + np.asarray(center, float)
    return [Wall(tuple(corners[k]), tuple(corners[(k + 1) % 4])) for k in range(4)]


@dataclass(frozen=True)
class Mounting:
    """An estimate.

    Attributes:
        pose: x, y [m], yaw, pitch, roll [rad] of the scanner in the base frame.
        covariance: of pose, (5, 5); the prior's where the scans say nothing.
        height: of the scanner, as given [m].
        residuals: of the rays used, measured minus predicted, (n,) [m].
        outliers: valid readings that fit no wall.
        scale: residuals' spread in units of the accuracy assumed; far above 1: the walls are not where they are said to be.
        unobservable: directions of pose that the scans do not determine, in words.
    """

    pose: np.ndarray
    covariance: np.ndarray
    height: float
    residuals: np.ndarray
    outliers: int
    scale: float
    unobservable: list[str] = field(default_factory=list)

    @property
    def sigma(self) -> np.ndarray:
        """Standard deviations of pose, (5,)."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def rms(self) -> float:
        """Of the residuals [m]."""
        return float(np.sqrt(np.mean(self.residuals**2))) if self.residuals.size else float("nan")

    @property
    def X_BS(self) -> np.ndarray:
        """Pose of the scanner in the base frame, (4, 4)."""
        X = np.eye(4)
        X[:3, :3] = _rotation(*self.pose[2:])[0]
        X[:3, 3] = self.pose[0], self.pose[1], self.height
        return X

    def report(self) -> str:
        """Values with 95 % intervals, fit, and what is not known."""
        lines = [
            f"{name:6} {value:9.4f} ± {1.96 * sigma:.4f} {unit}"
            for name, value, sigma, unit in zip(NAMES, self.pose, self.sigma, UNITS, strict=True)
        ]
        lines.append(
            f"{self.residuals.size} rays, rms {1e3 * self.rms:.1f} mm, {self.scale:.2f} of the accuracy assumed; "
            f"{self.outliers} fit no wall"
        )
        return "\n".join(lines + [f"not determined: {what}" for what in self.unobservable])


def _rotation(yaw: float, pitch: float, roll: float) -> tuple[np.ndarray, np.ndarray]:
    """Rz(yaw) Ry(pitch) Rx(roll), (3, 3), and its derivatives by the three, (3, 3, 3)."""
    (cy, cp, cr), (sy, sp, sr) = np.cos([yaw, pitch, roll]), np.sin([yaw, pitch, roll])
    Z, Y, X = (
        np.array(rows)
        for rows in (
            [[cy, -sy, 0], [sy, cy, 0], [0, 0, 1]],
            [[cp, 0, sp], [0, 1, 0], [-sp, 0, cp]],
            [[1, 0, 0], [0, cr, -sr], [0, sr, cr]],
        )
    )
    dZ, dY, dX = (
        np.array(rows)
        for rows in (
            [[-sy, -cy, 0], [cy, -sy, 0], [0, 0, 0]],
            [[-sp, 0, cp], [0, 0, 0], [-cp, 0, -sp]],
            [[0, 0, 0], [0, -sr, -cr], [0, cr, -sr]],
        )
    )
    return Z @ Y @ X, np.stack((dZ @ Y @ X, Z @ dY @ X, Z @ Y @ dX))


class _Walls:
    """Walls as arrays: plane normals (m, 3), offsets n.x = c (m,), feet and directions (m, 2), lengths (m,)."""

    def __init__(self, walls: Sequence[Wall]) -> None:
        if not walls:
            raise ValueError("Without a known wall nothing can be said; give at least one.")
        self.foot = np.array([wall.a for wall in walls], float)
        along = np.array([wall.b for wall in walls], float) - self.foot
        self.length = np.linalg.norm(along, axis=1)
        self.along = along / self.length[:, None]
        lean = np.array([wall.lean for wall in walls], float)
        right = np.stack((self.along[:, 1], -self.along[:, 0]), axis=1)
        self.normal = np.column_stack((right * np.cos(lean)[:, None], -np.sin(lean)))
        self.offset = (self.normal[:, :2] * self.foot).sum(axis=1)

    def meet(self, p: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Ranges (n,) [m] from p (3,) along u (n, 3), inf where nowhere, and the wall met (n,)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            r = (self.offset - self.normal @ p) / (u @ self.normal.T)
            at = p[:2] + r[..., None] * u[:, None, :2] - self.foot
            s = (at * self.along).sum(axis=2)
            r = np.where((r > 0.0) & (s >= 0.0) & (s <= self.length), r, np.inf)
        wall = r.argmin(axis=1)
        return r[np.arange(len(u)), wall], wall


def _rays(angles: np.ndarray) -> np.ndarray:
    return np.stack((np.cos(angles), np.sin(angles), np.zeros_like(angles)), axis=1)


def predicted_ranges(angles: ArrayLike, pose: ArrayLike, walls: Sequence[Wall], height: float = 0.0) -> np.ndarray:
    """What a scanner at `pose` (x, y, yaw, pitch, roll) sees, shape of angles [m]; inf where no wall is met."""
    pose = np.asarray(pose, float)
    u = _rays(np.asarray(angles, float)) @ _rotation(*pose[2:])[0].T
    return _Walls(walls).meet(np.array([pose[0], pose[1], height]), u)[0]


def default_accuracy(ranges: np.ndarray) -> np.ndarray:
    """Standard deviation of a URG-04LX's readings: a third of its specified ±10 mm, above 1 m of ±1 % [m]."""
    return np.maximum(0.01, 0.01 * ranges) / 3.0


class _Problem:
    """Weighted residuals of all valid readings as a function of the pose."""

    def __init__(
        self,
        angles: np.ndarray,
        ranges: np.ndarray,
        walls: Sequence[Wall],
        height: float,
        accuracy: Callable[[np.ndarray], np.ndarray],
    ) -> None:
        self.rays, self.ranges, self.height = _rays(angles), ranges, height
        self.walls = _Walls(walls)
        self.sigma = np.broadcast_to(np.asarray(accuracy(ranges), float), ranges.shape)

    def residuals(self, pose: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(measured - predicted) / sigma, (n,), inf where no wall is met; and the prediction's Jacobian / sigma, (n, 5)."""
        R, dR = _rotation(*pose[2:])
        p, u = np.array([pose[0], pose[1], self.height]), self.rays @ R.T
        r, wall = self.walls.meet(p, u)
        met = np.isfinite(r)
        n = self.walls.normal[wall]
        with np.errstate(divide="ignore", invalid="ignore"):
            facing = (n * u).sum(axis=1)
            J = np.empty((len(r), 5))
            J[:, :2] = -n[:, :2] / facing[:, None]
            for k in range(3):
                J[:, 2 + k] = -r * (n * (self.rays @ dR[k].T)).sum(axis=1) / facing
        J = np.where(met[:, None], J, 0.0) / self.sigma[:, None]
        return np.where(met, (self.ranges - np.where(met, r, 0.0)) / self.sigma, np.inf), J

    def cost(self, pose: np.ndarray, scale: float) -> float:
        """Tukey's loss, in units of chi-square."""
        e, _ = self.residuals(pose)
        inside = np.clip(np.abs(e) / (TUKEY * scale), 0.0, 1.0)
        return float((TUKEY**2 / 3.0 * (1.0 - (1.0 - inside**2) ** 3)).sum())

    def solve(self, pose: np.ndarray, free: np.ndarray, scales: Sequence[float]) -> np.ndarray:
        """Reweighted Gauss-Newton on the free entries, with a gate that closes; directions without data stay."""
        pose = pose.copy()
        for scale in scales:
            for _ in range(8):
                e, J = self.residuals(pose)
                step = np.zeros(5)
                step[free] = _observed_step(*_normal_equations(e, J[:, free], scale), PRIOR[free])
                step *= min(1.0, 0.3 / max(np.abs(step).max(), 1e-12))
                pose += step
                if np.abs(step).max() < 1e-7:
                    break
        return pose


def _weights(e: np.ndarray, scale: float) -> np.ndarray:
    return np.where(np.abs(e) < TUKEY * scale, (1.0 - np.clip(np.abs(e) / (TUKEY * scale), 0.0, 1.0) ** 2) ** 2, 0.0)


def _normal_equations(e: np.ndarray, J: np.ndarray, scale: float) -> tuple[np.ndarray, np.ndarray]:
    w = _weights(e, scale)
    return J.T @ (w[:, None] * J), J.T @ (w * np.where(w > 0.0, e, 0.0))


def _directions(H: np.ndarray, prior: np.ndarray, needed: float) -> tuple[np.ndarray, np.ndarray]:
    """Directions in units of the prior, as columns, and which are determined.

    A direction counts as determined if the data know it `needed` times better (in variance) than the guess.
    """
    information, directions = np.linalg.eigh(prior[:, None] * H * prior)
    return directions, information > needed


def _observed_step(H: np.ndarray, g: np.ndarray, prior: np.ndarray, needed: float = 25.0) -> np.ndarray:
    directions, known = _directions(H, prior, needed)
    D = prior[:, None] * directions[:, known]
    return D @ np.linalg.solve(D.T @ H @ D, D.T @ g) if known.any() else np.zeros(len(prior))


def estimate_mounting(
    angles: ArrayLike,
    scans: ArrayLike,
    walls: Sequence[Wall],
    guess: Sequence[float] = (0.0, 0.0, 0.0),
    *,
    height: float = 0.0,
    tilt: bool = True,
    accuracy: Callable[[np.ndarray], np.ndarray] = default_accuracy,
) -> Mounting:
    """The scanner's pose in the base frame.

    Args:
        angles: of the rays, (n,) [rad].
        scans: ranges, (n,) or (k, n) [m]; NaN and infinite ones are left out.
        walls: known, in the base frame.
        guess: x, y [m], yaw [rad], and if known pitch, roll; within about 0.3 m and 0.3 rad of the truth.
        height: of the scanner above the walls' feet [m]; matters for leaning walls alone.
        tilt: look for pitch and roll as well; they are taken only if the scans fit significantly better with them.
        accuracy: ranges (n,) -> standard deviations (n,) [m].

    Raises:
        ValueError: no walls, shapes that do not fit, or fewer than 10 usable readings.
    """
    angles, scans = np.asarray(angles, float), np.atleast_2d(np.asarray(scans, float))
    if angles.ndim != 1 or scans.shape[1] != angles.size:
        raise ValueError(
            f"Each scan has as many ranges as there are angles: expected (k, {angles.size}), got {scans.shape}."
        )
    valid = np.isfinite(scans) & (scans > 0.0)
    if valid.sum() < 10:
        raise ValueError(f"{valid.sum()} usable readings are too few; is the scanner's window free?")
    problem = _Problem(np.broadcast_to(angles, scans.shape)[valid], scans[valid], walls, height, accuracy)
    start = np.zeros(5)
    start[: len(guess)] = guess

    level = problem.solve(start, np.arange(3), scales=(60.0, 20.0, 5.0))
    scale = _spread(problem.residuals(level)[0])
    level = problem.solve(level, np.arange(3), scales=(scale, scale))
    best, ambiguous = level, False
    if tilt:
        best, scale, ambiguous = _with_tilt(problem, level, scale)
    e, J = problem.residuals(best)
    H, _ = _normal_equations(e, J, scale)
    used = _weights(e, scale) > 0.0
    tilted = bool(np.any(best[3:] != level[3:]))
    return _result(problem, best, H, e, used, scale, height, tilted, ambiguous)


def _spread(e: np.ndarray) -> float:
    """Robust standard deviation of the residuals, in units of the accuracy, and at least half of it."""
    finite = e[np.isfinite(e)]
    return max(0.5, 1.4826 * float(np.median(np.abs(finite)))) if finite.size else 1.0


def _with_tilt(problem: _Problem, level: np.ndarray, scale: float) -> tuple[np.ndarray, float, bool]:
    """The best pose with a tilt if it fits significantly better than without; the spread; whether its sign is open."""
    solved = []
    for pitch in (TILT_START, -TILT_START):
        for roll in (TILT_START, -TILT_START):
            start = level + np.array([0.0, 0.0, 0.0, pitch, roll])
            solved.append(problem.solve(start, np.arange(5), scales=(20.0, 5.0, scale, scale)))
    finest = min(scale, *(_spread(problem.residuals(pose)[0]) for pose in solved))
    found = sorted((problem.cost(pose, finest), tuple(pose)) for pose in solved)
    best = np.array(found[0][1])
    gain = (problem.cost(level, finest) - found[0][0]) / finest**2
    if not np.isfinite(gain) or gain < SIGNIFICANT:
        return level, scale, False
    rivals = [np.array(pose) for cost, pose in found if (cost - found[0][0]) / finest**2 < SIGNIFICANT]
    apart = [np.abs(pose[3:] - best[3:]).max() > 0.02 for pose in rivals]
    if any(apart) and best[3 + int(np.argmax(np.abs(best[3:])))] < 0.0:
        # Of two that fit alike, by convention the one whose larger tilt is positive.
        mirrored = next((pose for pose in rivals if pose[3 + int(np.argmax(np.abs(best[3:])))] > 0.0), best)
        best = mirrored
    return best, finest, any(apart)


def _result(
    problem: _Problem,
    pose: np.ndarray,
    H: np.ndarray,
    e: np.ndarray,
    used: np.ndarray,
    scale: float,
    height: float,
    tilted: bool,
    ambiguous: bool,
) -> Mounting:
    free = np.arange(5) if tilted else np.arange(3)
    prior = PRIOR[free]
    directions, known = _directions(H[np.ix_(free, free)], prior, 25.0)
    D = prior[:, None] * directions
    information = np.diag(D.T @ H[np.ix_(free, free)] @ D)
    variance = np.where(known, scale**2 / np.maximum(information, 1e-12), 1.0)
    covariance = np.diag(PRIOR**2)
    covariance[np.ix_(free, free)] = D @ np.diag(variance) @ D.T
    unobservable = [_in_words(directions[:, k], free) for k in np.flatnonzero(~known)]
    if not tilted:
        unobservable += ["pitch and roll: the scans fit as well without a tilt"]
    elif ambiguous:
        unobservable += ["sign of pitch and roll: the opposite tilt fits as well; a leaning board would tell"]
    return Mounting(pose, covariance, height, (e * problem.sigma)[used], int((~used).sum()), scale, unobservable)


def _in_words(direction: np.ndarray, free: np.ndarray) -> str:
    """A direction by its largest entries, e.g. "y" or "0.71 x + 0.71 y"."""
    direction = direction * np.sign(direction[np.argmax(np.abs(direction))])
    large = [(direction[k], NAMES[free[k]]) for k in range(len(free)) if abs(direction[k]) > 0.1]
    return large[0][1] if len(large) == 1 else " ".join(f"{value:+.2f} {name}" for value, name in large)
