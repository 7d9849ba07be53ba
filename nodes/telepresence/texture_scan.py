"""What a surface feels like: a scan with the depth camera at the wrist, when somebody asks, without touching anything.

    texture_scan --ros-args -p camera:=wrist_camera -p side:=right

It listens to the camera only while a scan runs, and moves nothing. Page: docs/nodes/texture_scan.md.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass

import numpy as np
from rclpy.subscription import Subscription
from refit_interfaces.action import ScanTexture
from sensor_msgs.msg import CameraInfo, Image
from std_srvs.srv import Trigger

from nodes.framework.config import setting
from nodes.framework.images import depth_pixels
from nodes.framework.lifecycle import RefitNode, spin_main
from nodes.framework.long_action import LongAction
from nodes.framework.polled import create_polled_service, create_polled_subscription, take, take_requests
from nodes.framework.qos import SENSOR
from sim_core.telepresence.texture.cues import Cue, cue_of
from sim_core.telepresence.texture.height_map import FEWEST, SIDE, HeightMap, ScanError, height_map
from sim_core.telepresence.texture.recognition import Recognised, known_surfaces
from sim_core.telepresence.texture.spectrum import Texture, texture_of_map

__all__ = ["TextureScan", "TextureScanConfig", "main"]

#: [s] between two looks for pictures
LOOK = 0.05
#: pictures that are kept at most
MOST = 60


@dataclass(frozen=True)
class TextureScanConfig:
    """Parameters of `texture_scan`."""

    camera: str = setting(
        "wrist_camera",
        description="before the names of the camera's topics, as its driver has them",
        read_only=True,
    )
    side: str = setting("right", choices=("right", "left"), description="wrist that carries the camera", read_only=True)
    seconds: float = setting(2.0, "s", (0.1, 30.0), "over which pictures are gathered, from the first one, wall time")
    square: float = setting(SIDE, "m", (0.04, SIDE), "side of the square that is mapped; what is smaller is refused")
    patience: float = setting(5.0, "s", (0.1, 60.0), "without a picture after which a scan ends, wall time")


@dataclass(frozen=True, eq=False)
class _Found:
    """What a scan found."""

    scan: HeightMap
    texture: Texture
    surface: Recognised
    cue: Cue


class _Scan:
    """One that runs, for a goal or for requests of the service."""

    def __init__(self, seconds: float, goal=None, header=None) -> None:
        self.seconds, self.goal, self.header = seconds, goal, header
        self.pictures: list[np.ndarray] = []
        self.shape: tuple[int, ...] = ()
        self.info: CameraInfo | None = None
        self.began = self.heard = time.monotonic()
        self.first: float | None = None
        self.depth_reader: Subscription | None = None
        self.info_reader: Subscription | None = None


class TextureScan(RefitNode):
    """See the module's docstring."""

    name = "texture_scan"
    Config = TextureScanConfig
    live_parameters = True
    _scan: _Scan | None = None
    _service = _action = _timer = None

    # -- lifecycle ---------------------------------------------------------------------------------

    def configure(self) -> None:
        known_surfaces()  # refused here if they are not there
        self._service = create_polled_service(self, Trigger, "teleop/texture_scan")
        self._action = LongAction(self, ScanTexture, "scan_texture", self._begin, self._refusal, self._cancel)
        self._timer = self.create_timer(LOOK, self._look, clock=self.steady_clock)

    def stop(self) -> None:
        if self._scan is not None:
            self._fail("The scan was ended: the node stops.")

    def cleanup(self) -> None:
        if self._action is not None:
            self._action.destroy()
        self.discard(*(entity for entity in (self._service, self._timer) if entity is not None))
        self._service = self._action = self._timer = None

    def time_jumped_back(self) -> None:
        if self._scan is not None:
            self._fail("The scan was ended: time went back, and what the camera sees may be elsewhere.")

    def diagnose(self) -> None:
        self.diagnostics.set("scanning", "yes" if self._scan is not None else "no")

    # -- who asks ----------------------------------------------------------------------------------

    def _refusal(self, goal: ScanTexture.Goal) -> str:
        if not self.is_active:
            return "the node is not active"
        if goal.side not in ("", self.config.side):
            return f"this node looks with the {self.config.side} wrist, found side '{goal.side}'"
        if not (np.isfinite(goal.seconds) and 0.0 <= goal.seconds <= 30.0):
            return f"expected 0 to 30 s of pictures, found {goal.seconds:g}"
        return "another scan is running" if self._scan is not None else ""

    def _begin(self, handle) -> None:
        self._start(_Scan(handle.request.seconds or self.config.seconds, goal=handle))

    def _cancel(self, handle) -> None:
        if self._scan is not None and self._scan.goal is handle:
            self._fail("The scan was cancelled.", "canceled")

    def _answer_requests(self) -> None:
        for _, header in take_requests(self._service):
            why = self._refusal(ScanTexture.Goal())
            if why:
                self._service.send_response(Trigger.Response(success=False, message=f"No scan: {why}."), header)
            else:
                self._start(_Scan(self.config.seconds, header=header))

    # -- a scan ------------------------------------------------------------------------------------

    def _start(self, scan: _Scan) -> None:
        camera = self.config.camera.rstrip("/")
        scan.depth_reader = create_polled_subscription(
            self, Image, f"{camera}/aligned_depth_to_color/image_raw", SENSOR
        )
        scan.info_reader = create_polled_subscription(self, CameraInfo, f"{camera}/color/camera_info", SENSOR)
        self._scan = scan

    def _look(self) -> None:
        self._answer_requests()
        scan = self._scan
        if scan is None:
            return
        for message, _ in take(scan.info_reader):
            scan.info = message
        for message, _ in take(scan.depth_reader):
            if not self._gather(scan, message):
                return
        now = time.monotonic()
        if scan.first is not None and now - scan.first >= scan.seconds and len(scan.pictures) >= FEWEST:
            self._complete(scan)
        elif now - scan.heard > self.config.patience:
            self._fail(self._silence(scan))

    def _gather(self, scan: _Scan, message: Image) -> bool:
        """Keep a picture; False: it ended the scan."""
        try:
            picture = depth_pixels(message)
        except ValueError as error:
            self._fail(f"The camera's depth cannot be read: {error}.")
            return False
        if scan.shape not in ((), picture.shape):
            self._fail("The camera's depth cannot be read: the size of its pictures changed during the scan.")
            return False
        scan.shape, scan.heard = picture.shape, time.monotonic()
        if scan.first is None:
            scan.first = scan.heard
        if len(scan.pictures) < MOST:
            scan.pictures.append(picture)
        if scan.goal is not None:
            scan.goal.publish_feedback(
                ScanTexture.Feedback(
                    pictures=len(scan.pictures),
                    prompt="Hold the wrist still before the surface.",
                    elapsed=scan.heard - scan.began,
                )
            )
        return True

    def _silence(self, scan: _Scan) -> str:
        patience, camera = self.config.patience, self.config.camera
        if not scan.pictures:
            return f"No picture of depth came from {camera} within {patience:g} s: is the camera running, and does it send aligned depth?"
        return (
            f"The camera fell silent after {len(scan.pictures)} pictures, expected {FEWEST} at least: "
            f"{camera} sent none for {patience:g} s."
        )

    def _complete(self, scan: _Scan) -> None:
        info = scan.info
        if info is None:
            self._fail(f"The camera's intrinsics are unknown: no camera_info came from {self.config.camera}.")
            return
        if (info.height, info.width) != scan.shape:
            self._fail(
                f"The camera's intrinsics are of pictures of {info.width}x{info.height}, found {scan.shape[1]}x{scan.shape[0]}: "
                "have the driver align depth to colour."
            )
            return
        try:
            measured = height_map(np.array(scan.pictures), np.array(info.k, float).reshape(3, 3), self.config.square)
        except ScanError as error:
            self._fail(f"No texture: {error}.")
            return
        texture = texture_of_map(measured)
        surface = known_surfaces().recognise(texture)
        found = _Found(measured, texture, surface, cue_of(surface.name, texture.roughness, texture.frequency))
        self._end()
        self.diagnostics.tick("scans")
        self.get_logger().info(_sentence(found))
        if scan.goal is not None:
            self._action.finish(scan.goal, _result(found), "succeed")
        else:
            self._service.send_response(Trigger.Response(success=True, message=_texture_text(found)), scan.header)

    def _fail(self, why: str, outcome: str = "abort") -> None:
        scan = self._scan
        self._end()
        self.diagnostics.tick("scans_failed")
        self.get_logger().warning(why)
        if scan.goal is not None:
            self._action.finish(scan.goal, ScanTexture.Result(success=False, message=why), outcome)
        else:
            self._service.send_response(Trigger.Response(success=False, message=why), scan.header)

    def _end(self) -> None:
        """Nothing is listened to any more."""
        scan, self._scan = self._scan, None
        self.destroy_subscription(scan.depth_reader)
        self.destroy_subscription(scan.info_reader)


def _sentence(found: _Found) -> str:
    name = found.surface.name or "of no kind that is known"
    waves = f"{found.texture.frequency:.0f} waves per metre" if found.texture.frequency else "no wave that stands out"
    return f"The surface is {name}: {1e3 * found.texture.roughness:.2f} mm rough, {waves}."


def _result(found: _Found) -> ScanTexture.Result:
    rows, columns = found.scan.heights.shape
    return ScanTexture.Result(
        success=True,
        message=_sentence(found),
        surface=found.surface.name,
        certainty=found.surface.certainty,
        roughness=found.texture.roughness,
        frequency=found.texture.frequency,
        amplitude=found.cue.amplitude,
        vibration=found.cue.vibration,
        resolution=found.scan.pitch,
        rows=rows,
        columns=columns,
        heights=found.scan.heights.astype(np.float32).ravel().tolist(),
    )


def _texture_text(found: _Found) -> str:
    """As the bridge reads it; samples of three decimals keep it within what one message of the link may hold."""
    return json.dumps(
        {
            "surface": found.surface.name,
            "certainty": round(found.surface.certainty, 3),
            "roughness_mm": round(1e3 * found.texture.roughness, 4),
            "frequency_hz": found.cue.vibration,
            "sound": found.cue.sound.tolist(),
        },
        separators=(",", ":"),
    )


def main(args=None) -> int:
    return spin_main(TextureScan, args)
