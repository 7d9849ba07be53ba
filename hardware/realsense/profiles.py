"""Cameras to emulate, as their data sheets describe them; stream modes as text.

Sources: Intel RealSense D400 series data sheet (337029), 3.1, 4.2 and 4.8; L515 data sheet (J27000).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

__all__ = [
    "BYTES_PER_PIXEL",
    "MODELS",
    "MOTION",
    "STREAMS",
    "VIDEO",
    "CameraModel",
    "Mode",
    "VideoStream",
    "parse_mode",
]

VIDEO = ("depth", "infra1", "infra2", "color")
MOTION = ("gyro", "accel")
STREAMS = (*VIDEO, *MOTION)

#: SDK format -> bytes
BYTES_PER_PIXEL = {"z16": 2, "y8": 1, "rgb8": 3}

_MODE = re.compile(r"^\s*(\d+)\s*[xX,]\s*(\d+)\s*[xX,]\s*(\d+)\s*$")


@dataclass(frozen=True)
class Mode:
    """Size [pixels] and rate [Hz] of a video stream; zeros stand for the camera's default."""

    width: int = 0
    height: int = 0
    fps: int = 0

    def __str__(self) -> str:
        return f"{self.width}x{self.height}x{self.fps}"


def parse_mode(text: str) -> Mode:
    """ "848x480x30" or "0,0,0" (the default) as a Mode.

    Raises:
        ValueError: not three numbers.
    """
    match = _MODE.match(text)
    if match is None:
        raise ValueError(
            f"stream profile '{text}' is not WIDTHxHEIGHTxFPS such as 848x480x30, nor 0,0,0 for the default"
        )
    return Mode(*map(int, match.groups()))


@dataclass(frozen=True)
class VideoStream:
    """One imager.

    Attributes:
        format: of the pixels, as the SDK names it.
        modes: sizes and rates; the first is the default.
        focal: focal length as a multiple of the image height.
        distortion, coefficients: model as the SDK names it, and its five numbers.
        position: of the imager in the depth imager's optical frame (x right, y down, z forward) [m]; all are parallel.
    """

    name: str
    format: str
    modes: tuple[Mode, ...]
    focal: float
    distortion: str = "none"
    coefficients: tuple[float, ...] = (0.0,) * 5
    position: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def intrinsics(self, mode: Mode) -> np.ndarray:
        """Camera matrix K, shape (3, 3) [pixels]; the principal point is the image's centre."""
        f = self.focal * mode.height
        return np.array([[f, 0.0, mode.width / 2], [0.0, f, mode.height / 2], [0.0, 0.0, 1.0]])


@dataclass(frozen=True)
class CameraModel:
    """A camera.

    Attributes:
        name: as the SDK reports it.
        depth_units: metres of one depth count.
        baseline: of the stereo pair [mm]; 0: no stereo.
        nearest, farthest: useful range [m]; depth is zero (a hole) beyond.
        noise: k of sigma_z = k z^2 [1/m].
        video: imagers; motion: rates of gyro and accel [Hz], the first is the default.
        imu_position: in the depth imager's optical frame [m].
    """

    name: str
    depth_units: float
    baseline: float
    nearest: float
    farthest: float
    noise: float
    video: tuple[VideoStream, ...]
    gyro_rates: tuple[int, ...]
    accel_rates: tuple[int, ...]
    imu_position: tuple[float, float, float]

    def stream(self, name: str) -> VideoStream:
        """The imager called `name`."""
        return next(stream for stream in self.video if stream.name == name)


def _modes(*sizes: str) -> tuple[Mode, ...]:
    return tuple(
        Mode(width, height, fps)
        for width, height in (map(int, size.split("x")) for size in sizes)
        for fps in (30, 15, 6, 60)
        if fps < 60 or width <= 848
    )


_STEREO = _modes("848x480", "640x480", "640x360", "424x240", "1280x720")

D435I = CameraModel(
    "Intel RealSense D435I",
    depth_units=0.001,
    baseline=50.0,
    nearest=0.3,
    farthest=3.0,
    # Disparity noise of 0.05 pixels: sigma_z = 0.05 z^2 / (f B), f = 424 pixels, B = 0.05 m.
    noise=0.0024,
    video=(
        VideoStream("depth", "z16", _STEREO, 0.885),
        VideoStream("infra1", "y8", _STEREO, 0.885),
        VideoStream("infra2", "y8", _STEREO, 0.885, position=(0.05, 0.0, 0.0)),
        VideoStream(
            "color",
            "rgb8",
            _modes("1280x720", "848x480", "640x480", "640x360", "424x240"),
            1.27,
            "inverse_brown_conrady",
            position=(0.015, 0.0, 0.0),
        ),
    ),
    gyro_rates=(200, 400),
    accel_rates=(100, 200),
    imu_position=(-0.0055, 0.0051, 0.0117),
)

L515 = CameraModel(
    "Intel RealSense L515",
    depth_units=0.00025,
    baseline=0.0,
    nearest=0.25,
    farthest=9.0,
    noise=0.0003,
    video=(
        VideoStream("depth", "z16", tuple(Mode(w, h, 30) for w, h in ((640, 480), (320, 240), (1024, 768))), 0.96),
        VideoStream("infra1", "y8", tuple(Mode(w, h, 30) for w, h in ((640, 480), (320, 240), (1024, 768))), 0.96),
        VideoStream(
            "color",
            "rgb8",
            _modes("1280x720", "640x480", "640x360"),
            1.25,
            "inverse_brown_conrady",
            position=(0.0, -0.014, 0.0),
        ),
    ),
    gyro_rates=(200, 400, 100),
    accel_rates=(200, 400, 100),
    imu_position=(-0.01, 0.017, 0.004),
)

#: short name -> model
MODELS = {"d435i": D435I, "l515": L515}
