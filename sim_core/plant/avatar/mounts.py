"""Where the arms and the grippers of the avatar are mounted: the candidates of the design study, of which one is built.

The thesis names the mounts and shows them in figures without dimensions. Its tables say more. The robot is as wide with "45 down" as
with "forwards" (68 cm), equally wide with "45 sideways" and "45 + 45" (79 cm), and widest with "sideways" (91 cm): the arms' bases
have no part to the side in the first two, the same part in the next two, and nothing else in the last. So "45 down" points forward
and down; read as to the side and down it would be as wide as "45 sideways". "45 + 45" is "45 sideways" tilted down by 45 degrees
about the robot's own axis to the side, which keeps the part to the side. Grippers that are low or high are followed nearly alike
(1.02 and 0.22 % lost), far better than at the end (77 %), and high ones hit the table: in both the flange looks down, with the
gripper under it, or beside the wrist's last link and so above the flange's face. All this is our reading of the numbers. Places are
ours: 20 cm to the side for bases that point ahead; 6 and 8.5 cm for the others, with which the robot comes out as wide as published.

Source: Zhu, PhD thesis, University of Illinois (2023), section 8.4.1, tables 8.2 and 8.3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial.transform import Rotation

__all__ = ["ARM_MOUNTS", "GRIPPER_MOUNTS", "OTHER_READINGS", "Mount", "mirrored"]

#: mirrors the right side to the left one: the plane between them is y = 0
MIRROR = np.diag([1.0, -1.0, 1.0])
#: of the middle of an arm's base, over the floor [m]
SHOULDER_HEIGHT = 1.2


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
    return Mount(np.array([0.0, y, SHOULDER_HEIGHT]), np.column_stack([x, np.cross(z, x), z]))


ROOT_2 = 1.4142135623730951
#: of the right arm on the torso; the left one is mirrored
ARM_MOUNTS = {
    "45 down": _shoulder(-0.20, (1.0, 0.0, -1.0), (1.0, 0.0, 1.0)),
    "forwards": _shoulder(-0.20, (1.0, 0.0, 0.0), (0.0, 0.0, -1.0)),
    "sideways": _shoulder(-0.06, (0.0, -1.0, 0.0), (1.0, 0.0, 0.0)),
    "45 sideways": _shoulder(-0.085, (1.0, -1.0, 0.0), (1.0, 1.0, 0.0)),
    "45 + 45": _shoulder(-0.085, (1.0, -ROOT_2, -1.0), (1.0, 0.0, 0.0)),
}
#: what two of the names could mean as well, were it not for the widths
OTHER_READINGS = {
    "45 down, to the side and down": _shoulder(-0.085, (0.0, -1.0, -1.0), (1.0, 0.0, 0.0)),
    "45 + 45, by azimuth and elevation": _shoulder(-0.085, (1.0, -1.0, -ROOT_2), (1.0, 0.0, 0.0)),
}


def _gripper(angle: float, along: float, across: float = 0.0) -> Mount:
    """On the flange: turned by `angle` [deg] about the flange's y axis, `along` [m] its z axis and `across` its x axis."""
    return Mount(np.array([across, 0.0, along]), Rotation.from_euler("y", angle, degrees=True).as_matrix())


#: of a gripper on its arm's flange: across it, under its face (low) or beside the last link above its face (high), or as the
#: arm's end
GRIPPER_MOUNTS = {"low": _gripper(90.0, 0.05), "high": _gripper(90.0, -0.05, 0.066), "end": _gripper(0.0, 0.01)}
