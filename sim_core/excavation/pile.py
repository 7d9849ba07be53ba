"""A pile of irregular blocks in a box, and the bucket that an arm pushes through it: the simulated excavation.

    pile = Pile(PileSettings())
    state = pile.reset(seed=3, path.poses[0])
    outcome = pile.execute(1)                    # 1.5 cm towards the base
    outcome.state, outcome.jammed, outcome.peak

Blocks are rigid unions of spheres, convex ones and concave ones; bucket and arm are coupled once a tick. z counts from the pile's
surface. A jam is what stops a collaborative arm: a contact force beyond a limit for 20 ms, or a joint's torque beyond its limit.

Source: Zhu, PhD thesis (University of Illinois 2023), section 7.6; number, sizes and friction of the blocks and the limits of a jam are chosen here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Protocol

import numpy as np
from scipy.spatial.transform import Rotation

from sim_core.excavation.arm_spring import COORDINATES, SEVEN_JOINTS, ArmSpring, Deviation
from sim_core.excavation.bucket import Bucket
from sim_core.excavation.overhead_picture import View, over_blocks, painted
from sim_core.excavation.policies import State
from sim_core.excavation.primitives import PrimitiveSettings, duration, offset
from sim_core.granular.grains import Clump, rock
from sim_core.granular.law import Material
from sim_core.granular.pictures import height_map
from sim_core.granular.population import Grains, pour
from sim_core.granular.tools import Tool, box
from sim_core.granular.world import GranularWorld

__all__ = ["BOX", "BUCKET", "Dig", "Outcome", "Pile", "PileSettings", "poured", "surface_of"]

#: names of the box and of the bucket among the tools of a world of blocks
BOX, BUCKET = "box", "bucket"


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a primitive led to.

    Attributes:
        state: at its end, or where it was stopped. jammed: whether it was stopped.
        peak: largest force on the bucket meanwhile, over a tick [N]. held: the largest that lasted as long as a jam must [N].
        moved: largest distance from where it began, by coordinate (4,).
    """

    state: State
    jammed: bool
    peak: float
    held: float
    moved: np.ndarray


class Dig(Protocol):
    """Something to dig in."""

    def reset(self, seed: int, pose: np.ndarray) -> State:
        """A new pile, and the bucket at a pose (4,)."""

    def execute(self, primitive: int) -> Outcome:
        """One primitive; one that jams is aborted within a tick."""

    def lift(self) -> Outcome:
        """Straight up, out of the pile."""

    def weigh(self) -> float:
        """Mass in the bucket [kg]."""


@dataclass(frozen=True)
class PileSettings:
    """The pile, the bucket, the arm, and when it stops.

    Attributes:
        blocks: how many. sizes: largest diameters [m]. densities [kg/m^3], friction [1]: drawn for each pile; each block's density is within
            a tenth of its pile's. spheres: of a block. concave: share of concave blocks.
        box: inside of the box in x, y [m]; its middle is at `middle`. floor: depth of the box under the surface [m].
        stiffness: of contacts [N/m^2], restitution [1]: see `granular.law`. inertia: factor on the blocks' moments of inertia, which
            count little where all is slow and allow a longer step. step: of the grains [s]; tick: of the arm, in steps.
        primitives: sizes and speeds, as published but for translations, which are ten times as fast: the blocks are still slow enough
            for their inertia not to count, and a trial costs a tenth.
        force_limit: that jams [N], after `patience` [s]. torque_limit: of a joint, that jams at once [N m].
        felt: over how long at the end of a primitive the force is averaged [s]. lift: height [m] and speed [m/s].
        picture: whether states have images.
    """

    blocks: int = 205
    sizes: tuple[float, float] = (0.035, 0.055)
    densities: tuple[float, float] = (550.0, 650.0)
    friction: tuple[float, float] = (0.45, 0.55)
    spheres: int = 3
    concave: float = 0.4
    box: tuple[float, float] = (0.36, 0.17)
    middle: tuple[float, float] = (0.49, 0.0)
    floor: float = 0.14
    stiffness: float = 5e5
    restitution: float = 0.3
    inertia: float = 3.0
    step: float = 2.5e-4
    tick: int = 4
    primitives: PrimitiveSettings = field(default_factory=lambda: PrimitiveSettings(speed=0.1))
    force_limit: float = 66.0
    patience: float = 0.02
    torque_limit: float = 60.0
    felt: float = 0.05
    lift: tuple[float, float] = (0.15, 0.3)
    bucket: Bucket = field(default_factory=Bucket)
    view: View = field(default_factory=View)
    picture: bool = True


#: shapes of which blocks are scaled copies: convex ones and concave ones
KINDS = 12


class Pile:
    """See the module's docstring; it implements `Dig`.

    Attributes:
        settings: as given. world: the blocks. commanded: pose that the arm is told to take (4,).
        surface: height of the pile over the box's floor [m].
    """

    def __init__(self, settings: PileSettings = PileSettings(), spring: ArmSpring = SEVEN_JOINTS) -> None:
        self.settings, self.spring = settings, spring
        self._points = settings.bucket.surface()
        self.world: GranularWorld | None = None

    def reset(self, seed: int, pose: np.ndarray) -> State:
        """See `Dig`; the bucket is lowered to its pose from above, through the arm's spring."""
        s = self.settings
        self._fill(np.random.default_rng([seed, 73]))
        height, speed = s.lift
        self._deviation = Deviation(self.spring, s.tick * s.step)
        self._over = -np.inf  # on the way to the start nothing jams
        self.commanded = pose + np.array([0.0, 0.0, height, 0.0])
        self._place()
        self._go(height / speed, lambda t: np.array([0.0, 0.0, -min(speed * t, height), 0.0]))
        self._over = 0.0
        return self._state()

    def execute(self, primitive: int) -> Outcome:
        """See `Dig`."""
        lasts = duration(primitive, self.settings.primitives)
        return self._go(lasts, lambda t: offset(primitive, t, self.settings.primitives)[0])

    def lift(self) -> Outcome:
        """See `Dig`."""
        height, speed = self.settings.lift
        up = np.array([0.0, 0.0, 1.0, 0.0])
        return self._go(height / speed, lambda t: up * min(speed * t, height))

    def weigh(self) -> float:
        """See `Dig`."""
        world = self._world
        inside = self.settings.bucket.holds((world.position.astype(float) - self._middle()) @ self._turn())
        return float(world.mass[inside].sum())

    @property
    def pose(self) -> np.ndarray:
        """Where the bucket is (4,)."""
        return self.commanded + self._deviation.place

    @property
    def image(self) -> np.ndarray:
        """From above (nx, ny, 3), bytes."""
        return painted(*self._draw(), self._colours, self._light, self.settings.view)

    @property
    def heights(self) -> np.ndarray:
        """From above (nx, ny) over the surface [m]."""
        return self._draw()[0]

    # ---- the pile -------------------------------------------------------------------------------------------------

    @property
    def _world(self) -> GranularWorld:
        if self.world is None:
            raise RuntimeError("expected a pile, found none yet: call reset first")
        return self.world

    def _fill(self, rng: np.random.Generator) -> None:
        self.world, self._colours = poured(self.settings, rng)
        azimuth, height = rng.uniform(0.0, 2.0 * np.pi), rng.uniform(0.6, 1.3)
        self._light = np.array([np.cos(azimuth) * np.cos(height), np.sin(azimuth) * np.cos(height), np.sin(height)])
        self.surface = surface_of(self.world, self.settings)

    # ---- the bucket -----------------------------------------------------------------------------------------------

    def _middle(self) -> np.ndarray:
        return self.pose[:3] + [0.0, 0.0, self.surface]

    def _turn(self) -> np.ndarray:
        return Rotation.from_rotvec([0.0, self.pose[3], 0.0]).as_matrix()

    def _place(self) -> None:
        """Put the bucket where it belongs, at rest."""
        pose = self.pose
        half = 0.5 * pose[3]
        place = (pose[0], pose[1], pose[2] + self.surface)
        self._world.move(BUCKET, place, (np.cos(half), 0.0, np.sin(half), 0.0))
        self._at = pose

    def _head_for(self, pose: np.ndarray, tick: float) -> None:
        """Let the bucket be at a pose a tick later: what is put somewhere is looked up anew, what moves is not."""
        rate = (pose - self._at) / tick
        self._world.move(BUCKET, velocity=rate[:3], spin=(0.0, rate[3], 0.0))
        self._at = pose

    def _go(self, lasts: float, motion: Callable[[float], np.ndarray]) -> Outcome:
        s, world, tick = self.settings, self._world, self.settings.tick * self.settings.step
        start, began = self.commanded.copy(), self.pose
        jammed, peak, held, moved = False, 0.0, 0.0, np.zeros(4)
        lasting: deque[float] = deque(maxlen=max(1, round(s.patience / tick)))
        recent: deque[np.ndarray] = deque(maxlen=max(1, round(s.felt / tick)))
        for k in range(round(lasts / tick)):
            self.commanded = start + motion((k + 1) * tick)
            self._head_for(self.pose, tick)
            wrench = world.run(s.tick)[BUCKET]
            load = wrench[COORDINATES]
            self._deviation.step(load)
            recent.append(load)
            force = float(np.sqrt(load[:3] @ load[:3]))
            peak, moved = max(peak, force), np.maximum(moved, np.abs(self.pose - began))
            lasting.append(force)
            held = max(held, min(lasting)) if len(lasting) == lasting.maxlen else held
            self._over = self._over + tick if force > s.force_limit else min(self._over, 0.0)
            twisted = np.abs(self.spring.torques(load)).max() > s.torque_limit
            if self._over > s.patience or (twisted and self._over >= 0.0):
                jammed = True
                break
        self._load = np.mean(recent, axis=0)
        return Outcome(self._state(), jammed, peak, held, moved)

    def _state(self) -> State:
        image = self.image if self.settings.picture else None
        return State(self.pose.copy(), self._load[:3].copy(), image)

    def _draw(self) -> tuple[np.ndarray, np.ndarray]:
        """Heights over the surface [m] and bodies, see `overhead_picture`."""
        heights, body = _seen(self._world, self.settings)
        return over_blocks(
            heights - self.surface, body, self._points @ self._turn().T + self.pose[:3], self.settings.view
        )


def poured(
    settings: PileSettings, rng: np.random.Generator, further: Sequence[Tool] = ()
) -> tuple[GranularWorld, np.ndarray]:
    """Blocks in their box, at rest, and the bucket 5 m above them.

    Args:
        rng: draws sizes, shapes, densities, friction, places and colours. further: what else will meet the blocks, of the materials
            block, bucket or wall; out of their way for now.

    Returns:
        The world, the box's floor at z = -floor; and the blocks' colours in [0, 1] (blocks, 3).
    """
    s = settings
    shapes = _shapes(s.spheres)
    sizes = rng.uniform(*s.sizes, s.blocks)
    densities = rng.uniform(*s.densities) * rng.uniform(0.9, 1.1, s.blocks)
    kinds = (rng.random(s.blocks) < s.concave).astype(int)
    clumps = [
        _scaled(shapes[kind][rng.integers(KINDS)], size, density, s.inertia)
        for kind, size, density in zip(kinds, sizes, densities)
    ]
    friction = float(rng.uniform(*s.friction))
    material = lambda mu: Material(friction=mu, rolling=0.0, restitution=s.restitution, stiffness=s.stiffness)
    materials = {"block": material(friction), "bucket": material(0.3), "wall": material(0.3)}
    x, y = s.box
    wall, high = 0.1, 1.5
    walls = [
        box((-x, -y, -wall), (x, y, 0.0), "wall"),
        *(box((a, -y, -wall), (b, y, high), "wall") for a, b in ((-x, -0.5 * x), (0.5 * x, x))),
        *(box((-x, a, -wall), (x, b, high), "wall") for a, b in ((-y, -0.5 * y), (0.5 * y, y))),
    ]
    # The box stands where the camera and the arm count from: its floor so deep that the surface will be at z = 0.
    container = Tool(BOX, tuple(walls), position=(*s.middle, -s.floor))
    grains = pour(Grains.of(clumps, "block"), s.box, int(rng.integers(2**31)), bottom=-s.floor, middle=s.middle)
    bucket = replace(s.bucket.tool(BUCKET), position=(0.0, 0.0, 5.0))
    world = GranularWorld(grains, [container, bucket, *further], materials, step=s.step)
    world.settle(1.5, 0.03)
    grey = rng.uniform(0.55, 0.95, (s.blocks, 1))
    tint = np.array([0.80, 0.62, 0.42]) * rng.uniform(0.9, 1.1, (s.blocks, 3))
    return world, grey * tint * rng.uniform(0.8, 1.2)


def surface_of(world: GranularWorld, settings: PileSettings) -> float:
    """Height of blocks in their box [m], in the mean over what the camera sees inside of it."""
    heights, _ = _seen(world, settings)
    return float(heights[8:-8, 4:-4].mean())


def _seen(world: GranularWorld, settings: PileSettings) -> tuple[np.ndarray, np.ndarray]:
    view = settings.view
    return height_map(world.spheres, view.low, view.high, view.cell, -settings.floor)


@cache
def _shapes(spheres: int) -> list[list[Clump]]:
    """Convex ones and concave ones, of 1 m and 1 kg/m^3."""
    return [
        [rock(1.0, 1.0, 100 * kind + k, spheres, concave=(0.0, 1.0)[kind]) for k in range(KINDS)] for kind in (0, 1)
    ]


def _scaled(shape: Clump, size: float, density: float, inertia: float) -> Clump:
    """A copy of a shape of 1 m and 1 kg/m^3 in another size."""
    mass = density * size**3
    moments = shape.inertia * mass * size**2 * inertia
    return Clump(shape.offsets * size, shape.radii * size, shape.volume * size**3, shape.mass * mass, moments)
