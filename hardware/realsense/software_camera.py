"""An emulated camera as a device of the SDK: `rs.software_device`, fed from the emulator's frames.

What the SDK asks of whoever feeds it (pyrealsense2 2.59.1): a new `software_video_frame` for every frame, `pixels`
assigned once (a second time frees memory twice), and pixels checked before, because it copies without looking.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyrealsense2 as rs

from hardware.realsense.frame_link import FrameReader, Record
from hardware.realsense.pixels import MalformedFrame, checked
from hardware.realsense.profiles import BYTES_PER_PIXEL, MODELS, CameraModel, Mode, VideoStream

__all__ = ["SoftwareCamera", "build_device"]

STREAM_KEYS = {
    "depth": (rs.stream.depth, 0),
    "infra1": (rs.stream.infrared, 1),
    "infra2": (rs.stream.infrared, 2),
    "color": (rs.stream.color, 0),
    "gyro": (rs.stream.gyro, 0),
    "accel": (rs.stream.accel, 0),
}
_FORMATS = {"z16": rs.format.z16, "y8": rs.format.y8, "rgb8": rs.format.rgb8}
_NAMES = {key: name for name, key in STREAM_KEYS.items()}
POLL = 0.002  # [s] between two looks at the cable: half a period of the fastest gyroscope
HOUSEKEEPING = 0.02  # [s] between two looks at which streams are open


def build_device(
    model: CameraModel, serial: str, firmware: str = "5.16.0.1"
) -> tuple[Any, dict[str, Any], dict[tuple[str, Any], Any]]:
    """An `rs.software_device` of a model.

    Returns:
        (device, sensors by stream name, profiles by (stream name, Mode or rate)).
    """
    device = rs.software_device()
    for what, text in (
        (rs.camera_info.name, model.name),
        (rs.camera_info.serial_number, serial),
        (rs.camera_info.firmware_version, firmware),
        (rs.camera_info.physical_port, "emulated"),
        (rs.camera_info.usb_type_descriptor, "3.2"),
        (rs.camera_info.product_line, "emulated"),
    ):
        device.register_info(what, text)
    stereo, colour, motion = (device.add_sensor(name) for name in ("Stereo Module", "RGB Camera", "Motion Module"))
    stereo.add_read_only_option(rs.option.depth_units, model.depth_units)
    if model.baseline:
        stereo.add_read_only_option(rs.option.stereo_baseline, model.baseline)
    for option, value in ((rs.option.asic_temperature, 35.0), (rs.option.projector_temperature, 33.0)):
        stereo.add_option(option, _range(-40.0, 125.0, 0.1, value), True)
    for sensor in (stereo, colour):
        sensor.add_option(rs.option.enable_auto_exposure, _range(0.0, 1.0, 1.0, 1.0), True)
        sensor.add_option(rs.option.exposure, _range(1.0, 165000.0, 1.0, 8500.0), True)
        sensor.add_option(rs.option.gain, _range(16.0, 248.0, 1.0, 16.0), True)
    sensors: dict[str, Any] = {}
    profiles: dict[tuple[str, Any], Any] = {}
    positions: dict[tuple[str, Any], Sequence[float]] = {}
    for stream in model.video:
        sensor = colour if stream.name == "color" else stereo
        sensors[stream.name] = sensor
        for mode in stream.modes:
            profiles[stream.name, mode] = sensor.add_video_stream(
                _video_stream(stream, mode, len(profiles)), mode == stream.modes[0]
            )
            positions[stream.name, mode] = stream.position
    for name, rates in (("gyro", model.gyro_rates), ("accel", model.accel_rates)):
        sensors[name] = motion
        for rate in rates:
            profiles[name, rate] = motion.add_motion_stream(_motion_stream(name, rate, len(profiles)), rate == rates[0])
            positions[name, rate] = model.imu_position
    hub = ("depth", model.stream("depth").modes[0])
    for key, profile in profiles.items():
        if key != hub:  # the SDK finds its way between any two through the hub
            profiles[hub].register_extrinsics_to(profile, _extrinsics(positions[key]))
    return device, sensors, profiles


class SoftwareCamera:
    """A camera whose frames come from an emulator, as `hardware.realsense.camera` describes cameras.

    Args:
        link: of the emulator.

    Attributes:
        device: for the SDK.
        refused: malformed frames that did not reach the SDK.

    Raises:
        Disconnected: there is no emulator at `link`.
    """

    playback = None

    def __init__(self, link: str | os.PathLike) -> None:
        self._reader = FrameReader(link)
        model = MODELS[self._reader.model]
        self.device, self._sensors, self._profiles = build_device(model, self._reader.serial)
        self._model = model
        self.refused = 0
        self._lost = False
        self._closing = threading.Event()
        self._feeding = threading.Lock()
        self._streams: dict[str, tuple] = {}
        self._due = 0.0
        self._temperatures: tuple[float, float] | None = None
        self._thread = threading.Thread(target=self._feed, name="emulated camera", daemon=True)
        self._thread.start()

    @property
    def connected(self) -> bool:
        return not self._lost

    def reset(self) -> None:
        """As the hardware reset of a camera: it vanishes and comes back."""
        self._reader.ask_reset()

    def still(self) -> threading.Lock:
        return self._feeding

    def close(self) -> None:
        """End the feeding and let go of the device."""
        self._closing.set()
        self._thread.join(2.0)
        self._reader.want({})
        self.device = None
        self._sensors, self._profiles = {}, {}

    # -- the feeding thread ------------------------------------------------------------------------
    def _feed(self) -> None:
        while not self._closing.wait(POLL):
            with self._feeding:
                now = time.monotonic()
                if now >= self._due:
                    self._due = now + HOUSEKEEPING
                    if not self._reader.plugged:
                        self._lost = True
                        return
                    self._look_after_streams()
                self._hand_over()

    def _look_after_streams(self) -> None:
        self._streams = self._open_streams()
        self._reader.want({name: mode for name, (mode, _) in self._streams.items()})
        if self._reader.temperatures != self._temperatures:
            self._temperatures = self._reader.temperatures
            self._sensors["depth"].set_option(rs.option.asic_temperature, self._temperatures[0])
            self._sensors["depth"].set_option(rs.option.projector_temperature, self._temperatures[1])

    def _hand_over(self) -> None:
        for name, (mode, profile) in self._streams.items():
            for record in self._reader.take(name):
                # The stream may have been closed since the last look: its last frames are nobody's.
                with contextlib.suppress(RuntimeError):
                    self._inject(record, mode, profile)

    def _open_streams(self) -> dict[str, tuple]:
        found = {}
        for sensor in {id(s): s for s in self._sensors.values()}.values():
            for profile in sensor.get_active_streams():
                name = _NAMES[profile.stream_type(), profile.stream_index()]
                if profile.is_video_stream_profile():
                    video = profile.as_video_stream_profile()
                    mode = Mode(video.width(), video.height(), video.fps())
                    found[name] = (mode, video)
                else:
                    found[name] = (Mode(0, 0, profile.fps()), profile.as_motion_stream_profile())
        return found

    def _inject(self, record: Record, mode: Mode, profile: rs.stream_profile) -> None:
        sensor = self._sensors[record.stream]
        try:
            frame = (
                motion_frame(record, profile)
                if record.stream in ("gyro", "accel")
                else video_frame(
                    record, self._model.stream(record.stream).format, mode, profile, self._model.depth_units
                )
            )
        except MalformedFrame:
            self.refused += 1
            return
        sensor.set_metadata(rs.frame_metadata_value.frame_counter, record.number)
        sensor.set_metadata(rs.frame_metadata_value.sensor_timestamp, int(1e3 * record.device_ms))
        # Where nothing tells it the SDK takes number / time as the rate, and by it pairs depth with colour. That is far off
        # while numbers begin at 1 in a camera that has been on for long, and for as long nothing is paired.
        sensor.set_metadata(rs.frame_metadata_value.actual_fps, 1000 * mode.fps)
        if record.stream in ("gyro", "accel"):
            sensor.on_motion_frame(frame)
        else:
            sensor.set_metadata(rs.frame_metadata_value.actual_exposure, int(record.exposure))
            sensor.set_metadata(rs.frame_metadata_value.gain_level, int(record.gain))
            sensor.set_metadata(
                rs.frame_metadata_value.auto_exposure, int(sensor.get_option(rs.option.enable_auto_exposure))
            )
            sensor.on_video_frame(frame)


def video_frame(
    record: Record, pixel_format: str, mode: Mode, profile: rs.stream_profile, depth_units: float
) -> rs.software_video_frame:
    """An `rs.software_video_frame` of a record.

    Raises:
        MalformedFrame: its pixels are not what the profile promises.
    """
    kind = np.uint16 if pixel_format == "z16" else np.uint8
    width, height, bytes_per_pixel = record.width, record.height, BYTES_PER_PIXEL[pixel_format]
    if record.payload.size != width * height * bytes_per_pixel:
        raise MalformedFrame(
            f"{pixel_format} of {width}x{height} has {record.payload.size} bytes, "
            f"expected {width * height * bytes_per_pixel}"
        )
    shape = (height, width, 3) if pixel_format == "rgb8" else (height, width)
    frame = rs.software_video_frame()
    frame.pixels = checked(record.payload.view(kind).reshape(shape), pixel_format, mode.width, mode.height)
    frame.bpp, frame.stride = bytes_per_pixel, bytes_per_pixel * mode.width
    frame.timestamp, frame.domain = record.device_ms, rs.timestamp_domain.hardware_clock
    frame.frame_number, frame.profile = record.number, profile
    if pixel_format == "z16":
        frame.depth_units = depth_units
    return frame


def motion_frame(record: Record, profile: rs.stream_profile) -> rs.software_motion_frame:
    """An `rs.software_motion_frame` of a record.

    Raises:
        MalformedFrame: not three numbers.
    """
    if record.payload.size != 12:
        raise MalformedFrame(f"a motion sample has 12 bytes, not {record.payload.size}")
    frame, vector = rs.software_motion_frame(), rs.vector()
    vector.x, vector.y, vector.z = map(float, record.payload.view(np.float32))
    frame.data, frame.timestamp, frame.domain = vector, record.device_ms, rs.timestamp_domain.hardware_clock
    frame.frame_number, frame.profile = record.number, profile
    return frame


def _range(low: float, high: float, step: float, default: float) -> rs.option_range:
    bounds = rs.option_range()
    bounds.min, bounds.max, bounds.step, bounds.default = low, high, step, default
    return bounds


def _video_stream(stream: VideoStream, mode: Mode, uid: int) -> rs.video_stream:
    K, lens = stream.intrinsics(mode), rs.intrinsics()
    lens.width, lens.height = mode.width, mode.height
    lens.fx, lens.fy, lens.ppx, lens.ppy = K[0, 0], K[1, 1], K[0, 2], K[1, 2]
    lens.model, lens.coeffs = getattr(rs.distortion, stream.distortion), list(stream.coefficients)
    video = rs.video_stream()
    video.type, video.index = STREAM_KEYS[stream.name]
    video.uid, video.width, video.height, video.fps = uid, mode.width, mode.height, mode.fps
    video.bpp, video.fmt, video.intrinsics = BYTES_PER_PIXEL[stream.format], _FORMATS[stream.format], lens
    return video


def _motion_stream(name: str, rate: int, uid: int) -> rs.motion_stream:
    scale = rs.motion_device_intrinsic()
    scale.data = [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]]
    scale.noise_variances, scale.bias_variances = [1e-4] * 3, [1e-6] * 3
    motion = rs.motion_stream()
    motion.type, motion.index = STREAM_KEYS[name]
    motion.uid, motion.fps, motion.fmt, motion.intrinsics = uid, rate, rs.format.motion_xyz32f, scale
    return motion


def _extrinsics(position: Sequence[float]) -> rs.extrinsics:
    """From the depth imager to one at `position` in its frame: points move by -position."""
    extrinsics = rs.extrinsics()
    extrinsics.rotation = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]
    extrinsics.translation = [-float(p) for p in position]
    return extrinsics
