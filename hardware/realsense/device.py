"""The link to a camera: its streams, what is made of them, and recovery from silence.

    device = RealSenseDevice(camera.usb(), Settings(video={"depth": Mode()}), on_sample=print)
    device.start(); device.enable()

Images are handed on by the device's own thread; what is made of them (derived.py) has threads of its own.

Silence of a stream is answered in steps: the streams are started anew, then the camera is reset, then it is opened
afresh. A reset camera vanishes and comes back like an unplugged one.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyrealsense2 as rs

from hardware.link.clock import DeviceClock
from hardware.link.device import Device, Identity
from hardware.link.errors import DeviceError, Disconnected, NotAnswering
from hardware.link.while_open import WhileOpen
from hardware.realsense.camera import Camera, Source, info, unused_recording
from hardware.realsense.derived import Derived
from hardware.realsense.frost import Frost
from hardware.realsense.imu import ImuUniter, Unite
from hardware.realsense.processing import Filters, PointCloud
from hardware.realsense.profiles import MOTION, VIDEO, Mode
from hardware.realsense.records import Image, Motion
from hardware.realsense.stamps import LiveStamps, PlaybackStamps
from hardware.realsense.streams import STREAM_NAMES, describe, image_of, select

__all__ = ["RealSenseDevice", "Settings"]

SILENT_PERIODS = 5  # without a frame: the stream has stalled
SHORTEST_SILENCE = 0.15  # [s]; a busy host must not restart a 200 Hz gyroscope
TURN = 0.06  # [s]; a turn of the device's thread that takes longer has waited for a processor
START_TIME = 2.0  # [s] for the first frame after a start
SETTLED = 2.0  # [s] of flow after which the next stall begins at the first step again
QUEUED = 8  # images waiting here; the SDK has 16 of each stream
WARM, HOT = 60.0, 70.0  # ASIC [degC]
NOTICE_STANDS = 5.0  # [s] that an error told by the camera stands


@dataclass(frozen=True)
class Settings:
    """What the camera shall deliver.

    Attributes:
        video: stream -> Mode (zeros: the camera's default); motion: "gyro", "accel" -> rate [Hz] (0: the default).
        sync: images are paired by the SDK before they are handed on.
        align: also depth in the view of the colour camera; rgbd: also both as one record.
        cloud: how point clouds are made; None: none.
        filters: of depth.
        unite: gyro and accel as one stream.
        auto_exposure: of the depth and the colour sensor.
    """

    video: dict[str, Mode] = field(default_factory=lambda: {"depth": Mode(), "color": Mode()})
    motion: dict[str, int] = field(default_factory=dict)
    sync: bool = False
    align: bool = False
    rgbd: bool = False
    cloud: PointCloud | None = None
    filters: Filters = Filters()
    unite: Unite = Unite.NONE
    auto_exposure: dict[str, bool] = field(default_factory=lambda: {"depth": True, "color": True})

    @property
    def paired(self) -> bool:
        """Whether depth and colour must come together."""
        both = "depth" in self.video and "color" in self.video
        return self.sync or both and (self.align or self.rgbd or self.cloud is not None and self.cloud.textured)

    @property
    def primary(self) -> str:
        """The stream whose rate and age stand for the whole camera."""
        return next((name for name in (*VIDEO, *MOTION) if name in self.video or name in self.motion), "")


class RealSenseDevice(Device):
    """See the module's docstring. Samples are the records of `records`; `on_sample` is called on the device's thread, for what is
    made of images on another.

    Args:
        source: of a camera, see `camera`.
        settings: what it shall deliver.
        on_layout: called as on_layout(Layout) on the device's thread whenever streams have started.
        loop: a recording begins anew at its end.
        record: path of a recording (.db3) to write; "": none. A number is appended if it exists.
        others: of `Device`.

    Attributes:
        modes: stream -> modes that the camera offers; motion: rates. Empty before the first contact.
        facts: what the camera says of itself, for service device_info.
        temperature: of the ASIC [degC]; NaN where it does not say.
        finished: a recording has come to its end.
        stream_rates: frames per second asked for, by stream.
    """

    _camera = WhileOpen[Camera]()
    _derived = WhileOpen[Derived]()

    def __init__(
        self,
        source: Source,
        settings: Settings,
        *,
        on_layout: Callable = lambda layout: None,
        loop: bool = False,
        record: str = "",
        **others: Any,
    ) -> None:
        super().__init__(**others)
        self._source, self.settings, self._on_layout = source, settings, on_layout
        self._loop, self._record = loop, record
        self.modes: dict[str, set] = {}
        self.facts: dict[str, str] = {}
        self.temperature, self.finished = float("nan"), False
        self.stream_rates: dict[str, int] = {}
        self._patience = self.stale_timeout
        self._pending: Settings | None = None
        self._reset_wanted = False
        self._recorder: Any = None
        self._sensors: list = []
        self._running: list = []
        self._queue: deque = deque()
        self._motion: deque = deque(maxlen=1000)
        self._arrival = threading.Condition()
        self._stopping = False
        self._ended = threading.Event()
        self._notices: deque = deque(maxlen=16)
        self._step = 0
        self.stamps: LiveStamps | PlaybackStamps = LiveStamps()

    @property
    def clock(self) -> DeviceClock | None:
        """The offset filter of the camera's clock; None for a recording."""
        return self.stamps.clock

    # -- from any thread ---------------------------------------------------------------------------
    def apply(self, settings: Settings) -> None:
        """Deliver something else from now on; streams are started anew where needed."""
        self._pending = settings

    def hardware_reset(self) -> None:
        """Reset the camera; it is opened again when it is back."""
        self._reset_wanted = True

    # -- hooks of the link -------------------------------------------------------------------------
    def _open(self) -> Identity:
        self._camera = self._source()
        device = self._camera.device
        self.stamps = PlaybackStamps() if self._camera.playback is not None else LiveStamps()
        self.finished, self.stale_timeout = False, self._patience
        if self._record:
            device = self._recorder = rs.recorder(str(unused_recording(self._record)), device)
        self._sensors = list(device.query_sensors())
        self.facts = {what: info(device, what) for what in ("name", "serial", "firmware", "usb", "port", "update_id")}
        self.facts["sensors"] = ",".join(s.get_info(rs.camera_info.name) for s in self._sensors)
        self.modes = {}
        for sensor in self._sensors:
            with contextlib.suppress(RuntimeError):
                sensor.set_notifications_callback(self._notice)
            for profile in sensor.get_stream_profiles():
                name = STREAM_NAMES.get((profile.stream_type(), profile.stream_index()))
                if name in VIDEO:
                    video = profile.as_video_stream_profile()
                    self.modes.setdefault(name, set()).add(Mode(video.width(), video.height(), video.fps()))
                elif name is not None:
                    self.modes.setdefault(name, set()).add(profile.fps())
        return Identity(self.facts["name"], self.facts["serial"], self.facts["firmware"])

    def _start(self) -> None:
        self._adopt_pending()
        settings = self.settings
        recorded = self._camera.playback is not None
        if recorded:
            self._camera.playback.set_status_changed_callback(self._status)
        self._filters, self._uniter = settings.filters.build(), ImuUniter(settings.unite) if settings.unite else None
        self._syncer = rs.syncer(2) if settings.paired else None
        self._stopping = False
        self._lossless = recorded and not self._camera.playback.is_real_time()
        self._derived = Derived(
            settings.align, settings.rgbd, settings.cloud, self._lossless, self.on_sample, self.counters
        )
        self._ended.clear()
        self._queue.clear()
        self._motion.clear()
        chosen = [(sensor, select(sensor, settings.video, settings.motion, recorded)) for sensor in self._sensors]
        found = {STREAM_NAMES[p.stream_type(), p.stream_index()]: p for _, profiles in chosen for p in profiles}
        missing = [name for name in (*settings.video, *settings.motion) if name not in found]
        if missing and not recorded:
            raise DeviceError(f"{self.facts['name']} has no {', '.join(missing)}: disable it, or use another camera")
        if not found:
            raise DeviceError("no stream is enabled: set enable_depth, enable_color or another to true")
        self.stream_rates = {name: profile.fps() for name, profile in found.items()}
        self._lenses: dict = {}
        self._last_stamp: dict[str, float] = {}
        self._last_number: dict[str, int] = {}
        self._frost = Frost()
        now = time.monotonic()
        self._heard = dict.fromkeys(found, now + START_TIME)
        self._primary = next(name for name in (*VIDEO, *MOTION) if name in found)
        self._flowing_since = self._looked = now
        self._next_temperature = now
        try:
            if (
                recorded
            ):  # it begins with the first sensor, and passes over what it holds of those that are not started yet
                self._camera.playback.pause()
            for sensor, profiles in chosen:
                if not profiles:
                    continue
                video = any(p.is_video_stream_profile() for p in profiles)
                with self._camera.still():
                    self._set_exposure(sensor, profiles)
                    sensor.open(profiles)
                    self._running.append(sensor)
                    sensor.start(self._syncer if video and self._syncer is not None else self._frame)
            if recorded:
                self._camera.playback.resume()
        except RuntimeError as error:
            raise DeviceError(f"{self.facts['name']} does not start its streams: {error}") from error
        self._on_layout(describe(found, self._sensors))

    def _serve(self) -> None:
        self._look_after_camera()
        if self._pending is not None:
            self._restart()
        if self._syncer is not None:
            got, frames = self._syncer.try_wait_for_frames(5 if self.settings.motion else 30)
            self._take_motion()
            if got:
                self._frameset(frames, time.monotonic())
            del frames
        else:
            with self._arrival:
                if not self._queue and not self._motion:
                    self._arrival.wait(0.03)
            self._take_motion()
            if self._queue:
                with self._arrival:
                    frame, arrival = self._queue.popleft()
                    self._arrival.notify_all()
                self._single(frame, arrival)
                del frame
        self._take_motion()
        self._derived.check()
        now = time.monotonic()
        if now >= self._next_temperature:
            self._next_temperature = now + 1.0
            self._take_temperature()
        if self._ended.is_set():
            self._end_of_recording()
        elif self._camera.playback is None:
            self._watch(now)

    def _idle(self) -> None:
        self._look_after_camera()
        self._adopt_pending()
        time.sleep(0.02)

    def _stop(self) -> None:
        with self._arrival:
            self._stopping = True  # lets a callback go that waits for room
            self._arrival.notify_all()
        with self._camera.still():
            for sensor in self._running:
                for action in (sensor.stop, sensor.close):
                    with contextlib.suppress(RuntimeError):
                        action()
        self._running = []
        with contextlib.suppress(Disconnected):
            self._derived.close()
        self._derived = None
        self._queue.clear()
        self._motion.clear()
        self._filters, self._syncer = [], None
        for name in ("stall", "frozen"):
            self.warnings.pop(name, None), self.faults.pop(name, None)

    def _close(self) -> None:
        self._stop()
        for sensor in self._sensors:
            with contextlib.suppress(RuntimeError):
                sensor.set_notifications_callback(lambda notice: None)
        # A recording is complete, and a camera free for others, only without references.
        self._sensors, self._recorder = [], None
        with contextlib.suppress(Disconnected):
            self._camera.close()
        self._camera = None

    # -- settings ----------------------------------------------------------------------------------
    def _adopt_pending(self) -> None:
        pending, self._pending = self._pending, None
        if pending is not None:
            self.settings = pending

    def _restart(self) -> None:
        self._stop()
        self.stamps.restart()
        self._start()

    def _set_exposure(self, sensor: rs.sensor, profiles: list[rs.stream_profile]) -> None:
        streams = {STREAM_NAMES[p.stream_type(), p.stream_index()] for p in profiles}
        key = "color" if "color" in streams else "depth"
        if streams & set(VIDEO) and sensor.supports(rs.option.enable_auto_exposure) and self._camera.playback is None:
            sensor.set_option(rs.option.enable_auto_exposure, float(self.settings.auto_exposure.get(key, True)))

    # -- callbacks of the SDK, on its threads --------------------------------------------------------
    def _frame(self, frame: rs.frame) -> None:
        arrival = time.monotonic()
        if frame.is_frameset():
            for single in frame.as_frameset():
                self._frame(single)
            return
        if frame.is_motion_frame():
            motion = frame.as_motion_frame()
            data, profile = motion.get_motion_data(), frame.get_profile()
            name = STREAM_NAMES[profile.stream_type(), 0]
            with self._arrival:
                self._motion.append(
                    (
                        name,
                        frame.get_frame_number(),
                        frame.get_timestamp() / 1e3,
                        frame.get_frame_timestamp_domain().name,
                        arrival,
                        np.array([data.x, data.y, data.z]),
                    )
                )
                self._arrival.notify_all()
            return
        with self._arrival:
            if self._lossless:
                while len(self._queue) >= QUEUED and not self._stopping:
                    self._arrival.wait(0.1)
            if len(self._queue) >= QUEUED:
                self._queue.popleft()
                self.counters.add("queue_overruns")
            if not self._stopping:
                self._queue.append((frame, arrival))
            self._arrival.notify_all()

    def _status(self, status: rs.playback_status) -> None:
        if status == rs.playback_status.stopped and not self._stopping:
            self._ended.set()

    def _notice(self, notice: rs.notification) -> None:
        self._notices.append((time.monotonic(), notice.get_category(), notice.get_description()))

    # -- frames ------------------------------------------------------------------------------------
    def _single(self, frame: rs.frame, arrival: float) -> None:
        """A frame that needs no partner."""
        if frame.is_depth_frame():
            for block in self._filters:
                frame = block.process(frame)
        image = self._image(frame, arrival)
        if image is not None and frame.is_depth_frame():
            self._derived.offer(frame.as_depth_frame(), None, {"depth": image}, arrival)

    def _frameset(self, frames: rs.frame, arrival: float) -> None:
        """Frames of one moment; the first sets of a syncer have one frame only."""
        for block in self._filters:
            frames = block.process(frames).as_frameset()
        images = {
            name: image
            for frame in frames
            if (image := self._image(frame, arrival)) is not None
            for name in [image.stream]
        }
        depth, color = frames.get_depth_frame(), frames.get_color_frame()
        if not depth or not color:
            return
        if "depth" not in images or "color" not in images:
            return  # a stamp did not increase: what is made of it would repeat an old one
        self._derived.offer(depth, color, images, arrival, frames)

    def _image(self, frame: rs.frame, arrival: float) -> Image | None:
        """Count, stamp and hand on one image; None if its stamp does not increase."""
        profile = frame.get_profile()
        name = STREAM_NAMES[profile.stream_type(), profile.stream_index()]
        t = self._account(
            name,
            frame.get_frame_number(),
            frame.get_timestamp() / 1e3,
            frame.get_frame_timestamp_domain().name,
            arrival,
        )
        if t is None:
            return None
        image = image_of(frame, name, t, arrival, self._lenses)
        self._look_for_frost(image)
        self._hand_on(name, image, t)
        return image

    def _take_motion(self) -> None:
        while self._motion:
            name, number, device, domain, arrival, values = self._motion.popleft()
            t = self._account(name, number, device, domain, arrival)
            if t is None:
                continue
            angular, linear = (values, None) if name == "gyro" else (None, values)
            self._hand_on(name, Motion(name, t, arrival, number, angular, linear), t)
            if self._uniter is not None:
                for when, omega, force in (self._uniter.gyro if name == "gyro" else self._uniter.accel)(t, values):
                    self.on_sample(Motion("imu", when, arrival, number, omega, force), when)

    def _account(self, name: str, number: int, device: float, domain: str, arrival: float) -> float | None:
        """Host time of a frame, its number checked for gaps; None if it repeats or goes back in time."""
        self._heard[name] = arrival
        jumps = self.stamps.jumps
        t = self.stamps.host_time(name, device, domain, arrival)
        if self.stamps.jumps != jumps:
            self.counters.add("clock_jumps")
            if self._uniter is not None:
                self._uniter.reset()
        last = self._last_number.get(name)
        self._last_number[name] = number
        if last is not None and number > last + 1:
            self.counters.add("frame_gaps", number - last - 1)
            self.counters.add("dropped", number - last - 1)
        if (last is not None and number == last) or t <= self._last_stamp.get(name, float("-inf")):
            self.counters.add("dropped")
            return None
        self._last_stamp[name] = t
        return t

    def _hand_on(self, name: str, record: object, t: float) -> None:
        if name == self._primary:
            self._sample(record, t)
        else:
            self.on_sample(record, t)

    # -- watch -------------------------------------------------------------------------------------
    def _look_after_camera(self) -> None:
        if not self._camera.connected:
            raise Disconnected(f"{self.facts['name']} {self.facts['serial']} has vanished: check its cable and power")
        now = time.monotonic()
        while self._notices and now - self._notices[0][0] > NOTICE_STANDS:
            self._notices.popleft()
        serious = [
            text or category.name
            for _, category, text in list(self._notices)
            if category in (rs.notification_category.frames_timeout, rs.notification_category.hardware_error)
        ]
        if serious:
            self.faults["notice"] = f"the camera reports: {serious[-1]}"
        else:
            self.faults.pop("notice", None)
        if self._reset_wanted:
            self._reset_wanted = False
            self._camera.reset()
            raise Disconnected("the camera was reset on request; waiting for it to come back")

    def _watch(self, now: float) -> None:
        """Answer silence: streams anew, hardware reset, camera anew."""
        # A host that lets this thread wait lets those wait that bring the frames: that time is no silence of the camera.
        late, self._looked = now - self._looked - TURN, now
        if late > 0.0:
            self._heard = {name: max(heard, min(heard + late, now)) for name, heard in self._heard.items()}
        silent = [
            name
            for name, heard in self._heard.items()
            if now - heard > max(SILENT_PERIODS / self.stream_rates[name], SHORTEST_SILENCE)
        ]
        if not silent:
            if now - self._flowing_since > SETTLED + START_TIME:
                self._step = 0
            if now > self._flowing_since and all(heard <= now for heard in self._heard.values()):
                self.faults.pop("stall", None)
            return
        what = f"no {', '.join(silent)} frames for {now - min(self._heard[name] for name in silent):.2f} s"
        self.counters.add("stalls")
        self.counters.last_error = what
        self._step += 1
        if self._step == 1:
            self.counters.add("stream_restarts")
            self._restart()
            self.faults["stall"] = f"{what}: streams started anew"
        elif self._step == 2:
            self.counters.add("hardware_resets")
            try:
                self._camera.reset()
            except DeviceError as error:
                raise NotAnswering(
                    f"{what} after a restart of the streams, and {error}; the camera is opened anew"
                ) from error
            raise Disconnected(f"{what} after a restart of the streams: the camera was reset")
        else:
            self._step = 0
            raise NotAnswering(f"{what} after a hardware reset: the camera is opened anew; if this repeats, replug it")

    def _take_temperature(self) -> None:
        for sensor in self._sensors:
            with contextlib.suppress(RuntimeError):
                if sensor.supports(rs.option.asic_temperature):
                    self.temperature = float(sensor.get_option(rs.option.asic_temperature))
        text = f"the ASIC has {self.temperature:.0f} degC"
        hot, warm = self.temperature >= HOT, WARM <= self.temperature < HOT
        for conditions, holds, limit in ((self.faults, hot, HOT), (self.warnings, warm, WARM)):
            if holds:
                conditions["temperature"] = f"{text} (limit {limit:.0f}): let it cool, or lower rate and resolution"
            else:
                conditions.pop("temperature", None)

    def _look_for_frost(self, image: Image) -> None:
        if image.stream not in VIDEO or self._camera.playback is not None or self._filters and image.stream == "depth":
            return
        if self._frost.begins(image.stream, image.pixels):
            self.counters.add("freezes")
        if self._frost.frozen:
            self.warnings["frozen"] = (
                f"{', '.join(sorted(self._frost.frozen))} repeats one image: the imager has frozen; use service hw_reset"
            )
        else:
            self.warnings.pop("frozen", None)

    def _end_of_recording(self) -> None:
        if self._queue or self._motion or self.finished or not self._derived.idle:
            return
        if self._loop:
            self.counters.add("loops")
            self._restart()
        else:
            self.finished, self.stale_timeout = True, float("inf")
