"""The narrowest posture of a robot with two arms that mirror each other: how wide a door it needs, M_w of the design study.

    robot = MirroredArms(model, roots, right, left, signs)
    found = most_compact(robot, length=1.0)
    found.width                                   # [m] of everything, measured on the shapes

Postures are searched for in which no shape touches one of another part: the other arm, what carries both, the floor, or a link of
its own arm that is no neighbour. The whole robot stays no longer than `length`, so that it does not become narrow by stretching its
arms out ahead. The search is an evolution strategy with one parent from several starts; its outcome is an upper bound of the least
width, which more starts can only lower.

Source: Zhu, PhD thesis, University of Illinois (2023), section 8.4.1, for the metric; Rechenberg, Evolutionsstrategie (1973), for
the rule by which steps become longer and shorter.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import mujoco
import numpy as np

from sim_core.telepresence.geom_extent import extents

__all__ = ["CompactPosture", "MirroredArms", "most_compact"]

#: [m] that parts stay apart at least
APART = 0.005
#: links of one arm that are nearer along it than so many joints are not held against each other, nor are an arm's first links
#: against what carries it: they meet by design
NEIGHBOURS = 3
#: metres of width that a metre of overlap or of excess length costs in the search, and a radian away from the joints' middle
PENALTY, PLACID = 20.0, 1e-3
#: tries in each generation, and first deviation of a step as a share of the joints' ranges
OFFSPRING, FIRST_STEP = 8, 0.15


@dataclass(frozen=True, eq=False)
class CompactPosture:
    """What a search has found.

    Attributes:
        right: joint positions of the right arm (n,) [rad]; the left one mirrors them.
        posture: of the whole model (nq,) [rad or m].
        width: along y of everything but the world [m]. arms: of the arms with what they carry alone [m].
        length: along x of everything but the world [m].
        excess: [m] by which parts overlap and the length is exceeded, summed; 0: the posture is free.
    """

    right: np.ndarray
    posture: np.ndarray
    width: float
    arms: float
    length: float
    excess: float


class MirroredArms:
    """A robot whose left arm does what its right arm does, mirrored at y = 0.

    Args:
        model: in the posture of its first key frame, but for the arms; it is not changed.
        roots: names of the bodies with which the right and the left arm begin.
        right, left: names of the arms' joints (n), from the root.
        signs: by which each joint of the left arm turns as that of the right one does (n,), 1 or -1.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        roots: Sequence[str],
        right: Sequence[str],
        left: Sequence[str],
        signs: Sequence[float],
    ) -> None:
        part = _parts(model, [model.body(name).id for name in roots])
        self.model, self._data = _colliding(model, part), mujoco.MjData(model)
        self._right = [model.joint(name).qposadr[0] for name in right]
        self._left = [model.joint(name).qposadr[0] for name in left]
        self._signs = np.asarray(signs, float)
        joints = [model.joint(name).id for name in right]
        self.lower, self.upper = model.jnt_range[joints].T
        robot = [g for g in range(model.ngeom) if model.geom_bodyid[g] != 0]
        self._robot, self._part = robot, part
        self._arms = np.array([part[model.geom_bodyid[g]][0] > 0 for g in robot])
        self.home = model.key_qpos[0] if model.nkey else model.qpos0

    def posture(self, right: np.ndarray) -> np.ndarray:
        """Of the whole model (nq,), from that of the right arm (n,) [rad]."""
        qpos = self.home.copy()
        qpos[self._right], qpos[self._left] = right, self._signs * right
        return qpos

    def measured(self, right: np.ndarray, longest: float = np.inf) -> CompactPosture:
        """A posture and how wide and free it is.

        Args:
            right: joint positions of the right arm (n,) [rad]. longest: [m] that the robot may be.
        """
        data, qpos = self._data, self.posture(right)
        data.qpos[:] = qpos
        mujoco.mj_kinematics(self.model, data)
        mujoco.mj_comPos(self.model, data)
        mujoco.mj_collision(self.model, data)
        touching = zip(data.contact.dist.tolist(), data.contact.geom.tolist())
        excess = sum(max(APART - distance, 0.0) for distance, geoms in touching if self._counts(geoms))
        back, front = extents(self.model, data, self._robot, (1.0, 0.0, 0.0))
        low, high = extents(self.model, data, self._robot, (0.0, 1.0, 0.0))
        length = float(front.max() - back.min())
        return CompactPosture(
            np.array(right, float),
            qpos,
            float(high.max() - low.min()),
            float(high[self._arms].max() - low[self._arms].min()),
            length,
            float(excess + max(length - longest, 0.0)),
        )

    def _counts(self, geoms: Sequence[int]) -> bool:
        """Whether two geoms that touch are parts that must not."""
        (a, i), (b, j) = (self._part[self.model.geom_bodyid[g]] for g in geoms)
        if a == b:
            return a > 0 and abs(i - j) >= NEIGHBOURS
        return not ((a == 0 and j < NEIGHBOURS) or (b == 0 and i < NEIGHBOURS))


def most_compact(
    robot: MirroredArms, length: float, starts: int = 4, generations: int = 150, seed: int = 0
) -> CompactPosture:
    """The narrowest free posture that a search finds.

    Args:
        robot: whose arms move.
        length: [m] that the whole robot may be along x.
        starts: how many searches, each from the best of a hundred random postures.
        generations: of each search. seed: of all randomness.
    """
    rng, span = np.random.default_rng(seed), robot.upper - robot.lower
    middle = 0.5 * (robot.lower + robot.upper)

    def cost(found: CompactPosture) -> float:
        return found.arms + PENALTY * found.excess + PLACID * float(np.sum((found.right - middle) ** 2))

    def tried(right: np.ndarray) -> tuple[float, CompactPosture]:
        found = robot.measured(np.clip(right, robot.lower, robot.upper), length)
        return cost(found), found

    best: tuple[float, CompactPosture] | None = None
    for _ in range(starts):
        now = min((tried(q) for q in rng.uniform(robot.lower, robot.upper, (100, len(span)))), key=lambda one: one[0])
        step = FIRST_STEP
        for _ in range(generations):
            offspring = now[1].right + step * span * rng.normal(size=(OFFSPRING, len(span)))
            following = min((tried(q) for q in offspring), key=lambda one: one[0])
            better = following[0] < now[0]
            now, step = (following, 1.3 * step) if better else (now, 0.85 * step)
        if best is None or (now[1].excess > 0.0, now[0]) < (best[1].excess > 0.0, best[0]):
            best = now
    assert best is not None
    return best[1]


def _parts(model: mujoco.MjModel, roots: Sequence[int]) -> list[tuple[int, int]]:
    """Of each body: the arm it is of (0: what carries them, -1: the world), and how many joints are before it along the arm."""
    found = [(-1, 0)]
    for body in range(1, model.nbody):
        arm, before = found[model.body_parentid[body]]
        arm = roots.index(body) + 1 if body in roots else max(arm, 0)
        found.append((arm, before + int(model.body_jntnum[body] > 0) if arm else 0))
    return found


def _colliding(model: mujoco.MjModel, part: Sequence[tuple[int, int]]) -> mujoco.MjModel:
    """A copy in which the shapes of parts that must not meet are found where they do, and few others."""
    found = copy.copy(model)
    for geom in range(model.ngeom):
        arm, before = part[model.geom_bodyid[geom]]
        # the carrier and the floor are of kind 1, the arms of kinds 2 and 4
        found.geom_contype[geom] = 1 if arm <= 0 else 2 * arm
        found.geom_conaffinity[geom] = 0 if arm <= 0 else 6 + (before >= NEIGHBOURS)
    found.geom_margin[:], found.geom_gap[:] = APART, 0.0
    return found
