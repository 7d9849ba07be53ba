"""Which scoops the tray has room for: how near to its floor and its walls each of many would come, at once.

Where a scoop goes does not depend on where it begins: its corners along the movements are computed once for each depth, and then
put to every place and turned by every yaw.
"""

from __future__ import annotations

import numpy as np

from sim_core.scooping.arm.primitive import PrimitiveConfig, ScoopAction, ScoopTrajectory
from sim_core.scooping.arm.scoop_shape import ScoopShape
from sim_core.scooping.bed.actions import Actions

__all__ = ["gaps", "has_room"]

#: at which a scoop is looked at, beside the ends of its movements
MOMENTS = 32


def has_room(
    actions: Actions,
    height: np.ndarray,
    size: tuple[float, float, float],
    floor: float = 0.01,
    wall: float = 0.01,
    config: PrimitiveConfig = PrimitiveConfig(),
) -> np.ndarray:
    """Which scoops stay off the tray, (n,).

    Args:
        height: of the surface over the tray's floor where each begins (n,) [m]. size: of the tray's inside [m].
        floor, wall: distances that are to be kept [m].
    """
    over, beside = gaps(actions, height, size, wall, config)
    return (over >= floor) & (beside >= wall)


def gaps(
    actions: Actions,
    height: np.ndarray,
    size: tuple[float, float, float],
    near: float = 0.01,
    config: PrimitiveConfig = PrimitiveConfig(),
    shape: ScoopShape = ScoopShape(),
) -> tuple[np.ndarray, np.ndarray]:
    """How far scoops stay above the floor and from the walls, (n,) each [m]; below 0: they would meet.

    Args:
        near: [m] above the walls' top up to which a corner counts as beside them.
    """
    over, beside = np.empty(len(actions)), np.empty(len(actions))
    half, edge = 0.5 * shape.width + shape.wall, shape.wall
    corners = np.array(
        [[x, y, z] for x in (0.0, -shape.length - edge) for y in (-half, half) for z in (-edge, shape.height)]
    )
    for depth in np.unique(actions.depth):
        which = np.flatnonzero(actions.depth == depth)
        work = ScoopTrajectory(ScoopAction(np.zeros(3), 0.0, float(depth)), config)
        poses = [work.at(t).pose for t in np.union1d(np.linspace(0.0, work.duration, MOMENTS), work.ends)]
        x, y, z = np.concatenate([pose.position + corners @ pose.rotation.T for pose in poses]).T
        cosine, sine = np.cos(actions.yaw[which, None]), np.sin(actions.yaw[which, None])
        up = height[which, None] + z
        room = np.minimum(
            0.5 * size[0] - np.abs(actions.place[which, :1] + cosine * x - sine * y),
            0.5 * size[1] - np.abs(actions.place[which, 1:] + sine * x + cosine * y),
        )
        over[which] = up.min(axis=1)
        beside[which] = np.where(up < size[2] + near, room, np.inf).min(axis=1)
    return over, beside
