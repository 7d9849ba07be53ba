"""Draws the film of a robot in grains from its bag, in a process of its own: what cameras of its model saw.

python -m cli.demo.grains_drawing FOLDER CAMERA...          # leaves film.webp in it
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from nodes.framework.clouds import cloud_spheres
from recording import BagReader
from sim_core.plant.rendered_camera import RenderedCamera

WIDTH, HEIGHT = 400, 300
#: simulated time between two frames, and how long one is shown [s]
EVERY, SHOWN = 0.5, 0.05


def main(folder: Path, names: Sequence[str]) -> None:
    """Draw."""
    bag = BagReader(folder / "bag")
    robot = bag.run_info()["robot"]
    joints = bag.joint_states()
    passed = np.r_[0.0, np.cumsum(np.maximum(np.diff(joints.t), 0.0))]  # time goes back where a scene begins anew
    times = np.arange(0.0, passed[-1], EVERY)
    rows = np.searchsorted(passed, times, side="right") - 1
    clouds = list(bag.messages("sim_plant/grains"))
    frames, k, grains = [], -1, None
    cameras = [RenderedCamera(robot, name, WIDTH, HEIGHT) for name in names]
    for t, row in zip(times, rows):
        while k + 1 < len(clouds) and 1e-9 * clouds[k + 1][0] <= joints.received[row]:
            k += 1
            grains = None
        if grains is None and k >= 0:
            grains = cloud_spheres(clouds[k][1])
        page = Image.new("RGB", (WIDTH * len(cameras), HEIGHT))
        named = dict(zip(joints.names, joints.q[row]))
        for column, camera in enumerate(cameras):
            page.paste(Image.fromarray(camera.render(named, depth=False, grains=grains).colour), (column * WIDTH, 0))
        ImageDraw.Draw(page).text((8, 6), f"{t:.1f} s", fill=(30, 34, 40))
        frames.append(page)
    for camera in cameras:
        camera.close()
    first, *others = frames
    lasts = round(1000 * SHOWN)
    first.save(folder / "film.webp", save_all=True, append_images=others, duration=lasts, loop=0, quality=60, method=2)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
