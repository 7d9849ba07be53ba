"""Grains in the tray before an arm that scoops (see `grains_at_tool` for how they meet the scoop), and what lies in the scoop.

    tray = GranularTray(TrayFill(count=3000), Tray.of(model))      # with `MujocoPlant("ur5e_scoop", tray=tray)`
    tray.load                                                      # volume of the grains in the scoop [m^3]
    camera.render(joints, grains=tray.seen())

Grains lie in a part of the tray, a patch whose walls keep them together, since a whole tray of them would be a hundred thousand. What falls
beyond the patch or the bin falls onto the ground and stays there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.spatial.transform import Rotation

from sim_core.granular.grains import Clump, ball, rock
from sim_core.granular.law import Material, longest_step
from sim_core.granular.pictures import height_map
from sim_core.granular.population import Grains
from sim_core.granular.tools import Part, Tool, box
from sim_core.granular.world import GranularWorld
from sim_core.plant.errors import PlantError
from sim_core.plant.grains_at_tool import REST, WIDE, GrainsAtTool, Led
from sim_core.plant.scene import Entity
from sim_core.scooping.arm.scoop_shape import ScoopShape
from sim_core.scooping.arm.tray import Tray

__all__ = ["BLADE", "GranularTray", "TrayFill"]

#: site of a robot's model that is the middle of its scoop's edge
BLADE = "blade"
#: name of the scoop, and of everything that stands still, in the grains' world
SCOOP, STILL = "scoop", "still"
#: inside of the bin: half side and height [m]; where it stands in the world [m]
BIN, BIN_AT = (0.12, 0.12), (0.0, -0.58)
#: thickness of walls [m]; of the ground below everything [m]
WALL, GROUND = 0.05, 0.2
#: height of a patch's walls [m]
HIGH = 0.2
#: [m] of a grain from the middle of the scoop at which the grains are computed
NEAR = 0.17
WOOD = "0.5 0.4 0.3 1"
#: kinds of rocks that a fill is made of
KINDS = 12
#: over the densest loose lattice, by which a fill sinks when it settles
SPACING = 2.02


@dataclass(frozen=True)
class TrayFill:
    """What lies in the tray.

    Attributes:
        count: of grains. size: least and greatest diameter [m]. shape: ball or rock. density: [kg/m^3].
        friction, rolling, restitution, stiffness, adhesion: of the grains, see `Material`. steel: friction of scoop and walls.
        patch: sides in which they lie, along the tray's x and y, in its middle [m]. relief: a level, a cone in the middle, or a slope that
            rises along x. steep: slope of those [1]. colour: of a grain, 0 to 255.
        seed: of shapes, sizes and places.
    """

    count: int = 3000
    size: tuple[float, float] = (0.009, 0.011)
    shape: Literal["ball", "rock"] = "ball"
    density: float = 2500.0
    friction: float = 0.6
    rolling: float = 0.15
    restitution: float = 0.2
    stiffness: float = 2e5
    adhesion: float = 0.0
    steel: float = 0.3
    patch: tuple[float, float] = (0.36, 0.36)
    relief: Literal["level", "pile", "slope"] = "pile"
    steep: float = 0.45
    colour: tuple[int, int, int] = (168, 142, 104)
    seed: int = 0

    def __post_init__(self) -> None:
        if self.count < 1 or not 0.0 < self.size[0] <= self.size[1]:
            raise ValueError(f"a fill has grains, of sizes that grow, found {self.count} of {self.size} m")
        if min(self.patch) < 4.0 * self.size[1]:
            raise ValueError(f"a patch is several grains wide, found {self.patch} m for grains of {self.size[1]:g} m")

    def shapes(self, rng: np.random.Generator) -> list[Clump]:
        """Some kinds of its grains."""
        sizes = rng.uniform(*self.size, KINDS)
        if self.shape == "ball":
            return [ball(0.5 * size, self.density) for size in sizes]
        return [rock(size, self.density, seed=1000 * self.seed + k) for k, size in enumerate(sizes)]


class GranularTray(GrainsAtTool):
    """See the module's docstring.

    Args:
        fill: what lies in it. tray: where it stands. step: of the plant's physics [s]. threads: of the CPU for the grains.

    Attributes:
        see `GrainsAtTool`; the tool's origin is the middle of the scoop's edge.

    Raises:
        PlantError: grains fly apart while they settle.
    """

    def __init__(
        self,
        fill: TrayFill,
        tray: Tray,
        step: float = 0.002,
        threads: int = 1,
        shape: ScoopShape = ScoopShape(),
    ) -> None:
        self.fill, self.tray, self.shape = fill, tray, shape
        rng = np.random.default_rng([fill.seed, 17])
        shapes = fill.shapes(rng)
        which = rng.integers(len(shapes), size=fill.count)
        grains = Grains.of(shapes, "grain", which.tolist())
        materials = {
            "grain": Material(fill.friction, fill.rolling, fill.restitution, fill.stiffness, fill.adhesion),
            "tool": Material(fill.steel, 0.05, fill.restitution, fill.stiffness),
        }
        longest = longest_step(list(materials.values()), grains.largest, grains.contact_mass)
        substeps = int(np.ceil(step / longest))
        turns = np.roll(Rotation.random(fill.count, rng=rng).as_quat(), 1, axis=1)
        grains = grains.placed(tray.to_world(_heap(fill, float(grains.reach.max()), rng)), turns)
        away = Tool(SCOOP, shape.tool(material="tool").parts, (0.0, 0.0, 3.0))
        world = GranularWorld(grains, [_still(fill, tray), away], materials, step=step / substeps, threads=threads)
        shade = rng.uniform(0.75, 1.15, (fill.count, 1)) * np.array(fill.colour)
        colours = np.clip(shade, 0.0, 255.0).astype(np.uint8)
        world.settle(longest=4.0, speed=0.5 * REST)
        led = Led("scoop", SCOOP, BLADE, (-0.5 * shape.length, 0.0, 0.5 * shape.height), NEAR)
        super().__init__(world, colours, led, step, substeps)

    # -- what of it is seen ------------------------------------------------------------------------

    @property
    def patch(self) -> Tray:
        """The part of the tray in which the grains lie, as a tray of its own."""
        return Tray(self.tray.pose, (*self.fill.patch, HIGH))

    @property
    def entity(self) -> Entity:
        """The patch's walls, for a scene that a camera looks at; they collide with nothing."""
        x, y = (0.5 * side for side in self.fill.patch)
        boxes = [(x + 0.004, 0.0, 0.004, y + 0.008), (0.0, y + 0.004, x + 0.008, 0.004)]
        geoms = "".join(
            f'<geom type="box" pos="{sign * a} {sign * b} {0.5 * HIGH}" size="{c} {d} {0.5 * HIGH}" rgba="{WOOD}" contype="0" conaffinity="0"/>'
            for a, b, c, d in boxes
            for sign in (1, -1)
        )
        turn = np.roll(Rotation.from_matrix(self.tray.pose.rotation).as_quat(), 1)
        content = f'<mujoco model="patch"><worldbody>{geoms}</worldbody></mujoco>'
        return Entity(
            "patch", content, "world", tuple(self.tray.pose.position.tolist()), tuple(turn.tolist()), spawned=False
        )

    @property
    def held(self) -> np.ndarray:
        """Which grains are in the scoop (n,)."""
        blade = self.tool
        return self.shape.contains((self.world.position.astype(float) - blade.position) @ blade.rotation)

    @property
    def heap(self) -> float:
        """Volume between the scoop's floor and the grains over it, as one sees it from above: with the air between them [m^3].

        It is that of the load where the scoop is high above the ground; grains that hang over its rim count as far as they are in it.
        """
        blade, spheres, s, cell = self.tool, self.world.spheres, self.shape, 0.0005
        spheres.center[:, :3] = (spheres.center[:, :3] - blade.position) @ blade.rotation
        low, high = (-s.length, -0.5 * s.width), (0.0, 0.5 * s.width)
        heights, _ = height_map(spheres, low, high, cell)
        return float(heights.sum() * cell**2)

    @property
    def load(self) -> float:
        """Volume of the grains in the scoop, without the air between them [m^3]."""
        return float(self.world.volume[self.held].sum())

    def heights(self, cell: float = 0.005) -> np.ndarray:
        """Height of the surface over the tray's floor, on cells of the tray (along its x, along its y) [m]."""
        half = 0.5 * np.array(self.tray.size[:2])
        spheres = self.world.spheres
        spheres.center[:, :3] = self.tray.to_tray(spheres.center[:, :3])
        heights, _ = height_map(spheres, (-half).tolist(), half.tolist(), cell)
        return heights


def _still(fill: TrayFill, tray: Tray) -> Tool:
    """What stands still: the patch, the bin and the ground, in the world's axes."""
    x, y = 0.5 * fill.patch[0], 0.5 * fill.patch[1]
    turn = tuple(float(value) for value in np.roll(Rotation.from_matrix(tray.pose.rotation).as_quat(), 1))

    def there(part: Part) -> Part:
        place = tuple(float(value) for value in tray.to_world(np.array(part.offset)))
        return Part(part.half, place, turn, part.rounding, part.material)  # type: ignore[arg-type]

    def walls(x: float, y: float, height: float) -> list[Part]:
        low, out = -WALL, WALL
        return [
            box((-x - out, -y - out, low), (x + out, y + out, 0.0)),
            box((-x - out, -y - out, low), (-x, y + out, height)),
            box((x, -y - out, low), (x + out, y + out, height)),
            box((-x - out, -y - out, low), (x + out, -y, height)),
            box((-x - out, y, low), (x + out, y + out, height)),
        ]

    bin_parts = [
        Part(part.half, (part.offset[0] + BIN_AT[0], part.offset[1] + BIN_AT[1], part.offset[2]))
        for part in walls(BIN[0], BIN[0], BIN[1])
    ]
    ground = box((-WIDE, -WIDE, -WALL - GROUND), (WIDE, WIDE, -WALL))
    return Tool(STILL, (*(there(part) for part in walls(x, y, HIGH)), *bin_parts, ground))


def _heap(fill: TrayFill, reach: float, rng: np.random.Generator) -> np.ndarray:
    """Places of the grains in the tray's frame (n, 3) [m]: the lowest of a loose lattice under the relief, none touching another."""
    pitch = SPACING * reach
    counts = [max(1, int(side / pitch)) for side in fill.patch]
    axes = [(np.arange(n) + 0.5) * side / n - 0.5 * side for n, side in zip(counts, fill.patch)]
    layers = fill.count // (counts[0] * counts[1]) + 2 + int(fill.steep * max(fill.patch) / pitch)
    x, y, z = np.meshgrid(*axes, (np.arange(layers) + 0.5) * pitch, indexing="ij")
    relief = {"level": 0.0 * x, "pile": -fill.steep * np.hypot(x, y), "slope": fill.steep * x}[fill.relief]
    over = (z - relief).ravel() + 1e-6 * rng.uniform(size=z.size)
    order = np.argsort(over)[: fill.count]
    if len(order) < fill.count:
        raise PlantError(f"{fill.count} grains of up to {2e3 * reach:.0f} mm do not fit onto {fill.patch} m.")
    places = np.column_stack([x.ravel(), y.ravel(), z.ravel()])[order]
    slack = np.array([side / n - pitch / 1.01 for n, side in zip(counts, fill.patch)])
    places[:, :2] += 0.5 * rng.uniform(-1.0, 1.0, (fill.count, 2)) * np.maximum(slack, 0.0)
    return places
