"""A film strip and a GIF of what moved, drawn off-screen by MuJoCo in a process of its own.

The drawing library has to be chosen before MuJoCo is imported, and a missing or broken one may end
the process: so the demo asks a child, first for EGL, then for OSMesa, and goes on without pictures
if neither works.

    python -m cli.demo.pictures JOB.npz        # what the child runs
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

__all__ = ["Film", "draw"]

BACK_ENDS = ("egl", "osmesa")
TIMEOUT = 60.0  # [s] for one back end


@dataclass(frozen=True)
class Film:
    """What is to be drawn.

    Attributes:
        robot: name in config/robots.
        view: the camera's target (3), distance [m], azimuth and elevation [deg], (6,).
        t, q: times and joint positions of the frames of the GIF, (F,), (F, nq).
        still: indices of the frames of the strip.
        trace, path: points behind the moving one and of the reference, (F, 3) and (P, 3) [m]; may be empty.
        ball: position in `ball_body`'s frame (3,) [m], or empty; drawn from ball_time on.
        ball_radius: [m].
    """

    robot: str
    view: np.ndarray
    t: np.ndarray
    q: np.ndarray
    still: np.ndarray
    trace: np.ndarray
    path: np.ndarray
    ball: np.ndarray
    ball_body: str = ""
    ball_time: float = np.inf
    ball_radius: float = 0.05


def draw(film: Film, folder: Path) -> bytes | str:
    """Draw strip.png and film.gif into `folder`; returns the strip's PNG, or a sentence why there is none."""
    job = Path(folder) / "film.npz"
    np.savez(job, **film.__dict__)
    said = ""
    try:
        for name in BACK_ENDS:
            try:
                child = subprocess.run(
                    [sys.executable, "-m", "cli.demo.pictures", str(job)],
                    capture_output=True,
                    text=True,
                    timeout=TIMEOUT,
                    env={**os.environ, "MUJOCO_GL": name},
                )
            except subprocess.TimeoutExpired:
                said = f"{name} took more than {TIMEOUT:.0f} s"
                continue
            if child.returncode == 0:
                return (Path(folder) / "strip.png").read_bytes()
            said = f"{name}: {(child.stderr.strip().splitlines() or ['failed'])[-1][:200]}"
    finally:
        job.unlink(missing_ok=True)
    return f"No picture: neither EGL nor OSMesa can draw here ({said}). Debian: apt-get install libegl1 libegl-mesa0."


def _main(job: Path) -> None:
    with np.load(job) as data:
        film = Film(**{name: data[name] if data[name].ndim else data[name].item() for name in data.files})
    from PIL import Image

    frames = _frames(film, width=360, height=270)
    stills = [frames[i] for i in film.still]
    strip = (
        np.concatenate(stills, axis=1)
        if len(stills) <= 3
        else np.concatenate(
            [np.concatenate(stills[: len(stills) // 2], axis=1), np.concatenate(stills[len(stills) // 2 :], axis=1)],
            axis=0,
        )
    )
    buffer = io.BytesIO()
    Image.fromarray(strip).save(buffer, "PNG", optimize=True)
    (job.parent / "strip.png").write_bytes(buffer.getvalue())
    images = [Image.fromarray(frame).quantize(64) for frame in frames]
    images[0].save(
        job.parent / "film.gif",
        save_all=True,
        append_images=images[1:],
        loop=0,
        duration=int(1000 * float(np.median(np.diff(film.t)))),
    )


def _frames(film: Film, width: int, height: int) -> list[np.ndarray]:
    import mujoco

    from sim_core.multibody import load_model

    model = load_model(film.robot).mj_model
    data = mujoco.MjData(model)
    camera, frames = mujoco.MjvCamera(), []
    camera.lookat[:], (camera.distance, camera.azimuth, camera.elevation) = film.view[:3], film.view[3:]
    with mujoco.Renderer(model, height, width) as renderer:
        for k, (t, q) in enumerate(zip(film.t, film.q)):
            data.qpos[:] = q
            mujoco.mj_forward(model, data)
            renderer.update_scene(data, camera=camera)
            _line(mujoco, renderer.scene, film.path, (0.35, 0.37, 0.4, 1.0), 0.002)
            _line(mujoco, renderer.scene, film.trace[: k + 1][-40:], (0.0, 0.45, 0.7, 1.0), 0.004)
            if len(film.ball) and t >= film.ball_time:
                body = data.body(film.ball_body)
                _sphere(mujoco, renderer.scene, body.xpos + body.xmat.reshape(3, 3) @ film.ball, film.ball_radius)
            frames.append(_with_time(renderer.render(), t))
    return frames


def _line(mujoco, scene, points, colour, radius) -> None:
    """A chain of capsules through the points (P, 3)."""
    for a, b in zip(points[:-1], points[1:]):
        if scene.ngeom >= scene.maxgeom:
            return
        geom = scene.geoms[scene.ngeom]
        mujoco.mjv_initGeom(
            geom,
            mujoco.mjtGeom.mjGEOM_CAPSULE,
            np.zeros(3),
            np.zeros(3),
            np.eye(3).ravel(),
            np.array(colour, np.float32),
        )
        mujoco.mjv_connector(geom, mujoco.mjtGeom.mjGEOM_CAPSULE, radius, a, b)
        scene.ngeom += 1


def _sphere(mujoco, scene, centre, radius) -> None:
    geom = scene.geoms[scene.ngeom]
    mujoco.mjv_initGeom(
        geom,
        mujoco.mjtGeom.mjGEOM_SPHERE,
        np.full(3, radius),
        np.asarray(centre, float),
        np.eye(3).ravel(),
        np.array((0.8, 0.15, 0.1, 1.0), np.float32),
    )
    scene.ngeom += 1


def _with_time(frame: np.ndarray, t: float) -> np.ndarray:
    from PIL import Image, ImageDraw

    image = Image.fromarray(frame)
    ImageDraw.Draw(image).text((10, 8), f"t = {t:.1f} s", fill=(30, 34, 40))
    return np.asarray(image)


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
