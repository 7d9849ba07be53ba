"""A passage between two rocks, hardly wider than the robot's base."""

from __future__ import annotations

import numpy as np

from sim_core.plant.rehearsal.shapes import box, document
from sim_core.plant.rehearsal.task import Failure, Step, Task
from sim_core.plant.scene import Entity

__all__ = ["GAP", "passage"]

#: [m] between the rocks; the base is 0.60 m wide, and the arms reach over
GAP = 0.80
#: half edges of a rock [m]
HALF = (0.35, 0.4, 0.34)
ROCKS = ("rock_right", "rock_left")


def passage(seed: int) -> Task:
    """It begins 1.2 m and more ahead, up to 0.3 m to the side."""
    rng = np.random.default_rng([seed, 8])
    ahead, aside = float(rng.uniform(1.25, 1.45)), float(rng.uniform(-0.3, 0.3))
    rock = document(box(HALF, (0, 0, HALF[2]), "0.55 0.42 0.33 1"))
    sides = (aside - 0.5 * GAP - HALF[1], aside + 0.5 * GAP + HALF[1])
    scenery = tuple(Entity(name, rock, "world", (ahead, y, 0.0), spawned=False) for name, y in zip(ROCKS, sides))
    beyond = ahead + HALF[0] + 0.55  # the base ends 0.5 m behind its middle
    return Task(
        "passage",
        "the robot is through the passage",
        scenery,
        ROCKS,
        (Step("Drive through the passage between the rocks.", lambda view: view.position("base")[0] > beyond),),
        (Failure("The robot touched a rock.", lambda view: any(view.touch(name, "base") for name in ROCKS)),),
    )
