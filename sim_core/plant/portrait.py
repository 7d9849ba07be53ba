"""Pictures of a model in given postures, drawn without a screen in a process of its own.

    pictures = portraits([Portrait(mjcf, qpos)])          # PNGs, or the sentence why nothing can be drawn here

`python -m sim_core.plant.portrait FOLDER` is that process: it draws a picture beside every job in the folder.
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from sim_core.host.offscreen import draw_in_child

__all__ = ["Portrait", "portraits"]

WIDTH, HEIGHT = 320, 400


@dataclass(frozen=True, eq=False)
class Portrait:
    """One picture.

    Attributes:
        model: MJCF.
        posture: (nq,) [rad or m].
        lookat: the point in its middle (3,) [m]. distance: from it [m].
        azimuth, elevation: of the line of sight [deg]; 180: seen from the front of a robot that looks along x.
    """

    model: str
    posture: np.ndarray
    lookat: tuple[float, float, float] = (0.1, 0.0, 0.95)
    distance: float = 2.6
    azimuth: float = 180.0
    elevation: float = -8.0


def portraits(wanted: Sequence[Portrait]) -> list[bytes] | str:
    """Every picture as a PNG, in the order given; the sentence why not, where nothing can be drawn."""
    with tempfile.TemporaryDirectory(prefix="refit-portraits-") as folder:
        for k, one in enumerate(wanted):
            np.savez(Path(folder) / f"{k:04d}.npz", **asdict(one))
        why = draw_in_child("sim_core.plant.portrait", (folder,))
        return why or [(Path(folder) / f"{k:04d}.png").read_bytes() for k in range(len(wanted))]


def main(folder: Path) -> None:
    """Draw a picture for each job."""
    import mujoco
    from PIL import Image

    for job in sorted(folder.glob("*.npz")):
        with np.load(job) as file:
            given = {name: file[name] if file[name].ndim else file[name].item() for name in file.files}
        model = mujoco.MjModel.from_xml_string(given["model"])
        model.vis.global_.offwidth, model.vis.global_.offheight = WIDTH, HEIGHT
        data, camera = mujoco.MjData(model), mujoco.MjvCamera()
        data.qpos[:] = given["posture"]
        mujoco.mj_forward(model, data)
        camera.lookat[:], camera.distance = given["lookat"], given["distance"]
        camera.azimuth, camera.elevation = given["azimuth"], given["elevation"]
        with mujoco.Renderer(model, HEIGHT, WIDTH) as renderer:
            renderer.update_scene(data, camera=camera)
            # Each of these takes as long as all the rest together, where no GPU draws.
            renderer.scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = False
            renderer.scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = False
            buffer = io.BytesIO()
            Image.fromarray(renderer.render()).save(buffer, "PNG", optimize=True)
        job.with_suffix(".png").write_bytes(buffer.getvalue())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
