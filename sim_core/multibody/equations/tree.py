"""What the equations know of a robot: links in a tree, each moved by one joint, with rigidly mounted bodies.

A `Link` moves by one joint relative to its parent link. A `Body` of the model file is mounted on a link: the last one
of its own joints or, without joints, that of the nearest moving ancestor. Every mounted body keeps ten inertial
parameters of its own, so a payload in a fixed `hand` is estimated as the hand's inertia.

The origin of a link's frame is the joint's anchor. Its axes are those of the body, turned where needed so that the
joint moves along a coordinate axis. Only the equations see link frames; every public quantity is given in body frames.
A ball is one link with a quaternion in q and three rates in v; a free joint is four links, three slides along the
world's axes and a ball, in MuJoCo's order and conventions.

A joint that mimics another has no entries in q and v of its own. Its link reads those of the joint that it follows: its
position is ratio q + shift and its rate ratio v. With s all joints' positions, s = C q + d, the equations in q are those
of the tree multiplied by C' from the left: C'M C a + C'b = C'tau. Where a loop over links adds to an entry of tau or M
it therefore adds the link's ratio times its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import casadi as ca
import numpy as np

from sim_core.multibody.equations.physical_vector import PhysicalVector
from sim_core.multibody.equations.spatial import JointKind, snap

__all__ = ["Body", "Frame", "Link", "Mount", "Offset", "Tree"]


@dataclass(frozen=True)
class Offset:
    """A position that may depend on geometry parameters: constant + sum of R p[name.x .. name.z], (3,) [m]."""

    constant: np.ndarray
    terms: tuple[tuple[np.ndarray, str], ...] = ()

    def moved(self, R: np.ndarray, r: Offset | np.ndarray) -> Offset:
        """R offset + r, for a rotation R (3, 3) and another Offset or vector r (3,)."""
        if not isinstance(r, Offset):
            r = Offset(np.asarray(r, dtype=float))
        terms = tuple((snap(R @ A), name) for A, name in self.terms) + r.terms
        return Offset(snap(R @ self.constant + r.constant), terms)


#: Where a body of the file is: its link (-1 for the world), and its orientation R (3, 3) and position r there.
Mount = tuple[int, np.ndarray, Offset]


@dataclass(frozen=True)
class Link:
    """One joint's motion: pose (R, r) in the parent link at q = q_ref, then rotation about or motion along `axis`.

    A ball turns about the link's origin, by the quaternion at q_index; its rates are in the link's own axes.

    Attributes:
        joint: name of the joint.
        parent: index of the parent link, -1 for the world.
        kind: "revolute", "prismatic" or "ball".
        axis: 0, 1 or 2 in the link's own axes; 0 for a ball, which has none.
        R, r: pose in the parent link at the reference configuration, (3, 3) and (3,) [m].
        q_ref: reference position [rad or m]; 0 for a ball.
        q_index, v_index: first entries of the joint in q and v; of a follower, those of the joint that it follows.
        ratio, shift: of a follower's position to the position that it follows [-, rad or m]; else 1 and 0.
        follows: whether the joint mimics another one.
    """

    joint: str
    parent: int
    kind: JointKind
    axis: int
    R: np.ndarray
    r: Offset
    q_ref: float
    q_index: int
    v_index: int
    ratio: float = 1.0
    shift: float = 0.0
    follows: bool = False

    @property
    def nq(self) -> int:
        """Number of positions."""
        return 4 if self.kind == "ball" else 1

    @property
    def nv(self) -> int:
        """Number of velocities."""
        return 3 if self.kind == "ball" else 1

    @property
    def positions(self) -> slice:
        """The joint's entries in q."""
        return slice(self.q_index, self.q_index + self.nq)

    @property
    def dofs(self) -> slice:
        """The joint's entries in v."""
        return slice(self.v_index, self.v_index + self.nv)

    def coordinate(self, q: ca.SX) -> ca.SX:
        """The joint's own position out of q (nq,), measured from the reference; a ball's quaternion as it is."""
        if self.kind == "ball":
            return q[self.positions]
        return (self.ratio * q[self.q_index] + self.shift if self.follows else q[self.q_index]) - self.q_ref

    def rate(self, v: ca.SX) -> ca.SX:
        """The joint's own rates out of v (nv,), or accelerations out of a (nv,)."""
        return self.ratio * v[self.dofs] if self.follows else v[self.dofs]


@dataclass(frozen=True)
class Body:
    """Body of the model file with its pose (R, r) in the link it is mounted on; link -1 is the world."""

    name: str
    parent: str
    link: int
    R: np.ndarray
    r: Offset
    has_inertia: bool


@dataclass(frozen=True)
class Frame:
    """Site of the model file with its pose (R, r) in its link; link -1 is the world."""

    name: str
    body: str
    link: int
    R: np.ndarray
    r: Offset


class Tree(Protocol):
    """What the equations ask of a model; `RobotModel` is one, and its documentation explains each attribute.

    Equations of friction, fluids and networks ask for more, each in a protocol of its own beside them.
    """

    @property
    def links(self) -> tuple[Link, ...]: ...

    @property
    def bodies(self) -> tuple[Body, ...]: ...

    @property
    def parameters(self) -> PhysicalVector: ...

    @property
    def nv(self) -> int: ...

    @property
    def spring_reference(self) -> np.ndarray: ...

    def frame(self, name: str) -> Frame: ...
