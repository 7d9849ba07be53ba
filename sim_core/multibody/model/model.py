"""A robot: its tree of links (equations/tree.py), actuators, limits, physical vector and options."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import TypeVar

import mujoco
import numpy as np
from numpy.typing import ArrayLike

from sim_core.multibody.contact.pairs import ContactPair
from sim_core.multibody.equations.fluid import FluidBox
from sim_core.multibody.equations.friction import FrictionConstraint
from sim_core.multibody.equations.physical_vector import PhysicalVector
from sim_core.multibody.equations.taps import TapNetwork
from sim_core.multibody.equations.tree import Body, Frame, Link, Offset
from sim_core.multibody.model.compile_model import ModelError
from sim_core.multibody.model.options import ModelOptions

__all__ = ["Actuator", "RobotModel", "model_hash"]


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

    The state is x = [q, v]. With balls and free joints there are more positions than velocities, nq > nv.

    Attributes:
        nq, nv, nu, nx: numbers of positions, velocities, controls and states; nx = nq + nv.
        joint_names, q_names, v_names: of joints (njnt,), positions (nq,), velocities (nv,). Joints that follow others
            (URDF `mimic`) have no positions, and `followers` lists them. A hinge's or slide's entries
            are called like the joint; those of a ball j.qw j.qx j.qy j.qz and j.wx j.wy j.wz; those of a free joint
            begin with j.x j.y j.z in both.
        timestep [s], integrator: what the model's plant uses.
        q_lower, q_upper (nq,), v_limit (nv,), u_lower, u_upper (nu,): inf where unlimited [rad or m, .../s, N m or N].
        q_home: first keyframe, (nq,); the reference configuration where there is none.
        parameters: layout and nominal values of the physical vector p (np_,).
        spring_reference: positions (nq,) at which joint springs are slack [rad or m], quaternions for balls.
        friction: constants of the plant's friction loss; None without friction, or where the smooth law replaces it.
        joint_force_range: joint index -> (lower, upper) clamp on the total actuator force.
        fluid_boxes: shapes that a medium drags at; none in vacuum.
        contacts: pairs of geoms that may touch in the equations; none unless asked for (docs/contact.md).
        notes: what the plant does beyond the equations.
        xml: MJCF text of the model, None if it was given compiled; for a URDF, the MJCF made of it.
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
    joint_force_range: dict[int, tuple[float, float]]
    fluid_boxes: tuple[FluidBox, ...]
    contacts: tuple[ContactPair, ...]
    notes: tuple[str, ...]
    mj_model: mujoco.MjModel = field(repr=False)
    xml: str | None = field(repr=False)
    hash: str = ""
    augmentation: tuple[TapNetwork, ...] = ()

    @property
    def nq(self) -> int:
        """Number of positions."""
        return sum(link.nq for link in self.links if not link.follows)

    @property
    def nv(self) -> int:
        """Number of velocities."""
        return sum(link.nv for link in self.links if not link.follows)

    @property
    def nu(self) -> int:
        """Number of controls."""
        return len(self.actuators)

    @property
    def nx(self) -> int:
        """Number of states, nq + nv."""
        return self.nq + self.nv

    @property
    def np_(self) -> int:
        """Length of the physical vector."""
        return len(self.parameters)

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Names of the joints that move by themselves, (njnt,)."""
        return tuple(dict.fromkeys(link.joint for link in self.links if not link.follows))

    @property
    def followers(self) -> dict[str, tuple[str, float, float]]:
        """By the name of each joint that follows another: that one, ratio [-] and shift [rad or m], q = ratio q_other + shift."""
        leader = {link.v_index: link.joint for link in self.links if not link.follows}
        return {link.joint: (leader[link.v_index], link.ratio, link.shift) for link in self.links if link.follows}

    def plant_state(self, q: ArrayLike, v: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """MuJoCo's qpos and qvel of `mj_model` at positions q (nq,) and velocities v (nv,): followers included."""
        m = self.mj_model
        q, v, qpos, qvel = np.asarray(q, dtype=float), np.asarray(v, dtype=float), m.qpos0.copy(), np.zeros(m.nv)
        place_q = place_v = 0
        for link in self.links:
            own = link.ratio * q[link.positions] + link.shift if link.follows else q[link.positions]
            qpos[place_q : place_q + link.nq], qvel[place_v : place_v + link.nv] = own, link.ratio * v[link.dofs]
            place_q, place_v = place_q + link.nq, place_v + link.nv
        return qpos, qvel

    @property
    def q_names(self) -> tuple[str, ...]:
        """Names of the positions, (nq,)."""
        return self._coordinate_names(("qw", "qx", "qy", "qz"))

    @property
    def v_names(self) -> tuple[str, ...]:
        """Names of the velocities, (nv,)."""
        return self._coordinate_names(("wx", "wy", "wz"))

    @property
    def body_names(self) -> tuple[str, ...]:
        """Names of the bodies in the file's order."""
        return tuple(body.name for body in self.bodies)

    @property
    def frame_names(self) -> tuple[str, ...]:
        """Names of the sites in the file's order."""
        return tuple(frame.name for frame in self.frames)

    @property
    def actuator_names(self) -> tuple[str, ...]:
        """Names of the actuators, (nu,)."""
        return tuple(actuator.name for actuator in self.actuators)

    @property
    def actuator_joints(self) -> tuple[str, ...]:
        """Name of the joint that each actuator drives, (nu,)."""
        return tuple(self.v_names[a.v_index] for a in self.actuators)

    def body(self, name: str) -> Body:
        """A body by name.

        Raises:
            KeyError: no such body; the message lists those there are.
        """
        return _find(self.bodies, name, "body", "bodies")

    def frame(self, name: str) -> Frame:
        """A site, or else a body's own frame, by name.

        Raises:
            KeyError: neither a site nor a body; the message lists those there are.
        """
        for frame in self.frames:
            if frame.name == name:
                return frame
        for body in self.bodies:
            if body.name == name:
                return Frame(body.name, body.name, body.link, body.R, body.r)
        known = f"Sites: {', '.join(self.frame_names) or 'none'}; bodies: {', '.join(self.body_names)}"
        raise KeyError(f"No frame '{name}' in model '{self.name}'. {known}.")

    def joint_index(self, name: str) -> int:
        """Place of a hinge or slide in v.

        Raises:
            KeyError: no such joint, or one with several velocities.
        """
        if name in self.followers:
            raise KeyError(f"Joint '{name}' follows '{self.followers[name][0]}' and has no velocity of its own.")
        link = _find(self.links, name, "joint", "joints", "joint")
        if name not in self.v_names:
            owned = ", ".join(v for v in self.v_names if v.startswith(name + "."))
            raise KeyError(f"Joint '{name}' has several velocities: {owned}. Look them up in v_names.")
        return link.v_index

    def require_scalar_joints(self, user: str) -> None:
        """Refuse ball and free joints where positions and velocities are taken to correspond one to one.

        Raises:
            ModelError: the model has such a joint; the text names it, and `user`, which cannot work with it.
        """
        for link in self.links:
            if link.kind == "ball":
                raise ModelError(
                    f"{user} needs hinge and slide joints alone, found '{link.joint}' of model '{self.name}', whose "
                    f"orientation is a quaternion ({self.nq} positions, {self.nv} velocities). Fix it, or replace it by hinges."
                )

    def _coordinate_names(self, of_a_ball: Sequence[str]) -> tuple[str, ...]:
        names = []
        of_free = {link.joint for k, link in enumerate(self.links) if k and link.joint == self.links[k - 1].joint}
        for link in self.links:
            if link.follows:
                continue
            if link.kind == "ball":
                names += [f"{link.joint}.{c}" for c in of_a_ball]
            else:
                names.append(f"{link.joint}.{'xyz'[link.axis]}" if link.joint in of_free else link.joint)
        return tuple(names)

    def __repr__(self) -> str:
        return (
            f"RobotModel({self.name}: {self.nq} joints, {self.nu} actuators, {self.np_} parameters, {self.integrator})"
        )


Item = TypeVar("Item", Body, Link)


def _find(items: Sequence[Item], name: str, kind: str, kinds: str, attribute: str = "name") -> Item:
    for item in items:
        if getattr(item, attribute) == name:
            return item
    known = ", ".join(getattr(item, attribute) for item in items)
    raise KeyError(f"No {kind} '{name}' in the model. Its {kinds}: {known}.")


def model_hash(model: RobotModel) -> str:
    """sha256 of everything that the equations depend on.

    Numbers count to nine digits, because the last bits of what MuJoCo's compiler computes differ between machines.
    """
    digest = hashlib.sha256()

    def add(*items: object) -> None:
        for item in items:
            if isinstance(item, (float, np.ndarray)):
                item = " ".join(f"{value + 0.0:.9e}" for value in np.ravel(item))
            digest.update(f"{item}\n".encode())

    def add_offset(offset: Offset) -> None:
        add(offset.constant)
        for A, name in offset.terms:
            add(A, name)

    # An option at its default is left out, so that one that comes later leaves the hashes of old recordings alone.
    chosen = [(f.name, value) for f in fields(model.options) if (value := getattr(model.options, f.name)) != f.default]
    add(model.name, chosen, model.timestep, model.integrator, model.parameters.names, model.parameters.nominal)
    for link in model.links:
        add(link.joint, link.parent, link.kind, link.axis, link.R, link.q_ref)
        if link.follows:
            add(link.q_index, link.ratio, link.shift)
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
