"""What a predicted sequence of bucket states is worth: progress along the path, tracking of it, and excess of contact force.

J = w1 g_progress + w2 g_track + w3 g_force, each the mean over the predicted states, is maximised. The thesis calls it a cost, but
its signs make it a reward.

Source: Zhu, PhD thesis (University of Illinois 2023), section 7.5, equations 7.2 and 7.3. That 0.15 stands inside the square, and that
the force is its norm, are readings of the text.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from sim_core.excavation.reference_path import TURN_LENGTH, ReferencePath, wrap

__all__ = [
    "TUNED",
    "CostSettings",
    "Terms",
    "Workspace",
    "adjusted_distance",
    "excess_force",
    "step_terms",
    "tracking_distance",
]


@dataclass(frozen=True)
class Workspace:
    """Poses that the arm can take: a box of (x, y, z, alpha).

    Attributes:
        lower, upper: (4,) [m, m, m, rad].
    """

    lower: tuple[float, float, float, float] = (0.33, -0.05, -0.075, -1.2)
    upper: tuple[float, float, float, float] = (0.62, 0.05, 0.12, 1.0)

    def contains(self, poses: np.ndarray) -> np.ndarray:
        """Whether poses (..., 4) lie inside (...)."""
        return np.all((poses >= np.array(self.lower)) & (poses <= np.array(self.upper)), axis=-1)


@dataclass(frozen=True)
class CostSettings:
    """Weights of J, as published.

    Attributes:
        progress, track, force: w1 [1], w2 [1/m], w3 [1/N].
        small, scale: deviations up to `small` [m] count by `scale` only. threshold: force that costs nothing [N].
        workspace: poses that may be predicted; a sequence with another one is not worth anything.
    """

    progress: float = 0.8
    track: float = -1.05
    force: float = -1.0 / 1500.0
    small: float = 0.015
    scale: float = 0.2
    threshold: float = 17.5
    workspace: Workspace = field(default_factory=Workspace)


#: weights tuned by hand for the simulated pile, as the published ones were for theirs: an arm that stops at 66 N digs with 20 to 46 N, so
#: force begins to cost later, and costs five times as much then, for what is left until it stops is less than two motions build up; what lies
#: beside the path costs twice as much, or a planner of five motions and more drags the bucket over the pile where force costs nothing
TUNED = CostSettings(track=-2.1, threshold=40.0, force=-1.0 / 300.0)


@dataclass(frozen=True, eq=False)
class Terms:
    """What J is made of, for each state (...).

    Attributes:
        index: of the closest point. progress: in [0, 1]. track: adjusted distance [m]. force: excess [N]. total: the weighted sum,
            -inf outside of the workspace.
    """

    index: np.ndarray
    progress: np.ndarray
    track: np.ndarray
    force: np.ndarray
    total: np.ndarray


def tracking_distance(poses: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """D: distance of poses (..., 4) from others [m]; a radian counts 0.15 m."""
    apart = np.asarray(poses) - targets
    angle = TURN_LENGTH * wrap(apart[..., 3])
    return np.sqrt(np.sum(apart[..., :3] ** 2, axis=-1) + angle**2)


def adjusted_distance(distance: np.ndarray, settings: CostSettings = CostSettings()) -> np.ndarray:
    """D': small deviations are nearly free [m]."""
    distance = np.asarray(distance, float)
    return settings.scale * np.minimum(distance, settings.small) + np.maximum(distance - settings.small, 0.0)


def excess_force(forces: np.ndarray, settings: CostSettings = CostSettings()) -> np.ndarray:
    """By how much the norm of forces (..., 3) exceeds the threshold [N]."""
    return np.maximum(np.sqrt(np.sum(np.square(forces), axis=-1)) - settings.threshold, 0.0)


def step_terms(
    path: ReferencePath,
    poses: np.ndarray,
    forces: np.ndarray,
    last: int | np.ndarray = 0,
    settings: CostSettings = CostSettings(),
    inside: np.ndarray | None = None,
) -> Terms:
    """The terms of J for predicted states; J of a sequence is the mean of `total` over its states.

    Args:
        poses: (..., 4) [m, m, m, rad]. forces: (..., 3) [N]. last: index on the path that was accepted one motion before, of all or of
            each (...).
        inside: forces (...) [N] that count instead of the states' where they are larger; None: there are none.
    """
    index = path.closest(poses, last, watch=False).index
    progress = path.progress(index)
    track = adjusted_distance(tracking_distance(poses, path.poses[index]), settings)
    force = excess_force(forces, settings)
    if inside is not None:
        force = np.maximum(force, inside - settings.threshold)
    total = settings.progress * progress + settings.track * track + settings.force * force
    total = np.where(settings.workspace.contains(poses), total, -np.inf)
    return Terms(index, progress, track, force, total)
