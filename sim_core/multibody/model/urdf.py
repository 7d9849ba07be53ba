"""URDF to MJCF: the tree, its inertias as they are written, limits, motors, and `<mimic>` as an equality of joints.

MuJoCo reads URDF as well, but refuses or drops much of what published files contain. Shapes are left out: meshes need
not be installed to know the dynamics, and MuJoCo would compute inertias from shapes where URDF says that a link has none.

Source: https://wiki.ros.org/urdf/XML (elements, defaults and units).
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable
from dataclasses import dataclass, replace

import mujoco
import numpy as np

from sim_core.multibody.model.as_written import add_inertial

__all__ = ["FLOATING_BASE", "mjcf_of_urdf"]

_KINDS = {"revolute": "hinge", "continuous": "hinge", "prismatic": "slide"}
#: The plant's coupling of joints: as stiff as its default time step of 2 ms allows.
_STIFF = {"solref": "0.004 1", "solimp": "0.99 0.999 0.001"}
FLOATING_BASE = "floating_base"


@dataclass(frozen=True)
class _Joint:
    """A <joint>: pose (quat wxyz, r) of the child in the parent at zero, motion, limits, and whom it mimics."""

    name: str
    kind: str
    parent: str
    child: str
    r: np.ndarray
    quat: np.ndarray
    axis: np.ndarray
    range: tuple[float, float] | None
    effort: float
    velocity: float
    damping: float
    friction: float
    mimic: tuple[str, float, float] | None  # joint, ratio, shift

    @property
    def moves(self) -> bool:
        return self.kind in _KINDS


@dataclass(frozen=True)
class _Inertial:
    """Mass [kg], centre (3,) [m] and inertia about it (3, 3) [kg m^2], in the link's axes."""

    mass: float
    com: np.ndarray
    I: np.ndarray

    @property
    def nothing(self) -> bool:
        return self.mass == 0.0 and not np.any(self.I)


def mjcf_of_urdf(root: ElementTree.Element, floating_base: bool = False) -> tuple[str, list[str]]:
    """MJCF text of a URDF's <robot>, and notes on what was added, left out or taken in spite of doubts.

    Args:
        floating_base: the root link is free rather than fixed to the world.

    Raises:
        ValueError: the file contradicts itself, or moves in a way that is not supported; one sentence names the element.
    """
    return _Writer(root, floating_base).text()


class _Writer:
    def __init__(self, root: ElementTree.Element, floating_base: bool) -> None:
        self.robot, self.floating_base = root, floating_base
        self.notes: list[str] = []
        self.inertials = {_name(link): _inertial(link) for link in root.findall("link")}
        self.joints = {joint.name: joint for joint in map(_joint, root.findall("joint"))}
        self._check_mimics()
        self.children: dict[str, list[_Joint]] = {link: [] for link in self.inertials}
        self.root = self._connect()
        self.values = self._still()
        self.velocities: list[float] = [np.inf] * 6 * floating_base
        self.home = [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0] * floating_base
        self.objections: list[str] = []
        self.mjcf = ElementTree.Element("mujoco", model=root.get("name") or "model")
        ElementTree.SubElement(self.mjcf, "compiler", angle="radian", autolimits="true")
        self.mjcf.extend(root.findall("mujoco/option"))
        self.custom = ElementTree.SubElement(self.mjcf, "custom")
        self.world = ElementTree.SubElement(self.mjcf, "worldbody")
        self.equality = ElementTree.SubElement(self.mjcf, "equality")
        self.actuator = ElementTree.SubElement(self.mjcf, "actuator")

    def text(self) -> tuple[str, list[str]]:
        if self.root == "world" and not self.floating_base:
            # MuJoCo's world has this name, and no inertia is felt there.
            for joint in self.children["world"]:
                self._add(joint, self.world)
        else:
            name = "world_link" if self.root == "world" else self.root
            body = ElementTree.SubElement(self.world, "body", name=name)
            if self.floating_base:
                ElementTree.SubElement(body, "freejoint", name=FLOATING_BASE)
            self._fill(body, self.root, self.floating_base)
        if np.isfinite(self.velocities).any():
            data = " ".join(map(repr, map(float, self.velocities)))
            ElementTree.SubElement(self.custom, "numeric", name="velocity_limits", data=data)
        if any(joint.mimic and joint.mimic[2] for joint in self.joints.values()):
            # At zero of all joints the followers would not be where they belong.
            frames = ElementTree.SubElement(self.mjcf, "keyframe")
            ElementTree.SubElement(frames, "key", name="home", qpos=_text(self.home))
        self._note()
        ElementTree.indent(self.mjcf)
        return ElementTree.tostring(self.mjcf, encoding="unicode"), self.notes

    def _connect(self) -> str:
        """Hang every joint on its parent link; the root's name."""
        if not self.inertials:
            raise ValueError("expected at least one <link>, found none")
        above: dict[str, str] = {}
        for joint in self.joints.values():
            for link in (joint.parent, joint.child):
                if link not in self.inertials:
                    raise ValueError(f"joint '{joint.name}' names the link '{link}', which is not there")
            if joint.child in above:
                raise ValueError(
                    f"link '{joint.child}' hangs on two joints, '{above[joint.child]}' and '{joint.name}': a loop is no tree"
                )
            above[joint.child] = joint.name
            self.children[joint.parent].append(joint)
        roots = [link for link in self.inertials if link not in above]
        if len(roots) != 1:
            found = f"found {', '.join(roots)}" if roots else "found a ring"
            raise ValueError(f"expected one link that is no joint's child, {found}; join the parts by a fixed joint")
        return roots[0]

    def _check_mimics(self) -> None:
        unknown = [j for j in self.joints.values() if j.moves and j.mimic and j.mimic[0] not in self.joints]
        for joint in unknown:
            self.joints[joint.name] = replace(joint, mimic=None)
        if unknown:
            names = [f"{joint.name} ('{joint.mimic[0]}')" for joint in unknown if joint.mimic]
            self._say("Joints mimic one that is not in the file, and move by themselves:", names)

    # ---- which joints stand still -------------------------------------------------------------------------------

    def _still(self) -> dict[str, float]:
        """Position of every joint that cannot move, by name: fixed ones, their followers, and those that move nothing."""
        values = {joint.name: 0.0 for joint in self.joints.values() if joint.kind == "fixed"}
        heavy = {name for name in self.joints if self._carries(self.joints[name].child)}
        # A joint is felt if it or one that follows it moves something.
        felt = set(heavy)
        for name in heavy:
            felt.update(self._leaders(name))
        idle = [j for j in self.joints.values() if j.moves and j.name not in felt and not j.mimic]
        for joint in idle:
            values[joint.name] = float(np.clip(0.0, *(joint.range or (-np.inf, np.inf))))
        for joint in self.joints.values():
            if (
                joint.moves
                and joint.name not in values
                and (chain := self._leaders(joint.name))
                and chain[-1] in values
            ):
                values[joint.name] = self._followed(joint.name, values)
        if idle:
            self._say(
                "Joints move neither mass nor inertia, so that no force decides how, and are fixed (give their links an "
                "inertia to move them):",
                [j.name for j in idle],
            )
        return values

    def _carries(self, link: str) -> bool:
        """Whether there is any inertia on a link or beyond."""
        return not self.inertials[link].nothing or any(self._carries(joint.child) for joint in self.children[link])

    def _leaders(self, name: str) -> list[str]:
        """Joints that a joint follows, the next one first.

        Raises:
            ValueError: it follows itself.
        """
        chain: list[str] = []
        while self.joints[name].moves and (mimic := self.joints[name].mimic):
            name = mimic[0]
            if name in chain:
                raise ValueError(f"joint '{name}' mimics itself, by way of {', '.join(chain)}")
            chain.append(name)
        return chain

    def _followed(self, name: str, values: dict[str, float]) -> float:
        """Position of a joint whose leader stands still."""
        mimic = self.joints[name].mimic
        if name in values or mimic is None:
            return values[name]
        return mimic[1] * self._followed(mimic[0], values) + mimic[2]

    # ---- writing ------------------------------------------------------------------------------------------------

    def _add(self, joint: _Joint, parent: ElementTree.Element) -> None:
        """The child of a joint, and all beyond it."""
        r, quat = joint.r, joint.quat
        if still := self.values.get(joint.name, 0.0):
            r, quat = _moved(joint, still)
        body = ElementTree.SubElement(parent, "body", name=joint.child, pos=_text(r), quat=_text(quat))
        moves = joint.moves and joint.name not in self.values
        if moves:
            self._joint(joint, body)
        elif joint.kind == "floating":
            if parent is not self.world:
                raise ValueError(
                    f"joint '{joint.name}' is floating within the tree; make its parent a root link named 'world', or leave "
                    "it out and load with floating_base=True"
                )
            ElementTree.SubElement(body, "freejoint", name=joint.name)
            self.velocities += [np.inf] * 6
            self.home += [*r, *quat]
        elif joint.kind not in {*_KINDS, "fixed"}:
            known = ", ".join((*_KINDS, "fixed", "floating"))
            raise ValueError(f"joint '{joint.name}' is of type '{joint.kind}', expected one of {known}")
        self._fill(body, joint.child, moves or joint.kind == "floating")

    def _fill(self, body: ElementTree.Element, link: str, moves: bool) -> None:
        """A body's own inertia, and its children. MuJoCo wants some inertia on every body that has a joint."""
        inertial = self.inertials[link]
        if moves or not inertial.nothing:
            why = add_inertial(body, self.custom, inertial.mass, inertial.com, inertial.I)
            if why:
                self.objections.append(f"{link} ({why})")
        for joint in self.children[link]:
            self._add(joint, body)

    def _joint(self, joint: _Joint, body: ElementTree.Element) -> None:
        attributes = {"name": joint.name, "type": _KINDS[joint.kind], "axis": _text(joint.axis)}
        if joint.range is not None:
            attributes["range"] = _text(joint.range)
        if joint.effort > 0.0:
            attributes["actuatorfrcrange"] = _text((-joint.effort, joint.effort))
        if joint.damping:
            attributes["damping"] = repr(joint.damping)
        if joint.friction:
            attributes["frictionloss"] = repr(joint.friction)
        ElementTree.SubElement(body, "joint", attributes)
        self.velocities.append(joint.velocity)
        chain = self._leaders(joint.name)
        self.home.append(self._followed(joint.name, {**self.values, (chain or [joint.name])[-1]: 0.0}))
        if joint.mimic is None:
            ElementTree.SubElement(self.actuator, "motor", name=joint.name, joint=joint.name)
            return
        leader, ratio, shift = joint.mimic
        coupled = {"joint1": joint.name, "joint2": leader, "polycoef": _text((shift, ratio, 0.0, 0.0, 0.0))}
        ElementTree.SubElement(self.equality, "joint", coupled | _STIFF)

    def _note(self) -> None:
        if self.objections:
            self._say(
                'No rigid body has these inertias; they are taken as written, and inertia="repaired" takes the nearest '
                "that one can have:",
                self.objections,
            )
        empty = [link for link, inertial in self.inertials.items() if inertial.nothing and link != self.root]
        if empty:
            self._say("Links have neither mass nor inertia:", empty)
        if len(self.actuator):
            self.notes.append(
                "URDF names no actuators: one torque motor per joint was added, with the joint's effort limit."
            )

    def _say(self, what: str, names: list[str], most: int = 6) -> None:
        more = f" and {len(names) - most} more" if len(names) > most else ""
        self.notes.append(f"{what} {', '.join(names[:most])}{more}.")


# ---- reading ----------------------------------------------------------------------------------------------------


def _name(element: ElementTree.Element) -> str:
    name = element.get("name")
    if not name:
        raise ValueError(f"a <{element.tag}> has no name")
    return name


def _numbers(element: ElementTree.Element | None, attribute: str, default: Iterable[float], owner: str) -> np.ndarray:
    """Numbers of an attribute, as many as the default has."""
    default = np.array(list(default), dtype=float)
    text = None if element is None else element.get(attribute)
    if text is None:
        return default
    try:
        values = np.array([float(word) for word in text.split()])
    except ValueError:
        values = np.zeros(0)
    if values.shape != default.shape or not np.isfinite(values).all():
        raise ValueError(f'{owner}: expected {default.size} finite numbers in {attribute}="{text}"')
    return values


def _number(element: ElementTree.Element | None, attribute: str, default: float, owner: str) -> float:
    return float(_numbers(element, attribute, [default], owner)[0])


def _inertial(link: ElementTree.Element) -> _Inertial:
    owner, element = f"link '{_name(link)}'", link.find("inertial")
    if element is None:
        return _Inertial(0.0, np.zeros(3), np.zeros((3, 3)))
    origin, inertia = element.find("origin"), element.find("inertia")
    xx, xy, xz, yy, yz, zz = (_number(inertia, name, 0.0, owner) for name in ("ixx", "ixy", "ixz", "iyy", "iyz", "izz"))
    R = _matrix(_quaternion(_numbers(origin, "rpy", (0, 0, 0), owner)))
    I = R @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ R.T
    mass = _number(element.find("mass"), "value", 0.0, owner)
    return _Inertial(mass, _numbers(origin, "xyz", (0, 0, 0), owner), I)


def _joint(element: ElementTree.Element) -> _Joint:
    name, kind = _name(element), element.get("type", "")
    owner = f"joint '{name}'"
    ends = []
    for end in ("parent", "child"):
        part = element.find(end)
        link = None if part is None else part.get("link")
        if link is None:
            raise ValueError(f"{owner} has no <{end} link=...>")
        ends.append(link)
    origin, limit, dynamics = element.find("origin"), element.find("limit"), element.find("dynamics")
    lower, upper = _number(limit, "lower", 0.0, owner), _number(limit, "upper", 0.0, owner)
    axis = _numbers(element.find("axis"), "xyz", (1, 0, 0), owner)
    length = float(np.linalg.norm(axis))
    if kind in _KINDS and not length > 0.0:
        raise ValueError(f"{owner}: expected an axis, found a vector of length zero")
    mimic, followed = element.find("mimic"), None
    if mimic is not None:
        ratio, shift = _number(mimic, "multiplier", 1.0, owner), _number(mimic, "offset", 0.0, owner)
        followed = (mimic.get("joint", ""), ratio, shift)
    return _Joint(
        name=name,
        kind=kind,
        parent=ends[0],
        child=ends[1],
        r=_numbers(origin, "xyz", (0, 0, 0), owner),
        quat=_quaternion(_numbers(origin, "rpy", (0, 0, 0), owner)),
        axis=axis / (length or 1.0),
        range=(lower, upper) if kind != "continuous" and lower < upper else None,
        effort=_number(limit, "effort", 0.0, owner),
        velocity=_number(limit, "velocity", 0.0, owner) or np.inf,
        damping=_number(dynamics, "damping", 0.0, owner),
        friction=_number(dynamics, "friction", 0.0, owner),
        mimic=followed,
    )


def _moved(joint: _Joint, position: float) -> tuple[np.ndarray, np.ndarray]:
    """Pose (r, quat) of the child at a position of the joint [rad or m]."""
    if _KINDS[joint.kind] == "slide":
        return joint.r + _matrix(joint.quat) @ joint.axis * position, joint.quat
    turn, quat = np.zeros(4), np.zeros(4)
    mujoco.mju_axisAngle2Quat(turn, joint.axis, position)
    mujoco.mju_mulQuat(quat, joint.quat, turn)
    return joint.r, quat


def _quaternion(rpy: np.ndarray) -> np.ndarray:
    """wxyz of roll, pitch and yaw about fixed axes: R = Rz(yaw) Ry(pitch) Rx(roll)."""
    quat = np.array([1.0, 0.0, 0.0, 0.0])
    for angle, axis in zip(rpy, np.eye(3)):
        turn, product = np.zeros(4), np.zeros(4)
        mujoco.mju_axisAngle2Quat(turn, axis, angle)
        mujoco.mju_mulQuat(product, turn, quat)
        quat = product
    return quat


def _matrix(quat: np.ndarray) -> np.ndarray:
    R = np.zeros(9)
    mujoco.mju_quat2Mat(R, quat)
    return R.reshape(3, 3)


def _text(values: Iterable[float]) -> str:
    return " ".join(repr(float(x)) for x in values)
