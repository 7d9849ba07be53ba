"""The simulated camera: what a camera of the robot's model sees, as the driver of a depth camera publishes it.

    sim_camera --ros-args -p robot:=panda_stethoscope -p camera:=scan -p patient:=4
    sim_camera --ros-args -p robot:=avatar -p camera:='' -p streams:='[left_eye, right_eye]'

The picture follows the joint states and is drawn by a thread of its own, and only while somebody wants it.
Page: docs/nodes/sim_camera.md.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from sim_core.host.offscreen import installed_back_end

os.environ.setdefault("MUJOCO_GL", installed_back_end())  # before MuJoCo looks for a window

import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import TransformStamped
from rclpy.parameter import Parameter
from rclpy.publisher import Publisher
from refit_interfaces.srv import SetEyeDistance
from scipy.spatial.transform import Rotation
from sensor_msgs.msg import CameraInfo, CompressedImage, Image, JointState, PointCloud2
from tf2_msgs.msg import TFMessage

from nodes.framework.clouds import cloud_message, cloud_spheres
from nodes.framework.config import setting
from nodes.framework.images import camera_info_message, image_message, jpeg_message
from nodes.framework.joint_state_gate import seconds
from nodes.framework.lifecycle import RefitNode, spin_main
from nodes.framework.polled import create_polled_subscription, take
from nodes.framework.qos import COMMAND, LATCHED, SENSOR
from nodes.plant.scenery_messages import scenery_joints
from nodes.plant.sim_plant_config import REHEARSALS
from sim_core.plant import PlantError
from sim_core.plant.rendered_camera import RenderedCamera, View

__all__ = ["SimCamera", "SimCameraConfig", "main"]

LOOK, DOZE = 0.005, 0.05  # [s] of wall time between two looks for a joint state, and while nobody wants a picture
SAME = 1e-6  # [s] by which a stamp may be early
EYES = "left_eye", "right_eye"  # cameras whose distance may be set to that of a person's own
APART = 0.05, 0.08  # [m] of people's eyes, pupil to pupil
FAULTS = ("", "no_depth", "frozen")
SILENCE = 2.0  # [s] of wall time without joint states that is said


@dataclass(frozen=True)
class SimCameraConfig:
    """Parameters of `sim_camera`."""

    robot: str = setting("panda_stethoscope", description="model in config/robots", read_only=True)
    camera: str = setting("scan", description="of the model, by name; empty: none but those of streams", read_only=True)
    streams: tuple[str, ...] = setting(
        (), description="cameras of the model whose colours go out as JPEG, for people", read_only=True
    )
    width: int = setting(320, "pixels", (16, 1920), "of the picture", read_only=True)
    height: int = setting(240, "pixels", (16, 1080), "of the picture", read_only=True)
    rate: float = setting(5.0, "Hz", (0.1, 60.0), "of pictures, in the time of the joint states", read_only=True)
    frame_id: str = setting("scan_optical_frame", description="frame of the pictures, x right, y down", read_only=True)
    frame_prefix: str = setting("", description="put before the name of the link that carries it", read_only=True)
    depth: bool = setting(True, description="send the image of depth", read_only=True)
    points: bool = setting(True, description="send the cloud", read_only=True)
    patient: int = setting(-1, "", (-1, 2**31 - 1), "number of the person who lies there; -1: nobody", read_only=True)
    patient_side: str = setting(
        "front", choices=("front", "back"), description="of that person that is up", read_only=True
    )
    patient_position: tuple[float, ...] = setting(
        (0.5, 0.0, 0.18), "m", (-10.0, 10.0), "where the axes of that person's body begin in the world", read_only=True
    )
    object: str = setting(
        "", description="soft object that stands there, as sim_plant names it; empty: none", read_only=True
    )
    object_seed: int = setting(0, "", (0, 2**31 - 1), "of its shape, stiffness and camera", read_only=True)
    object_position: tuple[float, ...] = setting(
        (0.5, 0.0, 0.1), "m", (-10.0, 10.0), "where the axes of that object begin in the world", read_only=True
    )
    surface: str = setting(
        "",
        choices=("", "smooth", "gravel", "grooves", "cobbles", "rock"),
        description="kind of a plate's textured face that is seen; empty: none",
        read_only=True,
    )
    surface_seed: int = setting(0, "", (0, 2**31 - 1), "of that face", read_only=True)
    surface_position: tuple[float, ...] = setting(
        (0.75, -0.2, 0.93), "m", (-10.0, 10.0), "where the middle of that face is in the world", read_only=True
    )
    surface_normal: tuple[float, ...] = setting(
        (-0.94, 0.0, 0.34), "", (-1.0, 1.0), "where that face looks to in the world", read_only=True
    )
    rehearsal: str = setting(
        "",
        choices=REHEARSALS,
        description="task whose things are seen, as sim_plant names it; empty: none",
        read_only=True,
    )
    rehearsal_seed: int = setting(0, "", (0, 2**31 - 1), "of where its things are", read_only=True)
    scenery: str = setting(
        "sim_plant/scenery",
        description="topic on which a plant tells where those things are now; until it does, they are where they began",
        read_only=True,
    )
    grains: str = setting(
        "",
        description="topic on which a plant tells of its grains, which are drawn as well; empty: none",
        read_only=True,
    )
    seed: int = setting(0, "", (0, 2**31 - 1), "of the depth's noise", read_only=True)
    eye_distance: float = setting(
        0.0, "m", (0.0, 0.08), "between the cameras left_eye and right_eye, 0.05 to 0.08; 0: as in the model"
    )
    fault: str = setting(
        "", choices=FAULTS, description="what is wrong with it: nothing is measured, or no picture comes"
    )

    def __post_init__(self) -> None:
        if len(self.patient_position) != 3:
            raise ValueError(f"patient_position: expected three numbers, found {len(self.patient_position)}")
        if len(self.object_position) != 3:
            raise ValueError(f"object_position: expected three numbers, found {len(self.object_position)}")
        for name in ("surface_position", "surface_normal"):
            if len(getattr(self, name)) != 3:
                raise ValueError(f"{name}: expected three numbers, found {len(getattr(self, name))}")
        if self.eye_distance and not APART[0] <= self.eye_distance <= APART[1]:
            raise ValueError(f"eye_distance: expected {APART[0]:g} to {APART[1]:g} [m], found {self.eye_distance:g}")
        if not (self.camera or self.streams):
            raise ValueError("expected a camera, streams, or both; found neither: name what is to be drawn")


class SimCamera(RefitNode):
    """See the module's docstring."""

    name = "sim_camera"
    Config = SimCameraConfig
    live_parameters = True
    _thread: threading.Thread | None = None
    _colour = _info = _depth = _points = _frames = _setter = None
    _eyes: dict[str, Publisher] = {}

    # -- lifecycle ---------------------------------------------------------------------------------

    def configure(self) -> None:
        c = self.config
        self._there = []
        if c.patient >= 0:
            from sim_core.plant.patient import patient_entity  # only where somebody lies there

            self._there.append(patient_entity(c.patient, c.patient_side, c.patient_position))
        if c.object:
            from sim_core.plant.soft_object import soft_object_entity  # only where one stands there

            self._there.append(soft_object_entity(c.object, c.object_seed, c.object_position))
        if c.surface:
            from sim_core.plant.textured_plate import textured_plate  # only where one is seen
            from sim_core.telepresence.texture.surfaces import texture_surface

            face = texture_surface(c.surface, c.surface_seed)
            self._there.append(textured_plate(face, c.surface_position, c.surface_normal))
        if c.rehearsal:
            from sim_core.plant.rehearsal.tasks import rehearse  # only where one stands there

            self._there += rehearse(c.rehearsal, c.rehearsal_seed).pictured()
        # Refused here, in words, rather than by the thread; what draws belongs to the thread that made it.
        for name in self._names():
            with self._camera(name) as camera:
                if c.eye_distance:
                    camera.set_baseline(EYES, c.eye_distance)
                camera.render(depth=False)
                mounted = (camera.carrier, camera.mounting)
            if name == c.camera:
                self._offer(*mounted)
        if set(EYES) <= set(self._names()):
            self._setter = self.create_service(SetEyeDistance, "teleop/set_eye_distance", self._on_eye_distance)
        self._eyes = {
            name: self.create_publisher(CompressedImage, f"camera/{name}/image/compressed", SENSOR)
            for name in c.streams
        }
        self._states = create_polled_subscription(self, JointState, "joint_states", COMMAND)
        self._grains, self._loose = None, None
        if c.grains:
            self._grains = create_polled_subscription(self, PointCloud2, c.grains, LATCHED)
        self._scenery, self._others = None, None
        if c.rehearsal:
            self._scenery = create_polled_subscription(self, JointState, c.scenery, COMMAND)
        self._times, self._drawn, self._dropped = deque(maxlen=200), 0, 0
        self._due = None
        self._heard = time.monotonic()

    def _offer(self, carrier: str, mounting: np.ndarray) -> None:
        """The topics of a driver, and where its camera is."""
        c = self.config
        self._colour = self.create_publisher(Image, "camera/color/image_raw", SENSOR)
        self._info = self.create_publisher(CameraInfo, "camera/color/camera_info", SENSOR)
        if c.depth:
            self._depth = self.create_publisher(Image, "camera/aligned_depth_to_color/image_raw", SENSOR)
        if c.points:
            self._points = self.create_publisher(PointCloud2, "camera/depth/color/points", SENSOR)
        self._frames = self.create_publisher(TFMessage, "/tf_static", LATCHED)
        self._tell_place(carrier, mounting)

    def _tell_place(self, carrier: str, mounting: np.ndarray) -> None:
        c = self.config
        carrier = carrier if carrier == "world" else c.frame_prefix + carrier
        self._frames.publish(TFMessage(transforms=[_transform(carrier, c.frame_id, mounting)]))

    def activate(self) -> None:
        self.diagnostics.stand(None)
        self._ending = threading.Event()
        self._due, self._heard = None, time.monotonic()
        self._thread = threading.Thread(target=self._work, name="camera", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        if self._thread is not None:
            self._ending.set()
            self._thread.join()
            self._thread = None

    def cleanup(self) -> None:
        if self._setter is not None:
            self.destroy_service(self._setter)
            self._setter = None
        for name in ("_colour", "_info", "_depth", "_points", "_frames"):
            if (publisher := getattr(self, name)) is not None:
                self.destroy_publisher(publisher)
                setattr(self, name, None)
        for publisher in self._eyes.values():
            self.destroy_publisher(publisher)
        self._eyes = {}
        for name in ("_states", "_grains", "_scenery"):
            if (subscription := getattr(self, name, None)) is not None:
                self.destroy_subscription(subscription)
                setattr(self, name, None)

    def config_changed(self, old: SimCameraConfig, new: SimCameraConfig) -> None:
        if new.eye_distance != old.eye_distance and self._eyes and self._setter is None:
            raise ValueError(f"eye_distance: the cameras {' and '.join(EYES)} are not both drawn here")

    def _on_eye_distance(
        self, request: SetEyeDistance.Request, response: SetEyeDistance.Response
    ) -> SetEyeDistance.Response:
        """The distance of the operator's own eyes becomes that of the robot's."""
        if not APART[0] <= request.distance <= APART[1]:  # which zero and what is no number are not
            response.message = f"expected the distance of a person's eyes, {APART[0]:g} to {APART[1]:g} [m], found {request.distance:g}"
            return response
        (told,) = self.set_parameters([Parameter("eye_distance", value=request.distance)])
        response.success = told.successful
        response.message = f"The eyes are {request.distance:.4f} m apart." if told.successful else told.reason
        return response

    def time_jumped_back(self) -> None:
        self._due = None

    def diagnose(self) -> None:
        if self._thread is None:
            return
        self.diagnostics.set("pictures", self._drawn)
        self.diagnostics.set("dropped", self._dropped)
        self.diagnostics.set_percentiles("drawing", list(self._times))
        self.diagnostics.set("fault", self.config.fault or "none")
        if time.monotonic() - self._heard > SILENCE and self._is_wanted():
            self.diagnostics.warn(
                "no joint states come, and so no pictures: is the robot there, and does its time go on?"
            )

    # -- pictures, on the thread -------------------------------------------------------------------

    def _names(self) -> list[str]:
        """The cameras that are drawn."""
        c = self.config
        return list(dict.fromkeys(filter(None, (c.camera, *c.streams))))

    def _camera(self, name: str) -> RenderedCamera:
        c = self.config
        return RenderedCamera(c.robot, name, c.width, c.height, self._there, c.seed)

    def _is_wanted(self) -> bool:
        return self._driver_is_wanted() or any(map(_listeners, self._eyes.values()))

    def _driver_is_wanted(self) -> bool:
        return any(map(_listeners, (self._colour, self._info, self._depth, self._points)))

    def _work(self) -> None:
        try:
            with ExitStack() as stack:
                cameras, apart = {name: stack.enter_context(self._camera(name)) for name in self._names()}, 0.0
                while not self._ending.is_set():
                    if apart != self.config.eye_distance:
                        apart = self.config.eye_distance
                        self._set_apart(cameras, apart)
                    states = take(self._states)
                    if states:
                        self._heard = time.monotonic()
                    wanted = self._is_wanted() and self.config.fault != "frozen"
                    if not wanted:
                        self._due = None
                    elif states:
                        self._see(cameras, states[-1][0])
                    self._ending.wait(LOOK if wanted else DOZE)
        except PlantError as error:  # it could be drawn when the node was configured
            self.get_logger().error(str(error))
            self.diagnostics.stand(DiagnosticStatus.ERROR, str(error))

    def _set_apart(self, cameras: Mapping[str, RenderedCamera], distance: float) -> None:
        for name, camera in cameras.items():
            camera.set_baseline(EYES, distance)
            if name == self.config.camera:
                self._tell_place(camera.carrier, camera.mounting)

    def _see(self, cameras: Mapping[str, RenderedCamera], state: JointState) -> None:
        if not self._is_due(seconds(state.header.stamp)):
            return
        began, grains = time.perf_counter(), self._seen_grains()
        joints, stamp = dict(zip(state.name, state.position)), state.header.stamp
        others = self._seen_scenery()
        try:
            if self._driver_is_wanted():
                camera = cameras[self.config.camera]
                measured = bool(_listeners(self._depth) or _listeners(self._points))
                self._publish(camera, camera.render(joints, depth=measured, grains=grains, others=others), stamp)
            for name, eye in self._eyes.items():
                if _listeners(eye):
                    colour = cameras[name].render(joints, depth=False, grains=grains, others=others).colour
                    eye.publish(jpeg_message(colour, stamp, f"{name}_optical_frame"))
        except PlantError as error:
            self.diagnostics.tick("states_refused")
            self.diagnostics.warn(f"this joint state cannot be drawn: {error}")
            return
        self._times.append(time.perf_counter() - began)
        self._drawn += 1

    def _seen_grains(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Spheres and colours that the plant told of last; None: it told of none."""
        if self._grains is not None and (told := take(self._grains)):
            try:
                self._loose = cloud_spheres(told[-1][0])
            except ValueError as error:
                self.diagnostics.tick("grains_refused")
                self.diagnostics.warn(str(error))
        return self._loose

    def _seen_scenery(self) -> dict[str, np.ndarray] | None:
        """Where a rehearsed task's things were told to be last, by their joints; None: it has not been told."""
        if self._scenery is not None and (told := take(self._scenery)):
            try:
                self._others = scenery_joints(told[-1][0])
            except ValueError as error:
                self.diagnostics.tick("sceneries_refused")
                self.diagnostics.warn(str(error))
        return self._others

    def _is_due(self, stamp: float) -> bool:
        """Whether a picture of this moment [s] is wanted; those that were due before it and were not drawn are counted."""
        period, due = 1.0 / self.config.rate, self._due
        if due is None or stamp < due - period - SAME:  # the first, or time went back
            self._due = stamp + period
            return True
        if stamp < due - SAME:
            return False
        missed = int((stamp - due + SAME) / period)
        self._dropped += missed
        self._due = due + (missed + 1) * period
        return True

    def _publish(self, camera: RenderedCamera, view: View, stamp) -> None:
        frame = self.config.frame_id
        height, width = view.colour.shape[:2]
        self._colour.publish(image_message(view.colour, "rgb8", stamp, frame))
        self._info.publish(camera_info_message(camera.K, width, height, stamp, frame))
        if not view.depth.size:
            return
        depth = np.full_like(view.depth, np.nan) if self.config.fault == "no_depth" else view.depth
        if _listeners(self._depth):
            millimetres = np.rint(1e3 * np.nan_to_num(depth)).astype("<u2")
            self._depth.publish(image_message(millimetres, "16UC1", stamp, frame))
        if _listeners(self._points):
            colours = view.colour[np.isfinite(depth)]
            self._points.publish(cloud_message(camera.points(depth), stamp, frame, colours))


def _listeners(publisher) -> int:
    return publisher.get_subscription_count() if publisher is not None else 0


def _transform(parent: str, child: str, X: np.ndarray) -> TransformStamped:
    message = TransformStamped(child_frame_id=child)
    message.header.frame_id = parent
    t, r = message.transform.translation, message.transform.rotation
    t.x, t.y, t.z = X[:3, 3].tolist()
    r.x, r.y, r.z, r.w = (float(value) for value in Rotation.from_matrix(X[:3, :3]).as_quat())
    return message


def main(args=None) -> int:
    return spin_main(SimCamera, args)
