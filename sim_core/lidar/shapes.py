"""Meshes made in code: rooms, panels, panes, boards, round things.

Our own rather than trimesh's: its import takes half a second of an emulated scanner's start, beside servos that hold an arm.
"""

from __future__ import annotations

import numpy as np

from sim_core.lidar.scene import Mesh, joined

__all__ = ["ball", "box", "capsule", "cylinder", "panel", "pane", "room", "stripes", "turned"]

#: corners of a cube from -1 to 1, and its sides as triangles, counter-clockwise from outside
CUBE = np.array([[x, y, z] for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)])
SIDES = np.array([
    [0, 1, 3], [0, 3, 2], [4, 6, 7], [4, 7, 5], [0, 4, 5], [0, 5, 1], [2, 3, 7], [2, 7, 6], [0, 2, 6], [0, 6, 4], [1, 5, 7], [1, 7, 3],
])  # fmt: skip


def box(size: tuple[float, float, float], material: str) -> Mesh:
    """A solid about the origin, `size` [m] along x, y, z."""
    return Mesh.of(CUBE * np.asarray(_positive(size)) / 2.0, SIDES, material)


def room(size: tuple[float, float, float], material: str, ends: bool = False) -> Mesh:
    """Four walls about the origin seen from inside, `size` [m] along x, y, z; with floor and ceiling where `ends`."""
    whole = Mesh.of(CUBE * np.asarray(_positive(size)) / 2.0, SIDES[:, ::-1], material)
    return whole if ends else Mesh.of(whole.vertices, whole.faces[:8], material)


def panel(width: float, height: float, material: str) -> Mesh:
    """A rectangle without thickness in the plane of y (`width` [m]) and z (`height` [m]); its front is towards -x."""
    y, z = (s / 2.0 for s in _positive((width, height)))
    corners = [[0.0, -y, -z], [0.0, -y, z], [0.0, y, z], [0.0, y, -z]]
    return Mesh.of(corners, [[0, 1, 2], [0, 2, 3]], material)


def pane(width: float, height: float, thickness: float, material: str) -> Mesh:
    """A plate of glass, closed, `thickness` [m] along x."""
    return box((thickness, width, height), material)


def stripes(pitch: float, count: int, height: float, materials: tuple[str, ...]) -> Mesh:
    """The row of a checkerboard that a level scan crosses: `count` upright stripes of width `pitch` [m], alternating between
    materials, as a panel about the origin whose front is towards -x."""
    if count < 1:
        raise ValueError(f"a board has at least one stripe, not {count}")
    return joined([
        panel(pitch, height, materials[k % len(materials)]).moved((0.0, (k - 0.5 * (count - 1)) * pitch, 0.0, 0.0, 0.0, 0.0))
        for k in range(count)
    ])  # fmt: skip


def ball(radius: float, material: str, rings: int = 12) -> Mesh:
    """A closed sphere of triangles, `rings` from pole to pole."""
    (radius,) = _positive((radius,))
    polar = np.pi * np.arange(1, rings) / rings
    return turned(radius * np.stack([np.sin(polar), np.cos(polar)], 1), (radius, -radius), 2 * rings, material)


def cylinder(radius: float, length: float, material: str, around: int = 48) -> Mesh:
    """A closed cylinder about z and the origin, `around` sides."""
    radius, length = _positive((radius, length))
    half = 0.5 * length
    return turned(np.array([[radius, half], [radius, -half]]), (half, -half), around, material)


def capsule(radius: float, length: float, material: str, rings: int = 24) -> Mesh:
    """A closed cylinder of `length` [m] about z and the origin with half a ball on either end, `rings` from pole to pole."""
    radius, length = _positive((radius, length))
    quarter = 0.5 * np.pi * np.arange(1, rings // 2 + 1) / (rings // 2)
    cap = radius * np.stack([np.sin(quarter), np.cos(quarter)], 1) + [0.0, 0.5 * length]
    end = radius + 0.5 * length
    return turned(np.concatenate([cap, (cap * [1.0, -1.0])[::-1]]), (end, -end), rings, material)


def turned(profile: np.ndarray, poles: tuple[float, float], around: int, material: str) -> Mesh:
    """A closed surface of revolution about z, through rings of (radius, z) (r, 2) [m] from top to bottom between poles at two z."""
    angle = 2.0 * np.pi * np.arange(around) / around
    radius, height = profile[:, :1], profile[:, 1:]
    mid = np.stack([radius * np.cos(angle), radius * np.sin(angle), height + 0.0 * angle], -1).reshape(-1, 3)
    top, bottom = len(mid), len(mid) + 1
    k = np.arange(around)
    after = (k + 1) % around
    faces = [np.stack([np.full(around, top), k, after], 1)]
    for ring in range(len(profile) - 1):
        a, b = ring * around, (ring + 1) * around
        faces += [np.stack([a + k, b + k, b + after], 1), np.stack([a + k, b + after, a + after], 1)]
    a = (len(profile) - 1) * around
    faces.append(np.stack([np.full(around, bottom), a + after, a + k], 1))
    ends = [[0.0, 0.0, poles[0]], [0.0, 0.0, poles[1]]]
    return Mesh.of(np.concatenate([mid, ends]), np.concatenate(faces), material)


def _positive(sizes: tuple[float, ...]) -> tuple[float, ...]:
    if not all(np.isfinite(s) and s > 0.0 for s in sizes):
        raise ValueError(f"sizes are positive [m], not {sizes}")
    return sizes
