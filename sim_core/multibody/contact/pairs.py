"""Which pairs of geoms of a model touch, and the parameters they share.

A pair acts by MuJoCo's rules: contype and conaffinity fit, the geoms are on different rigid bodies, not on parent and
child, not excluded; or the file lists it under <contact><pair>. `ModelOptions.contact_pairs` keeps those that match a
pair of patterns, and what one pair of patterns catches is a group that shares its parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Literal, Protocol

import mujoco
import numpy as np

from sim_core.multibody.contact.distance import DISTANCES, Distance
from sim_core.multibody.contact.parameters import FIELDS, ContactLaw, Fields
from sim_core.multibody.equations.tree import Mount, Offset, Tree

__all__ = [
    "ContactOptions",
    "ContactPair",
    "ContactTree",
    "Geom",
    "acting_pairs",
    "contact_groups",
    "contact_notes",
    "read_contacts",
]

_KINDS = {
    mujoco.mjtGeom.mjGEOM_PLANE: "plane",
    mujoco.mjtGeom.mjGEOM_SPHERE: "sphere",
    mujoco.mjtGeom.mjGEOM_CAPSULE: "capsule",
    mujoco.mjtGeom.mjGEOM_BOX: "box",
}


@dataclass(frozen=True)
class Geom:
    """Collision geom with its pose (R, r) in its link; link -1 is the world. `r` is an Offset, `size` MuJoCo's."""

    name: str
    kind: str
    size: np.ndarray
    link: int
    R: np.ndarray
    r: Offset


@dataclass(frozen=True)
class ContactPair:
    """Two geoms that may touch, in the order of their kinds (plane, sphere, capsule, box), then of the file.

    Attributes:
        group: name of the parameters, "contact.<pattern1>.<pattern2>"; without patterns the pair's own name.
    """

    first: Geom
    second: Geom
    group: str

    @property
    def name(self) -> str:
        """ "contact.<first geom>.<second geom>"."""
        return f"contact.{self.first.name}.{self.second.name}"

    @property
    def distance(self) -> Distance:
        """The function that measures the gaps between the two geoms."""
        return DISTANCES[self.first.kind, self.second.kind]


class ContactOptions(Protocol):
    """The options of a model that concern its contacts; see `ModelOptions`."""

    @property
    def contact(self) -> ContactLaw: ...

    @property
    def contact_pairs(self) -> Literal["auto"] | tuple[tuple[str, str], ...]: ...

    @property
    def impact_time(self) -> str: ...


class ContactTree(Tree, Protocol):
    """A tree with geoms that may touch."""

    @property
    def contacts(self) -> tuple[ContactPair, ...]: ...

    @property
    def options(self) -> ContactOptions: ...


def geom_name(m: mujoco.MjModel, i: int) -> str:
    """Name of a geom, "geom<i>" where it has none."""
    return mujoco.mj_id2name(m, mujoco.mjtObj.mjOBJ_GEOM, i) or f"geom{i}"


def acting_pairs(m: mujoco.MjModel) -> list[tuple[int, int]]:
    """Geom indices (i, j), i's kind and index not above j's, of all pairs that MuJoCo would test for contact."""
    off = int(m.opt.disableflags)
    if off & int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT | mujoco.mjtDisableBit.mjDSBL_CONTACT):
        return []
    filter_parents = not off & int(mujoco.mjtDisableBit.mjDSBL_FILTERPARENT)
    weld = m.body_weldid
    parent = weld[m.body_parentid[weld]]
    excluded = {tuple(sorted(divmod(int(signature), 1 << 16))) for signature in m.exclude_signature}
    found = {_ordered(m, int(i), int(j)) for i, j in zip(m.pair_geom1, m.pair_geom2)}
    for i in range(m.ngeom):
        for j in range(i + 1, m.ngeom):
            a, b = int(m.geom_bodyid[i]), int(m.geom_bodyid[j])
            compatible = (m.geom_contype[i] & m.geom_conaffinity[j]) or (m.geom_contype[j] & m.geom_conaffinity[i])
            child = weld[a] and weld[b] and (weld[a] == parent[b] or weld[b] == parent[a])
            fixed = weld[a] == weld[b] or not (m.geom_type[i] or m.geom_type[j])
            if compatible and not fixed and not (filter_parents and child) and tuple(sorted((a, b))) not in excluded:
                found.add(_ordered(m, i, j))
    return sorted(found)


def _ordered(m: mujoco.MjModel, i: int, j: int) -> tuple[int, int]:
    return (i, j) if (m.geom_type[i], i) <= (m.geom_type[j], j) else (j, i)


def read_contacts(
    m: mujoco.MjModel, mounts: Sequence[Mount], options: ContactOptions
) -> tuple[tuple[ContactPair, ...], list[str]]:
    """The model's contact pairs under `options`, and what of the plant's contacts is left out.

    Args:
        m: the compiled model.   mounts: of each body of the file.   options: of the model.

    Returns:
        (tuple of ContactPair, list of names of the moving bodies that touch in the plant only).

    Raises:
        ValueError: patterns that match no pair, or a pair of kinds without a distance.
    """
    acting = acting_pairs(m)
    groups: dict[tuple[int, int], str | None] = {}
    if options.contact != "none":
        groups = {(i, j): _group(m, i, j, options.contact_pairs) for i, j in acting}
    patterns = () if isinstance(options.contact_pairs, str) else options.contact_pairs
    for pattern in patterns:
        if options.contact != "none" and _group_name(pattern) not in groups.values():
            raise ValueError(
                f"contact_pairs: {pattern} matches no pair that MuJoCo would test for contact. "
                f"Those are: {', '.join(f'{geom_name(m, i)}-{geom_name(m, j)}' for i, j in acting[:12]) or 'none'}."
            )
    chosen = {pair: group for pair, group in groups.items() if group}
    pairs = tuple(ContactPair(_geom(m, i, mounts), _geom(m, j, mounts), group) for (i, j), group in chosen.items())
    for pair in pairs:
        if (pair.first.kind, pair.second.kind) not in DISTANCES:
            raise ValueError(
                f"Not supported: contact of {pair.first.kind} '{pair.first.name}' with {pair.second.kind} "
                f"'{pair.second.name}'. Leave it out by contact_pairs, or use one of "
                f"{', '.join('-'.join(kinds) for kinds in DISTANCES)}."
            )
    left_out = {int(m.geom_bodyid[k]) for pair in acting if pair not in chosen for k in pair}
    bodies = sorted(
        mujoco.mj_id2name(m, mujoco.mjtObj.mjOBJ_BODY, b) or f"body{b}" for b in left_out if m.body_weldid[b]
    )
    return pairs, bodies


def _group_name(pattern: tuple[str, str]) -> str:
    return f"contact.{pattern[0]}.{pattern[1]}"


def _group(m: mujoco.MjModel, i: int, j: int, patterns: Literal["auto"] | tuple[tuple[str, str], ...]) -> str | None:
    a, b = geom_name(m, i), geom_name(m, j)
    if patterns == "auto":
        return _group_name((a, b))
    for pattern in patterns:
        if any(fnmatchcase(x, pattern[0]) and fnmatchcase(y, pattern[1]) for x, y in ((a, b), (b, a))):
            return _group_name(pattern)
    return None


def _geom(m: mujoco.MjModel, i: int, mounts: Sequence[Mount]) -> Geom:
    link, R, r = mounts[m.geom_bodyid[i]]
    turn = np.zeros(9)
    mujoco.mju_quat2Mat(turn, m.geom_quat[i])
    kind = mujoco.mjtGeom(int(m.geom_type[i]))
    # Rotations by multiples of 90 degrees become exact, so that their zeros drop out of the equations.
    R_geom = R @ np.where(np.abs(turn - np.round(turn)) < 1e-12, np.round(turn), turn).reshape(3, 3)
    return Geom(
        name=geom_name(m, i),
        kind=_KINDS.get(kind, kind.name.removeprefix("mjGEOM_").lower()),
        size=m.geom_size[i].copy(),
        link=link,
        R=R_geom,
        r=replace(r, constant=R @ m.geom_pos[i] + r.constant),
    )


def contact_notes(pairs: Sequence[ContactPair], left_out: Sequence[str], contact: ContactLaw) -> list[str]:
    """What the plant's contacts do beyond, or otherwise than, the equations."""
    notes = []
    if left_out:
        notes.append(f"Contacts act in the plant only, not in the equations: bodies {', '.join(left_out)}.")
    if pairs:
        law = {"force": "springs and dampers", "impulse": "impulses"}[contact]
        names = ", ".join(pair.name.removeprefix("contact.") for pair in pairs[:8]) + ", ..." * (len(pairs) > 8)
        notes.append(f"Contacts are MuJoCo's soft constraints in the plant, {law} in the equations: {names}.")
    return notes


def contact_groups(m: mujoco.MjModel, pairs: Sequence[ContactPair], contact: ContactLaw) -> dict[str, Fields]:
    """{group: {field: (unit, nominal value)}} of the contact parameters.

    Sliding friction is the model file's by MuJoCo's rule (the larger of the two geoms', unless one has priority or the
    file lists the pair); the rest are the defaults of the contact model.

    Raises:
        ValueError: the pairs of a group differ in friction.
    """
    listed = {
        _ordered(m, int(i), int(j)): m.pair_friction[k, 0] for k, (i, j) in enumerate(zip(m.pair_geom1, m.pair_geom2))
    }
    index = {geom_name(m, i): i for i in range(m.ngeom)}
    groups: dict[str, Fields] = {}
    for pair in pairs:
        i, j = index[pair.first.name], index[pair.second.name]
        mu = float(listed.get((i, j), _friction(m, i, j)))
        fields = {name: (unit, mu if value is None else value) for name, (unit, value) in FIELDS[contact].items()}
        if groups.setdefault(pair.group, fields) != fields:
            raise ValueError(
                f"contact_pairs: the pairs of {pair.group} differ in friction ({pair.first.name}-{pair.second.name} has "
                f"{mu:g}). Give their geoms the same friction, or list them apart."
            )
    return groups


def _friction(m: mujoco.MjModel, i: int, j: int) -> float:
    a, b = m.geom_priority[i], m.geom_priority[j]
    if a == b:
        return max(m.geom_friction[i, 0], m.geom_friction[j, 0])
    return m.geom_friction[i if a > b else j, 0]
