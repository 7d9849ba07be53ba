"""What the camera at a simulated wrist sees of a rehearsed task's textured faces, in closed form: no picture is drawn.

scan = WristScan(faces)
scan.look(data)                                          # ten times, 30 a second
scan.texture().roughness
"""

from __future__ import annotations

from collections.abc import Mapping

import mujoco
import numpy as np

from sim_core.plant.rehearsal.task import Face
from sim_core.telepresence.texture.depth_pictures import camera_matrix, depth_pictures
from sim_core.telepresence.texture.height_map import ScanError, height_map
from sim_core.telepresence.texture.spectrum import Texture, texture_of_map

__all__ = ["PERIOD", "WristScan"]

#: [s] between two pictures, and so many of them
PERIOD, PICTURES = 1.0 / 30.0, 10
CAMERA = "right_wrist"
#: pixels of the part of a picture that is looked at, and of the whole; its field of view [rad]
PART, ROWS, FOVY = 200, 480, np.deg2rad(58.0)
#: side of the square that is mapped [m]: a rock's face is hardly larger
SIDE = 0.055
#: optical axes in those of MuJoCo's cameras
OPTICAL = np.diag([1.0, -1.0, -1.0])


class WristScan:
    """See the module's docstring.

    Args:
        faces: by their body. seed: of the camera's noise.
    """

    def __init__(self, faces: Mapping[str, Face], seed: int = 0) -> None:
        self._faces = faces
        self._rng = np.random.default_rng([seed, 31])
        self.K = camera_matrix(PART, PART, 2.0 * np.arctan(PART / ROWS * np.tan(0.5 * FOVY)))
        self._depths: list[np.ndarray] = []

    @property
    def complete(self) -> bool:
        """Whether there are as many pictures as a scan has."""
        return len(self._depths) == PICTURES

    def look(self, data: mujoco.MjData) -> None:
        """Take a picture of the face that is nearest to the optical axis; beside it nothing is measured."""
        camera = data.camera(CAMERA)
        R, at = camera.xmat.reshape(3, 3) @ OPTICAL, camera.xpos
        views = []
        for name, face in self._faces.items():
            body = data.body(name)
            turn = body.xmat.reshape(3, 3)
            X = np.eye(4)
            X[:3, :3], X[:3, 3] = (
                R.T @ turn @ np.array(face.axes),
                R.T @ (body.xpos + turn @ np.array(face.middle) - at),
            )
            views.append((float(np.hypot(X[0, 3], X[1, 3])), face, X))
        _, face, X = min(views, key=lambda view: view[0])
        depth = depth_pictures(face.surface, X, self.K, (PART, PART), 1, self._rng)[0]
        points = np.linalg.inv(X) @ np.stack([*(depth * self._rays()), depth, np.ones_like(depth)]).reshape(4, -1)
        inside = (np.abs(points[:2].T) <= np.array(face.half)).all(axis=1).reshape(depth.shape)
        self._depths.append(np.where(inside, depth, np.nan))

    def texture(self) -> Texture:
        """Of what was seen.

        Raises:
            ScanError: it could not be scanned.
        """
        if not self._depths:
            raise ScanError("no picture was taken")
        return texture_of_map(height_map(np.array(self._depths), self.K, SIDE))

    def _rays(self) -> tuple[np.ndarray, np.ndarray]:
        line = (np.arange(PART) - self.K[0, 2]) / self.K[0, 0]
        x, y = np.meshgrid(line, line)
        return x, y
