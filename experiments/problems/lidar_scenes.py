"""What the experiments with the LIDAR share: the published box, what is put into it, and scans of a stand-in for a real sensor.

The box is 1.85 m by 0.92 m with walls of 0.28 m (Heiden, section 3.1.5). What stands in it, and where, was not published: places and
sizes of mirrors, panes and boards are choices. The stand-in's box has corners up to 2 mm off and rougher walls than the model's, its
diode saturates, its samples are of 10 bits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from reporting import PALETTE
from sim_core.lidar.fit import Fit, FitOptions, fit
from sim_core.lidar.material import GLASS, MIRROR, PAPER, Material
from sim_core.lidar.scan import Lidar
from sim_core.lidar.scene import POSE, Body, Scene
from sim_core.lidar.settings import LIGHT
from sim_core.lidar.shapes import pane, panel, room
from sim_core.lidar.stand_in import RealSensor, real_scan, warped

__all__ = ["BOX", "FREE", "MIRRORS", "SOURCE", "Case", "clutter", "draw_scene", "located", "measured", "noise"]

SOURCE = "Heiden, PhD thesis (USC), section 3.1.5; Heiden et al., ICRA 2020"
FREE = ("sensor.x", "sensor.y", "sensor.yaw")
SIZE = (1.85, 0.92, 0.28)
#: spread of a phase that is 10 mm of range [rad]
TEN_MILLIMETRES = 0.01 * 4.0 * math.pi * 46.55e6 / LIGHT
MATERIALS = {"wall": Material(0.6), "mirror": MIRROR, "glass": GLASS, "paper": PAPER}
BOX = Scene((Body("walls", room(SIZE, "wall")),), {"wall": MATERIALS["wall"]})
HEIGHT = SIZE[2]
MIRRORS = Scene(
    (
        *BOX.bodies,
        Body("mirror 1", panel(0.5, HEIGHT, "mirror"), (0.6, 0.3, 0.0, 0.0, 0.0, 0.9), soft=True),
        Body("mirror 2", panel(0.4, HEIGHT, "mirror"), (0.7, -0.2, 0.0, 0.0, 0.0, -0.5), soft=True),
        Body("pane", pane(0.3, HEIGHT, 0.006, "glass"), (0.1, -0.35, 0.0, 0.0, 0.0, -1.2), soft=True),
        Body("panel", panel(0.2, HEIGHT, "paper"), (-0.1, 0.35, 0.0, 0.0, 0.0, 1.3), soft=True),
    ),
    MATERIALS,
)
#: fits among things: stages of softened outlines [rad], and residuals from which on they count by their size [m]
AMONG_THINGS = FitOptions(huber=0.1, gain=1e-5, softness=(0.2, 0.05, 0.01, 0.005), starts=8)


def noise(metres: float = 0.01) -> RealSensor:
    """The stand-in with a spread of its ranges as given, of 0.01 rad more in its saturating diode."""
    return RealSensor(phase_noise=TEN_MILLIMETRES * metres / 0.01, delay=0.01)


def measured(scene: Scene, place: Sequence[float], sensor: RealSensor, seed: int) -> np.ndarray:
    """Ranges (beams,) of the stand-in at `place` (3,), in a scene that is off by a little."""
    rough = {name: replace(m, roughness=0.25) for name, m in scene.materials.items() if name == "wall"}
    bodies = tuple(warped(b, 0.002, seed) if b.name == "walls" else b for b in scene.bodies)
    pose = (place[0], place[1], 0.0, 0.0, 0.0, place[2])
    return real_scan(Scene(bodies, {**scene.materials, **rough}), pose, sensor, seed)


@dataclass(frozen=True)
class Case:
    """A scan to be explained: where the sensor is and where it is thought to be (3,), of the place and the heading."""

    scene: Scene
    truth: tuple[float, float, float]
    start: tuple[float, float, float]
    sensor: RealSensor
    seed: int


def located(case: Case, ranges: np.ndarray, options: FitOptions, around: Sequence[float] = (0.2, 0.2, 0.4)) -> Fit:
    """The sensor's pose by a fit: it stands within the walls; several starts are drawn `around` the first."""
    start = dict(zip(FREE, case.start))
    inside = [(-0.5 * s + 0.02, 0.5 * s - 0.02) for s in SIZE[:2]] + [(-np.inf, np.inf)]
    if options.starts > 1:
        inside = [(max(v - by, a), min(v + by, b)) for v, by, (a, b) in zip(start.values(), around, inside)]
    bounds = dict(zip(FREE, inside))
    return fit(Lidar(case.scene), ranges, start, bounds, options)


def clutter(*bodies: Body, materials: Mapping[str, Material] = {}) -> Scene:
    """The box with bodies in it."""
    return Scene((*BOX.bodies, *bodies), {**MATERIALS, **materials})


def draw_scene(axis: Any, lidar: Lidar, place: Sequence[float], title: str, ranges: np.ndarray | None = None) -> None:
    """From above: bodies, returns by how many surfaces the light met before, and points that were measured."""
    for body in lidar.scene.bodies:
        corners = body.mesh.moved(body.pose).corners[:, [0, 1, 2, 0], :2]
        for line in corners:
            axis.plot(*line.T, color="#8a8f98", lw=2.0 if body.name == "walls" else 1.2, zorder=1)
    at = {f"sensor.{q}": v for q, v in zip(POSE, (place[0], place[1], 0.0, 0.0, 0.0, place[2]))}
    back = lidar.returns(at)
    angle = lidar.settings.angles[back["beam"]] + place[2]
    x, y = place[0] + back["path"] * np.cos(angle), place[1] + back["path"] * np.sin(angle)
    for depth in range(int(back["depth"].max()) + 1):
        some = back["depth"] == depth
        axis.plot(x[some], y[some], ".", ms=2.0, color=PALETTE[depth % len(PALETTE)], label=f"{depth} surfaces before")
    if ranges is not None:
        point = lidar.points(ranges, at)
        axis.plot(point[:, 0], point[:, 1], "+", ms=3.0, color="#444444", alpha=0.4, zorder=0.5, label="measured")
    axis.plot(place[0], place[1], "o", color="black", ms=4)
    axis.set(title=title, xlabel="x [m]", ylabel="y [m]", aspect="equal", xlim=(-1.1, 3.0), ylim=(-1.7, 1.6))
    axis.legend(markerscale=2, fontsize=6, loc="lower left")
