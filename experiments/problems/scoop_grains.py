"""Scoops in grains: a patch of a tray filled with a material's grains, level or sloped, and a scoop led through it as by a spring.

A slope is a bed of even thickness on a floor that is tilted: in the bed's frame gravity leans. Each scoop of a bed begins from
the same state.

Grains are stand-ins where the real ones are too many or too odd: balls of 11.5 mm for sand, pebbles and corn, with the friction of what they
stand for; plates of 28 by 9.5 mm for slates; rods for mulch and for strips of cardboard, which do not bend.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.ndimage import gaussian_filter
from scipy.spatial.transform import Rotation

from sim_core.granular.grains import Clump, ball, plate, rock, rod
from sim_core.granular.law import Material
from sim_core.granular.pictures import height_map
from sim_core.granular.population import Grains, pour
from sim_core.granular.tools import Tool, container
from sim_core.granular.world import GranularWorld, Spheres
from sim_core.scooping.arm.primitive import PrimitiveConfig, ScoopAction, ScoopTrajectory
from sim_core.scooping.arm.scoop_shape import ScoopShape
from sim_core.scooping.bed.actions import Actions
from sim_core.scooping.bed.materials import Soil
from sim_core.scooping.bed.reward import REWARD, alignment
from sim_core.scooping.bed.suite import Recipe
from sim_core.scooping.bed.swept import swept_volume
from sim_core.scooping.bed.terrain import CELL, TRAY, Terrain

__all__ = ["PATCH", "STUFF", "Bed", "Stuff", "scoops_of"]

#: sides and depth of the bed [m]
PATCH, THICK = (0.24, 0.22), 0.095
#: faster than the arm, and still slow for grains: v^2 / (g depth) is below 0.2
FAST = PrimitiveConfig(speed=0.28, turning=5.0)
#: what the arm's end weighs [kg], [kg m^2], and its damping over the critical one
MASS, INERTIA, DAMPED = 2.0, 0.02, 0.7
#: angular stiffness [N m/rad], soft and stiff
ANGULAR = (6.0, 20.0)
#: [s] between two corrections of the scoop's path; way before the surface and after the lift [m]; time after which the load is counted [s]
BEAT, BEFORE, AFTER, WAIT = 0.003, 0.04, 0.07, 0.15
#: of contacts [N/m^2]
STIFFNESS = 1e5


@dataclass(frozen=True)
class Stuff:
    """Grains of a material.

    Attributes:
        shapes: makes the kinds of which there are equal shares, from a seed. packed: share of grain in a loose bed, for the count.
        friction, rolling: see `granular.law.Material`. note: what they stand for. stiffness: of contacts [N/m^2]; the lightest rods are
            given softer ones, so that they sink into each other as far as stones and ask for as long a step.
    """

    shapes: Callable[[int], list[Clump]]
    packed: float
    friction: float
    rolling: float
    note: str
    stiffness: float = STIFFNESS


def _balls(diameter: float, density: float) -> Callable[[int], list[Clump]]:
    return lambda seed: [ball(0.5 * diameter * size, density) for size in np.linspace(0.92, 1.08, 7)]


def _rocks(low: float, high: float, density: float, spheres: int) -> Callable[[int], list[Clump]]:
    return lambda seed: [rock(s, density, 100 * seed + k, spheres) for k, s in enumerate(np.linspace(low, high, 10))]


STUFF = {
    "sand": Stuff(_balls(0.0115, 2600.0), 0.58, 0.6, 0.3, "balls of 11.5 mm for grains of 0.3 to 0.8 mm"),
    "pebbles": Stuff(_balls(0.0115, 2600.0), 0.58, 0.45, 0.1, "balls of 11.5 mm for pebbles of 8 to 10 mm"),
    "slates": Stuff(lambda seed: [plate(0.028, 0.0095, 2700.0)], 0.52, 0.5, 0.05, "plates of 28 by 9.5 mm for 20 to 40 mm"),
    "gravel": Stuff(_rocks(0.015, 0.030, 2600.0, 4), 0.54, 0.7, 0.1, "rocks of 15 to 30 mm"),
    "paper balls": Stuff(_rocks(0.040, 0.060, 120.0, 5), 0.5, 0.6, 0.3, "lumps of 40 to 60 mm"),
    "corn": Stuff(_balls(0.0115, 1250.0), 0.58, 0.45, 0.15, "balls of 11.5 mm for kernels of 3 to 7 mm"),
    "shredded cardboard": Stuff(lambda seed: [rod(s, 0.005, 250.0) for s in (0.03, 0.045, 0.06)], 0.42, 0.8, 0.3, "rods of 30 to 60 mm, 10 mm thick, for strips", 1e4),
    "mulch": Stuff(lambda seed: [rod(s, 0.0055, 500.0) for s in (0.02, 0.03, 0.04)], 0.48, 0.7, 0.2, "rods of 20 to 40 mm, 11 mm thick", 2e4),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Bed:
    """A bed and the scoops that are tried in it, each from the same state.

    Attributes:
        material: a key of `STUFF`. tilt: slope, rising along x [rad]. actions: places are about the middle of the patch. seed: of the filling.
    """

    material: str
    tilt: float
    actions: Actions
    seed: int = 0


def scoops_of(bed: Bed) -> dict[str, np.ndarray]:
    """What each scoop brings.

    Returns:
        Arrays (n,): swept, up, across, depth, stiff as `calibration.Trials` has them; volume [m^3]: of the load as it lies, grains and
        gaps as in the bed; force: greatest mean over a beat [N]; and grains: how many the bed has.
    """
    world, solid = _settled(bed)
    lean = Rotation.from_euler("y", -bed.tilt)
    terrain = _terrain(world, lean, bed.material)
    surface, actions = terrain.surface, bed.actions
    start = surface.at(actions.place[:, 0], actions.place[:, 1])
    still, volumes, forces = world.state(), [], []
    for k in range(len(actions)):
        world.restore(still)
        point = np.array([*actions.place[k], start[k]])
        action = ScoopAction(point, float(actions.yaw[k]), float(actions.depth[k]))
        volume, force = _scoop(world, action, bool(actions.stiff[k]), lean)
        volumes.append(volume / solid)
        forces.append(force)
    up, across = alignment(terrain, actions)
    return {
        "swept": swept_volume(surface, actions),
        "up": up,
        "across": across,
        "depth": actions.depth,
        "stiff": actions.stiff,
        "volume": np.array(volumes),
        "force": np.array(forces),
        "grains": np.full(len(actions), len(world)),
    }


def _settled(bed: Bed) -> tuple[GranularWorld, float]:
    """A bed at rest under gravity that leans, and the share of it that is grain."""
    stuff = STUFF[bed.material]
    shapes = stuff.shapes(bed.seed)
    space = PATCH[0] * PATCH[1] * THICK
    count = round(stuff.packed * space / float(np.mean([shape.volume for shape in shapes])))
    kinds = np.random.default_rng([bed.seed, 81]).integers(len(shapes), size=count)
    grains = pour(Grains.of(shapes, "grain", kinds), PATCH, bed.seed)
    grain = Material(stuff.friction, stuff.rolling, 0.2, stuff.stiffness)
    materials = {"grain": grain, "tool": Material(0.3, 0.0, 0.2, stuff.stiffness)}
    # Walls and floor as rough as the grains: they stand for more of them.
    away = Tool("scoop", ScoopShape().tool(material="tool").parts, (0.0, 0.0, 3.0))
    tools = [container((*PATCH, 2.5), material="grain"), away]
    level = GranularWorld(grains, tools, materials)
    level.settle(longest=2.5, speed=0.01)
    down = Rotation.from_euler("y", -bed.tilt).inv().apply([0.0, 0.0, -9.81])
    lying = level.grains.placed(level.position, level.quaternion)
    world = GranularWorld(lying, tools, materials, gravity=down)
    world.settle(longest=1.0, speed=0.01)
    top = 2.0 * float(np.average(world.position[:, 2].astype(float), weights=world.volume))
    return world, float(world.volume.sum()) / (PATCH[0] * PATCH[1] * top)


def _terrain(world: GranularWorld, lean: Rotation, material: str) -> Terrain:
    """The bed's surface as the fast model has it, in the frame of the tray: heights on its cells, beyond the bed as at its edge."""
    spheres = world.spheres
    center = spheres.center.astype(float)
    center[:, :3] = lean.apply(center[:, :3])
    half = 0.5 * np.array(PATCH) - 0.01
    fine, body = height_map(Spheres(center.astype(np.float32), spheres.body), -half, half, 0.5 * CELL, bottom=-1.0)
    fine = np.where(body < 0, np.median(fine[body >= 0]), fine)
    # A camera's picture is as coarse as the cells; gaps between grains are not the surface.
    smooth = gaussian_filter(fine.astype(float), 2.0, mode="nearest")
    columns, rows = (round(side / CELL) for side in TRAY)
    x, y = ((np.arange(n) + 0.5) * CELL - 0.5 * side for n, side in zip((columns, rows), TRAY))
    i, j = (np.clip(((at + h) / (0.5 * CELL)).astype(int), 0, n - 1) for at, h, n in zip((x, y), half, fine.shape))
    height = smooth[np.ix_(i, j)].T
    one = np.zeros((rows, columns), int)
    recipe = Recipe(1, "Single", (material,))
    return Terrain(recipe, (Soil.of((material,)),), height, one, one.copy(), np.full(height.shape, np.inf), one.copy())


def _scoop(world: GranularWorld, action: ScoopAction, stiff: bool, lean: Rotation) -> tuple[float, float]:
    """Volume of the grains in the scoop after it [m^3], and the greatest force on it [N]."""
    trajectory, shape = ScoopTrajectory(action, FAST), ScoopShape()
    spring = np.repeat([REWARD.stiff if stiff else REWARD.soft, ANGULAR[stiff]], 3)
    heavy = np.repeat([MASS, INERTIA], 3)
    damper = 2.0 * DAMPED * np.sqrt(spring * heavy)
    to_bed = lean.inv()

    def target(t: float) -> tuple[np.ndarray, Rotation]:
        blade = trajectory.at(t)
        position, turn = blade.pose.position.copy(), blade.pose.rotation
        if t < 0.0:
            position += t * FAST.speed * turn[:, 0]
        if t > trajectory.duration:
            position[2] += min((t - trajectory.duration) * FAST.speed, AFTER)
        return to_bed.apply(position), to_bed * Rotation.from_matrix(turn)

    begin, end = -BEFORE / FAST.speed, trajectory.duration + AFTER / FAST.speed + WAIT
    steps = max(1, round(BEAT / world.step))
    beat = steps * world.step
    off, rate = np.zeros(6), np.zeros(6)
    position, turn = target(begin)
    world.move("scoop", position, np.roll(turn.as_quat(), 1))
    peak, t = 0.0, begin
    while t < end:
        t += beat
        off = off + beat * rate
        goal, goal_turn = target(t)
        goal, goal_turn = goal + off[:3], Rotation.from_rotvec(off[3:]) * goal_turn
        velocity, spin = (goal - position) / beat, (goal_turn * turn.inv()).as_rotvec() / beat
        world.move("scoop", velocity=velocity, spin=spin)
        position, turn = goal, goal_turn
        wrench = world.run(steps)["scoop"]
        rate = rate + beat * (wrench - spring * off - damper * rate) / heavy
        peak = max(peak, float(np.linalg.norm(wrench[:3])))
    inside = shape.contains(turn.inv().apply(world.position.astype(float) - position))
    return float(world.volume[inside].sum()), peak
