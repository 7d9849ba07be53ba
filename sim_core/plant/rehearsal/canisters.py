"""Two canisters that look alike: the heavier one is to be found by lifting, and put onto a mark."""

from __future__ import annotations

import numpy as np

from sim_core.plant.rehearsal.scene_view import SceneView
from sim_core.plant.rehearsal.shapes import GRIP, cylinder, document
from sim_core.plant.rehearsal.table import HEIGHT, TABLE_TOP, table
from sim_core.plant.rehearsal.task import Failure, Step, Task
from sim_core.plant.scene import Entity

__all__ = ["canisters"]

#: [m] of a canister, [kg] of either
RADIUS, HALF, LIGHT, HEAVY = 0.032, 0.08, 0.4, 1.2
#: [m] within which of the mark's middle it has to stand, and by which it has to be lifted
NEAR, LIFTED = 0.05, 0.04
NAMES = ("canister_right", "canister_left")


def canisters(seed: int) -> Task:
    """They stand 0.4 m apart on the table, the mark between them."""
    rng = np.random.default_rng([seed, 6])
    heavy = int(rng.integers(2))
    places = [(rng.uniform(0.70, 0.78), y + rng.uniform(-0.03, 0.03)) for y in (-0.42, -0.04)]
    mark = (rng.uniform(0.70, 0.78), -0.23 + rng.uniform(-0.02, 0.02), HEIGHT)
    entities = [table()]
    for k, (name, place) in enumerate(zip(NAMES, places)):
        mass = HEAVY if k == heavy else LIGHT
        shape = cylinder(RADIUS, HALF, (0, 0, 0), "0.25 0.45 0.6 1", f'mass="{mass}" {GRIP}')
        at = (float(place[0]), float(place[1]), HEIGHT + HALF + 0.001)
        entities.append(Entity(name, document(shape), "", at, spawned=False))
    disk = cylinder(0.06, 0.0005, (0, 0, 0.0005), "0.1 0.6 0.2 1", 'contype="0" conaffinity="0"')
    entities.append(Entity("mark", document(disk), "world", tuple(float(v) for v in mark), spawned=False))
    chosen, other = NAMES[heavy], NAMES[1 - heavy]

    def placed(view: SceneView) -> bool:
        off = view.position(chosen)[:2] - np.asarray(mark[:2])
        stands = view.tilt(chosen) < 0.1 and abs(view.position(chosen)[2] - HEIGHT - HALF) < 0.01
        return bool(np.hypot(*off) < NEAR and stands and not view.touch(chosen, "right_palm"))

    def lifted(view: SceneView) -> bool:
        return bool(view.position(chosen)[2] > HEIGHT + HALF + LIFTED)

    def on_the_mark(view: SceneView) -> bool:
        off = view.position(other)[:2] - np.asarray(mark[:2])
        return bool(
            np.hypot(*off) < NEAR
            and not view.touch(other, "right_palm")
            and view.position(other)[2] < HEIGHT + HALF + 0.01
        )

    return Task(
        "canisters",
        "the heavier canister stands on the mark",
        tuple(entities),
        (*NAMES, "mark"),
        (
            Step("Find the heavier canister: lift it.", lifted, 0.2),
            Step("Put the heavier canister onto the mark and let go of it.", placed, 0.5),
        ),
        (
            Failure("The lighter canister was put onto the mark.", on_the_mark),
            Failure("A canister fell over.", lambda view: any(view.tilt(name) > 1.0 for name in NAMES)),
        ),
        boxes=(TABLE_TOP,),
    )
