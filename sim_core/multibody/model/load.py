"""From a model file to a RobotModel: MuJoCo's compiler reads the file, this module turns the result into what the
equations need."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import mujoco
import numpy as np

from sim_core.multibody.contact.pairs import ContactPair, contact_groups, contact_notes, read_contacts
from sim_core.multibody.contact.parameters import Fields
from sim_core.multibody.equations.fluid import fluid_boxes
from sim_core.multibody.equations.friction import FrictionConstraint
from sim_core.multibody.equations.inertia import from_com
from sim_core.multibody.equations.physical_vector import PhysicalVector
from sim_core.multibody.equations.spatial import JointKind, snap
from sim_core.multibody.equations.tree import Body, Frame, Link, Mount, Offset
from sim_core.multibody.model.compile_model import ModelError, compile_source
from sim_core.multibody.model.coordinates import Coordinates
from sim_core.multibody.model.model import Actuator, RobotModel, model_hash
from sim_core.multibody.model.options import ModelOptions
from sim_core.multibody.model.support import check_supported, disabled, name_of

__all__ = ["load_model"]

_OBJ = mujoco.mjtObj
_MOTION: dict[str, JointKind] = {"hinge": "revolute", "slide": "prismatic", "ball": "ball"}


def load_model(source: str | os.PathLike[str] | mujoco.MjModel, **options: Any) -> RobotModel:
    """Load a robot.

    Args:
        source: name in config/robots ("panda", "cartpole", "double_cartpole"), path to an MJCF or URDF file,
            XML text, or a compiled mujoco.MjModel.
        **options: fields of ModelOptions, e.g. friction=True.

    Raises:
        ModelError: not found, refused by MuJoCo's compiler, or contains an unsupported element (which is named).

    Example: load_model("panda").parameters.index("hand.mass")
    """
    chosen = ModelOptions(**options)
    mj_model, name, xml, notes = compile_source(source, chosen.inertia, chosen.floating_base)
    names = _Names(mj_model)
    friction = _friction_joints(mj_model, names, chosen)
    notes = list(notes) + check_supported(mj_model, friction, chosen)
    if mj_model.njnt == 0:
        raise ModelError(f"Model '{name}' has no joints. Add at least one joint, or load with floating_base=True.")
    places = Coordinates(mj_model)
    geometry = _geometry_names(mj_model, names, chosen)
    links, mounts = _build_links(mj_model, names, geometry, places)
    bodies, frames = _mount(mj_model, names, geometry, mounts)
    contacts, contact_parameters, contact_notes = _contacts(mj_model, mounts, chosen)
    fluid = _fluid(mj_model, chosen)
    parameters = _physical_vector(mj_model, names, bodies, geometry, friction, fluid, contact_parameters)
    actuators, u_lower, u_upper, joint_force_range = _actuators(mj_model, names, places)
    q_lower, q_upper = _position_limits(mj_model, places)
    q_home = mj_model.key_qpos[0] if mj_model.nkey else mj_model.qpos0
    model = RobotModel(
        name=name,
        links=links,
        bodies=bodies,
        frames=frames,
        actuators=actuators,
        parameters=parameters,
        options=chosen,
        timestep=float(mj_model.opt.timestep),
        integrator=_integrator(mj_model),
        q_lower=q_lower,
        q_upper=q_upper,
        v_limit=_velocity_limits(mj_model, places),
        u_lower=u_lower,
        u_upper=u_upper,
        q_home=q_home[places.positions],
        spring_reference=mj_model.qpos_spring[places.positions],
        friction=_friction_constraint(mj_model, names, friction, chosen, places),
        joint_force_range=joint_force_range,
        fluid_boxes=fluid_boxes(mj_model, mounts) if fluid else (),
        contacts=contacts,
        notes=(*contact_notes, *_coupling_notes(names, places), *notes),
        mj_model=mj_model,
        xml=xml,
    )
    object.__setattr__(model, "hash", model_hash(model))
    return model


class _Names:
    """Names of the compiled model's elements; unnamed ones are called kind + index."""

    def __init__(self, m: mujoco.MjModel) -> None:
        self.bodies = [name_of(m, _OBJ.mjOBJ_BODY, i).replace("#", "body") for i in range(m.nbody)]
        self.joints = [name_of(m, _OBJ.mjOBJ_JOINT, i).replace("#", "joint") for i in range(m.njnt)]
        self.sites = [name_of(m, _OBJ.mjOBJ_SITE, i).replace("#", "site") for i in range(m.nsite)]
        self.actuators = [name_of(m, _OBJ.mjOBJ_ACTUATOR, i).replace("#", "actuator") for i in range(m.nactuator)]


def _rotation(quat: np.ndarray) -> np.ndarray:
    R = np.zeros(9)
    mujoco.mju_quat2Mat(R, quat)
    return snap(R.reshape(3, 3))


def _joint_kind(m: mujoco.MjModel, j: int) -> str:
    """ "hinge", "slide", "ball" or "free"."""
    return mujoco.mjtJoint(int(m.jnt_type[j])).name.removeprefix("mjJNT_").lower()


def _aligned(axis: np.ndarray) -> tuple[np.ndarray, int]:
    """Rotation A and index k with axis = A e_k: exact for coordinate axes and their opposites."""
    axis = snap(axis)
    k = int(np.argmax(np.abs(axis)))
    if abs(axis[k]) == 1.0:
        A = np.eye(3)
        if axis[k] < 0:
            other = (k + 1) % 3
            A[k, k] = A[3 - k - other, 3 - k - other] = -1.0
        return A, k
    x = np.cross(axis, np.eye(3)[int(np.argmin(np.abs(axis)))])
    x /= np.linalg.norm(x)
    return np.column_stack([x, np.cross(axis, x), axis]), 2


def _position(m: mujoco.MjModel, names: _Names, geometry: Sequence[str], kind: str, i: int) -> Offset:
    """Position of body or site i in its parent body, symbolic if declared as geometry."""
    pos, name = (m.body_pos[i], names.bodies[i]) if kind == "body" else (m.site_pos[i], names.sites[i])
    if name in geometry:
        return Offset(np.zeros(3), ((np.eye(3), f"{name}.pos"),))
    return Offset(snap(pos))


def _build_links(
    m: mujoco.MjModel, names: _Names, geometry: Sequence[str], places: Coordinates
) -> tuple[tuple[Link, ...], list[Mount]]:
    """Links in order of joints, and for each body its mount (link, R, r)."""
    links = []

    def add(j: int, kind: JointKind, axis: int, parent: int, R: np.ndarray, r: Offset, q_ref: float, k: int = 0) -> int:
        """The k-th link of joint j; its index."""
        q_index, v_index = int(places.q_index[j]) + k, int(places.v_index[j]) + k
        follows = places.following.get(j)
        ratio, shift = (follows.ratio, follows.shift) if follows else (1.0, 0.0)
        links.append(
            Link(names.joints[j], parent, kind, axis, R, r, q_ref, q_index, v_index, ratio, shift, follows is not None)
        )
        return len(links) - 1

    straight, here = np.eye(3), Offset(np.zeros(3))
    mounts = [(-1, np.eye(3), Offset(np.zeros(3)))]
    for i in range(1, m.nbody):
        link, R, r = mounts[m.body_parentid[i]]
        # Pose of the body, at the reference configuration, in the link reached so far.
        r = _position(m, names, geometry, "body", i).moved(R, r)
        R = snap(R @ _rotation(m.body_quat[i]))
        for j in range(m.body_jntadr[i], m.body_jntadr[i] + m.body_jntnum[i]):
            kind = _joint_kind(m, j)
            if kind == "free":
                # Its position is the body's in the world, wherever the file puts the body.
                link = -1
                for axis in range(3):
                    link = add(j, "prismatic", axis, link, straight, here, 0.0, k=axis)
                link, R, r = add(j, "ball", 0, link, straight, here, 0.0, k=3), straight, here
                continue
            A, axis = (straight, 0) if kind == "ball" else _aligned(m.jnt_axis[j])
            # A slide has no anchor that matters; the body's origin gives the sparsest transforms.
            anchor = np.zeros(3) if kind == "slide" else snap(m.jnt_pos[j])
            q_ref = 0.0 if kind == "ball" else float(m.qpos0[m.jnt_qposadr[j]])
            link = add(j, _MOTION[kind], axis, link, snap(R @ A), Offset(anchor).moved(R, r), q_ref)
            R, r = snap(A.T), Offset(snap(-A.T @ anchor))
        mounts.append((link, R, r))
    return tuple(links), mounts


def _mount(
    m: mujoco.MjModel, names: _Names, geometry: Sequence[str], mounts: Sequence[Mount]
) -> tuple[tuple[Body, ...], tuple[Frame, ...]]:
    bodies = []
    for i in range(1, m.nbody):
        link, R, r = mounts[i]
        has_inertia = link >= 0 and bool(m.body_mass[i] or np.any(m.body_inertia[i]))
        bodies.append(Body(names.bodies[i], names.bodies[m.body_parentid[i]], link, R, r, has_inertia))
    frames = []
    for i in range(m.nsite):
        link, R, r = mounts[m.site_bodyid[i]]
        r = _position(m, names, geometry, "site", i).moved(R, r)
        R = snap(R @ _rotation(m.site_quat[i]))
        frames.append(Frame(names.sites[i], names.bodies[m.site_bodyid[i]], link, R, r))
    return tuple(bodies), tuple(frames)


def _geometry_names(m: mujoco.MjModel, names: _Names, options: ModelOptions) -> tuple[str, ...]:
    known = names.bodies[1:] + names.sites
    choice = options.geometry
    free = [names.bodies[m.jnt_bodyid[j]] for j in range(m.njnt) if _joint_kind(m, j) == "free"]
    if choice == "auto":
        choice = ()
        for i in range(m.ntext):
            if name_of(m, _OBJ.mjOBJ_TEXT, i) == "refit_geometry":
                data = bytes(m.text_data[m.text_adr[i] : m.text_adr[i] + m.text_size[i]])
                choice = tuple(data.rstrip(b"\0").decode().split())
    elif isinstance(choice, bool):
        moving = [i for i in range(1, m.nbody) if m.body_weldid[i] and names.bodies[i] not in free]
        choice = tuple(names.bodies[i] for i in moving) if choice else ()
    unknown = [n for n in choice if n not in known]
    if unknown:
        raise ModelError(f"geometry names {unknown}, which are neither bodies nor sites. Known: {', '.join(known)}.")
    loose = [n for n in choice if n in free]
    if loose:
        raise ModelError(f"geometry names {loose}, whose free joint's position is where they are. Leave them out.")
    twice = [n for n in choice if n in names.bodies and n in names.sites]
    if twice:
        raise ModelError(f"geometry names {twice}, which are both a body and a site. Rename one of them.")
    return choice


def _friction_joints(m: mujoco.MjModel, names: _Names, options: ModelOptions) -> tuple[str, ...]:
    choice = options.friction
    if choice == "auto":
        return tuple(n for n, f in zip(names.joints, m.dof_frictionloss[m.jnt_dofadr]) if f > 0)
    if isinstance(choice, bool):
        return tuple(n for j, n in enumerate(names.joints) if _joint_kind(m, j) != "free") if choice else ()
    unknown = [n for n in choice if n not in names.joints]
    if unknown:
        raise ModelError(f"friction names {unknown}, which are not joints. Known: {', '.join(names.joints)}.")
    return choice


def _friction_constraint(
    m: mujoco.MjModel, names: _Names, friction: Sequence[str], options: ModelOptions, places: Coordinates
) -> FrictionConstraint | None:
    if options.friction_law == "smooth" or not friction:
        return None
    whole = FrictionConstraint.of_plant(m, [names.joints[j] in friction for j in m.dof_jntid])
    D, own = whole.D[places.velocities], places.velocities
    for j, follows in places.following.items():
        D[places.v_index[j]] += follows.ratio**2 * whole.D[m.jnt_dofadr[j]]
    return FrictionConstraint(D, whole.b[own], whole.bh_max[own])


def _contacts(
    m: mujoco.MjModel, mounts: Sequence[Mount], options: ModelOptions
) -> tuple[tuple[ContactPair, ...], dict[str, Fields], list[str]]:
    """Contact pairs, parameters per group of pairs, and notes on the plant's other contacts."""
    try:
        pairs, left_out = read_contacts(m, mounts, options)
        return pairs, contact_groups(m, pairs, options.contact), contact_notes(pairs, left_out, options.contact)
    except ValueError as error:
        raise ModelError(str(error)) from None


def _fluid(m: mujoco.MjModel, options: ModelOptions) -> dict[str, float]:
    """Values of density and viscosity by name, as far as they are parameters."""
    off = mujoco.mjtDisableBit
    # MuJoCo computes no passive force at all where it computes neither springs nor dampers.
    acts = not (disabled(m, off.mjDSBL_SPRING) and disabled(m, off.mjDSBL_DAMPER))
    values = {"density": m.opt.density * acts, "viscosity": m.opt.viscosity * acts}
    if options.fluid == "auto":
        return {name: value for name, value in values.items() if value > 0}
    return values if options.fluid else {}


def _physical_vector(
    m: mujoco.MjModel,
    names: _Names,
    bodies: Sequence[Body],
    geometry: Sequence[str],
    friction: Sequence[str],
    fluid: Mapping[str, float],
    contact_parameters: Mapping[str, Fields],
) -> PhysicalVector:
    off = mujoco.mjtDisableBit
    p = PhysicalVector()
    for i, body in enumerate(bodies, start=1):
        if body.has_inertia:
            turn = np.zeros(9)
            mujoco.mju_quat2Mat(turn, m.body_iquat[i])
            R = turn.reshape(3, 3)
            p.append_inertia(body.name, from_com(m.body_mass[i], m.body_ipos[i], R @ np.diag(m.body_inertia[i]) @ R.T))
    damping = m.dof_damping * (not disabled(m, off.mjDSBL_DAMPER))
    stiffness = m.jnt_stiffness * (not disabled(m, off.mjDSBL_SPRING))
    frictionloss = m.dof_frictionloss * (not disabled(m, off.mjDSBL_FRICTIONLOSS | off.mjDSBL_CONSTRAINT))
    for j, joint in enumerate(names.joints):
        kind, dof = _joint_kind(m, j), m.jnt_dofadr[j]
        units = {
            "slide": ("N s/m", "kg", "N", "N/m"),
            "free": ("N s/m, N m s/rad", "kg, kg m^2", "N, N m", "N/m, N m/rad"),
        }.get(kind, ("N m s/rad", "kg m^2", "N m", "N m/rad"))
        values = damping[dof], m.dof_armature[dof], frictionloss[dof], stiffness[j]
        # Balls and free joints are rarely damped or driven: they have what the file gives them.
        scalar = kind in ("hinge", "slide")
        present = (
            scalar or m.dof_damping[dof] > 0,
            scalar or m.dof_armature[dof] > 0,
            joint in friction,
            m.jnt_stiffness[j] > 0,
        )
        for field, unit, value, has in zip(
            ("damping", "armature", "frictionloss", "stiffness"), units, values, present
        ):
            if has:
                p.append(f"{joint}.{field}", unit, value)
    for name in geometry:
        is_body = name in names.bodies
        pos = m.body_pos[names.bodies.index(name)] if is_body else m.site_pos[names.sites.index(name)]
        p.append_vector(f"{name}.pos", "m", pos)
    p.append_vector("gravity", "m/s^2", m.opt.gravity * (not disabled(m, off.mjDSBL_GRAVITY)))
    for name, value in fluid.items():
        p.append(f"fluid.{name}", {"density": "kg/m^3", "viscosity": "Pa s"}[name], value)
    for i, actuator in enumerate(names.actuators):
        p.append(f"{actuator}.gear", "-", m.actuator_gear[m.actuator_outadr[i], 0])
    for group, fields_ in contact_parameters.items():
        for name, (unit, value) in fields_.items():
            p.append(f"{group}.{name}", unit, value)
    if len(set(p.names)) != len(p):
        twice = sorted({n for n in p.names if p.names.count(n) > 1})
        raise ModelError(f"Two elements share a name, so parameters {', '.join(twice)} are ambiguous. Rename one.")
    return p


def _three(values: np.ndarray) -> tuple[float, float, float]:
    a, b, c = values
    return float(a), float(b), float(c)


def _range(values: np.ndarray) -> tuple[float, float]:
    lower, upper = values
    return float(lower), float(upper)


def _actuators(
    m: mujoco.MjModel, names: _Names, places: Coordinates
) -> tuple[tuple[Actuator, ...], np.ndarray, np.ndarray, dict[int, tuple[float, float]]]:
    """Actuators, control bounds with the force limits of plain motors folded in, and clamps per joint."""
    actuators, lower, upper, joint_force_range = [], [], [], {}
    drives = [m.actuator_trnid[i, 0] for i in range(m.nactuator)]
    for i in range(m.nactuator):
        joint, u = int(drives[i]), int(m.actuator_ctrladr[i])
        gain, bias = m.actuator_gainprm[i, :3].copy(), m.actuator_biasprm[i, :3].copy()
        if mujoco.mjtGain(int(m.actuator_gaintype[i])) == mujoco.mjtGain.mjGAIN_FIXED:
            gain[1:] = 0.0
        if mujoco.mjtBias(int(m.actuator_biastype[i])) == mujoco.mjtBias.mjBIAS_NONE:
            bias[:] = 0.0
        u_range = np.array([-np.inf, np.inf])
        if m.actuator_ctrllimited[u]:
            u_range = m.actuator_ctrlrange[u].copy()
        plain = gain[0] > 0 and not np.any(gain[1:]) and not np.any(bias)
        force_range = _range(m.actuator_forcerange[i]) if m.actuator_forcelimited[i] else None
        if plain and force_range:
            u_range = np.clip(u_range, *(np.array(force_range) / gain[0]))
            force_range = None
        if m.jnt_actfrclimited[joint]:
            total, gear = m.jnt_actfrcrange[joint], m.actuator_gear[m.actuator_outadr[i], 0]
            if plain and drives.count(drives[i]) == 1 and gear != 0:
                u_range = np.clip(u_range, *np.sort(total / (gear * gain[0])))
            else:
                joint_force_range[int(places.v_index[joint])] = _range(total)
        actuators.append(
            Actuator(
                name=names.actuators[i],
                v_index=int(places.v_index[joint]),
                q_index=int(places.q_index[joint]),
                gain=_three(gain),
                bias=_three(bias),
                force_range=force_range,
            )
        )
        lower.append(u_range[0])
        upper.append(u_range[1])
    if disabled(m, mujoco.mjtDisableBit.mjDSBL_ACTUATION) and actuators:
        raise ModelError('Not supported: actuators with actuation disabled. Remove <flag actuation="disable"/>.')
    return tuple(actuators), np.array(lower), np.array(upper), joint_force_range


def _integrator(m: mujoco.MjModel) -> str:
    kind = mujoco.mjtIntegrator(int(m.opt.integrator))
    if kind == mujoco.mjtIntegrator.mjINT_RK4:
        return "rk4"
    if kind in (mujoco.mjtIntegrator.mjINT_IMPLICIT, mujoco.mjtIntegrator.mjINT_IMPLICITFAST):
        return "implicitfast"
    if kind == mujoco.mjtIntegrator.mjINT_EULER:
        explicit = disabled(m, mujoco.mjtDisableBit.mjDSBL_EULERDAMP | mujoco.mjtDisableBit.mjDSBL_DAMPER)
        return "semi_implicit_euler" if explicit else "mujoco_euler"
    raise ModelError(f"Not supported: integrator {kind.name}. Choose Euler, RK4 or implicitfast in <option>.")


def _position_limits(m: mujoco.MjModel, places: Coordinates) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper (nq,): inf where unlimited, and for quaternions, whose limit is on the angle.

    A joint is limited by those that follow it as well, as far as that leaves it anywhere to be.
    """
    lower, upper = np.full(len(places.positions), -np.inf), np.full(len(places.positions), np.inf)
    limited = [j for j in range(m.njnt) if m.jnt_limited[j] and _joint_kind(m, j) in ("hinge", "slide")]
    for j in sorted(limited, key=lambda j: j in places.following):
        i, follows, bounds = places.q_index[j], places.following.get(j), m.jnt_range[j]
        if follows and follows.ratio:
            bounds = np.sort((bounds - follows.shift) / follows.ratio)
        low, high = max(lower[i], bounds[0]), min(upper[i], bounds[1])
        if low < high:
            lower[i], upper[i] = low, high
    return lower, upper


def _velocity_limits(m: mujoco.MjModel, places: Coordinates) -> np.ndarray:
    """(nv,), inf where unlimited; of a joint that others follow, the strictest."""
    limits = np.full(m.nv, np.inf)
    for i in range(m.nnumeric):
        if name_of(m, _OBJ.mjOBJ_NUMERIC, i) == "velocity_limits":
            values = m.numeric_data[m.numeric_adr[i] : m.numeric_adr[i] + m.numeric_size[i]]
            if len(values) != m.nv:
                raise ModelError(f"velocity_limits has {len(values)} values, expected one per velocity: {m.nv}.")
            limits[:] = values
    own = limits[places.velocities]
    for j, follows in places.following.items():
        if follows.ratio:
            i = places.v_index[j]
            own[i] = min(own[i], limits[m.jnt_dofadr[j]] / abs(follows.ratio))
    return own


def _coupling_notes(names: _Names, places: Coordinates) -> list[str]:
    if not places.following:
        return []
    pairs = [f"{names.joints[j]} ({names.joints[f.leader]})" for j, f in places.following.items()]
    return [
        "Joints follow others exactly in the equations, by a stiff constraint in the plant: " + ", ".join(pairs) + "."
    ]
