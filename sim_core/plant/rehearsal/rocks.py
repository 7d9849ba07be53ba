"""Three rocks that look alike: the rough one is to be found by its texture, and put into a box."""

from __future__ import annotations

import numpy as np

from sim_core.plant.rehearsal.scene_view import SceneView
from sim_core.plant.rehearsal.shapes import GRIP, box, document
from sim_core.plant.rehearsal.table import HEIGHT, TABLE_TOP, table
from sim_core.plant.rehearsal.task import Face, Failure, Step, Task
from sim_core.plant.scene import Entity
from sim_core.telepresence.texture.surfaces import texture_surface

__all__ = ["rocks"]

#: half edges of a rock, and of the box's floor and height of its rim [m]; mass of a rock [kg]
HALF, FLOOR, RIM, MASS = (0.03, 0.031, 0.05), (0.09, 0.09), 0.03, 0.35
NAMES = ("stone_right", "stone_middle", "stone_left")
ROUGH, SMOOTH = "rock", "smooth"
#: axes of the face that looks at the robot, in the rock's
FRONT = ((0.0, 0.0, -1.0), (-1.0, 0.0, 0.0), (0.0, 1.0, 0.0))


def rocks(seed: int) -> Task:
    """They stand in a row on the table; the box stands on their right."""
    rng = np.random.default_rng([seed, 10])
    rough = int(rng.integers(3))
    into = (float(rng.uniform(0.76, 0.80)), float(rng.uniform(-0.52, -0.48)), HEIGHT)
    entities, faces = [table()], {}
    for k, (name, y) in enumerate(zip(NAMES, (-0.30, -0.16, -0.02))):
        stone = box(HALF, (0, 0, 0), "0.45 0.42 0.4 1", f'mass="{MASS}" {GRIP}')
        at = (float(rng.uniform(0.82, 0.86)), float(y + rng.uniform(-0.015, 0.015)), HEIGHT + HALF[2] + 0.001)
        entities.append(Entity(name, document(stone), "", at, spawned=False))
        surface = texture_surface(ROUGH if k == rough else SMOOTH, 10 * seed + k)
        faces[name] = Face(surface, (-HALF[0], 0.0, 0.0), FRONT, HALF[1:])
    entities.append(Entity("bin", document(*_bin()), "world", into, spawned=False))
    chosen = NAMES[rough]

    def lies_in_it(view: SceneView, name: str) -> bool:
        off = np.abs(view.position(name)[:2] - np.asarray(into[:2]))
        inside = bool((off < FLOOR).all() and view.position(name)[2] < HEIGHT + RIM + HALF[2] + 0.02)
        return inside and not view.touch(name, "right_palm")

    others = [name for name in NAMES if name != chosen]
    return Task(
        "rocks",
        "the rough rock lies in the box",
        tuple(entities),
        (*NAMES, "bin"),
        (
            Step(
                "Find the rough rock by its texture and lift it.",
                lambda view: view.position(chosen)[2] > HEIGHT + 0.08,
                0.1,
            ),
            Step("Put the rough rock into the box and let go of it.", lambda view: lies_in_it(view, chosen), 0.3),
        ),
        (
            Failure("A smooth rock was put into the box.", lambda view: any(lies_in_it(view, name) for name in others)),
            Failure(
                "A rock fell off the table.",
                lambda view: any(view.position(name)[2] < HEIGHT - 0.1 for name in NAMES),
            ),
        ),
        faces,
        boxes=(TABLE_TOP,),
    )


def _bin() -> list[str]:
    """A floor and four rims."""
    thin, colour = 0.004, "0.2 0.35 0.6 1"
    x, y = FLOOR
    sides = (-1.0, 1.0)
    walls = [((thin, y, 0.5 * RIM), (side * x, 0.0, 0.5 * RIM)) for side in sides]
    walls += [((x, thin, 0.5 * RIM), (0.0, side * y, 0.5 * RIM)) for side in sides]
    return [box((x, y, 0.5 * thin), (0, 0, 0.5 * thin), colour), *(box(half, at, colour) for half, at in walls)]
