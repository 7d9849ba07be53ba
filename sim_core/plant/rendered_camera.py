"""What a camera of a robot's model sees: colour, and depth as a time-of-flight camera measures it.

    with RenderedCamera("panda_stethoscope", "scan", entities=[patient_entity(3)]) as camera:
        view = camera.render(dict(zip(names, q)))
        camera.points(view.depth)                                    # in the optical frame, which stands at view.pose

It draws off-screen, with the library that MUJOCO_GL names (egl, osmesa), and belongs to the thread that made it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType

import mujoco
import numpy as np

from sim_core.granular.pictures import Camera, draw, shaded
from sim_core.granular.world import Spheres
from sim_core.perception.depth_noise import noisy_depth
from sim_core.plant.errors import PlantError
from sim_core.plant.scene import Entity, build_model, robot_mjcf

__all__ = ["RenderedCamera", "View"]

#: optical axes (x right, y down, z forward) in those of MuJoCo's cameras (x right, y up, z backward)
OPTICAL = np.diag([1.0, -1.0, -1.0])
RANGE = (0.15, 5.0)  # [m] that depth is measured in
MOVED = (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE))  # joints that joint states tell of


@dataclass(frozen=True)
class View:
    """One picture.

    Attributes:
        colour: (h, w, 3) of 0 to 255. depth: along the optical axis (h, w) [m]; NaN: not measured.
        pose: of the optical frame in the world (4, 4) [m].
    """

    colour: np.ndarray
    depth: np.ndarray
    pose: np.ndarray


class RenderedCamera:
    """See the module's docstring.

    Args:
        robot: name in config/robots, path or text of a model. camera: of the model, by name.
        width, height: of the picture. entities: what else is in the scene. seed: of the noise of depth.

    Attributes:
        K: intrinsics (3, 3) [pixel]. carrier: name of the body that carries the camera, "world" for a fixed one.
        mounting: pose of the optical frame in its carrier (4, 4) [m], which `set_baseline` alone changes.
        joints: of the robot that move by themselves, by name; others follow them, as the model's equalities say.

    Raises:
        PlantError: no such camera, one that no body carries, or the picture cannot be drawn here; the text says what there is, or
            what to do.
    """

    def __init__(
        self,
        robot: str,
        camera: str,
        width: int = 320,
        height: int = 240,
        entities: Iterable[Entity] = (),
        seed: int = 0,
    ) -> None:
        name, mjcf = robot_mjcf(robot)
        alone = build_model(mjcf)
        moved = [alone.joint(k).name for k in range(alone.njnt) if int(alone.jnt_type[k]) in MOVED]
        self._followers = _followers(alone)
        self.joints = tuple(joint for joint in moved if joint not in self._followers)
        self._model = model = build_model(mjcf, entities)
        self._data = mujoco.MjData(model)
        self._places = model.cam_pos.copy()
        self._address = {joint: int(model.joint(joint).qposadr[0]) for joint in moved}
        own = {alone.joint(k).name for k in range(alone.njnt)}
        self._others = [joint for joint in (model.joint(k).name for k in range(model.njnt)) if joint not in own]
        names = [model.camera(k).name for k in range(model.ncam)]
        if camera not in names:
            raise PlantError(f"{name} has no camera '{camera}'; there are {', '.join(names) or 'none'}.")
        self._camera = k = int(model.camera(camera).id)
        self.carrier = model.body(model.cam_bodyid[k]).name
        if model.cam_mode[k] != mujoco.mjtCamLight.mjCAMLIGHT_FIXED or not self.carrier:
            raise PlantError(
                f"Camera '{camera}' of {name} is carried by no body with a name, so that nobody could tell where it is; "
                'expected one that is fixed to the world or to a named body (mode="fixed").'
            )
        self.mounting = np.eye(4)
        rotation = np.zeros(9)
        mujoco.mju_quat2Mat(rotation, model.cam_quat[k])
        self.mounting[:3, :3], self.mounting[:3, 3] = rotation.reshape(3, 3) @ OPTICAL, model.cam_pos[k]
        focal = 0.5 * height / np.tan(0.5 * np.deg2rad(model.cam_fovy[self._camera]))
        self.K = np.array([[focal, 0.0, 0.5 * (width - 1)], [0.0, focal, 0.5 * (height - 1)], [0.0, 0.0, 1.0]])
        x, y = np.meshgrid((np.arange(width) - self.K[0, 2]) / focal, (np.arange(height) - self.K[1, 2]) / focal)
        self._rays = np.stack([x, y, np.ones_like(x)], axis=-1)  # of length 1 along the optical axis
        self._lengths = np.linalg.norm(self._rays, axis=-1)
        self._rng = np.random.default_rng([seed, 91])
        model.vis.global_.offwidth = max(model.vis.global_.offwidth, width)
        model.vis.global_.offheight = max(model.vis.global_.offheight, height)
        try:
            self._renderer = mujoco.Renderer(model, height, width)
        except Exception as error:  # every back end has its own kind
            raise PlantError(
                f"Nothing can be drawn here ({str(error).strip() or type(error).__name__}): install libegl1, or set MUJOCO_GL=osmesa "
                "with libosmesa6."
            ) from error

    def __enter__(self) -> RenderedCamera:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Free what draws."""
        self._renderer.close()

    def set_baseline(self, pair: tuple[str, str], distance: float) -> None:
        """Set two cameras apart along the line between them, about its middle.

        Args:
            pair: of the model, by name. distance: between them [m]; 0: as the model has it.

        Raises:
            PlantError: there are no two such cameras on one body, or they are in one place.
        """
        model = self._model
        names = [model.camera(k).name for k in range(model.ncam)]
        if missing := [name for name in pair if name not in names]:
            raise PlantError(f"The model has no camera '{missing[0]}'; there are {', '.join(names) or 'none'}.")
        i, j = (int(model.camera(name).id) for name in pair)
        between = self._places[j] - self._places[i]
        apart = float(np.linalg.norm(between))
        if model.cam_bodyid[i] != model.cam_bodyid[j] or apart < 1e-6:
            raise PlantError(f"The cameras {pair[0]} and {pair[1]} are not side by side on one body.")
        middle = 0.5 * (self._places[i] + self._places[j])
        half = 0.5 * (distance or apart) * between / apart
        model.cam_pos[i], model.cam_pos[j] = middle - half, middle + half
        self.mounting[:3, 3] = model.cam_pos[self._camera]

    def render(
        self,
        joints: Mapping[str, float] | None = None,
        depth: bool = True,
        grains: tuple[np.ndarray, np.ndarray] | None = None,
        others: Mapping[str, np.ndarray] | None = None,
    ) -> View:
        """The picture with the robot's joints at these positions by name [rad or m]; None: at home. A free base is at home always.

        Args:
            joints: every one of the robot that moves by itself; of those that follow, any. depth: whether it is wanted; else it is empty.
            grains: spheres in the world, places and radii (n, 4) [m], and their colours (n, 3) of 0 to 255, that are seen as well.
            others: where joints of the entities are, by name, see `World.scenery_joints`; the rest are where they began.

        Raises:
            PlantError: a joint is missing, is none of the robot's, or its position is not finite.
        """
        model, data = self._model, self._data
        data.qpos[:] = model.key_qpos[0, : model.nq] if model.nkey else model.qpos0
        for name in self._others:
            data.joint(name).qpos = model.joint(name).qpos0
        if joints is not None:
            self._check(joints)
            for name, position in joints.items():
                data.qpos[self._address[name]] = position
            for name, (leader, coefficients) in self._followers.items():
                if name not in joints:
                    own, other = self._address[name], self._address[leader]
                    ahead = data.qpos[other] - model.qpos0[other]
                    data.qpos[own] = model.qpos0[own] + np.polynomial.polynomial.polyval(ahead, coefficients)
        for name, place in (others or {}).items():
            if name not in self._others:
                raise PlantError(
                    f"Nothing that is drawn has a joint '{name}'; there are {', '.join(self._others) or 'none'}."
                )
            data.joint(name).qpos = place
        mujoco.mj_kinematics(model, data)
        mujoco.mj_camlight(model, data)
        self._renderer.update_scene(data, self._camera)
        colour = self._renderer.render().copy()
        pose = np.eye(4)
        pose[:3, :3] = data.cam_xmat[self._camera].reshape(3, 3) @ OPTICAL
        pose[:3, 3] = data.cam_xpos[self._camera]
        if not depth and grains is None:
            return View(colour, np.zeros((0, 0)), pose)
        true = self._true_depth()
        if grains is not None:
            colour, true = _with_grains(colour, true, pose, self.K, *grains)
        return View(colour, self._measured(true) if depth else np.zeros((0, 0)), pose)

    def _check(self, joints: Mapping[str, float]) -> None:
        unknown = [name for name in joints if name not in self._address]
        missing = [name for name in self.joints if name not in joints]
        if unknown or missing:
            raise PlantError(
                f"The robot has the joints {', '.join(self.joints) or 'none'}; "
                + "; ".join(
                    f"{', '.join(names)} {what}"
                    for names, what in ((unknown, "is none of them"), (missing, "is missing"))
                    if names
                )
                + "."
            )
        odd = [name for name, position in joints.items() if not np.isfinite(position)]
        if odd:
            raise PlantError(f"The position of joint {', '.join(odd)} is not finite.")

    def points(self, depth: np.ndarray) -> np.ndarray:
        """Points (n, 3) [m] of a picture's depth, in the optical frame."""
        return (depth[..., None] * self._rays)[np.isfinite(depth)]

    def _true_depth(self) -> np.ndarray:
        self._renderer.enable_depth_rendering()
        true = self._renderer.render().astype(float)
        self._renderer.disable_depth_rendering()
        return true

    def _measured(self, true: np.ndarray) -> np.ndarray:
        true[(true < RANGE[0]) | (true > RANGE[1])] = np.nan
        along = true * self._lengths
        noisy = noisy_depth(along, true[..., None] * self._rays, self._rays / self._lengths[..., None], self._rng)
        return noisy / self._lengths


def _followers(model: mujoco.MjModel) -> dict[str, tuple[str, np.ndarray]]:
    """By the name of each joint that follows another: that one, and the coefficients of its position over the other's."""
    follow = model.eq_type == mujoco.mjtEq.mjEQ_JOINT
    return {
        model.joint(int(model.eq_obj1id[k])).name: (
            model.joint(int(model.eq_obj2id[k])).name,
            model.eq_data[k, :5].copy(),
        )
        for k in np.flatnonzero(follow & (model.eq_obj2id >= 0))
    }


def _with_grains(
    colour: np.ndarray, depth: np.ndarray, pose: np.ndarray, K: np.ndarray, spheres: np.ndarray, colours: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Colour and depth of a picture with the spheres that are before what it shows."""
    height, width = depth.shape
    camera = Camera(pose[:3, 3], pose[:3, :3], K, width, height)
    picture = draw(Spheres(spheres, np.arange(len(spheres))), camera, depth)
    return shaded(picture, np.asarray(colours) / 255.0, colour), picture.depth.astype(float)
