"""From what is there to what a sensor makes of it: range noise, holes, grain; and the inertial unit."""

from __future__ import annotations

import math

import numpy as np

from hardware.realsense.profiles import CameraModel

__all__ = ["DepthSensor", "InertialUnit", "Swing", "grain", "holes"]

EDGE = 0.03  # relative step of depth between neighbours at which the stereo match fails
GRAVITY = 9.80665


def holes(z: np.ndarray, nearest: float, farthest: float) -> np.ndarray:
    """Pixels without a depth: out of range, or beside a step of depth. z and result have shape (h, w)."""
    edge = np.zeros(z.shape, bool)
    for axis in (0, 1):
        step = np.abs(np.diff(z, axis=axis)) > EDGE * np.minimum(*_neighbours(z, axis))
        first, second = _neighbours(edge, axis)
        np.logical_or(first, step, out=first)
        np.logical_or(second, step, out=second)
    return edge | ~((z >= nearest) & (z <= farthest))


def _neighbours(a: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    return (a[:-1], a[1:]) if axis == 0 else (a[:, :-1], a[:, 1:])


class DepthSensor:
    """Depth counts of a view: z + k z^2 n with n standard normal, rounded to the camera's unit, zero in the holes.

    Args:
        rng: of the noise. Noise fields are cut from one large one at random places, which costs a tenth of drawing anew.
    """

    def __init__(self, model: CameraModel, rng: np.random.Generator) -> None:
        self._model, self._rng = model, rng
        self._noise = np.zeros((0, 0), np.float32)

    def measure(self, z: np.ndarray, hole: np.ndarray) -> np.ndarray:
        """Counts, shape (h, w) uint16, of depth z [m] with `hole` of `holes`."""
        h, w = z.shape
        if self._noise.shape[0] < h + 64 or self._noise.shape[1] < w + 64:
            self._noise = self._rng.standard_normal((h + 64, w + 64), dtype=np.float32)
        row, column = self._rng.integers(0, 64, 2)
        noisy = self._noise[row : row + h, column : column + w] * (self._model.noise * z)
        noisy += 1.0
        noisy *= z / self._model.depth_units
        counts = np.clip(np.rint(noisy), 0, 65535).astype(np.uint16)
        counts[hole] = 0
        return counts


def grain(image: np.ndarray, rng: np.random.Generator, pool: np.ndarray) -> np.ndarray:
    """An image (uint8, at most 252) with the grain of `pool` (uint8, at most 3), taken at a random place."""
    at = int(rng.integers(0, pool.size - image.size))
    return image + pool[at : at + image.size].reshape(image.shape)


class Swing:
    """A camera that swings about the vertical while it goes to and fro; closed form, in its optical axes.

    Attributes:
        amplitude: of the displacement along x [m]; angle: of the rotation [rad]; frequency [Hz].
    """

    def __init__(self, amplitude: float = 0.0, angle: float = 0.0, frequency: float = 0.5) -> None:
        self.amplitude, self.angle, self.frequency = amplitude, angle, frequency

    def inertial(self, t: float) -> tuple[np.ndarray, np.ndarray]:
        """Angular rate [rad/s] and specific force [m/s^2] in the optical axes (x right, y down, z forward), each (3,)."""
        w = 2.0 * math.pi * self.frequency
        yaw = self.angle * math.sin(w * t)
        along = -self.amplitude * w * w * math.sin(w * t)
        return (
            np.array([0.0, self.angle * w * math.cos(w * t), 0.0]),
            np.array([along * math.cos(yaw), -GRAVITY, along * math.sin(yaw)]),
        )


class InertialUnit:
    """Gyroscope and accelerometer: white noise and a bias that walks (BMI055 data sheet: 0.014 deg/s and 150 ug per root Hz).

    Attributes:
        noise: factor on all of it; 0 for a perfect unit.
    """

    DENSITY = {"gyro": math.radians(0.014), "accel": 150e-6 * GRAVITY}
    WALK = {"gyro": 1e-5, "accel": 1e-4}  # per root second

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng, self.noise = rng, 1.0
        self.bias = {name: np.zeros(3) for name in self.DENSITY}

    def measure(self, name: str, truth: np.ndarray, rate: float) -> np.ndarray:
        """A sample (3,) float32 of "gyro" or "accel" taken `rate` times a second."""
        white = self.DENSITY[name] * math.sqrt(rate / 2.0) * self._rng.standard_normal(3)
        self.bias[name] += self.WALK[name] / math.sqrt(rate) * self._rng.standard_normal(3)
        return (truth + self.noise * (white + self.bias[name])).astype(np.float32)
