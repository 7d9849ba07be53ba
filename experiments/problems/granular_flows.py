"""Grains that move: a gas of them that cools, and a silo that empties through a slot.

Sources: Haff, Journal of Fluid Mechanics 134 (1983); Lun, Savage, Jeffrey, Chepurniy, Journal of Fluid Mechanics 140 (1984);
Carnahan, Starling, Journal of Chemical Physics 51 (1969); Beverloo, Leniger, van de Velde, Chemical Engineering Science 15 (1961);
Nedderman, Statics and Kinematics of Granular Materials (1992), chapter 10, for slots.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from experiments.problems.granular_beds import DENSITY, DIAMETER, balls_for, materials, poured, slice_walls, solid_share
from sim_core.granular.grains import ball
from sim_core.granular.law import Material
from sim_core.granular.population import Grains
from sim_core.granular.tools import Tool, box
from sim_core.granular.world import GranularWorld

__all__ = ["Gas", "Slot", "cooling", "discharge"]


@dataclass(frozen=True)
class Gas:
    """Attributes:
    side: of the cubic grid on which the balls begin. share: of the space that they fill. restitution: of two of them.
    speed: standard deviation of each velocity's component at first [m/s]. seed: of the velocities. times: of the cooling time, how long.
    """

    side: int = 12
    share: float = 0.04
    restitution: float = 0.9
    speed: float = 1.0
    seed: int = 0
    times: float = 3.0


def cooling(gas: Gas) -> dict[str, np.ndarray | float]:
    """Temperature of a gas without weight, friction or spin in a box.

    Walls take energy too (the coefficient of a ball against a wall is the geometric mean with 1), which the prediction includes: both
    terms go with T^(3/2), so that the law keeps its form.

    Returns:
        time (k,) [s], temperature (k,) [m^2/s^2], and the cooling time that kinetic theory says [s].
    """
    d, n = DIAMETER, gas.side**3
    length = (n * np.pi * d**3 / 6.0 / gas.share) ** (1.0 / 3.0)
    # Middles of balls have the box less a radius on each side.
    axis = (np.arange(gas.side) + 0.5) / gas.side * length - 0.5 * length
    place = np.stack(np.meshgrid(axis, axis, axis), -1).reshape(-1, 3)
    h, t = 0.5 * length, 0.1
    walls = []
    for k in range(3):
        for sign in (-1.0, 1.0):
            low, high = np.full(3, -h - t), np.full(3, h + t)
            (low if sign > 0 else high)[k] = sign * h
            walls.append(box(low, high, "wall"))
    grain = ball(0.5 * d, DENSITY)
    # A collision shall last a hundredth of the time between two: k = m_eff (pi / duration)^2.
    duration = 0.01 * length / gas.side / gas.speed
    stiff = 0.5 * grain.mass * (np.pi / duration) ** 2 / (0.25 * d)
    stuff = {
        "grain": Material(friction=0.0, restitution=gas.restitution, stiffness=stiff),
        "wall": Material(friction=0.0, restitution=1.0, stiffness=stiff),
    }
    grains = Grains.of([grain], "grain", np.zeros(n, int), place)
    world = GranularWorld(grains, [Tool("world", tuple(walls))], stuff, gravity=(0.0, 0.0, 0.0), skin=0.5 * d)
    rng = np.random.default_rng([gas.seed, 7])
    v = rng.standard_normal((n, 3))
    v -= v.mean(0)
    world.velocity[:] = gas.speed * v / v.std()
    first = float((world.velocity.astype(float) ** 2).sum(1).mean() / 3.0)
    predicted = cooling_time(gas, length, first)
    every = max(1, round(gas.times * predicted / 60.0 / world.step))
    times, heat = [0.0], [first]
    for _ in range(60):
        world.run(every)
        times.append(world.time)
        heat.append(float((world.velocity.astype(float) ** 2).sum(1).mean() / 3.0))
    return {"time": np.array(times), "temperature": np.array(heat), "predicted": predicted}


def cooling_time(gas: Gas, length: float, temperature: float) -> float:
    """Of T = T0 / (1 + t / tau)^2 by kinetic theory [s], for a box of a side [m] and T0 [m^2/s^2]."""
    d, n = DIAMETER, gas.side**3
    inner = length - d
    share = n * np.pi * d**3 / 6.0 / inner**3
    dense = (1.0 - 0.5 * share) / (1.0 - share) ** 3
    bulk = 8.0 / np.sqrt(np.pi) * (1.0 - gas.restitution**2) * share * dense / d
    # A ball nearer to a wall than d has no partner behind it: a quarter of the partners is missing there in the mean.
    bulk *= 1.0 - 0.25 * 6.0 * d / inner
    # What hits a wall is 1 + 4 share dense times as dense as the gas (its pressure over that of an ideal one), and brings T per mass.
    pressure = 1.0 + 4.0 * share * dense
    walls = 2.0 / 3.0 * pressure * 6.0 / inner / np.sqrt(2.0 * np.pi) * (1.0 - gas.restitution)
    return float(2.0 / ((bulk + walls) * np.sqrt(temperature)))


@dataclass(frozen=True)
class Slot:
    """Attributes:
    openings: widths [diameters]. width, depth, height: of the silo [diameters]. seed: of the filling.
    """

    openings: tuple[float, ...] = (4.0, 6.0, 8.0)
    width: float = 20.0
    depth: float = 4.0
    height: float = 24.0
    seed: int = 0


def discharge(slot: Slot) -> dict[str, np.ndarray | float]:
    """A silo with a flat floor that opens in the middle; what falls out is counted.

    Returns:
        openings (k,) [m]; flow (k,): mass per time and metre of slot, over the middle half of what flows out [kg/s/m];
        early, late (k,): of the first and of the second half of that; bulk: density of the filling [kg/m^3].
    """
    d = DIAMETER
    width, depth, height = slot.width * d, slot.depth * d, slot.height * d
    far = 1.5
    # The walls go down to where grains are caught.
    sides = (
        box((-0.5 * width - 0.1, -far, -0.8), (-0.5 * width, far, far)),
        box((0.5 * width, -far, -0.8), (0.5 * width + 0.1, far, far)),
    )
    catch = box((-far, -far, -0.8), (far, far, -0.7))
    left = Tool("left", (box((-width, -far, -d), (0.0, far, 0.0)),))
    right = Tool("right", (box((0.0, -far, -d), (width, far, 0.0)),))
    tools = [Tool("world", (*slice_walls(depth), *sides, catch)), left, right]
    world = poured(balls_for(width * depth * height, slot.seed), (width, depth), tools, materials(), slot.seed)
    top = float(np.quantile(world.position[:, 2], 0.9))
    bulk = DENSITY * solid_share(world, (width, depth), 0.2 * top, 0.9 * top)
    full, total = world.state(), float(world.mass.sum())
    rows = []
    for opening in slot.openings:
        world.restore(full)
        world.move("left", (-0.5 * opening * d, 0.0, 0.0))
        world.move("right", (0.5 * opening * d, 0.0, 0.0))
        every, out, when = max(1, round(0.01 / world.step)), [0.0], [0.0]
        # The upper half of the filling: what is left then still stands higher than the slot is wide.
        while out[-1] < 0.5 * total and when[-1] < 20.0:
            world.run(every)
            out.append(float(world.mass[world.position[:, 2] < -d].sum()))
            when.append(when[-1] + every * world.step)
        out_, when_ = np.array(out), np.array(when)
        marks = [float(np.interp(share * total, out_, when_)) for share in (0.1, 0.3, 0.5)]
        rows.append(
            [
                0.4 * total / (marks[2] - marks[0]),
                0.2 * total / (marks[1] - marks[0]),
                0.2 * total / (marks[2] - marks[1]),
            ]
        )
    flow, early, late = np.array(rows).T / depth
    return {"openings": np.array(slot.openings) * d, "flow": flow, "early": early, "late": late, "bulk": bulk}
