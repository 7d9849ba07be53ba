"""A robot as a tree of links, each moved by one joint, with rigidly mounted bodies.

A `Link` moves by one
joint relative to its parent link. A `Body` (of the file) is mounted on a link: the last one of its own joints, or,
without joints, that of the nearest moving ancestor. Every mounted body keeps ten inertial parameters of its own,
so a payload in a fixed `hand` is estimated as the hand's inertia.

Link frames: origin at the joint's anchor, axes those of the body, except that they are turned where needed so that
the joint moves along a coordinate axis. Only dynamics.py and kinematics.py see them; every public quantity is given
in body frames. A ball is one link with a quaternion in q and three rates in v; a free joint is four links, slides along
the world's axes and a ball, in MuJoCo's order and conventions.
"""

import hashlib
from dataclasses import dataclass, field, fields

import mujoco
import numpy as np

from sim_core.multibody.contact.pairs import ContactPair
from sim_core.multibody.equations.fluid import FluidBox
from sim_core.multibody.equations.friction import FrictionConstraint
from sim_core.multibody.equations.physical_vector import PhysicalVector
from sim_core.multibody.equations.spatial import snap
from sim_core.multibody.model.compile_model import ModelError
from sim_core.multibody.model.options import ModelOptions

__all__ = ["Actuator", "Body", "Frame", "Link", "ModelError", "Offset", "RobotModel", "model_hash"]


@dataclass(frozen=True)
class Offset:
    """A position that may depend on geometry parameters: constant + sum of R p[name.x .. name.z]."""

    constant: np.ndarray
    terms: tuple[tuple[np.ndarray, str], ...] = ()

    def moved(self, R, r):
        """R offset + r, for another Offset or vector r."""
        if not isinstance(r, Offset):
            r = Offset(np.asarray(r, dtype=float))
        terms = tuple((snap(R @ A), name) for A, name in self.terms) + r.terms
        return Offset(snap(R @ self.constant + r.constant), terms)


@dataclass(frozen=True)
class Link:
    """One joint's motion: pose (R, r) in the parent link at q = q_ref, then rotation about or motion along `axis`.

    A ball turns about the link's origin, by the quaternion at q_index; its rates are in the link's own axes.
    """

    joint: str
    parent: int  # index of the parent link, -1 for the world
    kind: str  # "revolute" | "prismatic" | "ball"
    axis: int  # 0, 1, 2 in the link's own axes; 0 for a ball, which has none
    R: np.ndarray
    r: Offset
    q_ref: float  # 0 for a ball
    q_index: int
    v_index: int

    nq = property(lambda self: 4 if self.kind == "ball" else 1)
    nv = property(lambda self: 3 if self.kind == "ball" else 1)
    positions = property(lambda self: slice(self.q_index, self.q_index + self.nq))
    dofs = property(lambda self: slice(self.v_index, self.v_index + self.nv))

    def coordinate(self, q):
        """The joint's own position out of q (nq,), measured from the reference; a ball's quaternion as it is."""
        return q[self.positions] if self.kind == "ball" else q[self.q_index] - self.q_ref


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


@dataclass(frozen=True)
class Actuator:
    """Force gear * (gain * u + bias) on a joint; gain and bias are affine in gear * q and gear * qd.

    `force_range` is None where the control's own bounds imply it (a plain motor).
    """

    name: str
    v_index: int
    q_index: int
    gain: tuple[float, float, float]
    bias: tuple[float, float, float]
    force_range: tuple[float, float] | None


@dataclass(frozen=True)
class RobotModel:
    """A robot and its physical vector; see docs/conventions.md.

    Attributes:
        nq, nv, nu, nx: numbers of positions, velocities, controls; nx = nq + nv. State x = [q, v]. nq > nv with balls.
        joint_names, q_names, v_names: of joints (njnt,), positions (nq,), velocities (nv,). A hinge's or slide's entries
            are called like the joint; those of a ball j.qw j.qx j.qy j.qz and j.wx j.wy j.wz; those of a free joint
            begin with j.x j.y j.z in both.
        timestep [s], integrator: what the model's plant uses.
        q_lower, q_upper (nq,), v_limit (nv,), u_lower, u_upper (nu,): inf where unlimited [rad or m, .../s, N m or N].
        q_home: first keyframe, (nq,); the reference configuration where there is none.
        parameters: layout and nominal values of the physical vector p (np_,).
        spring_reference: (nq,) [rad or m], quaternions of balls.
        friction: constants of the plant's friction loss; None without friction, or where the smooth law replaces it.
        joint_force_range: joint index -> (lower, upper) clamp on the total actuator force.
        fluid_boxes: shapes that a medium drags at; none in vacuum.
        contacts: pairs of geoms that may touch in the equations; none unless asked for (docs/contact.md).
        notes: what the plant does beyond the equations.
        xml: MJCF text of the model, None if it was given compiled; for a URDF as MuJoCo writes it, six digits.
        hash: sha256 of topology, parameters and options; equal on every machine.
        augmentation: networks inside the equations (sim_core.augmentation); their weights are part of p.
    """

    name: str
    links: tuple[Link, ...]
    bodies: tuple[Body, ...]
    frames: tuple[Frame, ...]
    actuators: tuple[Actuator, ...]
    parameters: PhysicalVector
    options: ModelOptions
    timestep: float
    integrator: str
    q_lower: np.ndarray
    q_upper: np.ndarray
    v_limit: np.ndarray
    u_lower: np.ndarray
    u_upper: np.ndarray
    q_home: np.ndarray
    spring_reference: np.ndarray
    friction: FrictionConstraint | None
    joint_force_range: dict
    fluid_boxes: tuple[FluidBox, ...]
    contacts: tuple[ContactPair, ...]
    notes: tuple[str, ...]
    mj_model: mujoco.MjModel = field(repr=False)
    xml: str | None = field(repr=False)
    hash: str = ""
    augmentation: tuple = ()

    nq = property(lambda self: sum(link.nq for link in self.links))
    nv = property(lambda self: sum(link.nv for link in self.links))
    nu = property(lambda self: len(self.actuators))
    nx = property(lambda self: self.nq + self.nv)
    np_ = property(lambda self: len(self.parameters))
    joint_names = property(lambda self: tuple(dict.fromkeys(link.joint for link in self.links)))
    q_names = property(lambda self: self._coordinate_names(("qw", "qx", "qy", "qz")))
    v_names = property(lambda self: self._coordinate_names(("wx", "wy", "wz")))
    body_names = property(lambda self: tuple(body.name for body in self.bodies))
    frame_names = property(lambda self: tuple(frame.name for frame in self.frames))
    actuator_names = property(lambda self: tuple(actuator.name for actuator in self.actuators))
    actuator_joints = property(lambda self: tuple(self.v_names[a.v_index] for a in self.actuators))

    def body(self, name):
        return _find(self.bodies, name, "body", "bodies")

    def frame(self, name):
        """A site, or else a body's own frame, by name."""
        for frame in self.frames:
            if frame.name == name:
                return frame
        for body in self.bodies:
            if body.name == name:
                return Frame(body.name, body.name, body.link, body.R, body.r)
        known = f"Sites: {', '.join(self.frame_names) or 'none'}; bodies: {', '.join(self.body_names)}"
        raise KeyError(f"No frame '{name}' in model '{self.name}'. {known}.")

    def joint_index(self, name):
        """Place of a hinge or slide in v."""
        link = _find(self.links, name, "joint", "joints", "joint")
        if name not in self.v_names:
            owned = ", ".join(v for v in self.v_names if v.startswith(name + "."))
            raise KeyError(f"Joint '{name}' has several velocities: {owned}. Look them up in v_names.")
        return link.v_index

    def require_scalar_joints(self, user):
        """Refuse ball and free joints where positions and velocities are taken to correspond one to one.

        Raises:
            ModelError: names the first such joint and `user`, what cannot do with it.
        """
        for link in self.links:
            if link.kind == "ball":
                raise ModelError(
                    f"{user} needs hinge and slide joints alone, found '{link.joint}' of model '{self.name}', whose "
                    f"orientation is a quaternion ({self.nq} positions, {self.nv} velocities). Fix it, or replace it by hinges."
                )

    def _coordinate_names(self, of_a_ball):
        names = []
        of_free = {link.joint for k, link in enumerate(self.links) if k and link.joint == self.links[k - 1].joint}
        for link in self.links:
            if link.kind == "ball":
                names += [f"{link.joint}.{c}" for c in of_a_ball]
            else:
                names.append(f"{link.joint}.{'xyz'[link.axis]}" if link.joint in of_free else link.joint)
        return tuple(names)

    def __repr__(self):
        return (
            f"RobotModel({self.name}: {self.nq} joints, {self.nu} actuators, {self.np_} parameters, {self.integrator})"
        )


def _find(items, name, kind, kinds, attribute="name"):
    for item in items:
        if getattr(item, attribute) == name:
            return item
    known = ", ".join(getattr(item, attribute) for item in items)
    raise KeyError(f"No {kind} '{name}' in the model. Its {kinds}: {known}.")


def model_hash(model):
    """Of what the equations depend on, to nine digits: the compiler's last bits differ between machines."""
    digest = hashlib.sha256()

    def add(*items):
        for item in items:
            if isinstance(item, (float, np.ndarray)):
                item = " ".join(f"{value + 0.0:.9e}" for value in np.ravel(item))
            digest.update(f"{item}\n".encode())

    def add_offset(offset):
        add(offset.constant)
        for A, name in offset.terms:
            add(A, name)

    # An option at its default is left out, so that one that comes later leaves the hashes of old recordings alone.
    chosen = [(f.name, value) for f in fields(model.options) if (value := getattr(model.options, f.name)) != f.default]
    add(model.name, chosen, model.timestep, model.integrator, model.parameters.names, model.parameters.nominal)
    for link in model.links:
        add(link.joint, link.parent, link.kind, link.axis, link.R, link.q_ref)
        add_offset(link.r)
    if model.friction is not None:
        add(model.friction.D, model.friction.b, model.friction.bh_max)
    for item in model.bodies + model.frames:
        add(item.name, item.link, item.R)
        add_offset(item.r)
    for pair in model.contacts:
        for geom in (pair.first, pair.second):
            add(geom.name, geom.kind, geom.size, geom.link, geom.R)
            add_offset(geom.r)
    add(model.actuators, model.q_lower, model.q_upper, model.v_limit, model.u_lower, model.u_upper)
    add(model.spring_reference, sorted(model.joint_force_range.items()))
    if model.friction is not None:
        add(model.friction.D, model.friction.b, model.friction.bh_max)
    for box in model.fluid_boxes:
        add(box.link, box.R, box.half_size)
        add_offset(box.r)
    return digest.hexdigest()
