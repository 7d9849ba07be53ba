"""Keeps two arms from each other, from the body that carries them, and from what is known to stand around.

    guard = CollisionGuard(arms, body, boxes)
    q, why = guard.pass_or_hold(q_safe, q_wanted)        # in every cycle, both arms together

Links are enclosed by capsules. A step is taken if all stay a margin apart along it, or if it leads out of where they are too
near already; else both arms stay at the last posture that was safe, with a sentence that names the two links.

Source: Zhu, PhD thesis, University of Illinois (2023), section 8.4.2, with the predecessor's margin of 2.5 mm; there the check
was made in every twentieth cycle, here it is made in every one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import casadi as ca
import numpy as np

from config.description import Capsule
from sim_core.multibody import RobotModel
from sim_core.multibody.equations.kinematics import frame_pose
from sim_core.telepresence.arm_equations import OneCall
from sim_core.telepresence.clutch import Pose

__all__ = ["Box", "CollisionGuard", "GuardedArm", "segment_distance"]

#: of the points on a segment whose distances from a box are looked at
SHARES = np.linspace(0.0, 1.0, 9)


@dataclass(frozen=True, eq=False)
class Box:
    """Something that stands around, in the frame that carries the arms.

    Attributes:
        name: in sentences.
        pose: of its middle. half: half its edges (3,) [m].
    """

    name: str
    pose: Pose
    half: np.ndarray


@dataclass(frozen=True, eq=False)
class GuardedArm:
    """An arm in the frame that carries it.

    Attributes:
        name: in sentences, "right".
        model: of the arm alone. mount: of its root.
        capsules: that enclose its links, the root's first.
        rooted: how many of the first capsules are as near to what carries the arm as they were mounted.
    """

    name: str
    model: RobotModel
    mount: Pose
    capsules: Sequence[Capsule]
    rooted: int = 3


class CollisionGuard:
    """See the module's docstring.

    Args:
        arms: one or two.
        body: capsules of what carries them.
        boxes: that stand around; they may be changed at any time.
        margin: [m] that everything stays apart.
        step: [rad] of a joint between two postures that are checked along a step.

    Attributes:
        boxes: as above.
    """

    def __init__(
        self,
        arms: Sequence[GuardedArm],
        body: Sequence[Capsule] = (),
        boxes: Sequence[Box] = (),
        margin: float = 0.0025,
        step: float = 0.05,
    ) -> None:
        self.arms, self.boxes, self.margin, self.step = tuple(arms), list(boxes), margin, step
        self._size = [arm.model.nq for arm in arms]
        self._ends = [_capsule_ends(arm) for arm in arms]
        carried = [capsule for arm in arms for capsule in arm.capsules]
        radii = np.array([capsule.radius for capsule in (*carried, *body)])
        self._body = np.array([[capsule.start, capsule.end] for capsule in body]).reshape(-1, 2, 3)
        self._names = [f"{arm.name} {capsule.body}" for arm in arms for capsule in arm.capsules]
        self._names += [f"the {capsule.body}" for capsule in body]
        owner = np.concatenate([np.full(len(arm.capsules), i) for i, arm in enumerate(arms)])
        order = np.concatenate([np.arange(len(arm.capsules)) for arm in arms])
        a, b = np.triu_indices(len(owner), 1)
        rooted = order < np.array([arms[i].rooted for i in owner])
        # Neighbours touch by design, and a link's enclosure reaches into the next but one's; farther ones can meet. Two
        # shoulders are as near as they were mounted.
        apart = np.where(owner[a] == owner[b], order[b] - order[a] > 3, ~(rooted[a] & rooted[b]))
        free = np.flatnonzero(~rooted)
        with_body = np.meshgrid(free, len(owner) + np.arange(len(body)), indexing="ij")
        self._pairs = np.array(
            [np.concatenate([a[apart], with_body[0].ravel()]), np.concatenate([b[apart], with_body[1].ravel()])]
        )
        self._apart = radii[self._pairs].sum(axis=0)  # axes that are so far apart touch
        self._free, self._free_radii = free, radii[free]
        self._latest: tuple[np.ndarray, tuple[np.ndarray, np.ndarray, tuple[float, str]]] | None = None

    def nearest(self, q: np.ndarray) -> tuple[float, str]:
        """(least distance [m], negative where they overlap; the two that are nearest).

        Args:
            q: joint positions of all arms, one after the other [rad].
        """
        starts, ends, found = self._without_boxes(q)
        for box in self.boxes:
            d = _to_box(box, starts, ends) - self._free_radii
            k = int(np.argmin(d))
            found = min(found, (float(d[k]), f"{self._names[self._free[k]]} and {box.name}"))
        return found

    def pass_or_hold(self, safe: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, str]:
        """(`wanted` and "", or `safe` and the sentence why).

        Args:
            safe: where all arms were told to be last [rad]. wanted: where they would be next [rad].
        """
        parts = max(1, int(np.ceil(np.abs(wanted - safe).max(initial=0.0) / self.step)))
        before: float | None = None
        for k in range(1, parts + 1):
            distance, which = self.nearest(safe + (wanted - safe) * (k / parts))
            if distance < self.margin:
                if before is None:
                    before = self.nearest(safe)[0]
                if distance <= before:
                    gap = f"{1e3 * distance:.0f} mm apart" if distance >= 0.0 else "in each other"
                    return safe, f"The arms hold: {which} would be {gap}; move the hand back."
            before = distance
        return wanted, ""

    def _without_boxes(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray, tuple[float, str]]:
        """Starts and ends (k, 3) of the axes of capsules that boxes may touch, and what is nearest apart from boxes.

        In a cycle the same posture is asked about several times, with the boxes elsewhere.
        """
        if self._latest is not None and np.array_equal(self._latest[0], q):
            return self._latest[1]
        parts, at = [], 0
        for evaluate, n in zip(self._ends, self._size):
            parts.append(evaluate(q[at : at + n]))
            at += n
        segments = np.concatenate([*parts, self._body])
        starts, ends, (a, b) = segments[:, 0], segments[:, 1], self._pairs
        nearest = np.inf, "nothing"
        if len(a):
            d = segment_distance(starts[a], ends[a], starts[b], ends[b]) - self._apart
            k = int(np.argmin(d))
            nearest = float(d[k]), f"{self._names[a[k]]} and {self._names[b[k]]}"
        self._latest = np.array(q), (starts[self._free], ends[self._free], nearest)
        return self._latest[1]


class _capsule_ends:
    """q (n,) -> starts and ends (k, 2, 3) of an arm's capsules in the frame that carries it."""

    def __init__(self, arm: GuardedArm) -> None:
        model = arm.model
        q = ca.SX.sym("q", model.nq)
        p = ca.SX(ca.DM(model.parameters.nominal))
        root, place = ca.DM(arm.mount.rotation), ca.DM(arm.mount.position)
        poses = {body: frame_pose(model, body, q, p) for body in dict.fromkeys(c.body for c in arm.capsules)}
        points = []
        for capsule in arm.capsules:
            r, R = poses[capsule.body]
            points += [root @ (r + R @ ca.DM(end)) + place for end in (capsule.start, capsule.end)]
        self._evaluate = OneCall("refit_capsule_ends", ca.Function("ends", [q], [ca.vertcat(*points)]))

    def __call__(self, q: np.ndarray) -> np.ndarray:
        return self._evaluate(np.ascontiguousarray(q, float)).reshape(-1, 2, 3)


def segment_distance(p1: np.ndarray, q1: np.ndarray, p2: np.ndarray, q2: np.ndarray) -> np.ndarray:
    """Distances (k,) [m] of segments p1 q1 and p2 q2, each (k, 3).

    The distance is convex in the two parameters, and for either of them the best is a clamped projection, so that the least
    of the four ends and of the interior solution, clamped twice, is the distance.

    Source: Eberly, Robust Computation of Distance Between Line Segments (2018).
    """
    d1, d2, r = q1 - p1, q2 - p2, p1 - p2
    a, e, b, c, f = (np.einsum("ki,ki->k", x, y) for x, y in ((d1, d1), (d2, d2), (d1, d2), (d1, r), (d2, r)))
    tiny = 1e-12
    denominator, a, safe_e = a * e - b * b, np.maximum(a, tiny), np.maximum(e, tiny)
    s = np.zeros((3, len(a)))  # inside, at the first's start and at its end
    s[0] = np.where(
        denominator > tiny, np.minimum(np.maximum((b * f - c * e) / np.maximum(denominator, tiny), 0.0), 1.0), 0.0
    )
    s[2] = 1.0
    t = np.minimum(np.maximum((b * s + f) / safe_e, 0.0), 1.0)
    s = np.minimum(np.maximum((b * t - c) / a, 0.0), 1.0)
    gap = r + s[..., None] * d1 - t[..., None] * d2
    return np.sqrt(np.einsum("ski,ski->sk", gap, gap).min(axis=0))


def _to_box(box: Box, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Lower bounds (k,) [m] of the distances of segments from a box: of points on them, less half their spacing."""
    along = starts[:, None] + SHARES[None, :, None] * (ends - starts)[:, None]
    inside = np.abs((along - box.pose.position) @ box.pose.rotation) - box.half
    outside = np.linalg.norm(np.maximum(inside, 0.0), axis=-1) + np.minimum(inside.max(axis=-1), 0.0)
    spacing = np.linalg.norm(ends - starts, axis=-1) / (len(SHARES) - 1)
    return outside.min(axis=1) - 0.5 * spacing
