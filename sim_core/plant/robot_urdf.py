"""A compiled MuJoCo model as URDF: what RViz, MoveIt, robot_state_publisher and Pinocchio read.

The tree begins at `world`, or at the base of a robot that floats alone. `base_link` stands where the robot's first body is
while its joints are at zero. Every joint gets a link of its own, since a URDF joint turns about its child's origin; sites
are links without mass, as they are frames on /tf. docs/nodes/robot_state.md lists what URDF cannot say.

Source: https://wiki.ros.org/urdf/XML (elements and units).
"""

from __future__ import annotations

import hashlib
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable
from pathlib import Path

import mujoco
import numpy as np

from config.whole_file import whole_file

__all__ = ["BASE", "base_body", "robot_urdf"]

BASE = "base_link"
#: written where nothing limits a joint, as URDF wants numbers there [rad, m, N, N m, rad/s, m/s]
UNLIMITED = 1e6
#: groups of geoms that MuJoCo draws unless told otherwise
DRAWN = 3

_JOINT, _GEOM = mujoco.mjtJoint, mujoco.mjtGeom
_IDENTITY = (1.0, 0.0, 0.0, 0.0)


def base_body(model: mujoco.MjModel) -> int:
    """Index of the robot's first body, which `base_link` stands for: the one in the world that carries the first joint.

    0 where the model has no joint, or uses the name otherwise.
    """
    root = int(model.body_rootid[model.jnt_bodyid[0]]) if model.njnt else 0
    taken = {model.body(i).name for i in range(1, model.nbody)} | {model.site(i).name for i in range(model.nsite)}
    return 0 if BASE in taken else root


def robot_urdf(model: mujoco.MjModel, meshes: Path | None = None) -> str:
    """URDF text of a compiled model.

    Args:
        model: of the robot alone.
        meshes: folder where its meshes are written as STL, named by their content; None: shapes that are meshes are left out.

    Returns:
        The document; positions of its joints are MuJoCo's, those of `joint_states`.
    """
    return _Writer(model, meshes).text()


class _Writer:
    def __init__(self, model: mujoco.MjModel, meshes: Path | None) -> None:
        self.m, self.meshes = model, meshes
        self.bodies = [model.body(i).name or f"body{i}" for i in range(model.nbody)]
        self.joints = [model.joint(i).name or f"joint{i}" for i in range(model.njnt)]
        self.robot = ElementTree.Element("robot", name=model.names[: model.names.find(b"\0")].decode() or "robot")
        self.base = base_body(model)
        self.velocities = np.full(model.nv, UNLIMITED)
        for i in range(model.nnumeric):
            if model.numeric(i).name == "velocity_limits":
                self.velocities = model.numeric(i).data

    def text(self) -> str:
        m = self.m
        roots = [i for i in range(1, m.nbody) if m.body_parentid[i] == 0]
        if len(roots) == 1 and self._free(roots[0]):
            self._root(roots[0], None)
        else:
            self._link("world", 0)
            for root in roots:
                self._root(root, "world")
        ElementTree.indent(self.robot)
        return ElementTree.tostring(self.robot, encoding="unicode") + "\n"

    def _free(self, body: int) -> bool:
        return bool(self.m.body_jntnum[body]) and self.m.jnt_type[self.m.body_jntadr[body]] == _JOINT.mjJNT_FREE

    def _root(self, body: int, parent: str | None) -> None:
        """A body of the world, below base_link if it is the robot's first; without a parent it begins the tree."""
        m = self.m
        pos, quat = m.body_pos[body], m.body_quat[body]
        name = BASE if body == self.base else self.bodies[body]
        if self._free(body):
            if parent is not None:
                # Its position is the body's in the world.
                joint = self.joints[m.body_jntadr[body]]
                self._joint(joint, "floating", parent, name, np.zeros(3), _IDENTITY)
            if body == self.base:
                self._link(BASE)
                self._fixed(BASE, self.bodies[body], np.zeros(3), _IDENTITY)
            self._fill(body)
            return
        if body == self.base:
            self._link(BASE)
            self._fixed(parent, BASE, pos, quat)
            parent, pos, quat = BASE, np.zeros(3), np.array(_IDENTITY)
        self._body(body, parent, pos, quat)

    def _body(self, body: int, parent: str | None, pos: np.ndarray, quat: np.ndarray) -> None:
        """A body at a pose in a link, behind its joints in MuJoCo's order."""
        m, name = self.m, self.bodies[body]
        joints = range(m.body_jntadr[body], m.body_jntadr[body] + m.body_jntnum[body])
        for j in joints:
            kind, anchor, axis = _JOINT(int(m.jnt_type[j])), m.jnt_pos[j], m.jnt_axis[j]
            at, turned = pos, quat
            if kind == _JOINT.mjJNT_SLIDE:
                # Where it is at a position of zero; it has no anchor.
                anchor = np.zeros(3)
                at = pos + _turn(quat, -m.qpos0[m.jnt_qposadr[j]] * axis)
            elif kind == _JOINT.mjJNT_HINGE:
                at = pos + _turn(quat, anchor)
                turned = _product(quat, _about(axis, -m.qpos0[m.jnt_qposadr[j]]))
            elif kind == _JOINT.mjJNT_BALL:
                at = pos + _turn(quat, anchor)
            pos, quat = -anchor, np.array(_IDENTITY)
            last = j == joints[-1] and not np.any(anchor)
            child = name if last else f"{name}/{self.joints[j]}"
            self._moving(j, parent, child, at, turned)
            if last:
                return self._fill(body)
            self._link(child)
            parent = child
        self._fixed(parent, name, pos, quat)
        self._fill(body)
        return None

    def _fill(self, body: int) -> None:
        """A body's link, its sites, and all beyond it."""
        m, name = self.m, self.bodies[body]
        self._link(name, body)
        for s in range(m.nsite):
            site = m.site(s).name
            if m.site_bodyid[s] == body and site and not site.startswith("refit/") and site not in self.bodies:
                self._link(site)
                self._fixed(name, site, m.site_pos[s], m.site_quat[s])
        for child in range(1, m.nbody):
            if m.body_parentid[child] == body:
                self._body(child, name, m.body_pos[child], m.body_quat[child])

    # ---- joints -------------------------------------------------------------------------------------------------

    def _moving(self, j: int, parent: str | None, child: str, pos: np.ndarray, quat: np.ndarray) -> None:
        m, kind, dof = self.m, _JOINT(int(self.m.jnt_type[j])), self.m.jnt_dofadr[j]
        limited = bool(m.jnt_limited[j])
        urdf = {_JOINT.mjJNT_SLIDE: "prismatic", _JOINT.mjJNT_HINGE: "revolute" if limited else "continuous"}
        # URDF knows no balls: a floating joint is the nearest that has them.
        joint = self._joint(self.joints[j], urdf.get(kind, "floating"), parent, child, pos, quat)
        if kind not in urdf:
            return
        ElementTree.SubElement(joint, "axis", xyz=_text(m.jnt_axis[j]))
        limit = {"effort": repr(self._effort(j)), "velocity": repr(float(min(self.velocities[dof], UNLIMITED)))}
        if limited:
            limit |= {"lower": repr(float(m.jnt_range[j, 0])), "upper": repr(float(m.jnt_range[j, 1]))}
        elif kind == _JOINT.mjJNT_SLIDE:
            limit |= {"lower": repr(-UNLIMITED), "upper": repr(UNLIMITED)}
        ElementTree.SubElement(joint, "limit", limit)
        damping, friction = m.dof_damping[dof], m.dof_frictionloss[dof]
        ElementTree.SubElement(joint, "dynamics", damping=repr(float(damping)), friction=repr(float(friction)))
        for e in range(m.neq):
            if m.eq_type[e] == mujoco.mjtEq.mjEQ_JOINT and m.eq_obj1id[e] == j and m.eq_obj2id[e] >= 0:
                leader, (shift, ratio, *higher) = m.eq_obj2id[e], m.eq_data[e, :5]
                if m.eq_active0[e] and not np.any(higher):
                    # MuJoCo's polynomial is in the distances from the reference positions.
                    shift += m.qpos0[m.jnt_qposadr[j]] - ratio * m.qpos0[m.jnt_qposadr[leader]]
                    coupled = {"multiplier": repr(float(ratio)), "offset": repr(float(shift))}
                    ElementTree.SubElement(joint, "mimic", coupled | {"joint": self.joints[leader]})

    def _effort(self, j: int) -> float:
        """The most that actuators exert on a joint [N or N m]; zero where none does."""
        m, most = self.m, 0.0
        for i in range(m.nactuator):
            if m.actuator_trntype[i] == mujoco.mjtTrn.mjTRN_JOINT and m.actuator_trnid[i, 0] == j:
                force = UNLIMITED
                if m.actuator_forcelimited[i]:
                    force = np.abs(m.actuator_forcerange[i]).max()
                elif m.actuator_ctrllimited[i] and m.actuator_biastype[i] == mujoco.mjtBias.mjBIAS_NONE:
                    force = abs(m.actuator_gainprm[i, 0]) * np.abs(m.actuator_ctrlrange[i]).max()
                most += float(force * abs(m.actuator_gear[i, 0]))
        if m.jnt_actfrclimited[j]:
            most = min(most, float(np.abs(m.jnt_actfrcrange[j]).max()))
        return min(most, UNLIMITED)

    def _fixed(self, parent: str | None, child: str, pos: np.ndarray, quat: np.ndarray | tuple) -> None:
        self._joint(f"{child}_fixed", "fixed", parent, child, pos, quat)

    def _joint(
        self, name: str, kind: str, parent: str | None, child: str, pos: np.ndarray, quat: np.ndarray | tuple
    ) -> ElementTree.Element:
        joint = ElementTree.SubElement(self.robot, "joint", name=name, type=kind)
        ElementTree.SubElement(joint, "parent", link=parent or "world")
        ElementTree.SubElement(joint, "child", link=child)
        _origin(joint, pos, quat)
        return joint

    # ---- links --------------------------------------------------------------------------------------------------

    def _link(self, name: str, body: int | None = None) -> None:
        """A link, empty where no body is named."""
        link = ElementTree.SubElement(self.robot, "link", name=name)
        if body is None:
            return
        m = self.m
        if body and (m.body_mass[body] or np.any(m.body_inertia[body])):
            inertial = ElementTree.SubElement(link, "inertial")
            _origin(inertial, m.body_ipos[body], _IDENTITY)
            ElementTree.SubElement(inertial, "mass", value=repr(float(m.body_mass[body])))
            R = _matrix(m.body_iquat[body])
            I = R @ np.diag(m.body_inertia[body]) @ R.T
            places = {"ixx": (0, 0), "ixy": (0, 1), "ixz": (0, 2), "iyy": (1, 1), "iyz": (1, 2), "izz": (2, 2)}
            ElementTree.SubElement(inertial, "inertia", {key: repr(float(I[at])) for key, at in places.items()})
        for g in range(m.body_geomadr[body], m.body_geomadr[body] + m.body_geomnum[body]):
            if m.geom_group[g] < DRAWN:
                self._shapes(link, "visual", g)
            if m.geom_contype[g] or m.geom_conaffinity[g]:
                self._shapes(link, "collision", g)

    def _shapes(self, link: ElementTree.Element, tag: str, g: int) -> None:
        """<visual> or <collision> of a geom: one element, three for a capsule, none for what URDF does not know."""
        m, kind = self.m, _GEOM(int(self.m.geom_type[g]))
        pos, quat, size = m.geom_pos[g], m.geom_quat[g], m.geom_size[g]
        tube = {"radius": repr(float(size[0])), "length": repr(float(2 * size[1]))}
        ball = {"radius": repr(float(size[0]))}
        shapes: list[tuple[str, dict[str, str], np.ndarray]] = []
        if kind == _GEOM.mjGEOM_BOX:
            shapes = [("box", {"size": _text(2 * size)}, pos)]
        elif kind == _GEOM.mjGEOM_SPHERE:
            shapes = [("sphere", ball, pos)]
        elif kind == _GEOM.mjGEOM_CYLINDER:
            shapes = [("cylinder", tube, pos)]
        elif kind == _GEOM.mjGEOM_CAPSULE:
            half = _turn(quat, np.array([0.0, 0.0, size[1]]))
            shapes = [("cylinder", tube, pos), ("sphere", ball, pos + half), ("sphere", ball, pos - half)]
        elif kind == _GEOM.mjGEOM_MESH and self.meshes is not None:
            shapes = [("mesh", {"filename": _mesh(m, int(m.geom_dataid[g]), self.meshes).as_uri()}, pos)]
        for shape, attributes, at in shapes:
            element = ElementTree.SubElement(link, tag)
            _origin(element, at, quat)
            ElementTree.SubElement(ElementTree.SubElement(element, "geometry"), shape, attributes)
            if tag == "visual":
                painted = m.geom_matid[g] >= 0
                rgba = m.mat_rgba[m.geom_matid[g]] if painted else m.geom_rgba[g]
                material = ElementTree.SubElement(element, "material", name="rgba " + _text(rgba))
                ElementTree.SubElement(material, "color", rgba=_text(rgba))


def _mesh(m: mujoco.MjModel, i: int, folder: Path) -> Path:
    """A mesh of the model as a binary STL in its geom's axes, written unless it is there."""
    first, count = m.mesh_faceadr[i], m.mesh_facenum[i]
    corners = m.mesh_vert[m.mesh_vertadr[i] + m.mesh_face[first : first + count]].astype("<f4")
    facets = np.zeros(count, [("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
    facets["corners"] = corners
    facets["normal"] = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    data = b"\0" * 80 + int(count).to_bytes(4, "little") + facets.tobytes()
    path = folder.absolute() / f"{hashlib.sha256(data).hexdigest()[:32]}.stl"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as fresh:
            fresh.write_bytes(data)
    return path


# ---- rotations and numbers --------------------------------------------------------------------------------------


def _matrix(quat: np.ndarray) -> np.ndarray:
    R = np.zeros(9)
    mujoco.mju_quat2Mat(R, np.asarray(quat, dtype=float))
    return R.reshape(3, 3)


def _turn(quat: np.ndarray, vector: np.ndarray) -> np.ndarray:
    return _matrix(quat) @ vector


def _about(axis: np.ndarray, angle: float) -> np.ndarray:
    quat = np.zeros(4)
    mujoco.mju_axisAngle2Quat(quat, axis, angle)
    return quat


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    quat = np.zeros(4)
    mujoco.mju_mulQuat(quat, a, b)
    return quat


def _origin(element: ElementTree.Element, pos: np.ndarray, quat: np.ndarray | tuple) -> None:
    """<origin>, with R = Rz(yaw) Ry(pitch) Rx(roll).

    Roll is what is left of R after yaw and pitch: at a pitch of 90 degrees yaw is arbitrary, and roll makes up for it.
    """
    R = _matrix(np.asarray(quat))
    yaw = np.arctan2(R[1, 0], R[0, 0])
    pitch = np.arctan2(-R[2, 0], np.hypot(R[0, 0], R[1, 0]))
    turned = _product(_about(np.array([0.0, 0.0, 1.0]), yaw), _about(np.array([0.0, 1.0, 0.0]), pitch))
    left = _matrix(turned).T @ R
    ElementTree.SubElement(
        element, "origin", xyz=_text(pos), rpy=_text((np.arctan2(left[2, 1], left[1, 1]), pitch, yaw))
    )


def _text(values: Iterable[float]) -> str:
    return " ".join(repr(float(x) + 0.0) for x in values)
