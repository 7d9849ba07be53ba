"""Keeps two arms from each other, from the body that carries them, and from what is known to stand around.

    guard = CollisionGuard(arms, body, boxes)
    q, why = guard.pass_or_hold(q_safe, q_wanted)        # in every cycle, both arms together

Links are enclosed by capsules. A step is taken if all stay a margin apart along it, or if it leads out of where they are too
near already; else both arms stay at the last posture that was safe, with a sentence that names the two links.

Source: Zhu, PhD thesis, University of Illinois (2023), section 8.4.2, with the predecessor's margin of 2.5 mm; there the check
was made in every twentieth cycle, here it is made in every one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import casadi as ca
import numpy as np

from config.description import Capsule
from sim_core.multibody import RobotModel
from sim_core.multibody.equations.kinematics import frame_pose
from sim_core.telepresence.clutch import Pose

__all__ = ["Box", "CollisionGuard", "GuardedArm", "segment_distance"]


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
        self._links = [_link_poses(arm) for arm in arms]
        self._body = _stack([(np.eye(3), np.zeros(3))] * len(body), body)
        self._names = [f"{arm.name} {capsule.body}" for arm in arms for capsule in arm.capsules]
        self._body_names = [f"the {capsule.body}" for capsule in body]
        owner = np.concatenate([np.full(len(arm.capsules), i) for i, arm in enumerate(arms)])
        order = np.concatenate([np.arange(len(arm.capsules)) for arm in arms])
        a, b = np.triu_indices(len(owner), 1)
        rooted = order < np.array([arms[i].rooted for i in owner])
        # Neighbours touch by design, and a link's enclosure reaches into the next but one's; farther ones can meet. Two
        # shoulders are as near as they were mounted.
        apart = np.where(owner[a] == owner[b], order[b] - order[a] > 3, ~(rooted[a] & rooted[b]))
        self._pairs = a[apart], b[apart]
        free = np.flatnonzero(~rooted)
        self._with_body = tuple(grid.ravel() for grid in np.meshgrid(free, np.arange(len(body)), indexing="ij"))
        self._free = free

    def nearest(self, q: np.ndarray) -> tuple[float, str]:
        """(least distance [m], negative where they overlap; the two that are nearest).

        Args:
            q: joint positions of all arms, one after the other [rad].
        """
        starts, ends, radii = self._capsules(q)
        found = []
        a, b = self._pairs
        if len(a):
            d = segment_distance(starts[a], ends[a], starts[b], ends[b]) - radii[a] - radii[b]
            k = int(np.argmin(d))
            found.append((float(d[k]), f"{self._names[a[k]]} and {self._names[b[k]]}"))
        a, b = self._with_body
        if len(a):
            other_start, other_end, other_radius = self._body
            d = segment_distance(starts[a], ends[a], other_start[b], other_end[b]) - radii[a] - other_radius[b]
            k = int(np.argmin(d))
            found.append((float(d[k]), f"{self._names[a[k]]} and {self._body_names[b[k]]}"))
        for box in self.boxes:
            d = _to_box(box, starts[self._free], ends[self._free]) - radii[self._free]
            k = int(np.argmin(d))
            found.append((float(d[k]), f"{self._names[self._free[k]]} and {box.name}"))
        return min(found) if found else (np.inf, "nothing")

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

    def _capsules(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        parts, at = [], 0
        for arm, links, n in zip(self.arms, self._links, self._size):
            found = links(q[at : at + n])
            parts.append(_stack([(found[c.body][0], found[c.body][1]) for c in arm.capsules], arm.capsules))
            at += n
        starts, ends, radii = zip(*parts)
        return np.concatenate(starts), np.concatenate(ends), np.concatenate(radii)


def _stack(
    poses: Sequence[tuple[np.ndarray, np.ndarray]], capsules: Sequence[Capsule]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Starts (k, 3), ends (k, 3) and radii (k,) where (R, p) of their bodies put them."""
    if not capsules:
        return np.zeros((0, 3)), np.zeros((0, 3)), np.zeros(0)
    R = np.array([pose[0] for pose in poses])
    p = np.array([pose[1] for pose in poses])
    starts = np.einsum("kij,kj->ki", R, np.array([c.start for c in capsules])) + p
    ends = np.einsum("kij,kj->ki", R, np.array([c.end for c in capsules])) + p
    return starts, ends, np.array([c.radius for c in capsules])


class _link_poses:
    """q (n,) -> {body: (R, p)} in the frame that carries the arm."""

    def __init__(self, arm: GuardedArm) -> None:
        model = arm.model
        self._bodies = sorted({capsule.body for capsule in arm.capsules})
        q = ca.SX.sym("q", model.nq)
        p = ca.SX(ca.DM(model.parameters.nominal))
        columns = []
        for body in self._bodies:
            place, R = frame_pose(model, body, q, p)
            root = ca.DM(arm.mount.rotation)
            columns.append(ca.horzcat(root @ R, root @ place + ca.DM(arm.mount.position)))
        self._evaluate = ca.Function("links", [q], [ca.vertcat(*columns)])

    def __call__(self, q: np.ndarray) -> Mapping[str, tuple[np.ndarray, np.ndarray]]:
        rows = np.asarray(self._evaluate(q)).reshape(len(self._bodies), 3, 4)
        return {body: (row[:, :3], row[:, 3]) for body, row in zip(self._bodies, rows)}


def segment_distance(p1: np.ndarray, q1: np.ndarray, p2: np.ndarray, q2: np.ndarray) -> np.ndarray:
    """Distances (k,) [m] of segments p1 q1 and p2 q2, each (k, 3).

    The distance is convex in the two parameters, and for either of them the best is a clamped projection, so that the least
    of the four ends and of the interior solution, clamped twice, is the distance.

    Source: Eberly, Robust Computation of Distance Between Line Segments (2018).
    """
    d1, d2, r = q1 - p1, q2 - p2, p1 - p2
    a = np.einsum("ki,ki->k", d1, d1)
    e = np.einsum("ki,ki->k", d2, d2)
    b = np.einsum("ki,ki->k", d1, d2)
    c = np.einsum("ki,ki->k", d1, r)
    f = np.einsum("ki,ki->k", d2, r)
    tiny = 1e-12
    denominator = a * e - b * b
    s0 = np.where(denominator > tiny, np.clip((b * f - c * e) / np.maximum(denominator, tiny), 0.0, 1.0), 0.0)
    best = np.full(len(a), np.inf)
    for s in (s0, np.zeros_like(s0), np.ones_like(s0)):
        t = np.clip((b * s + f) / np.maximum(e, tiny), 0.0, 1.0)
        s = np.clip((b * t - c) / np.maximum(a, tiny), 0.0, 1.0)
        gap = r + s[:, None] * d1 - t[:, None] * d2
        best = np.minimum(best, np.einsum("ki,ki->k", gap, gap))
    return np.sqrt(best)


def _to_box(box: Box, starts: np.ndarray, ends: np.ndarray, points: int = 9) -> np.ndarray:
    """Lower bounds (k,) [m] of the distances of segments from a box: of points on them, less half their spacing."""
    share = np.linspace(0.0, 1.0, points)
    along = starts[:, None] + share[None, :, None] * (ends - starts)[:, None]
    inside = np.abs((along - box.pose.position) @ box.pose.rotation) - box.half
    outside = np.linalg.norm(np.maximum(inside, 0.0), axis=-1) + np.minimum(inside.max(axis=-1), 0.0)
    spacing = np.linalg.norm(ends - starts, axis=-1) / (points - 1)
    return outside.min(axis=1) - 0.5 * spacing
