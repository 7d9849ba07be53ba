"""Where the arms and the grippers of the avatar are mounted: the candidates of the design study, of which one is built.

Source: Zhu, PhD thesis, University of Illinois (2023), section 8.4.1, tables 8.2 and 8.3. The thesis names the mounts and
shows them in figures without dimensions; positions and angles here are ours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial.transform import Rotation

__all__ = ["ARM_MOUNTS", "GRIPPER_MOUNTS", "Mount", "mirrored"]

#: mirrors the right side to the left one: the plane between them is y = 0
MIRROR = np.diag([1.0, -1.0, 1.0])


@dataclass(frozen=True, eq=False)
class Mount:
    """Where one body is fixed to another.

    Attributes:
        position: (3,) [m].
        rotation: (3, 3), its columns the axes of what is mounted.
    """

    position: np.ndarray
    rotation: np.ndarray

    @property
    def quaternion(self) -> np.ndarray:
        """(4,), the real part first."""
        return np.roll(Rotation.from_matrix(self.rotation).as_quat(), 1)


def mirrored(mount: Mount) -> Mount:
    """The same for the other side."""
    return Mount(MIRROR @ mount.position, MIRROR @ mount.rotation @ MIRROR)


def _shoulder(y: float, axis: tuple[float, float, float], front: tuple[float, float, float]) -> Mount:
    """Of a right arm whose base stands along `axis` and whose front looks along `front`; on the torso, y [m] off its middle."""
    z = np.asarray(axis) / np.linalg.norm(axis)
    x = np.asarray(front) - z * np.dot(front, z)
    x /= np.linalg.norm(x)
    return Mount(np.array([0.0, y, 1.18]), np.column_stack([x, np.cross(z, x), z]))


#: of the right arm on the torso; the left one is mirrored. The name says where the arm's base axis points.
ARM_MOUNTS = {
    "45 down": _shoulder(-0.10, (0.0, -1.0, -1.0), (1.0, 0.0, 0.0)),
    "forwards": _shoulder(-0.18, (1.0, 0.0, 0.0), (0.0, 0.0, -1.0)),
    "sideways": _shoulder(-0.10, (0.0, -1.0, 0.0), (1.0, 0.0, 0.0)),
    "45 sideways": _shoulder(-0.12, (1.0, -1.0, 0.0), (1.0, 1.0, 0.0)),
    "45 + 45": _shoulder(-0.12, (1.0, -1.0, -1.4142135623730951), (1.0, 0.0, 0.0)),
}


def _gripper(angle: float, along: float) -> Mount:
    """On the flange: turned by `angle` [deg] about the flange's y axis, `along` [m] its z axis."""
    return Mount(np.array([0.0, 0.0, along]), Rotation.from_euler("y", angle, degrees=True).as_matrix())


#: of a gripper on its arm's flange: across it, so that it looks forward while the wrist looks down on it (low) or carries it
#: from below (high), or as the arm's end
GRIPPER_MOUNTS = {"low": _gripper(90.0, 0.05), "high": _gripper(-90.0, 0.05), "end": _gripper(0.0, 0.01)}
