"""The SDK's stream profiles in terms of this package: names, choice, intrinsics, extrinsics, metadata."""

from __future__ import annotations

import numpy as np
import pyrealsense2 as rs

from hardware.link.errors import DeviceError
from hardware.realsense.profiles import VIDEO, Mode
from hardware.realsense.records import Image, Layout, Lens

__all__ = ["STREAM_NAMES", "describe", "image_of", "lens_of", "metadata_of", "select"]

#: (SDK stream, index) -> name. Cameras with one infrared imager number it 0.
STREAM_NAMES = {
    (rs.stream.depth, 0): "depth",
    (rs.stream.infrared, 0): "infra1",
    (rs.stream.infrared, 1): "infra1",
    (rs.stream.infrared, 2): "infra2",
    (rs.stream.color, 0): "color",
    (rs.stream.gyro, 0): "gyro",
    (rs.stream.accel, 0): "accel",
}
#: formats in which streams are asked for
_FORMATS = {"depth": (rs.format.z16,), "infra1": (rs.format.y8,), "infra2": (rs.format.y8,), "color": (rs.format.rgb8,)}
_METADATA = [(name, value) for name, value in rs.frame_metadata_value.__members__.items()]


def select(sensor: rs.sensor, video: dict[str, Mode], motion: dict[str, int], recorded: bool) -> list:
    """Profiles of one sensor for the streams asked for.

    Args:
        recorded: take what a recording has, whatever the mode.

    Raises:
        DeviceError: the sensor has the stream but not in that mode; the text lists those it has.
    """
    chosen = []
    offers: dict[str, list] = {}
    for profile in sensor.get_stream_profiles():
        name = STREAM_NAMES.get((profile.stream_type(), profile.stream_index()))
        if name in video and profile.format() in _FORMATS[name] or name in motion:
            offers.setdefault(name, []).append(profile)
    for name, profiles in offers.items():
        wanted = video[name] if name in VIDEO else motion[name]
        default = next((p for p in profiles if p.is_default()), profiles[0])
        if recorded or not wanted or wanted == Mode():
            chosen.append(default)
            continue
        fitting = [p for p in profiles if _mode(p) == wanted]
        if not fitting:
            there = ", ".join(
                sorted({str(_mode(p)) for p in profiles}, key=lambda text: [int(n) for n in text.split("x")])
            )
            raise DeviceError(
                f"the camera has no {name} profile {wanted}: choose one of {there}, or 0,0,0 for the default"
            )
        chosen.append(fitting[0])
    return chosen


def _mode(profile: rs.stream_profile) -> Mode | int:
    if not profile.is_video_stream_profile():
        return profile.fps()
    video = profile.as_video_stream_profile()
    return Mode(video.width(), video.height(), video.fps())


def lens_of(profile: rs.video_stream_profile, cache: dict) -> Lens:
    """Intrinsics of a video profile; `cache` spares asking the SDK for every frame."""
    key = profile.unique_id(), profile.width(), profile.height(), profile.stream_type()
    if key not in cache:
        lens = profile.get_intrinsics()
        K = np.array([[lens.fx, 0.0, lens.ppx], [0.0, lens.fy, lens.ppy], [0.0, 0.0, 1.0]])
        cache[key] = Lens(lens.width, lens.height, K, lens.model.name, tuple(lens.coeffs))
    return cache[key]


def metadata_of(frame: rs.frame) -> dict:
    """What the camera says about a frame; fields come and go from one frame to the next."""
    return {name: frame.get_frame_metadata(value) for name, value in _METADATA if frame.supports_frame_metadata(value)}


def image_of(frame: rs.video_frame, name: str, t: float, arrival: float, lenses: dict) -> Image:
    """The record of a video frame, its pixels copied: `get_data` pins its frame. `lenses`: cache of `lens_of`."""
    profile = frame.get_profile().as_video_stream_profile()
    depth = frame.is_depth_frame()
    return Image(
        name,
        t,
        arrival,
        frame.get_frame_number(),
        frame.get_timestamp() / 1e3,
        frame.get_frame_timestamp_domain().name,
        np.array(frame.get_data()),
        profile.format().name,
        lens_of(profile, lenses),
        frame.as_depth_frame().get_units() if depth else 0.0,
        metadata_of(frame),
    )


def describe(profiles: dict, sensors: list) -> Layout:
    """Layout of running profiles by stream name. Without extrinsics in the camera the identity stands in."""
    depth = profiles.get("depth") or next(
        (p for sensor in sensors for p in sensor.get_stream_profiles() if p.stream_type() == rs.stream.depth),
        next(iter(profiles.values())),
    )
    poses, imu, lenses = {}, {}, {}
    for name, profile in profiles.items():
        X_DS = np.eye(4)
        try:
            extrinsics = profile.get_extrinsics_to(depth)
            # The SDK's rotations are column-major.
            X_DS[:3, :3] = np.array(extrinsics.rotation).reshape(3, 3).T
            X_DS[:3, 3] = extrinsics.translation
        except RuntimeError:
            pass
        poses[name] = X_DS
        if profile.is_video_stream_profile():
            lenses[name] = lens_of(profile.as_video_stream_profile(), {})
        else:
            try:
                scale = profile.as_motion_stream_profile().get_motion_intrinsics()
                imu[name] = (
                    np.array(scale.data, dtype=float),
                    np.array(scale.noise_variances, dtype=float),
                    np.array(scale.bias_variances, dtype=float),
                )
            except RuntimeError:
                imu[name] = (np.eye(3, 4), np.zeros(3), np.zeros(3))
    return Layout(lenses, {name: profile.fps() for name, profile in profiles.items()}, poses, imu)
