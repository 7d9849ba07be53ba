"""A soft object before a robot with a probe: it yields to the probe as its finite elements say, and pushes back on the wrist.

    poked = poked_object("lamb")                            # with `MujocoPlant("panda_poker", poked=poked)`
    poked.force                                             # after each physics step
    RenderedCamera("panda_poker", "scan", entities=[soft_object_entity("lamb")])

The object stands on the table and is fixed there; the plant's own scene does not hold it. Before each physics step the probe's points are
where the robot has them, the solid says what they feel, and that is applied to the link that carries the probe, where a force-torque
sensor feels it. The rest of the arm meets nothing. The solid has neither mass nor damping, and nothing rubs. A camera sees it
a few millimetres off, as a robot's calibration would have it: that shift is the object's own (`SoftObject.camera`).
"""

from __future__ import annotations

import re
from typing import Protocol

import mujoco
import numpy as np

from sim_core.elastic.objects.categories import CATEGORIES, category_object
from sim_core.elastic.objects.figures import FIGURES, figure
from sim_core.elastic.objects.soft_object import SoftObject
from sim_core.elastic.rigid_body import PROBES, RigidBody, cylinder_probe, line_probe
from sim_core.plant.errors import PlantError
from sim_core.plant.scene import Entity

__all__ = ["POSITION", "TIP", "PokedObject", "Pressed", "Solid", "poked_object", "soft_object", "soft_object_entity"]

#: site of a robot's model that is the probe's tip, its z axis back to the wrist
TIP = "probe_tip"
#: where the axes of an object begin, in the world [m]
POSITION = (0.5, 0.0, 0.1)
#: [m] around an object's surface within which it is asked; way of the probe's points after which it is asked again, in every second
#: physics step, and after which it is at once [m]
NEAR, AGAIN, AT_ONCE, STEPS = 0.02, 1e-5, 1e-4, 2
#: between two shades of a picture's colours, 0 to 1, and faces of one shade at least
SHADE, FEWEST = 0.09, 12


class Pressed(Protocol):
    """What a probe feels: force (3,) on it [N], torque (3,) about the origin [N m], in the solid's axes."""

    @property
    def force(self) -> np.ndarray: ...

    @property
    def torque(self) -> np.ndarray: ...


class Solid(Protocol):
    """What yields: points of a rigid body where they are (m, 3) [m], in its axes, and what they feel."""

    def press(self, points: np.ndarray) -> Pressed: ...


class PokedObject:
    """See the module's docstring.

    Args:
        solid: that yields. surface: points of it (n, 3) [m], in its axes, which say where it is. probe: that the robot holds, in the frame of its tip.
        name: of the object. position: of the solid's origin in the world, whose axes it has [m].

    Attributes:
        force, torque: on the probe about the world's origin, in the last physics step (3,) [N], [N m]. calls: of the solid, so far.
    """

    def __init__(
        self,
        solid: Solid,
        surface: np.ndarray,
        probe: RigidBody,
        name: str,
        position: tuple[float, ...] = POSITION,
    ) -> None:
        self.solid, self.probe, self.name = solid, probe, name
        self.position = np.asarray(position, float)
        surface = np.asarray(surface, float) + self.position
        self._low, self._high = surface.min(axis=0) - NEAR, surface.max(axis=0) + NEAR
        self._model: mujoco.MjModel | None = None
        self.calls = 0
        self.reset()

    def reset(self) -> None:
        """Nothing presses; it has no memory."""
        self.force, self.torque = np.zeros(3), np.zeros(3)
        self._asked: np.ndarray | None = None
        self._since = 0

    def meet(self, model: mujoco.MjModel, data: mujoco.MjData, t: float) -> None:
        """Like `press`, with a robot that is new or was put elsewhere, so that where its links are has not been computed.

        Raises:
            PlantError: the robot has no probe.
        """
        self._model = None
        self.press(model, data, t)

    def press(self, model: mujoco.MjModel, data: mujoco.MjData, t: float) -> None:
        """Let it push on the probe until it is called again.

        Raises:
            PlantError: the robot has no probe.
        """
        if model is not self._model:
            self._attend(model, data)
        tip, applied = data.site_xpos[self._site], data.xfrc_applied[self._body]
        points = self.probe.points @ data.site_xmat[self._site].reshape(3, 3).T + tip
        if not ((points > self._low) & (points < self._high)).all(axis=1).any():
            if self._asked is not None:
                self.reset()
            applied[:] = 0.0
            return
        # Finite elements take twice as long as the robot's own steps; a probe goes 4 micrometres in one of them.
        away = np.inf if self._asked is None else float(np.abs(points - self._asked).max())
        self._since += 1
        if away > AT_ONCE or (away > AGAIN and self._since >= STEPS):
            pressed = self.solid.press(points - self.position)
            self.calls, self._asked, self._since = self.calls + 1, points, 0
            self.force = np.asarray(pressed.force, float)
            self.torque = np.asarray(pressed.torque, float) + np.cross(self.position, self.force)
        applied[:3] = self.force
        applied[3:] = self.torque - np.cross(data.xipos[self._body], self.force)

    def _attend(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        """To a model that is new, in which nothing has been computed yet."""
        site = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SITE, TIP)
        if site < 0:
            raise PlantError(f"A soft object stands before a robot with a probe, whose model has a site '{TIP}'.")
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        self._model, self._site, self._body = model, site, int(model.site_bodyid[site])


def soft_object(name: str, seed: int = 0) -> SoftObject:
    """An object by its name: one of FIGURES, or one of a category, as "boxes 3".

    Raises:
        PlantError: there is none of that name.
    """
    if name in FIGURES:
        return figure(name, seed)
    one = re.fullmatch(r"(.+) (\d+)", name)
    if one and one[1] in CATEGORIES:
        return category_object(one[1], int(one[2]), seed)
    raise PlantError(
        f"There is no soft object '{name}'; there are {', '.join(FIGURES)}, and, with a number behind, {', '.join(CATEGORIES)}."
    )


def poked_object(name: str, seed: int = 0, probe: str = "point", position: tuple[float, ...] = POSITION) -> PokedObject:
    """An object and the probe that pokes it; the tip of a point is the rounded one that the object was designed for.

    Raises:
        PlantError: there is no such object or probe.
    """
    if probe not in PROBES:
        raise PlantError(f"There is no probe '{probe}'; there are {', '.join(PROBES)}.")
    it = soft_object(name, seed)
    bodies = {"point": RigidBody(it.tip, "point"), "line": line_probe(), "cylinder": cylinder_probe()}
    return PokedObject(it.truth, it.truth.vertices, bodies[probe], name, position)


def soft_object_entity(name: str, seed: int = 0, position: tuple[float, ...] = POSITION) -> Entity:
    """The object where a camera sees it, and the table below, fixed to the world; neither collides with anything.

    Raises:
        PlantError: there is no such object.
    """
    it, origin = soft_object(name, seed), np.asarray(position, float)
    truth, turn = it.truth, it.camera[:3, :3]
    vertices, normals = truth.vertices @ turn.T + it.camera[:3, 3] + origin, truth.normals @ turn.T
    colour = np.clip(truth.colours[truth.faces].mean(axis=1), 0.0, 1.0)
    meshes, geoms = [], []
    for k, faces in enumerate(_shades(colour)):
        corners, within = np.unique(truth.faces[faces], return_inverse=True)
        shade = " ".join(f"{value:.3f}" for value in colour[faces].mean(axis=0))
        meshes.append(
            f'<mesh name="patch{k}" vertex="{_numbers(vertices[corners])}" normal="{_numbers(normals[corners])}" '
            f'face="{" ".join(map(str, within.ravel()))}" inertia="shell"/>'
        )
        geoms.append(
            f'<geom name="patch{k}" type="mesh" mesh="patch{k}" rgba="{shade} 1" contype="0" conaffinity="0"/>'
        )
    table = f'pos="{origin[0]} {origin[1]} {origin[2] - 0.01}" size="0.24 0.24 0.01"'
    content = (
        f'<mujoco model="soft_object"><asset>{"".join(meshes)}</asset><worldbody>{"".join(geoms)}'
        f'<geom name="table" type="box" {table} rgba="0.55 0.6 0.66 1" contype="0" conaffinity="0"/></worldbody></mujoco>'
    )
    return Entity("soft_object", content, parent="world", spawned=False)


def _numbers(array: np.ndarray) -> str:
    return " ".join(f"{value:.5f}" for value in array.ravel())


def _shades(colour: np.ndarray) -> list[np.ndarray]:
    """Numbers of the faces of each shade, for colours (f, 3): few faces of a shade are given to the one that is nearest."""
    step = np.round(colour / SHADE)
    shades, of, count = np.unique(step, axis=0, return_inverse=True, return_counts=True)
    of, large = of.ravel(), np.flatnonzero(count >= FEWEST)
    if not len(large):
        return [np.arange(len(colour))]
    nearest = large[np.argmin(((shades[:, None] - shades[None, large]) ** 2).sum(-1), axis=1)]
    given = nearest[of]
    return [np.flatnonzero(given == k) for k in large]
