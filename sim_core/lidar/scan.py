"""A continuous-wave LIDAR in a scene: scans, their derivatives, all that came back.

Source: Heiden, PhD thesis (University of Southern California), section 3.1; Heiden, Liu, Ramachandran, Sukhatme (ICRA 2020).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sim_core.lidar.kernel import Tracer
from sim_core.lidar.on_cuda import CudaTracer
from sim_core.lidar.scene import Scene
from sim_core.lidar.settings import LidarSettings

__all__ = ["Lidar", "Scan"]


@dataclass(frozen=True, eq=False)
class Scan:
    """What n scans tell; without the leading n where one was asked for.

    Attributes:
        range: (n, beams) [m], NaN where invalid. phase: (n, beams, 2) of either frequency [rad], 0 to 2 pi.
        amplitude: of the first wave received (n, beams). offset: of what is received, by surfaces that emit (n, beams). apart: by how much the ranges of both frequencies differ (n, beams) [m];
            beyond some centimetres several returns of one beam are mixed, and the whole periods may be wrong.
        integers: whole periods that were added (n, beams, 2). valid: (n, beams).
        names: parameters that `jacobian` is by. jacobian: of the ranges, (n, beams, names), 0 where invalid.
    """

    range: np.ndarray
    phase: np.ndarray
    amplitude: np.ndarray
    offset: np.ndarray
    apart: np.ndarray
    integers: np.ndarray
    valid: np.ndarray
    names: tuple[str, ...]
    jacobian: np.ndarray


class Lidar:
    """A sensor in a scene.

    Args:
        scene: see there. settings: of the sensor. threads: of the CPU; their number changes no result. device: "cpu", or "cuda" for a
            GPU, which has the same text; single scans, and what came back in them, are better asked of the CPU.
        values: of parameters (`names`), such as the sensor's pose, over the scene's own; the sensor is else at the world's origin.

    Raises:
        KeyError: a value of an unknown parameter. ValueError: an unknown device. RuntimeError: there is no C compiler; CudaUnavailable
        (one of them): there is no GPU.
    """

    def __init__(
        self,
        scene: Scene,
        settings: LidarSettings = LidarSettings(),
        values: Mapping[str, float] = {},
        threads: int = 1,
        device: str = "cpu",
    ) -> None:
        if device not in ("cpu", "cuda"):
            raise ValueError(f"a LIDAR's device is cpu or cuda, not {device!r}")
        self.scene, self.settings, self.threads, self.device = scene, settings, threads, device
        self.tracer = (CudaTracer if device == "cuda" else Tracer)(scene, settings)
        self.tracer.inputs.known(list(values))
        self.values: dict[str, float] = self.tracer.inputs.values | {k: float(v) for k, v in values.items()}

    @property
    def names(self) -> tuple[str, ...]:
        """Of all parameters."""
        return tuple(self.values)

    def softened(self, softness: float) -> Lidar:
        """The same with soft bodies' outlines blurred over a half angle [rad].

        Within the beam's own half angle a beam is one ray, of which an outline covers what it covers of the whole beam: several rays
        would blur it twice.
        """
        if softness == self.settings.softness:
            return self
        rays = 1 if 0.0 < softness <= self.settings.divergence else self.settings.rays
        settings = replace(self.settings, softness=softness, rays=rays)
        return Lidar(self.scene, settings, self.values, self.threads, self.device)

    def scan(self, values: Mapping[str, float] = {}, by: Sequence[str] = ()) -> Scan:
        """One scan at `values`, with derivatives by the parameters `by`. Raises KeyError: an unknown name; ValueError: a value that is
        not finite."""
        many = self._scans(self.tracer.inputs.full(self.values | dict(values)), by)
        one = {
            k: getattr(many, k)[0]
            for k in ("range", "phase", "amplitude", "offset", "apart", "integers", "valid", "jacobian")
        }
        return Scan(**one, names=many.names)

    def scans(
        self, names: Sequence[str], rows: np.ndarray, values: Mapping[str, float] = {}, derivatives: bool = False
    ) -> Scan:
        """n scans in one call, at values (n, names) of the parameters `names`, over `values`; derivatives by the same names where they
        are asked for. Raises as `scan` does."""
        full = self.tracer.inputs.full(self.values | dict(values), names, rows)
        return self._scans(full, tuple(names) if derivatives else ())

    def returns(self, values: Mapping[str, float] = {}) -> np.ndarray:
        """All returns of a scan, a structured array of `path` [m], `radiance`, `beam`, `ray`, `depth` (surfaces before), `material`,
        `body` and `face`, the last three counted as in the scene. Raises as `scan` does."""
        return self.tracer.returns(self.tracer.inputs.full(self.values | dict(values))[0])

    def points(self, found: np.ndarray, values: Mapping[str, float] = {}) -> np.ndarray:
        """Where ranges (beams,) lie in the world, along each beam's middle (beams, 3) [m]."""
        full = self.tracer.inputs.full(self.values | dict(values))
        pose = self.tracer.inputs.rows(full)[0, :12]
        angles = self.settings.angles
        aim = np.stack([np.cos(angles), np.sin(angles), 0.0 * angles], 1)
        return (np.asarray(found)[:, None] * aim) @ pose[:9].reshape(3, 3).T + pose[9:]

    def _scans(self, full: np.ndarray, by: Sequence[str]) -> Scan:
        self.tracer.inputs.known(by)
        beams, jacobian = self.tracer.scans(full, tuple(by), self.threads)
        valid = beams["valid"] != 0
        return Scan(
            np.where(valid, beams["range"], np.nan),
            beams["phase"],
            beams["amplitude"],
            beams["offset"],
            beams["apart"],
            beams["integer"],
            valid,
            tuple(by),
            np.where(valid[..., None], jacobian, 0.0),
        )
