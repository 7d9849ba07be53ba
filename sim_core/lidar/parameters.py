"""What a scan depends on, by names such as `sensor.yaw`, `mirror.x`, `wall.albedo` and `diode.a`, and how the kernel's inputs do.

A pose has x, y, z [m], roll, pitch, yaw [rad] (see scene.py); a material the numbers of `Material`; the diode shifts a phase by
a L^2 + b L + c [rad], where L is the radiance received (Heiden, section 3.1.4.3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sim_core.lidar.scene import POSE, Scene, rotation

__all__ = ["DIODE", "SENSOR", "SURFACE", "Inputs"]

SENSOR, DIODE = "sensor", ("a", "b", "c")
#: of a material, in the kernel's order
SURFACE = ("albedo", "roughness", "reflectivity", "index", "transmission", "emission")


class Inputs:
    """Names of a scene's parameters, their values, and the kernel's row of inputs.

    Attributes:
        values: of all parameters by name, in order; the sensor is at the world's origin and the diode shifts nothing.
        size: of a row.
    """

    def __init__(self, scene: Scene) -> None:
        self.values: dict[str, float] = dict.fromkeys((f"{SENSOR}.{q}" for q in POSE), 0.0)
        for body in scene.bodies:
            self.values |= {f"{body.name}.{q}": float(v) for q, v in zip(POSE, body.pose)}
        for name, material in scene.materials.items():
            self.values |= {f"{name}.{q}": float(getattr(material, q)) for q in SURFACE}
        self.values |= dict.fromkeys((f"diode.{q}" for q in DIODE), 0.0)
        self._poses = 1 + len(scene.bodies)
        self._surfaces = len(scene.materials)
        self.size = 12 * self._poses + len(SURFACE) * self._surfaces + len(DIODE)
        self._order = {name: k for k, name in enumerate(self.values)}

    def known(self, names: Sequence[str]) -> None:
        """Raises KeyError: one is none of the parameters."""
        for name in names:
            if name not in self._order:
                owner = name.split(".")[0]
                near = [n for n in self._order if n.startswith(owner + ".")] or sorted(
                    {n.split(".")[0] for n in self._order}
                )
                raise KeyError(f"{name!r} is no parameter of this scene; there are {', '.join(near)}")

    def rows(self, values: np.ndarray) -> np.ndarray:
        """Inputs (n, size) of values of all parameters (n, parameters)."""
        poses = values[:, : 6 * self._poses].reshape(len(values), self._poses, 6)
        turned = rotation(poses[..., 3:]).reshape(len(values), self._poses, 9)
        first = np.concatenate([turned, poses[..., :3]], -1).reshape(len(values), -1)
        return np.ascontiguousarray(np.concatenate([first, values[:, 6 * self._poses :]], 1))

    def full(
        self, values: Mapping[str, float], names: Sequence[str] = (), rows: np.ndarray | None = None
    ) -> np.ndarray:
        """Values of all parameters (n, parameters): those of the scene, over them `values`, over them `rows` (n, names).

        Raises:
            KeyError: an unknown name. ValueError: a value that is not finite, or rows of another width.
        """
        self.known([*values, *names])
        rows = np.zeros((1, 0)) if rows is None else np.atleast_2d(np.asarray(rows, float))
        if rows.shape[1] != len(names):
            raise ValueError(f"rows have a value for each of {len(names)} names, found {rows.shape[1]}")
        found = np.tile(np.array(list((self.values | dict(values)).values())), (len(rows), 1))
        found[:, [self._order[name] for name in names]] = rows
        if not np.isfinite(found).all():
            bad = list(self._order)[int(np.flatnonzero(~np.isfinite(found).all(0))[0])]
            raise ValueError(f"parameters are finite, but {bad} is not")
        return found

    def slopes(self, values: np.ndarray, names: Sequence[str], width: int) -> np.ndarray:
        """Derivatives of inputs by named parameters (n, size, width), zero beyond the names."""
        found = np.zeros((len(values), self.size, width))
        for k, name in enumerate(names):
            at = self._order[name]
            if at >= 6 * self._poses:
                found[:, 12 * self._poses + at - 6 * self._poses, k] = 1.0
                continue
            pose, quantity = divmod(at, 6)
            if quantity < 3:
                found[:, 12 * pose + 9 + quantity, k] = 1.0
                continue
            # A turn's derivative: d/da R = R', whose entries are those a quarter turn later, less what the turn leaves as it is.
            turns = values[:, 6 * pose + 3 : 6 * pose + 6]
            quarter = np.eye(3)[quantity - 3] * 0.5 * np.pi
            slope = 0.5 * (rotation(turns + quarter) - rotation(turns - quarter))
            found[:, 12 * pose : 12 * pose + 9, k] = slope.reshape(-1, 9)
        return found
