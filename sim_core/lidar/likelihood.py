"""How likely a scan is, as samplers ask it: a log density of poses, surfaces and the diode, with its gradient and curvature.

    density = ScanLikelihood(lidar, ranges, {"mirror.x": (0.4, 0.6), "mirror.yaw": (0.1, 0.5)}, sigma=0.01)
    samples = sample("nuts", density, samples=200)           # sim_core/inference/samplers

Ranges are those of the model and Gaussian noise, or noise whose tails are Huber's; their gradient comes from the model's Jacobian.
Source: Heiden, PhD thesis (University of Southern California), section 3.1.5 for the misfit, sections 4.2 and 4.3 for the samplers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sim_core.inference.data.density import Box
from sim_core.inference.data.robust import robust_loss
from sim_core.inference.shooting.curvature import Curvature
from sim_core.inference.shooting.likelihood import Evaluation
from sim_core.lidar.scan import Lidar

__all__ = ["ScanLikelihood"]

#: rows of parameters that are scanned at once
ROOM = 256


@dataclass(frozen=True, eq=False)
class _Rows:
    """At N rows: log density (N,), gradient (N, M), Gauss-Newton's matrix (N, M, M), of z."""

    log_p: np.ndarray
    grad: np.ndarray
    information: np.ndarray


class ScanLikelihood(Box):
    """log p(ranges | theta) over theta between limits, uniform there; a LogDensity that CSVGD takes as one of a single window.

    Args:
        lidar: the model, with all other parameters at its values.
        ranges: (beams,) or (scans, beams) of one place [m]; NaN where nothing was measured.
        limits: by name, lower and upper. sigma: standard deviation of a range [m].
        loss: "gaussian", or "huber" with its knee at 1.345 sigma: for beams of which the model does not know what they meet.
        miss: what a beam counts that was measured and of which the model sees nothing, in sigma.
        softness: of soft bodies' outlines [rad]. Without any a pose has no gradient by where an outline is; the beam's own half
            angle (5 mrad) is what a real beam blurs over.
        temperature: by which the log density is divided; 1: as the noise has it. More than 1 where errors of neighbouring beams
            are alike, so that there are fewer independent ones than beams.

    Attributes:
        beams: measured ranges. windows, starts_shape: of a density of one window, without shooting states.

    Raises:
        KeyError: an unknown parameter. ValueError: limits the wrong way round, a sigma or temperature that is not positive, no range.
    """

    windows = 1
    starts_shape = (1, 0, 1)

    def __init__(
        self,
        lidar: Lidar,
        ranges: np.ndarray,
        limits: Mapping[str, tuple[float, float]],
        sigma: float = 0.01,
        loss: str = "gaussian",
        miss: float = 5.0,
        softness: float = 0.005,
        temperature: float = 1.0,
    ) -> None:
        lidar.tracer.inputs.known(list(limits))
        bounds = np.array(list(limits.values()), float).reshape(-1, 2)
        super().__init__(limits, bounds[:, 0], bounds[:, 1])
        if loss not in ("gaussian", "huber"):
            raise ValueError(f"loss: expected 'gaussian' or 'huber', found '{loss}'")
        if not (sigma > 0.0 and temperature > 0.0 and miss >= 0.0):
            raise ValueError(
                f"sigma and temperature are positive, and miss is not negative; found {sigma}, {temperature}, {miss}"
            )
        data = np.atleast_2d(np.asarray(ranges, float))
        if data.shape[1] != lidar.settings.beams or not np.isfinite(data).any():
            raise ValueError(
                f"a likelihood needs ranges of {lidar.settings.beams} beams, some of them measured; found {data.shape[1]} beams, "
                f"{int(np.isfinite(data).sum())} of them measured"
            )
        soft = any(body.soft for body in lidar.scene.bodies)
        self.lidar = lidar.softened(softness if soft else 0.0)
        self._data, self._known = data, np.isfinite(data)
        self.beams, self.sigma, self.miss, self.temperature = int(self._known.sum()), sigma, miss, temperature
        self.not_finite = 0
        self._loss = robust_loss(loss)
        self._last: tuple[np.ndarray, _Rows] | None = (
            None  # samplers ask for a place's gradient, then for its curvature
        )

    def log_p(self, z: np.ndarray) -> np.ndarray:
        """Log density (N,) of z (N, M), without the constant of the noise."""
        return self._of(z, gradient=False).log_p

    def log_p_and_grad(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log density (N,) and its gradient by z (N, M)."""
        found = self._of(z)
        return found.log_p, found.grad

    def evaluate(
        self,
        z: np.ndarray,
        starts: np.ndarray | None = None,
        multipliers: np.ndarray | None = None,
        damping: float = 1.0,
        form: str = "vector",
    ) -> Evaluation:
        """As MultipleShooting's of one window: there are no shooting states and no defects."""
        found = self._of(z)
        none = np.zeros((len(found.log_p), *self.starts_shape))
        return Evaluation(found.log_p, found.grad, none, none, np.zeros_like(found.grad), none)

    def curvature(self, z: np.ndarray, starts: np.ndarray | None = None, damping: float = 1.0) -> Curvature:
        """Gauss-Newton's matrix of z (N, M), likewise."""
        information = self._of(z).information
        n, m = information.shape[:2]
        return Curvature(information, np.zeros((n, 1, 0, 0)), np.zeros((n, 1, 0, m)))

    def _of(self, z: np.ndarray, gradient: bool = True) -> _Rows:
        z = np.array(np.atleast_2d(z), float)
        if gradient and self._last is not None and np.array_equal(self._last[0], z):
            return self._last[1]
        theta = self.theta(z)
        parts = [self._rows(theta[k : k + ROOM], gradient) for k in range(0, len(theta), ROOM)]
        found = _Rows(*(np.concatenate([getattr(p, name) for p in parts]) for name in _Rows.__dataclass_fields__))
        if gradient:
            self._last = z, found
        return found

    def _rows(self, theta: np.ndarray, gradient: bool) -> _Rows:
        scan = self.lidar.scans(self.names, theta, derivatives=gradient)
        seen = np.isfinite(scan.range)[:, None] & self._known
        residual = np.where(
            seen, (np.where(seen, scan.range[:, None], 0.0) - np.where(seen, self._data, 0.0)) / self.sigma, 0.0
        )
        missed = (self._known & ~seen).sum((1, 2)) * 0.5 * self.miss**2
        cost = self._loss.rho(residual).sum((1, 2)) + missed
        if not gradient:
            none = np.zeros((len(theta), 0))
            return _Rows(-cost / self.temperature, none, none[..., None])
        weight = np.where(seen, self._loss.weight(residual), 0.0)
        slope = scan.jacobian * (self.width / self.sigma)
        grad = np.einsum("nsb,nbm->nm", weight * residual, slope)
        information = np.einsum("nb,nbm,nbk->nmk", weight.sum(1), slope, slope)
        return _Rows(-cost / self.temperature, -grad / self.temperature, information / self.temperature)
