"""A table before the robot."""

from __future__ import annotations

from sim_core.plant.rehearsal.shapes import box, cylinder, document
from sim_core.plant.scene import Entity

__all__ = ["EDGE", "HEIGHT", "TABLE_TOP", "table"]

#: [m] of the top over the floor, and of its edge before the robot's middle
HEIGHT, EDGE = 0.75, 0.62
#: [m] of the top
DEPTH, WIDTH, THICK = 0.5, 1.6, 0.03
#: its top for whoever keeps away from it
TABLE_TOP = f"table: {EDGE + 0.5 * DEPTH:g} 0 {HEIGHT - 0.5 * THICK:g} {DEPTH:g} {WIDTH:g} {THICK:g}"


def table() -> Entity:
    """Its top is at HEIGHT."""
    middle = (EDGE + 0.5 * DEPTH, 0.0, HEIGHT)
    top = box((0.5 * DEPTH, 0.5 * WIDTH, 0.5 * THICK), (0, 0, -0.5 * THICK), "0.72 0.56 0.4 1")
    half = 0.5 * (HEIGHT - THICK)
    legs = [
        cylinder(0.025, half, (x, y, -THICK - half), "0.3 0.3 0.32 1")
        for x in (-0.5 * DEPTH + 0.05, 0.5 * DEPTH - 0.05)
        for y in (-0.5 * WIDTH + 0.05, 0.5 * WIDTH - 0.05)
    ]
    return Entity("table", document(top, *legs), "world", middle, spawned=False)
