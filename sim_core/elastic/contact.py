"""What a rigid body feels that is pressed into an elastic object, and how the object's surface moves.

1. Every point of the body is paired with the three points of the surface nearest to it across the approach; their average is an
   equilibrium point q, which the body displaces by d = -(p_rigid - p)'n (4.1).
2. Part of each displacement comes from the neighbours: of all of it, the points themselves take z (4.3, complementarity.py).
3. A point model says the force of either: f = y(q, d) - y(q, d - z), along the normal; their sum is the wrench on the body (4.4).

Quasi-static, and by normal forces alone. Source: Zhu, PhD thesis (2023), section 4.4.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sim_core.elastic import kernel
from sim_core.elastic.extrapolation import Extrapolated
from sim_core.elastic.rigid_body import RigidBody
from sim_core.elastic.sight import Sight
from sim_core.elastic.surface import Surface

if TYPE_CHECKING:
    from sim_core.elastic.point_model import PointModel

__all__ = ["Contact", "Contacts", "ContactSimulator"]

#: pairs for which there is room in one call of the kernel
ROOM = 200_000
#: approaches of which the sight is kept
KEPT = 64


@dataclass(frozen=True, eq=False)
class Contact:
    """One pose.

    Attributes:
        force: on the body (3,) [N]. torque: on the body about the point that was asked for (3,) [N m]; both along the world's axes.
        features: of the equilibrium points that the body reaches (k, 9), as `Surface.features`. rigid: point of the body (k, 3) [m].
        nominal: displacement d by the body alone (k,) [m]. displacement: the part z that the point takes itself (k,) [m], 0 where
            neighbours have moved it away. point_forces: along the normals (k,) [N].
        beyond: whether the model was asked deeper than it has learnt from. beside: how many of the body's points have no surface
            ahead of them. undercut: how many touch a surface that has another one under it, which is not simulated.
        clipped: how many point forces were negative and became 0. penetration: what pruning alone leaves [m].
    """

    force: np.ndarray
    torque: np.ndarray
    features: np.ndarray
    rigid: np.ndarray
    nominal: np.ndarray
    displacement: np.ndarray
    point_forces: np.ndarray
    beyond: bool
    beside: int
    undercut: int
    clipped: int
    penetration: float

    @property
    def points(self) -> np.ndarray:
        """q (k, 3) [m]."""
        return self.features[:, :3]

    @property
    def normals(self) -> np.ndarray:
        """Unit, outward (k, 3)."""
        return self.features[:, 6:]

    @property
    def active(self) -> np.ndarray:
        """Which points take part of their displacement themselves (k,)."""
        return self.displacement > 0.0

    def torque_about(self, place: np.ndarray, centre: np.ndarray) -> np.ndarray:
        """The torque about a place in the world (3,) [N m], where `torque` is about `centre` (3,) [m]."""
        return self.torque + np.cross(np.asarray(centre, float) - np.asarray(place, float), self.force)


@dataclass(frozen=True, eq=False)
class Contacts:
    """Many poses: arrays over them, and each as a `Contact` by its number.

    Attributes:
        force, torque: (b, 3). count: points that the body reaches (b,). active: of these, those that take displacement (b,).
        beyond: (b,) bool. beside, undercut, clipped: (b,). penetration: (b,) [m].
    """

    force: np.ndarray
    torque: np.ndarray
    count: np.ndarray
    active: np.ndarray
    beyond: np.ndarray
    beside: np.ndarray
    undercut: np.ndarray
    clipped: np.ndarray
    penetration: np.ndarray
    _pairs: np.ndarray
    _forces: np.ndarray
    _start: np.ndarray

    def __len__(self) -> int:
        return len(self.force)

    def __iter__(self) -> Iterator[Contact]:
        return (self[k] for k in range(len(self)))

    def __getitem__(self, k: int) -> Contact:
        k = range(len(self))[k]
        of = slice(self._start[k], self._start[k + 1])
        pairs = self._pairs[of]
        return Contact(
            force=self.force[k],
            torque=self.torque[k],
            features=pairs["feature"],
            rigid=pairs["rigid"],
            nominal=pairs["nominal"],
            displacement=pairs["displacement"],
            point_forces=self._forces[of],
            beyond=bool(self.beyond[k]),
            beside=int(self.beside[k]),
            undercut=int(self.undercut[k]),
            clipped=int(self.clipped[k]),
            penetration=float(self.penetration[k]),
        )


class ContactSimulator:
    """A surface with a point model, to be pressed by rigid bodies.

    Args:
        surface: at rest. model: says the normal force at a point and a displacement. coupling: c of g(r) = c / (c + r) [m], one for the
            object (4.2).
        solver: "exact"; "pruned" as published; "apart": every point by itself, as a baseline.
        onset: displacement at which the surface is met [m]. The source has 0; where a scan is off by a known amount along the
            normals, or a model has learnt such an offset, it is that, and displacements count from there in (4.3) and (4.4).
        reach: a point of the body has surface ahead of it where, across the approach, some is as near as this [m]; by default three times
            the surface's spacing.
        clip: whether negative point forces, which models that are not monotone give, become 0.
        window: share of the deepest displacement over which the slope is taken by which forces go on beyond it.
        threads: of the kernel.

    Raises:
        ValueError: a value beyond its range, or a solver that is unknown. RuntimeError: there is no C compiler.
    """

    def __init__(
        self,
        surface: Surface,
        model: PointModel,
        coupling: float = 0.01,
        *,
        solver: str = "exact",
        onset: float = 0.0,
        reach: float | None = None,
        clip: bool = True,
        window: float = 0.2,
        threads: int = 1,
    ) -> None:
        if not (np.isfinite(coupling) and coupling > 0.0):
            raise ValueError(f"the coupling is a length above 0 [m], not {coupling}")
        if solver not in kernel.SOLVERS:
            raise ValueError(f"solver is one of {', '.join(kernel.SOLVERS)}, not {solver!r}")
        if reach is not None and not reach > 0.0:
            raise ValueError(f"reach is a length above 0 [m], not {reach}")
        if not np.isfinite(onset):
            raise ValueError(f"onset is a finite displacement [m], not {onset}")
        self.surface, self.model, self.coupling = surface, model, float(coupling)
        self.solver, self.onset, self.clip, self.threads = solver, float(onset), clip, threads
        self.reach = 3.0 * surface.spacing if reach is None else float(reach)
        self._force = Extrapolated(model, window)
        self._sight = functools.lru_cache(KEPT)(self._seen)

    def sight(self, approach: np.ndarray) -> Sight:
        """The surface as it is seen along an approach (3,); made once for each."""
        return self._sight(tuple(float(x) for x in np.asarray(approach, float).ravel()))

    def _seen(self, approach: tuple[float, ...]) -> Sight:
        return Sight(self.surface, np.array(approach), self.reach)

    def query(
        self, body: RigidBody, pose: np.ndarray, approach: np.ndarray, about: np.ndarray | tuple = (0.0, 0.0, 0.0)
    ) -> Contact:
        """One pose (4, 4); see `queries`."""
        pose = np.asarray(pose, float)
        if pose.shape != (4, 4):
            raise ValueError(f"a pose is of shape (4, 4), found {pose.shape}")
        return self.queries(body, pose[None], approach, about)[0]

    def queries(
        self, body: RigidBody, poses: np.ndarray, approach: np.ndarray, about: np.ndarray | tuple = (0.0, 0.0, 0.0)
    ) -> Contacts:
        """What the body feels at each pose, with one question to the point model for all of them.

        Args:
            poses: of the body's frame in the world (b, 4, 4). approach: direction of the body's motion into the object, in the world,
                (3,) for all poses or (b, 3). about: point in the body's frame (3,) about which torques are [m]; at another point
                that is r further, the torque is less by r x F.

        Raises:
            ValueError: shapes that do not fit, poses that are none, an approach that nothing of the surface faces.
        """
        poses = np.ascontiguousarray(poses, float)
        _checked(poses)
        ways = np.broadcast_to(np.asarray(approach, float), (len(poses), 3))
        pairs, outcome = self._touched(body, poses, ways)
        start = np.concatenate([[0], np.cumsum(outcome["count"])]).astype(np.int64)
        forces, beyond = self._point_forces(pairs)
        clipped = forces < 0.0
        if self.clip:
            forces = np.where(clipped, 0.0, forces)
        centre = poses[:, :3, 3] + poses[:, :3, :3] @ np.asarray(about, float)
        owner = np.repeat(np.arange(len(poses)), outcome["count"])
        each = forces[:, None] * pairs["feature"][:, 6:]
        moment = _crossed(pairs["rigid"] - centre[owner], each)
        return Contacts(
            _sums(each, owner, len(poses)),
            _sums(moment, owner, len(poses)),
            outcome["count"].astype(int),
            np.bincount(owner, pairs["displacement"] > 0.0, len(poses)).astype(int),
            np.bincount(owner, beyond, len(poses)) > 0,
            outcome["beside"].astype(int),
            outcome["undercut"].astype(int),
            np.bincount(owner, clipped, len(poses)).astype(int),
            outcome["penetration"].copy(),
            pairs,
            forces,
            start,
        )

    def _touched(self, body: RigidBody, poses: np.ndarray, ways: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """PAIR (sum of counts,) of one pose after the other, and OUTCOME (b,)."""
        outcome = np.zeros(len(poses), kernel.OUTCOME)
        parts: list[tuple[np.ndarray, np.ndarray]] = []  # poses, and their pairs one after the other
        at_once = max(1, ROOM // len(body.points))
        for way, which in _groups(ways):
            sight = self.sight(way)
            for first in range(0, len(which), at_once):
                some = which[first : first + at_once]
                numbers = (self.coupling, self.onset, self.solver, self.threads)
                pairs, outcome[some] = kernel.touch(
                    sight.data, body.points, np.ascontiguousarray(poses[some]), *numbers
                )
                filled = np.arange(len(body.points)) < outcome["count"][some, None]
                parts.append((some, pairs[filled]))
        if not parts:
            return np.zeros(0, kernel.PAIR), outcome
        if len(parts) == 1:
            return parts[0][1], outcome
        owner = np.concatenate([np.repeat(some, outcome["count"][some]) for some, _ in parts])
        return np.concatenate([pairs for _, pairs in parts])[np.argsort(owner, kind="stable")], outcome

    def _point_forces(self, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """f = y(q, d) - y(q, d - z) (4.4), and where d is deeper than the model has learnt from."""
        active = pairs["displacement"] > 0.0
        some = pairs[active]
        forces, beyond = np.zeros(len(pairs)), np.zeros(len(pairs), bool)
        if len(some):
            d, before = some["nominal"], some["nominal"] - some["displacement"]
            found = self._force.predict(np.concatenate([some["feature"]] * 2), np.concatenate([d, before]))
            forces[active] = found[: len(d)] - found[len(d) :]
            beyond[active] = d > self.model.deepest
        return forces, beyond

    def deformed(self, contact: Contact) -> np.ndarray:
        """How far each point of the surface is moved (n,) [m], along -n: sum of g(|s - q|) z."""
        return self.displacement_at(self.surface.points, contact)

    def displacement_at(self, places: np.ndarray, contact: Contact) -> np.ndarray:
        """The same at any places (n, 3) on the surface (n,) [m]."""
        active = contact.active
        return kernel.deform(places, contact.points[active], contact.displacement[active], self.coupling)


def _groups(ways: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Approaches that differ, each with the numbers of its poses."""
    if not len(ways):
        return
    if (ways == ways[0]).all():
        yield ways[0], np.arange(len(ways))
        return
    unique, inverse = np.unique(ways, axis=0, return_inverse=True)
    for k, way in enumerate(unique):
        yield way, np.flatnonzero(inverse.ravel() == k)


def _crossed(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """As np.cross of (n, 3), in a third of its time for few."""
    (x, y, z), (u, v, w) = a.T, b.T
    return np.stack([y * w - z * v, z * u - x * w, x * v - y * u], 1)


def _sums(each: np.ndarray, owner: np.ndarray, count: int) -> np.ndarray:
    return np.stack([np.bincount(owner, each[:, k], count) for k in range(3)], 1)


def _checked(poses: np.ndarray) -> None:
    if poses.ndim != 3 or poses.shape[1:] != (4, 4):
        raise ValueError(f"poses are of shape (b, 4, 4), found {poses.shape}")
    if not np.isfinite(poses).all():
        raise ValueError(f"poses are finite, but pose {int(np.flatnonzero(~np.isfinite(poses).all((1, 2)))[0])} is not")
    turns = poses[:, :3, :3]
    off = np.abs(turns @ np.swapaxes(turns, 1, 2) - np.eye(3)).max(initial=0.0)
    if off > 1e-6:
        raise ValueError(
            f"a pose turns and moves, but a rotation found here is off by {off:.2g} from an orthogonal matrix"
        )
