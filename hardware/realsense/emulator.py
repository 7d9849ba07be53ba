"""An emulated RealSense: frames on a `FramePort`, which `software_camera` turns into a device of the SDK.

    ./refit emulate realsense --link /tmp/camera                       a still scene, needs no renderer
    ./refit emulate realsense --link /tmp/camera --world WORLD         what MuJoCo's camera "realsense" sees

It does not imitate: exposure control, lens distortion, motion blur, the projector's pattern, USB bandwidth.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import os
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hardware.emulation.emulator import Emulator
from hardware.emulation.faults import Faults
from hardware.emulation.world import SharedWorld, world_of_plant
from hardware.realsense.frame_link import FramePort
from hardware.realsense.imager import DepthSensor, InertialUnit, Swing, grain, holes
from hardware.realsense.profiles import MODELS, MOTION, Mode
from hardware.realsense.scene import Scene, StillScene, View

if TYPE_CHECKING:
    from hardware.realsense.renderer import CameraOnRobot

__all__ = ["RealSenseEmulator", "arguments", "make"]

EXPOSURE, GAIN = 8500.0, 16.0
COLOUR_DELAY = 0.002  # [s] of the colour imager's exposure after the stereo pair's
VARIANTS = 4  # differently noisy images of one view
LATEST = 0.5  # [s] behind at which motion samples are left out; images: two periods, the cable holds no more


class Variants(NamedTuple):
    """Images of one view: what the scene gives, where its depth has holes (None of colour), noisy images of it."""

    version: int
    truth: np.ndarray
    hole: np.ndarray | None
    images: list[np.ndarray]


class RealSenseEmulator(Emulator):
    """The camera's firmware.

    Args:
        link: path that readers open.
        model: key of MODELS; serial: number it reports.
        world: simulated robot that carries the camera; None: a still scene.
        camera: name of the camera in the robot's MJCF.
        render_period: between renderings [s]; frames in between show the last one with new noise.
    """

    name = "realsense"
    own_faults = {
        "drop": "a frame is lost, with probability p: its number is missing",
        "freeze": "every image repeats the one before, under a new number",
        "stall_stream": "`stream` (depth) stops",
        "time_jump": "the camera's clock jumps by `by` seconds, for good",
        "temp": "the ASIC has `celsius` degrees",
        "disconnect": "the camera vanishes",
        "malformed": "an image has a column too few, with probability p",
    }

    def __init__(
        self,
        faults: Faults | None = None,
        link: str | os.PathLike[str] = "/tmp/refit-realsense",
        model: str = "d435i",
        serial: str = "031522070000",
        world: SharedWorld | None = None,
        camera: str = "realsense",
        render_period: float = 0.1,
    ) -> None:
        super().__init__(faults)
        self.model = MODELS[model]
        self._rng = np.random.default_rng(self.faults.rng.getrandbits(32))
        self._sensor, self._inertial, self.swing = DepthSensor(self.model, self._rng), InertialUnit(self._rng), Swing()
        self._pool = self._rng.integers(0, 4, 2 * 1280 * 720 * 3, dtype=np.uint8)
        self._scene: Scene = StillScene(self.model)
        self._robot: CameraOnRobot | None = None
        if world is not None:
            from hardware.realsense.renderer import CameraOnRobot, RenderedScene

            self._scene = RenderedScene(CameraOnRobot(world, camera), self.model, render_period)
            self._robot = CameraOnRobot(world, camera)
        self.temperature = 35.0
        self.sent: dict[str, int] = {}
        self._variants: dict[tuple[str, Mode], Variants] = {}
        self.port = FramePort(link, model, serial)
        self.power_on()

    def power_on(self) -> None:
        self._boot = time.monotonic()
        self._jump, self._resets = 0.0, 0
        self._sent_numbers: dict[str, int] = {}
        self._due: dict[str, float] = {}
        self._shown: dict[str, np.ndarray] = {}
        self._delayed: list = []
        self._order = itertools.count()
        self.port.replug()
        self._resets = self.port.resets()

    # -- one turn ----------------------------------------------------------------------------------
    def step(self, timeout: float) -> None:
        now = time.monotonic()
        end = now + timeout
        self.port.alive(self._asic(), self.temperature - 2.0)
        if self.port.resets() != self._resets:
            self.inject("power_cycle")
            return
        wanted = self.port.wanted() if self.powered else {}
        for stream in [stream for stream in self._due if stream not in wanted]:
            del self._due[stream]
        for stream, mode in wanted.items():
            end = min(end, self._run(stream, mode, now))
        while self._delayed and self._delayed[0][0] <= now:
            heapq.heappop(self._delayed)[2]()
        time.sleep(max(end - time.monotonic(), 0.0))

    def _run(self, stream: str, mode: Mode, now: float) -> float:
        """Send what is due of a stream; returns when the next is due."""
        period, phase = 1.0 / mode.fps, COLOUR_DELAY if stream == "color" else 0.0
        due = self._due.get(stream)
        if due is None or now - due > (LATEST if stream in MOTION else 2.0 * period):
            # All streams' periods are counted from the same moment, so that equal rates see the same moments.
            due = self._boot + period * np.ceil((now - self._boot) / period) + phase
        while due <= now:
            self._expose(stream, mode, due)
            due += period
        self._due[stream] = due
        return due

    def _expose(self, stream: str, mode: Mode, t: float) -> None:
        if (self.faults.active("stall_stream") or {"stream": None}).get("stream", "depth") == stream:
            return
        size: dict[str, Any] = {}
        if stream in MOTION:
            payload = self._motion(stream, mode.fps, t)
        else:
            image = self._image(stream, mode)
            if image is None:
                return  # the first rendering is under way
            payload, size = image, dict(width=mode.width, height=mode.height, exposure=EXPOSURE, gain=GAIN)
        number = self._sent_numbers[stream] = self._sent_numbers.get(stream, 0) + 1
        if self.faults.active("silence") is not None:
            return
        # What USB mutilates its checksums discard: a lost frame.
        if any(self.faults.hit(name) for name in ("drop", "corrupt", "truncate", "garbage")):
            return
        if size and self.faults.hit("malformed"):
            payload, size["width"] = np.ascontiguousarray(payload[:, 1:]), mode.width - 1
        device_ms = 1e3 * (t - self._boot + self._jump)

        def send() -> None:
            self.port.write(stream, number, device_ms, payload, **size)
            self.sent[stream] = self.sent.get(stream, 0) + 1

        delay = float((self.faults.active("delay") or {}).get("by", 0.0))
        delay += self.faults.rng.random() * float((self.faults.active("jitter") or {}).get("by", 0.0))
        for _ in range(2 if self.faults.hit("duplicate") else 1):
            if delay > 0.0:
                heapq.heappush(self._delayed, (t + delay, next(self._order), send))
            else:
                send()

    # -- what is sensed ----------------------------------------------------------------------------
    def _image(self, stream: str, mode: Mode) -> np.ndarray | None:
        if self.faults.active("freeze") is not None and stream in self._shown:
            return self._shown[stream]
        key, version = (stream, mode), self._scene.version
        seen = self._variants.get(key)
        if seen is None or seen.version != version:
            view = self._scene.view(stream, mode)
            if view is None:
                return None
            seen = self._variants[key] = Variants(version, *self._prepared(stream, view), [])
        _, truth, hole, images = seen
        if len(images) < VARIANTS:
            images.append(
                self._sensor.measure(truth, hole) if hole is not None else grain(truth, self._rng, self._pool)
            )
            image = images[-1]
        else:
            image = images[int(self._rng.integers(VARIANTS))]
            if image is self._shown.get(stream):  # a repeated image means a frozen camera
                image = images[(next(i for i, one in enumerate(images) if one is image) + 1) % VARIANTS]
        self._scene.view(stream, mode)  # keeps its rendering going
        self._shown[stream] = image
        return image

    def _prepared(self, stream: str, view: View) -> tuple[np.ndarray, np.ndarray | None]:
        z, rgb = view
        if stream == "depth":
            assert z is not None, "a scene gives depth to the depth stream"
            return z, holes(z, self.model.nearest, self.model.farthest)
        assert rgb is not None, "a scene gives colour to all other streams"
        image = np.minimum(rgb, 252)
        return (image if stream == "color" else image.mean(axis=2).astype(np.uint8)), None

    def _motion(self, stream: str, rate: int, t: float) -> np.ndarray:
        omega, force = self._robot.inertial() if self._robot is not None else self.swing.inertial(t - self._boot)
        return self._inertial.measure(stream, omega if stream == "gyro" else force, rate)

    def _asic(self) -> float:
        if self.faults.active("overtemp") is not None:
            return 75.0
        return float((self.faults.active("temp") or {}).get("celsius", self.temperature))

    # -- control -----------------------------------------------------------------------------------
    def on_fault(self, name: str, parameters: dict) -> None:
        if name == "time_jump":
            self._jump += float(parameters.get("by", -10.0))
        elif name in ("disconnect", "power_cycle"):
            self.unplug()

    def on_clear(self, name: str) -> None:
        if name == "disconnect":
            self.replug()

    def replug(self) -> None:
        super().replug()
        self._resets = self.port.resets()

    def set(
        self,
        *,
        temperature: float | None = None,
        imu_noise: float | None = None,
        swing: dict | None = None,
        **rest: Any,
    ) -> None:
        """temperature [degC]; imu_noise: factor; swing: {amplitude, angle, frequency} of `Swing`."""
        if rest:
            raise ValueError(f"the camera has no value {', '.join(rest)} to set, only temperature, imu_noise, swing")
        if temperature is not None:
            self.temperature = float(temperature)
        if imu_noise is not None:
            self._inertial.noise = float(imu_noise)
        if swing is not None:
            self.swing = Swing(**swing)

    def stats(self) -> dict:
        return {
            **super().stats(),
            "sent": dict(self.sent),
            "boot": self._boot,
            "renderings": self._scene.version,
            "render_ms": 1e3 * getattr(self._scene, "busy", 0.0),
            "wanted": {k: str(m) for k, m in self.port.wanted().items()},
        }

    def close(self) -> None:
        self._scene.close()
        super().close()


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `refit emulate` that this device has alone."""
    parser.add_argument("--model", choices=sorted(MODELS), default="d435i", help="camera to imitate")
    parser.add_argument("--serial", default="031522070000", help="serial number it reports")
    parser.add_argument("--camera", default="realsense", help="camera of the robot's MJCF that marks the depth imager")
    parser.add_argument("--render-period", type=float, default=0.1, help="time between renderings [s]")


def make(options: argparse.Namespace, faults: Faults) -> RealSenseEmulator:
    """The emulated device that the options describe.

    Raises:
        ValueError: no `--link`.
    """
    if options.link is None:
        raise ValueError("--link is missing: the path that the camera's node opens (parameter emulator_link)")
    world = world_of_plant(options.world) if options.world else None
    return RealSenseEmulator(
        faults, options.link, options.model, options.serial, world, options.camera, options.render_period
    )
