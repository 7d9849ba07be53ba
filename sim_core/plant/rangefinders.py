"""Ultrasonic rangefinders of a simulated robot: the nearest surface in a cone.

    finders = Rangefinders(model, load_robot("avatar").task.rangefinders, seed=0)
    readings = finders.read(t, lambda: (model, data))       # data with the present kinematics; asked for only when one is due

A cone is a bundle of rays, axis and rings, and its reading the nearest of what they meet, as a first echo is. The robot does not
see itself. Sound that meets a plane at a slant goes away, so that a level floor is not seen; every other surface is taken for rough.
What such a device does besides is not here: cross-talk, echoes by way of a second surface, and soft things that swallow the sound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import mujoco
import numpy as np

from config.description import RangeSite, Teleoperate
from config.robot import load_robot, robot_file
from sim_core.plant.errors import PlantError

__all__ = ["RangeReading", "Rangefinders", "cone", "rangefinders_of"]

#: rings of rays about the axis: 5.0 degrees apart in a cone of 1 rad
RINGS = 6
#: cosine of the angle from a plane's normal beyond which nothing comes back: 45 degrees, so that no cone up to 1.5 rad sees the floor
ECHO = 0.7
#: [m] by which a ray begins anew behind what it shall not see
BEHIND = 1e-4


@dataclass(frozen=True)
class RangeReading:
    """Attributes:
    site: of the rangefinder. stamp: when it was measured [s].
    range: of the nearest surface [m]; inf: none within its reach; its minimum: there or nearer.
    """

    site: str
    stamp: float
    range: float


def cone(angle: float, rings: int = RINGS) -> np.ndarray:
    """Unit vectors (1 + 3 rings (rings + 1), 3) about the z axis that fill a cone of the full angle `angle` [rad] evenly."""
    rays = [np.array([[0.0, 0.0, 1.0]])]
    for ring in range(1, rings + 1):
        off = 0.5 * angle * ring / rings
        about = 2.0 * np.pi * np.arange(6 * ring) / (6 * ring)
        rays.append(
            np.column_stack([np.sin(off) * np.cos(about), np.sin(off) * np.sin(about), np.full(6 * ring, np.cos(off))])
        )
    return np.concatenate(rays)


def rangefinders_of(robot: str) -> tuple[RangeSite, ...]:
    """Those that a robot's description lists; none where there is no description, as of a model alone.

    Args:
        robot: name in config/robots, path of a robot's folder, or path or text of a model. Of one that is not there the plant says so.

    Raises:
        config.description.RobotError: its description is not as it should be.
    """
    path = Path(robot) if "<" not in robot else None
    if path is None or path.suffix:
        return ()
    try:
        folder = robot_file(robot).parent
    except FileNotFoundError:
        return ()
    task = load_robot(folder).task if (folder / "robot.yaml").is_file() else None
    return task.rangefinders if isinstance(task, Teleoperate) else ()


class Rangefinders:
    """Args:
        model: of the robot.
        sites: where they are and what they can; each looks along its site's z axis.
        seed: of their noise, which is theirs alone.

    Raises:
        PlantError: the model has no such site.
    """

    def __init__(self, model: mujoco.MjModel, sites: Sequence[RangeSite], seed: int = 0) -> None:
        there = [model.site(k).name for k in range(model.nsite)]
        if missing := [site.site for site in sites if site.site not in there]:
            raise PlantError(
                f"A rangefinder's site '{missing[0]}' is not in the model; it has {', '.join(there) or 'none'}."
            )
        self.sites = tuple(sites)
        self._cones = [cone(site.field_of_view) for site in self.sites]
        self.reset(0.0, seed)

    def reset(self, t: float, seed: int) -> None:
        """Begin anew at the time t [s]; noise repeats."""
        self._rng = np.random.default_rng([seed, 17])
        self._from, self._made = t, [0] * len(self.sites)
        self._newest: list[RangeReading | None] = [None] * len(self.sites)

    def read(self, t: float, present: Callable[[], tuple[mujoco.MjModel, mujoco.MjData]]) -> list[RangeReading]:
        """The newest reading of each at the time t [s].

        Args:
            present: model, and data whose kinematics are those of t; called where one is due.
        """
        scene = None
        for k, site in enumerate(self.sites):
            if t < self._from + self._made[k] / site.rate - 1e-9:
                continue
            # What was not asked for in time is not made up for.
            self._made[k] = int((t - self._from) * site.rate + 1e-6) + 1
            scene = scene or present()
            self._newest[k] = RangeReading(site.site, t, self._measure(*scene, site, self._cones[k]))
        return [reading for reading in self._newest if reading is not None]

    def _measure(self, model: mujoco.MjModel, data: mujoco.MjData, site: RangeSite, rays: np.ndarray) -> float:
        distance = nearest(model, data, model.site(site.site).id, rays, site.maximum)
        noise = site.noise * self._rng.standard_normal()  # drawn always, so that what is seen changes no later noise
        if not distance <= site.maximum:
            return float("inf")
        return float(np.clip(distance + noise, site.minimum, site.maximum))


def nearest(model: mujoco.MjModel, data: mujoco.MjData, site: int, rays: np.ndarray, reach: float) -> float:
    """Distance of the nearest surface that rays from a site meet [m]; inf: none within `reach`.

    Args:
        data: with the kinematics. rays: unit vectors in the site's axes (n, 3).
    """
    origin = data.site_xpos[site].copy()
    directions = rays @ data.site_xmat[site].reshape(3, 3).T
    n = len(rays)
    body = int(model.site_bodyid[site])
    root = int(model.body_rootid[body])
    hit, distance = np.zeros(n, np.int32), np.zeros(n)
    mujoco.mj_multiRay(model, data, origin, directions.ravel(), None, 1, body, hit, distance, None, n, reach)
    met = np.flatnonzero(hit >= 0)
    geoms = hit[met]
    own = (root > 0) & (model.body_rootid[model.geom_bodyid[geoms]] == root)
    plane = model.geom_type[geoms] == mujoco.mjtGeom.mjGEOM_PLANE
    slant = np.abs(np.einsum("ki,ki->k", data.geom_xmat[geoms].reshape(-1, 3, 3)[:, :, 2], directions[met]))
    found = float(distance[met[~own & (~plane | (slant >= ECHO))]].min(initial=np.inf))
    for k in met[own]:  # behind the robot itself
        if distance[k] < found:
            found = min(
                found, _first_echo(model, data, origin, directions[k], int(hit[k]), float(distance[k]), root, reach)
            )
    return found


def _first_echo(
    model: mujoco.MjModel,
    data: mujoco.MjData,
    origin: np.ndarray,
    direction: np.ndarray,
    geom: int,
    far: float,
    root: int,
    reach: float,
) -> float:
    """Distance along one ray of the first surface that is not the robot's and throws sound back [m]; inf: none."""
    met = np.zeros(1, np.int32)
    while geom >= 0 and far <= reach:
        own = root > 0 and int(model.body_rootid[model.geom_bodyid[geom]]) == root
        if not own:
            plane = model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_PLANE
            slant = abs(float(data.geom_xmat[geom].reshape(3, 3)[:, 2] @ direction)) if plane else 1.0
            return far if slant >= ECHO else np.inf
        begun = far + BEHIND
        ahead = mujoco.mj_ray(model, data, origin + begun * direction, direction, None, 1, -1, met, None)
        geom, far = int(met[0]), begun + ahead
    return np.inf
