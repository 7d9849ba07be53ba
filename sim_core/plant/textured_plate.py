"""A plate whose face has a texture, as a camera sees it and as a robot may touch it.

    RenderedCamera("avatar", "right_wrist", 640, 480, entities=[textured_plate(texture_surface("gravel", 3))])

The face is a height field of the surface's own heights, half a millimetre apart; its plane's normal is the plate's z axis. Its text is an
MJCF document, which a plant spawns as well as any other (`textured_plate_mjcf`). What touches it meets a block up to the mean plane, which
is not drawn: MuJoCo makes at most fifty contacts with a height field, which a finger would cover with its first millimetre.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial.transform import Rotation

from sim_core.plant.errors import PlantError
from sim_core.plant.scene import Entity
from sim_core.telepresence.texture.surfaces import PITCH, SIDE, TextureSurface

__all__ = ["NORMAL", "POSITION", "drawn_face", "textured_plate", "textured_plate_mjcf"]

#: half the side of a plate, and how thick it is at least [m]
HALF, THICKNESS = 0.08, 0.01
#: middle of the plate in the world [m], and its normal: 0.3 m before the right wrist camera of the avatar at home
POSITION, NORMAL = (0.75, -0.2, 0.93), (-0.94, 0.0, 0.34)
#: of the last bit of what is written [m]
SMALLEST = 1e-6


def textured_plate_mjcf(surface: TextureSurface) -> str:
    """The plate as an MJCF document; its face is about z = 0, and z points away from it."""
    asset, face = drawn_face(surface, (HALF, HALF))
    block = (
        f'<geom name="block" type="box" size="{HALF} {HALF} {0.5 * THICKNESS}" pos="0 0 {-0.5 * THICKNESS}" group="3"/>'
    )
    return f'<mujoco model="textured_plate"><asset>{asset}</asset><worldbody>{face}{block}</worldbody></mujoco>'


def drawn_face(
    surface: TextureSurface, half: tuple[float, float], at: np.ndarray | None = None, axes: np.ndarray | None = None
) -> tuple[str, str]:
    """A face that is seen and not touched, as MJCF: an asset and a geom, both called "face".

    Args:
        surface: of it. half: of its edges along its x and y (2,) [m].
        at: of its middle in the body (3,) [m]. axes: of the face in the body (3, 3), z out of it; None: the body's own.
    """
    axes = np.eye(3) if axes is None else np.asarray(axes, float)
    middle, (x, y) = round(0.5 * SIDE / PITCH), (round(edge / PITCH) for edge in half)
    heights = surface.grid[middle - y : middle + y + 1, middle - x : middle + x + 1]
    low, high = float(heights.min()), float(heights.max())
    # MuJoCo stretches what is written to heights of 0 to 1, and the first row of the text is the farthest along y.
    rows = " ".join(f"{value:.6f}" for value in np.flipud(heights - low).ravel())
    tall = max(high - low, SMALLEST)
    size = f"{half[0]} {half[1]} {tall:.7f} {0.1 * THICKNESS}"
    asset = f'<hfield name="face" nrow="{2 * y + 1}" ncol="{2 * x + 1}" size="{size}" elevation="{rows}"/>'
    place = (np.zeros(3) if at is None else np.asarray(at, float)) + low * axes[:, 2]
    turn = Rotation.from_matrix(axes).as_quat()
    pose = " ".join(f"{value:.7f}" for value in place), " ".join(f"{turn[k]:.7f}" for k in (3, 0, 1, 2))
    geom = (
        f'<geom name="face" type="hfield" hfield="face" pos="{pose[0]}" quat="{pose[1]}" rgba="0.55 0.52 0.48 1" mass="0" '
        'contype="0" conaffinity="0"/>'
    )
    return asset, geom


def textured_plate(
    surface: TextureSurface, position: tuple[float, ...] = POSITION, normal: tuple[float, ...] = NORMAL
) -> Entity:
    """The plate, fixed to the world.

    Args:
        surface: of its face. position: of its middle in the world [m]. normal: where its face looks to in the world (3,) [-].

    Raises:
        PlantError: the normal has no direction.
    """
    towards = np.asarray(normal, float)
    length = float(np.linalg.norm(towards))
    if not (np.isfinite(length) and length > 1e-6):
        raise PlantError(f"The normal of a plate must have a direction, found {list(normal)}.")
    turn, _ = Rotation.align_vectors([towards / length], [[0.0, 0.0, 1.0]])
    x, y, z, w = (float(value) for value in turn.as_quat())
    place = tuple(float(value) for value in position)
    return Entity(
        "textured_plate",
        textured_plate_mjcf(surface),
        parent="world",
        position=place,
        quaternion=(w, x, y, z),
        spawned=False,
    )
