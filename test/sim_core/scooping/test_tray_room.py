"""Room in the tray: the same answer as one scoop at a time, whose corners are followed densely."""

import numpy as np
import pytest

from sim_core.scooping.arm.primitive import ScoopAction, ScoopTrajectory
from sim_core.scooping.arm.scoop_shape import ScoopShape
from sim_core.scooping.bed.actions import Actions, grid
from sim_core.scooping.planning.tray_room import gaps, has_room

pytestmark = pytest.mark.pure

SIZE = (0.9, 0.6, 0.2)


def followed(place, yaw, depth, height):
    """Gaps to floor and walls of one scoop, seen at 400 moments."""
    s = ScoopShape()
    half = 0.5 * s.width + s.wall
    corners = np.array([[x, y, z] for x in (0, -s.length - s.wall) for y in (-half, half) for z in (-s.wall, s.height)])
    work = ScoopTrajectory(ScoopAction(np.array([*place, height]), yaw, depth))
    poses = [work.at(t).pose for t in np.linspace(0, work.duration, 400)]
    at = np.concatenate([p.position + corners @ p.rotation.T for p in poses])
    room = np.minimum(SIZE[0] / 2 - np.abs(at[:, 0]), SIZE[1] / 2 - np.abs(at[:, 1]))
    return at[:, 2].min(), np.where(at[:, 2] < SIZE[2] + 0.01, room, np.inf).min()


def test_gaps_are_those_of_each_scoop_alone():
    rng = np.random.default_rng(3)
    n = 25
    place = rng.uniform([-0.4, -0.27], [0.4, 0.27], (n, 2))
    yaw, depth, height = rng.uniform(-3, 3, n), rng.choice([0.03, 0.05, 0.08], n), rng.uniform(0.0, 0.2, n)
    over, beside = gaps(Actions(place, yaw, depth, np.zeros(n, bool)), height, SIZE)
    for k in range(n):
        floor, wall = followed(place[k], yaw[k], depth[k], height[k])
        assert over[k] == pytest.approx(floor, abs=1e-3)
        assert beside[k] == pytest.approx(wall, abs=3e-3)


def test_deep_scoops_of_a_shallow_layer_have_no_room():
    every = grid()
    free = has_room(every, np.full(len(every), 0.06), SIZE)
    assert not free[every.depth > 0.055].any()
    middle = (np.abs(every.place) < 0.1).all(axis=1)
    assert free[middle & (every.depth < 0.035)].all()
    outward = (every.place[:, 1] > 0.1) & np.isclose(every.yaw, np.pi / 2)
    assert not has_room(every, np.full(len(every), 0.1), SIZE)[
        outward & (every.place[:, 1] > 0.105) & (every.depth > 0.07)
    ].all()
