"""Grains that press: on the floor of a silo, on a wall that is pushed into them or recedes, and on a rod that is dragged.

Sources: Janssen, Zeitschrift des Vereins deutscher Ingenieure 39 (1895); Vanel, Clement, European Physical Journal B 11 (1999);
Rankine, Philosophical Transactions 147 (1857); Albert, Pfeifer, Barabasi, Schiffer, Physical Review Letters 82 (1999).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from experiments.problems.granular_beds import (
    DIAMETER,
    GRAVITY,
    balls,
    balls_for,
    materials,
    poured,
    slice_walls,
    solid_share,
)
from sim_core.granular.tools import Part, Tool, box, container
from sim_core.granular.world import GranularWorld

__all__ = ["Rod", "Silo", "Wall", "bottom_load", "rod_drag", "wall_pressure"]


@dataclass(frozen=True)
class Silo:
    """Attributes:
    count: of the grains. side: of its square section [diameters]. rough: its walls; without friction otherwise.
    descent: way of the floor, in whose second half the load is read [diameters]; a tall column springs back by half a diameter, and its
            walls slip only after that. seed: of the filling.
    """

    count: int
    side: float = 8.0
    rough: bool = True
    descent: float = 1.5
    seed: int = 0


def bottom_load(silo: Silo) -> dict[str, float]:
    """Load on a silo's floor, which goes down slowly so that friction is mobilised at all walls (Vanel and Clement).

    Returns:
        filled: mass [kg]. floor, walls: what they carry, over gravity [kg].
    """
    d = DIAMETER
    side, tall, far = silo.side * d, 4.0, 0.5 * silo.side * d
    stuff = "tool" if silo.rough else "smooth"
    out = far + 0.1
    walls = (
        box((-out, -out, -0.1), (-far, out, tall), stuff),
        box((far, -out, -0.1), (out, out, tall), stuff),
        box((-out, -out, -0.1), (out, -far, tall), stuff),
        box((-out, far, -0.1), (out, out, tall), stuff),
    )
    floor = Tool("floor", (box((-out, -out, -0.1), (out, out, 0.0)),))
    tools = [Tool("walls", walls), floor]
    world = poured(balls(silo.count, silo.seed), (side, side), tools, materials(), silo.seed)
    speed = 0.02
    world.move("floor", velocity=(0.0, 0.0, -speed))
    world.run(round(0.5 * silo.descent * d / speed / world.step))
    wrench = world.run(round(0.5 * silo.descent * d / speed / world.step))
    return {
        "filled": float(world.mass.sum()),
        "floor": float(-wrench["floor"][2] / GRAVITY),
        "walls": float(-wrench["walls"][2] / GRAVITY),
        "bulk": float(world.mass.sum() / world.volume.sum()) * _share(world, side),
    }


def _share(world: GranularWorld, side: float) -> float:
    top = float(np.quantile(world.position[:, 2], 0.9))
    return solid_share(world, (side, side), 0.1 * top, 0.9 * top)


@dataclass(frozen=True)
class Wall:
    """Attributes:
    height: of the bed [diameters]. length, depth: of it. way: of the wall over the height. speed: [m/s]. seed: of the filling.
    """

    height: float
    length: float = 30.0
    depth: float = 4.0
    way: float = 0.1
    speed: float = 0.03
    seed: int = 0


def wall_pressure(wall: Wall) -> dict[str, np.ndarray | float]:
    """Force on a smooth upright wall that goes into a bed, and on one that recedes.

    Returns:
        passive, active: mean force over the second half of the way, over that of a liquid as dense as the bed [1];
        rest: before it moves. into, away: (k,) the same along the way. force: of the passive wall per width [N/m].
        height: of the bed [m].
    """
    d = DIAMETER
    length, depth, height = wall.length * d, wall.depth * d, wall.height * d
    far = 0.5 * length
    bed = Tool(
        "world",
        (*slice_walls(depth), box((-1.0, -1.0, -0.1), (1.0, 1.0, 0.0)), box((far, -1.0, -0.1), (far + 0.1, 1.0, 2.0))),
    )
    pusher = Tool("wall", (box((-far - 0.2, -1.0, 0.0), (-far, 1.0, 2.0), "smooth"),))
    world = poured(
        balls_for(length * depth * height, wall.seed), (length, depth), [bed, pusher], materials(), wall.seed
    )
    still, middle = world.state(), float(np.average(world.position[:, 2].astype(float), weights=world.mass))
    # Of a liquid: mass g (mean height) / length.
    liquid = float(world.mass.sum()) * GRAVITY * middle / length
    rest = -float(world.run(200)["wall"][0]) / liquid
    windows = 20
    every = max(1, round(wall.way * height / wall.speed / windows / world.step))
    found = {}
    for name, sign in (("into", 1.0), ("away", -1.0)):
        world.restore(still)
        world.move("wall", velocity=(sign * wall.speed, 0.0, 0.0))
        found[name] = np.array([-world.run(every)["wall"][0] for _ in range(windows)]) / liquid
    late = slice(windows // 2, None)
    passive = float(found["into"][late].mean())
    return {
        "passive": passive,
        "active": float(found["away"][late].mean()),
        "rest": rest,
        "force": passive * liquid / depth,
        "height": 2.0 * middle,
        **found,
    }


@dataclass(frozen=True)
class Rod:
    """Attributes:
    depths: how deep it stands in the bed [diameters]. thick: its diameter [grains' diameters]. bed: length, width and height of
    the bed [diameters]. way: how far it is dragged [diameters]. speed: [m/s]. seed: of the filling.
    """

    depths: tuple[float, ...]
    thick: float = 3.0
    bed: tuple[float, float, float] = (24.0, 14.0, 11.0)
    way: float = 8.0
    speed: float = 0.1
    seed: int = 0


def rod_drag(rod: Rod) -> dict[str, np.ndarray]:
    """Force on an upright rod with a round end that goes through a bed, slowly.

    Returns:
        depth (k,) [m]; force (k,): mean over the second half of the way [N]; scatter (k,): its standard error [N].
    """
    d = DIAMETER
    length, width, height = (side * d for side in rod.bed)
    half, thick = 0.15, 0.5 * rod.thick * d
    # The origin of the rod is its lowest point.
    stick = Tool("rod", (Part((0.0, 0.0, half), (0.0, 0.0, half + thick), rounding=thick),), (0.0, 0.0, 1.0))
    tray = container((length, width, 1.0))
    world = poured(balls_for(length * width * height, rod.seed), (length, width), [tray, stick], materials(), rod.seed)
    top = 2.0 * float(np.average(world.position[:, 2].astype(float), weights=world.mass))  # of an even bed
    still, forces = world.state(), []
    begin = -0.5 * length + 7.0 * d
    for depth in rod.depths:
        world.restore(still)
        world.move("rod", (begin, 0.0, top + 0.002), velocity=(0.0, 0.0, -0.3))
        world.run(round((depth * d + 0.002) / 0.3 / world.step))
        world.move("rod", velocity=(rod.speed, 0.0, 0.0))
        every = max(1, round(rod.way * d / rod.speed / 20.0 / world.step))
        forces.append([world.run(every)["rod"][0] for _ in range(20)][10:])
    drag = -np.array(forces)
    return {"depth": np.array(rod.depths) * d, "force": drag.mean(1), "scatter": drag.std(1, ddof=1) / np.sqrt(10.0)}
