"""What an emulated camera sees and feels on a simulated robot: MuJoCo renders the shared world, headless."""

from __future__ import annotations

import threading
import time

import mujoco
import numpy as np

from hardware.emulation.world import SharedWorld
from hardware.realsense.profiles import CameraModel, Mode
from hardware.realsense.scene import View

__all__ = ["CameraOnRobot", "RenderedScene", "frustum"]

#: MuJoCo's camera looks along -z with y up; an optical frame has z forward and y down
R_CO = np.diag([1.0, -1.0, -1.0])


class CameraOnRobot:
    """The robot's model, posed as the shared world says, with a camera on it.

    Args:
        world: shared world.
        camera: name of a camera in its MJCF; it marks the depth imager.

    Raises:
        ValueError: no such camera.
    """

    def __init__(self, world: SharedWorld, camera: str) -> None:
        self.world = world
        self.model = mujoco.MjModel.from_xml_string(world.mjcf)
        self.data = mujoco.MjData(self.model)
        self.camera = mujoco.mj_name2id(self.model, mujoco.mjtObj.mjOBJ_CAMERA, camera)
        if self.camera < 0:
            names = [self.model.camera(i).name for i in range(self.model.ncam)]
            raise ValueError(
                f"the robot has no camera '{camera}', only {', '.join(names) or 'none at all'}: "
                "name one in the MJCF, or pass --camera"
            )
        joints = [self.model.joint(name) for name in world.joints]
        self._q = np.array([joint.qposadr[0] for joint in joints], dtype=int)
        self._v = np.array([joint.dofadr[0] for joint in joints], dtype=int)
        self._before: tuple[float, np.ndarray, np.ndarray] | None = None  # when, velocity, acceleration

    def pose(self) -> float:
        """Take over the newest state; returns its simulated time [s]."""
        state = self.world.state()
        self.data.qpos[self._q], self.data.qvel[self._v] = state.q, state.v
        mujoco.mj_kinematics(self.model, self.data)
        mujoco.mj_comPos(self.model, self.data)
        mujoco.mj_camlight(self.model, self.data)
        mujoco.mj_comVel(self.model, self.data)
        return state.t

    def inertial(self) -> tuple[np.ndarray, np.ndarray]:
        """Angular rate [rad/s] and specific force [m/s^2] at the camera in its optical axes, each (3,).

        The acceleration is the difference of velocities at the world's last two moments that differ.
        """
        t = self.pose()
        twist = np.zeros(6)
        body = int(self.model.cam_bodyid[self.camera])
        mujoco.mj_objectVelocity(self.model, self.data, mujoco.mjtObj.mjOBJ_BODY, body, twist, 0)
        arm = self.data.cam_xpos[self.camera] - self.data.xpos[body]
        velocity = twist[3:] + np.cross(twist[:3], arm)
        if self._before is None or t < self._before[0]:
            now = t, velocity, np.zeros(3)
        elif t > self._before[0]:
            now = t, velocity, (velocity - self._before[1]) / (t - self._before[0])
        else:
            now = self._before
        self._before = now
        R_OW = (self.data.cam_xmat[self.camera].reshape(3, 3) @ R_CO).T
        return R_OW @ twist[:3], R_OW @ (now[2] - self.model.opt.gravity)


class RenderedScene:
    """Views by the imagers of a camera model, rendered on a thread of its own every `period`.

    Args:
        camera: on the robot; this object's own, MuJoCo's data are of one thread.
        period: between renderings [s]; 640x480 costs some 20 ms without a GPU.

    Attributes:
        version: counts renderings.
        busy: time that the last one took [s].
    """

    def __init__(self, camera: CameraOnRobot, model: CameraModel, period: float) -> None:
        self.version, self.busy = 0, 0.0
        self._on, self._model, self._period = camera, model, period
        self._wanted: dict[tuple[str, Mode], float] = {}
        self._views: dict[tuple[str, Mode], View] = {}
        self._fresh = threading.Condition()
        self._closing = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="renderer", daemon=True)
        self._thread.start()

    def view(self, stream: str, mode: Mode) -> View | None:
        """As `Scene.view`; depth is None for the colour stream, colour for the depth stream."""
        if self._failure is not None:
            raise self._failure
        self._wanted[stream, mode] = time.monotonic()
        return self._views.get((stream, mode))

    def close(self) -> None:
        self._closing.set()
        self._thread.join(5.0)

    # -- the rendering thread ----------------------------------------------------------------------
    def _run(self) -> None:
        # EGL contexts belong to the thread that made them.
        renderers: dict[tuple[int, int], mujoco.Renderer] = {}
        try:
            while not self._closing.is_set():
                begin = time.monotonic()
                wanted = [key for key, asked in list(self._wanted.items()) if begin - asked < 1.0]
                if wanted:
                    self._on.pose()
                    views = {key: self._render(renderers, *key) for key in wanted}
                    self._views = views
                    self.version += 1
                    self.busy = time.monotonic() - begin
                self._closing.wait(max(self._period - (time.monotonic() - begin), 0.001))
        except Exception as error:
            self._failure = error
        finally:
            for renderer in renderers.values():
                renderer.close()

    def _render(self, renderers: dict, stream: str, mode: Mode) -> View:
        model, data = self._on.model, self._on.data
        size = mode.height, mode.width
        if size not in renderers:
            model.vis.global_.offwidth = max(model.vis.global_.offwidth, mode.width)
            model.vis.global_.offheight = max(model.vis.global_.offheight, mode.height)
            renderers[size] = mujoco.Renderer(model, *size)
        renderer, imager = renderers[size], self._model.stream(stream)
        near = float(model.vis.map.znear * model.stat.extent)

        def aim() -> None:
            renderer.update_scene(data, camera=self._on.camera)
            offset = data.cam_xmat[self._on.camera].reshape(3, 3) @ R_CO @ np.asarray(imager.position)
            for eye in renderer.scene.camera:
                eye.pos[:] = data.cam_xpos[self._on.camera] + offset
                for name, value in frustum(imager.intrinsics(mode), mode.width, mode.height, near).items():
                    setattr(eye, name, value)

        depth, rgb = None, None
        if stream != "color":
            renderer.enable_depth_rendering()
            aim()
            depth = renderer.render().astype(np.float32)
            renderer.disable_depth_rendering()
        if stream != "depth":
            aim()
            rgb = renderer.render().copy()
        return depth, rgb


def frustum(K: np.ndarray, width: int, height: int, near: float) -> dict[str, float]:
    """MuJoCo's view frustum of a camera matrix K whose integer coordinates are pixel centres."""
    left, right = near * (-0.5 - K[0, 2]) / K[0, 0], near * (width - 0.5 - K[0, 2]) / K[0, 0]
    return dict(
        frustum_center=(left + right) / 2,
        frustum_width=(right - left) / 2,
        frustum_near=near,
        frustum_top=near * (K[1, 2] + 0.5) / K[1, 1],
        frustum_bottom=-near * (height - 0.5 - K[1, 2]) / K[1, 1],
    )
