"""How much of a gripper its operator sees: pixels of the gripper in the picture of a camera, over those that there would be without
the arms.

    seen = visibility(job)          # Visibility, or the sentence why nothing can be drawn here

M_v is the mean over frames of v(q_i) / v(T_i): v(q_i) counts the gripper's pixels where the arm has brought it, with everything
else in the way; v(T_i) those of the gripper alone, at the pose that was asked for, with both arms removed. A frame in which fewer
than `LEAST` pixels could be seen at best says nothing about what hides them and is left out, and a gripper that lags behind its
target nearer to the camera counts as seen whole.

Drawing happens in a process of its own (`sim_core.host.offscreen`); `python -m sim_core.telepresence.gripper_pixels JOB.npz
PIXELS.npy` is that process.

Source: Zhu, PhD thesis, University of Illinois (2023), eq. (8.2).
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sim_core.host.offscreen import draw_in_child
from sim_core.telepresence.clutch import Pose

if TYPE_CHECKING:
    import mujoco

__all__ = ["LEAST", "Visibility", "VisibilityJob", "visibility"]

#: pixels of a picture, and those of a gripper that count as something to be seen
WIDTH, HEIGHT, LEAST = 240, 180, 20
#: visibility groups of MuJoCo that stand for the gripper, and for what is removed with the arms
GRIPPER, ARMS = 1, 5


@dataclass(frozen=True, eq=False)
class VisibilityJob:
    """What is to be looked at, in N frames.

    Attributes:
        model: MJCF.
        camera: its name in the model; it stands where the eyes are.
        postures: of the whole robot (N, nq) [rad or m].
        palms: poses of the gripper's palm that were asked for (N), in the world.
        palm: the body that, with all that hangs on it, is the gripper.
        arms: bodies that are removed with all that hangs on them, the gripper excepted.
    """

    model: str
    camera: str
    postures: np.ndarray
    palms: list[Pose]
    palm: str
    arms: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Visibility:
    """Pixels of the gripper in N frames.

    Attributes:
        seen: with the arms, where they have brought it (N,).
        alone: without the arms, where it was asked to be (N,).
    """

    seen: np.ndarray
    alone: np.ndarray

    @property
    def counted(self) -> np.ndarray:
        """In which frames there was something to be seen (N,)."""
        return self.alone >= LEAST

    @property
    def share(self) -> float:
        """Mean share of the gripper that is seen, over the frames that count: M_v; NaN where none counts."""
        if not self.counted.any():
            return float("nan")
        return float(np.minimum(self.seen[self.counted] / self.alone[self.counted], 1.0).mean())


def visibility(job: VisibilityJob) -> Visibility | str:
    """Draw each frame with and without the arms and count; the sentence why not, where nothing can be drawn."""
    with tempfile.TemporaryDirectory(prefix="refit-visibility-") as folder:
        file, pixels = Path(folder) / "job.npz", Path(folder) / "pixels.npy"
        np.savez(
            file,
            model=job.model,
            camera=job.camera,
            postures=job.postures,
            places=np.array([pose.position for pose in job.palms]),
            turns=np.array([pose.rotation for pose in job.palms]),
            palm=job.palm,
            arms=np.array(job.arms),
        )
        why = draw_in_child("sim_core.telepresence.gripper_pixels", (str(file), str(pixels)))
        if why:
            return why
        seen, alone = np.load(pixels)
        return Visibility(seen, alone)


def main(job: Path, pixels: Path) -> None:
    """Draw and count: (2, N), seen and alone."""
    import mujoco

    with np.load(job) as file:
        given = {name: file[name] if file[name].ndim else file[name].item() for name in file.files}
    model = mujoco.MjModel.from_xml_string(given["model"])
    model.vis.global_.offwidth, model.vis.global_.offheight = WIDTH, HEIGHT
    data, palm = mujoco.MjData(model), model.body(given["palm"]).id
    arms = [model.body(name).id for name in given["arms"]]
    gripper = [g for g in range(model.ngeom) if _hangs(model, model.geom_bodyid[g], [palm])]
    model.geom_group[[g for g in range(model.ngeom) if _hangs(model, model.geom_bodyid[g], arms)]] = ARMS
    model.geom_group[gripper] = GRIPPER
    shown, bare = mujoco.MjvOption(), mujoco.MjvOption()
    shown.geomgroup[:], bare.geomgroup[:] = 1, 1
    bare.geomgroup[ARMS] = 0
    counts = np.zeros((2, len(given["postures"])), int)
    with mujoco.Renderer(model, HEIGHT, WIDTH) as renderer:
        renderer.enable_segmentation_rendering()

        def pixels_of_gripper(option: mujoco.MjvOption) -> int:
            renderer.update_scene(data, given["camera"], option)
            number, kind = np.moveaxis(renderer.render(), -1, 0)
            return int((np.isin(number, gripper) & (kind == mujoco.mjtObj.mjOBJ_GEOM)).sum())

        for k, posture in enumerate(given["postures"]):
            data.qpos[:] = posture
            mujoco.mj_kinematics(model, data)
            mujoco.mj_camlight(model, data)
            counts[0, k] = pixels_of_gripper(shown)
            _move(data, gripper, palm, given["places"][k], given["turns"][k])
            counts[1, k] = pixels_of_gripper(bare)
    np.save(pixels, counts)


def _hangs(model: mujoco.MjModel, body: int, roots: list[int]) -> bool:
    while body and body not in roots:
        body = model.body_parentid[body]
    return body in roots


def _move(data: mujoco.MjData, geoms: list[int], palm: int, place: np.ndarray, turn: np.ndarray) -> None:
    """Pose the gripper's geoms as if its palm were there."""
    was = data.xmat[palm].reshape(3, 3)
    by = turn @ was.T
    data.geom_xpos[geoms] = (data.geom_xpos[geoms] - data.xpos[palm]) @ by.T + place
    data.geom_xmat[geoms] = (by @ data.geom_xmat[geoms].reshape(-1, 3, 3)).reshape(-1, 9)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
