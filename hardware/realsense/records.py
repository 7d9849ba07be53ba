"""What the device hands on: images, motion samples, point clouds. Times are host times (time.monotonic) in seconds."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

__all__ = ["Cloud", "Image", "Layout", "Lens", "Motion", "Rgbd"]


@dataclass(frozen=True)
class Lens:
    """Intrinsics of one imager.

    Attributes:
        K: camera matrix, shape (3, 3) [pixels].
        distortion: model as the SDK names it ("brown_conrady", "inverse_brown_conrady", ...); coefficients: its five numbers.
    """

    width: int
    height: int
    K: np.ndarray
    distortion: str = "none"
    coefficients: tuple[float, ...] = (0.0,) * 5


@dataclass(frozen=True)
class Image:
    """One image.

    Attributes:
        stream: "depth", "infra1", "infra2", "color" or "aligned_depth_to_color".
        t: host time of measurement [s]; arrival: when the SDK handed it over [s].
        number: counted by the camera; device_time: its own stamp [s] in clock domain `domain`.
        pixels: shape (h, w) or (h, w, 3), contiguous, owned by nobody else.
        format: of the SDK ("z16", "y8", "rgb8", ...).
        depth_units: metres of one count of a depth image, else 0.
        metadata: what the camera says about the frame, by the SDK's names.
    """

    stream: str
    t: float
    arrival: float
    number: int
    device_time: float
    domain: str
    pixels: np.ndarray
    format: str
    lens: Lens
    depth_units: float = 0.0
    metadata: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Motion:
    """A sample of the gyroscope ("gyro"), of the accelerometer ("accel"), or of both ("imu").

    Attributes:
        angular: angular rate (3,) [rad/s]; linear: specific force (3,) [m/s^2]; in optical axes, None where not measured.
    """

    stream: str
    t: float
    arrival: float
    number: int
    angular: np.ndarray | None
    linear: np.ndarray | None


@dataclass(frozen=True)
class Cloud:
    """Points in the depth imager's optical frame.

    Attributes:
        points: shape (n, 5) float32: x, y, z [m], unused, and the colour as 0x00RRGGBB in the bits of the last column.
        width, height: n = width * height; height 1 unless in the order of the image.
        dense: whether every point is a measurement; in an ordered cloud those that are not are NaN.
    """

    t: float
    arrival: float
    points: np.ndarray
    width: int
    height: int
    textured: bool
    dense: bool


@dataclass(frozen=True)
class Rgbd:
    """A colour image and the depth image aligned to it."""

    t: float
    arrival: float
    color: Image
    depth: Image


@dataclass(frozen=True)
class Layout:
    """The streams that run, told at every start.

    Attributes:
        lenses: by video stream.
        rates: by stream [Hz].
        poses: X_DS of every stream's optical frame S in the depth imager's optical frame D, shape (4, 4) [m].
        imu: by motion stream: data (3, 4) scale and bias, noise variances (3,), bias variances (3,).
    """

    lenses: dict[str, Lens]
    rates: dict[str, int]
    poses: dict[str, np.ndarray]
    imu: dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]
