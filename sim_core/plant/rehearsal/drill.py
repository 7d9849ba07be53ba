"""A drill on a table: taken by its handle, and its bit set on a bolt."""

from __future__ import annotations

import numpy as np

from sim_core.plant.rehearsal.scene_view import SceneView
from sim_core.plant.rehearsal.shapes import GRIP, body, box, cylinder, document
from sim_core.plant.rehearsal.table import HEIGHT, TABLE_TOP, table
from sim_core.plant.rehearsal.task import Failure, Step, Task
from sim_core.plant.scene import Entity

__all__ = ["BIT", "HANDLE", "drill"]

#: of the handle's middle and of the bit's tip in the drill's axes [m]: x along the bit, z up, from the foot's underside
HANDLE, BIT = (0.0, 0.0, 0.095), (0.19, 0.0, 0.175)
#: [m] and [rad] within which the bit sits on the bolt, and [s] for which it has to
NEAR, ALIGNED, SECONDS = 0.012, 0.15, 1.5


def drill(seed: int) -> Task:
    """The drill stands on the right of the table; the bolt is on a board above the table's far edge."""
    rng = np.random.default_rng([seed, 9])
    at = (float(rng.uniform(0.66, 0.72)), float(rng.uniform(-0.36, -0.2)), HEIGHT + 0.001)
    bolt = (float(rng.uniform(0.90, 0.94)), float(rng.uniform(-0.30, -0.12)), float(rng.uniform(1.02, 1.10)))
    tool = document(
        box((0.045, 0.03, 0.0175), (0, 0, 0.0175), "0.15 0.15 0.16 1", 'mass="0.55"'),
        cylinder(0.019, 0.055, (0, 0, 0.09), "0.95 0.7 0.1 1", f'mass="0.2" {GRIP}'),
        cylinder(0.028, 0.07, (0.03, 0, 0.175), "0.95 0.7 0.1 1", 'mass="0.4"', (1, 0, 0)),
        cylinder(
            0.006, 0.045, (0.145, 0, 0.175), "0.5 0.5 0.52 1", 'mass="0.03" contype="0" conaffinity="0"', (1, 0, 0)
        ),
        body("bit", BIT),
        body("handle", HANDLE),
    )
    board = document(
        box((0.01, 0.15, 0.15), (0.02, 0, 0), "0.8 0.8 0.78 1"),
        cylinder(0.012, 0.01, (0, 0, 0), "0.2 0.2 0.22 1", 'contype="0" conaffinity="0"', (1, 0, 0)),
        box((0.01, 0.03, 0.5 * (bolt[2] - HEIGHT)), (0.04, 0, -0.5 * (bolt[2] - HEIGHT)), "0.3 0.3 0.32 1"),
    )

    def lifted(view: SceneView) -> bool:
        held = view.touch("drill", "right_palm")
        return bool(held and view.position("drill")[2] > HEIGHT + 0.05 and not view.touch("drill", "table"))

    def on_the_bolt(view: SceneView) -> bool:
        off = view.position("drill/bit") - np.asarray(bolt)
        along = view.rotation("drill")[:, 0]
        turned = np.arccos(np.clip(along[0], -1.0, 1.0))
        return bool(np.linalg.norm(off) < NEAR and turned < ALIGNED and view.touch("drill", "right_palm"))

    return Task(
        "drill",
        "the drill's bit sits on the bolt",
        (
            table(),
            Entity("drill", tool, "", at, spawned=False),
            Entity("bolt", board, "world", bolt, spawned=False),
        ),
        ("drill", "drill/handle", "drill/bit", "bolt"),
        (
            Step("Take the drill by its handle and lift it.", lifted, 0.2),
            Step("Set the drill's bit on the bolt, straight.", on_the_bolt, SECONDS),
        ),
        (Failure("The drill fell down.", lambda view: bool(view.position("drill")[2] < HEIGHT - 0.1)),),
        boxes=(TABLE_TOP,),
    )
