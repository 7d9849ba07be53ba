"""The simulated camera: what a camera of the robot's model sees, as the driver of a depth camera publishes it.

    sim_camera --ros-args -p robot:=panda_stethoscope -p camera:=scan -p patient:=4

The picture follows the joint states and is drawn by a thread of its own, and only while somebody wants it.
Page: docs/nodes/sim_camera.md.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from dataclasses import dataclass

os.environ.setdefault("MUJOCO_GL", "egl")  # before MuJoCo looks for a window

import numpy as np
from geometry_msgs.msg import TransformStamped
from scipy.spatial.transform import Rotation
from sensor_msgs.msg import CameraInfo, Image, JointState, PointCloud2
from tf2_msgs.msg import TFMessage

from nodes.framework.clouds import cloud_message
from nodes.framework.config import setting
from nodes.framework.joint_state_gate import seconds
from nodes.framework.lifecycle import RefitNode, spin_main
from nodes.framework.polled import create_polled_subscription, take
from nodes.framework.qos import COMMAND, LATCHED, SENSOR
from sim_core.plant import PlantError
from sim_core.plant.patient import patient_entity
from sim_core.plant.rendered_camera import RenderedCamera, View

__all__ = ["SimCamera", "SimCameraConfig", "main"]

LOOK = 0.005  # [s] of wall time between two looks for a joint state
FAULTS = ("", "no_depth", "frozen")
SILENCE = 2.0  # [s] of wall time without joint states that is said


@dataclass(frozen=True)
class SimCameraConfig:
    """Parameters of `sim_camera`."""

    robot: str = setting("panda_stethoscope", description="model in config/robots", read_only=True)
    camera: str = setting("scan", description="of the model, by name", read_only=True)
    width: int = setting(320, "pixels", (16, 1920), "of the picture", read_only=True)
    height: int = setting(240, "pixels", (16, 1080), "of the picture", read_only=True)
    rate: float = setting(5.0, "Hz", (0.1, 60.0), "of pictures, in the time of the joint states", read_only=True)
    frame_id: str = setting("scan_optical_frame", description="frame of the pictures, x right, y down", read_only=True)
    patient: int = setting(-1, "", (-1, 2**31 - 1), "number of the person who lies there; -1: nobody", read_only=True)
    patient_side: str = setting(
        "front", choices=("front", "back"), description="of that person that is up", read_only=True
    )
    patient_position: tuple[float, ...] = setting(
        (0.5, 0.0, 0.18), "m", (-10.0, 10.0), "where the axes of that person's body begin in the world", read_only=True
    )
    seed: int = setting(0, "", (0, 2**31 - 1), "of the depth's noise", read_only=True)
    fault: str = setting(
        "", choices=FAULTS, description="what is wrong with it: nothing is measured, or no picture comes"
    )

    def __post_init__(self) -> None:
        if len(self.patient_position) != 3:
            raise ValueError(f"patient_position: expected three numbers, found {len(self.patient_position)}")


class SimCamera(RefitNode):
    """See the module's docstring."""

    name = "sim_camera"
    Config = SimCameraConfig
    live_parameters = True
    _thread: threading.Thread | None = None

    # -- lifecycle ---------------------------------------------------------------------------------

    def configure(self) -> None:
        c = self.config
        people = [patient_entity(c.patient, c.patient_side, c.patient_position)] if c.patient >= 0 else []
        # Refused here, in words, rather than by the thread; what draws belongs to the thread that made it.
        with RenderedCamera(c.robot, c.camera, c.width, c.height, people, c.seed) as camera:
            pose, self._carrier = camera.render({}, depth=False).pose, camera.carrier
        self._people = people
        self._colour = self.create_publisher(Image, "camera/color/image_raw", SENSOR)
        self._info = self.create_publisher(CameraInfo, "camera/color/camera_info", SENSOR)
        self._depth = self.create_publisher(Image, "camera/aligned_depth_to_color/image_raw", SENSOR)
        self._points = self.create_publisher(PointCloud2, "camera/depth/color/points", SENSOR)
        self._frames = self.create_publisher(TFMessage, "/tf_static", LATCHED)
        self._frames.publish(TFMessage(transforms=[_transform(self._carrier, c.frame_id, pose)]))
        self._states = create_polled_subscription(self, JointState, "joint_states", COMMAND)
        self._times, self._drawn = deque(maxlen=200), 0
        self._due = -np.inf
        self._heard = time.monotonic()

    def activate(self) -> None:
        self._ending = threading.Event()
        self._due, self._heard = -np.inf, time.monotonic()
        self._thread = threading.Thread(target=self._work, name="camera", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        if self._thread is not None:
            self._ending.set()
            self._thread.join()
            self._thread = None

    def cleanup(self) -> None:
        for name in ("_colour", "_info", "_depth", "_points", "_frames"):
            if (publisher := getattr(self, name, None)) is not None:
                self.destroy_publisher(publisher)
        if (states := getattr(self, "_states", None)) is not None:
            self.destroy_subscription(states)
            self._states = None

    def time_jumped_back(self) -> None:
        self._due = -np.inf

    def diagnose(self) -> None:
        if self._thread is None:
            return
        self.diagnostics.set("pictures", self._drawn)
        self.diagnostics.set_percentiles("drawing", self._times)
        self.diagnostics.set("fault", self.config.fault or "none")
        if time.monotonic() - self._heard > SILENCE and self._wanted():
            self.diagnostics.warn("no joint states come, and so no pictures: is the robot there?")

    # -- pictures, on the thread -------------------------------------------------------------------

    def _wanted(self) -> bool:
        return any(
            publisher.get_subscription_count() for publisher in (self._colour, self._info, self._depth, self._points)
        )

    def _work(self) -> None:
        c = self.config
        try:
            with RenderedCamera(c.robot, c.camera, c.width, c.height, self._people, c.seed) as camera:
                while not self._ending.is_set():
                    states = take(self._states)
                    if states:
                        self._heard = time.monotonic()
                        self._see(camera, states[-1][0])
                    self._ending.wait(LOOK)
        except PlantError as error:
            self.get_logger().error(str(error))
            self.diagnostics.error(str(error))

    def _see(self, camera: RenderedCamera, state: JointState) -> None:
        stamp = seconds(state.header.stamp)
        period = 1.0 / self.config.rate
        if self._due - period <= stamp < self._due or not self._wanted() or self.config.fault == "frozen":
            return
        self._due = stamp + period
        began = time.perf_counter()
        measured = bool(self._depth.get_subscription_count() or self._points.get_subscription_count())
        view = camera.render(dict(zip(state.name, state.position)), depth=measured)
        self._publish(camera, view, state.header.stamp)
        self._times.append(time.perf_counter() - began)
        self._drawn += 1

    def _publish(self, camera: RenderedCamera, view: View, stamp) -> None:
        frame = self.config.frame_id
        self._colour.publish(_image(view.colour, "rgb8", stamp, frame))
        self._info.publish(_info(camera.K, view.colour.shape, stamp, frame))
        if not view.depth.size:
            return
        depth = np.full_like(view.depth, np.nan) if self.config.fault == "no_depth" else view.depth
        self._depth.publish(_image(np.rint(1e3 * np.nan_to_num(depth)).astype("<u2"), "16UC1", stamp, frame))
        self._points.publish(cloud_message(camera.points(depth), stamp, frame))


def _image(pixels: np.ndarray, encoding: str, stamp, frame: str) -> Image:
    message = Image(height=pixels.shape[0], width=pixels.shape[1], encoding=encoding, step=pixels.strides[0])
    message.header.stamp, message.header.frame_id = stamp, frame
    message.data = pixels.tobytes()
    return message


def _info(K: np.ndarray, shape: tuple[int, ...], stamp, frame: str) -> CameraInfo:
    message = CameraInfo(height=shape[0], width=shape[1], distortion_model="plumb_bob", d=[0.0] * 5, k=K.ravel())
    message.r, message.p = np.eye(3).ravel(), np.hstack([K, np.zeros((3, 1))]).ravel()
    message.header.stamp, message.header.frame_id = stamp, frame
    return message


def _transform(parent: str, child: str, X: np.ndarray) -> TransformStamped:
    message = TransformStamped(child_frame_id=child)
    message.header.frame_id = parent
    t, r = message.transform.translation, message.transform.rotation
    t.x, t.y, t.z = X[:3, 3].tolist()
    r.x, r.y, r.z, r.w = (float(value) for value in Rotation.from_matrix(X[:3, :3]).as_quat())
    return message


def main(args=None) -> int:
    return spin_main(SimCamera, args)
