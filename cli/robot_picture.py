"""Draws a robot at its home: MJCF on standard input, PNG on standard output; the drawing library is MUJOCO_GL's."""

from __future__ import annotations

import io
import sys

import mujoco
import numpy as np
from PIL import Image

WIDTH, HEIGHT = 640, 480


def main() -> None:
    """Read, draw, write."""
    model = mujoco.MjModel.from_xml_string(sys.stdin.read())
    model.vis.global_.offwidth, model.vis.global_.offheight = WIDTH, HEIGHT
    data, camera = mujoco.MjData(model), mujoco.MjvCamera()
    if model.nkey:
        data.qpos[:] = model.key_qpos[0]
    mujoco.mj_forward(model, data)
    low, high = data.xpos[1:].min(axis=0), data.xpos[1:].max(axis=0)
    camera.lookat[:], camera.distance = 0.5 * (low + high), 2.0 * max(float(np.linalg.norm(high - low)), 0.05)
    camera.azimuth, camera.elevation = 145.0, -15.0
    with mujoco.Renderer(model, HEIGHT, WIDTH) as renderer:
        renderer.update_scene(data, camera=camera)
        buffer = io.BytesIO()
        Image.fromarray(renderer.render()).save(buffer, "PNG", optimize=True)
    sys.stdout.buffer.write(buffer.getvalue())


if __name__ == "__main__":
    main()
