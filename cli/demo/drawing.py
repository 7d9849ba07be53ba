"""Draws a robot frame by frame, off-screen, for the film; the drawing library is MUJOCO_GL's.

python -m cli.demo.drawing JOB.npz FRAMES.raw        # bytes (F, HEIGHT, WIDTH, 3)
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import numpy as np

__all__ = ["HEIGHT", "WIDTH", "fitted"]

WIDTH, HEIGHT = 480, 480
MARGIN = 1.08  # of the frame about the robot
TRAIL = 40  # frames
SLICES, STACKS = 20, 10  # of round shapes, of which the path and the trail are many
PATH, BEEN, LOAD = (0.35, 0.37, 0.4, 1.0), (0.0, 0.45, 0.7, 1.0), (0.8, 0.15, 0.1, 1.0)


def fitted(points: np.ndarray, azimuth: float, elevation: float, fovy: float) -> tuple[np.ndarray, float]:
    """Where a square camera has to look, and from how far, so that points (N, 3) [m] fill its frame.

    Args:
        azimuth, elevation: of the line of sight [deg], as MuJoCo has them. fovy: [deg].

    Returns:
        The point looked at (3,) and the distance from it [m].
    """
    a, e = np.radians([azimuth, elevation])
    forward = np.array([np.cos(e) * np.cos(a), np.cos(e) * np.sin(a), np.sin(e)])
    right = np.array([np.sin(a), -np.cos(a), 0.0])
    across, along = points @ np.stack([right, np.cross(right, forward)], axis=1), points @ forward
    centre = 0.5 * (across.min(axis=0) + across.max(axis=0))
    depth = 0.5 * (along.min() + along.max())
    reach = np.abs(across - centre).max(axis=1) / np.tan(np.radians(fovy) / 2)
    distance = MARGIN * float((reach - (along - depth)).max())
    return right * centre[0] + np.cross(right, forward) * centre[1] + forward * depth, max(distance, 1e-3)


def main(job: Path, frames: Path) -> None:
    """Draw the job's take into a raw file."""
    import mujoco

    from sim_core.multibody import load_model

    with np.load(job) as data:
        film = {name: data[name] if data[name].ndim else data[name].item() for name in data.files}
    model = load_model(film["robot"]).mj_model
    data, camera = mujoco.MjData(model), mujoco.MjvCamera()
    camera.azimuth, camera.elevation = film["view"]
    camera.lookat[:], camera.distance = fitted(
        _extent(mujoco, model, data, film), *film["view"], model.vis.global_.fovy
    )
    model.vis.global_.offwidth, model.vis.global_.offheight = WIDTH, HEIGHT
    model.vis.quality.numslices, model.vis.quality.numstacks = SLICES, STACKS
    # Near and far planes count in extents of the model, which a film may leave.
    model.stat.extent = max(model.stat.extent, camera.distance / 5.0)
    out = np.memmap(frames, np.uint8, "w+", shape=(len(film["t"]), HEIGHT, WIDTH, 3))
    with mujoco.Renderer(model, HEIGHT, WIDTH) as renderer:
        for k, (t, q) in enumerate(zip(film["t"], film["q"])):
            data.qpos[:] = q
            mujoco.mj_forward(model, data)
            renderer.update_scene(data, camera=camera)
            # Each of these takes as long as all the rest together, where no GPU draws.
            renderer.scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = False
            renderer.scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = False
            _line(mujoco, renderer.scene, film["path"], PATH, 0.002)
            _line(mujoco, renderer.scene, film["trace"][: k + 1][-TRAIL:], BEEN, 0.004)
            if len(film["ball"]) and t >= film["change"]:
                body = data.body(film["ball_body"])
                centre = body.xpos + body.xmat.reshape(3, 3) @ film["ball"]
                _sphere(mujoco, renderer.scene, centre, film["ball_radius"])
            out[k] = renderer.render()
    out.flush()


def _extent(mujoco, model, data, film) -> np.ndarray:
    """Corners of the boxes about all that moves in either take, and the path: (N, 3) [m]."""
    solid = (model.geom_bodyid > 0) & (model.geom_type != mujoco.mjtGeom.mjGEOM_PLANE) & (model.geom_rgba[:, 3] > 0)
    centre, half = model.geom_aabb[solid, :3], model.geom_aabb[solid, 3:]
    signs = np.array(list(itertools.product((-1, 1), repeat=3)))
    corners = centre[:, None] + signs * half[:, None]
    points = [film["path"]]
    for q in (*film["q"][::5], *film["other"][::5]):
        data.qpos[:] = q
        mujoco.mj_forward(model, data)
        turned = np.einsum("gij,gkj->gki", data.geom_xmat[solid].reshape(-1, 3, 3), corners)
        points.append((data.geom_xpos[solid][:, None] + turned).reshape(-1, 3))
    return np.concatenate(points)


def _line(mujoco, scene, points, colour, radius) -> None:
    """A chain of capsules through the points (P, 3)."""
    for a, b in zip(points[:-1], points[1:]):
        if scene.ngeom >= scene.maxgeom:
            return
        capsule, geom = mujoco.mjtGeom.mjGEOM_CAPSULE, scene.geoms[scene.ngeom]
        mujoco.mjv_initGeom(geom, capsule, np.zeros(3), np.zeros(3), np.eye(3).ravel(), np.array(colour, np.float32))
        mujoco.mjv_connector(geom, capsule, radius, a, b)
        scene.ngeom += 1


def _sphere(mujoco, scene, centre, radius) -> None:
    mujoco.mjv_initGeom(
        scene.geoms[scene.ngeom],
        mujoco.mjtGeom.mjGEOM_SPHERE,
        np.full(3, radius),
        np.asarray(centre, float),
        np.eye(3).ravel(),
        np.array(LOAD, np.float32),
    )
    scene.ngeom += 1


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
