"""Grains in the tray before an arm that scoops: what they do to the scoop, what it does to them, and what a camera sees of them.

    tray = GranularTray(TrayFill(count=3000), Tray.of(model))      # with `MujocoPlant("ur5e_scoop", tray=tray)`
    tray.load                                                      # volume of the grains in the scoop [m^3]
    camera.render(joints, grains=tray.seen())

The grains are a discrete-element simulation of their own (`sim_core/granular`); the plant's scene does not hold them. Before each physics
step the scoop of that simulation is led to where the robot's will be, the grains go on for as long as the step, and the mean of what
they did to the scoop meanwhile is applied to the link that carries it, where a force-torque sensor feels it: both times
are the same, and action is reaction. Where no grain moves and the scoop is far, nothing is computed.

Grains lie in a part of the tray, a patch whose walls keep them together, since a whole tray of them would be a hundred thousand. What falls
beyond the patch or the bin falls onto the ground and stays there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import mujoco
import numpy as np
from scipy.spatial.transform import Rotation

from sim_core.granular.grains import Clump, ball, rock
from sim_core.granular.law import Material, longest_step
from sim_core.granular.pictures import height_map
from sim_core.granular.population import Grains
from sim_core.granular.tools import Part, Tool, box
from sim_core.granular.world import GranularWorld
from sim_core.plant.errors import PlantError
from sim_core.plant.scene import Entity
from sim_core.scooping.arm.scoop_shape import ScoopShape
from sim_core.scooping.arm.tray import Tray
from sim_core.telepresence.clutch import Pose

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
#: [m] of a grain from the middle of the scoop at which the grains are computed; [m/s] root mean square of grains that are at rest
NEAR, REST = 0.17, 0.004
#: physics steps between two looks whether anything is near
LOOK = 5
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


class GranularTray:
    """See the module's docstring.

    Args:
        fill: what lies in it. tray: where it stands. step: of the plant's physics [s]. threads: of the CPU for the grains.

    Attributes:
        world: the grains. wrench: of the grains on the scoop about its edge, in the world's axes, in the last step (6,) [N], [N m].
        awake: whether the grains are being computed.

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
        self.fill, self.tray, self.shape, self._dt = fill, tray, shape, step
        rng = np.random.default_rng([fill.seed, 17])
        shapes = fill.shapes(rng)
        which = rng.integers(len(shapes), size=fill.count)
        grains = Grains.of(shapes, "grain", which.tolist())
        materials = {
            "grain": Material(fill.friction, fill.rolling, fill.restitution, fill.stiffness, fill.adhesion),
            "tool": Material(fill.steel, 0.05, fill.restitution, fill.stiffness),
        }
        longest = longest_step(list(materials.values()), grains.largest, grains.contact_mass)
        self._substeps = int(np.ceil(step / longest))
        turns = np.roll(Rotation.random(fill.count, rng=rng).as_quat(), 1, axis=1)
        grains = grains.placed(tray.to_world(_heap(fill, float(grains.reach.max()), rng)), turns)
        away = Tool(SCOOP, shape.tool(material="tool").parts, (0.0, 0.0, 3.0))
        self.world = GranularWorld(
            grains, [_still(fill, tray), away], materials, step=step / self._substeps, threads=threads
        )
        shade = rng.uniform(0.75, 1.15, (fill.count, 1)) * np.array(fill.colour)
        self._colours = np.clip(shade, 0.0, 255.0).astype(np.uint8)
        self._model: mujoco.MjModel | None = None
        self._velocity = np.zeros(6)
        self.wrench = np.zeros(6)
        self.world.settle(longest=4.0, speed=0.5 * REST)
        self._start = self.world.state()
        self.reset()

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
    def blade(self) -> Pose:
        """Of the scoop, where the grains meet it."""
        position, quaternion = self.world.where(SCOOP)
        return Pose(position, Rotation.from_quat(np.roll(quaternion, -1)).as_matrix())

    @property
    def held(self) -> np.ndarray:
        """Which grains are in the scoop (n,)."""
        blade = self.blade
        return self.shape.contains((self.world.position.astype(float) - blade.position) @ blade.rotation)

    @property
    def heap(self) -> float:
        """Volume between the scoop's floor and the grains over it, as one sees it from above: with the air between them [m^3].

        It is that of the load where the scoop is high above the ground; grains that hang over its rim count as far as they are in it.
        """
        blade, spheres, s, cell = self.blade, self.world.spheres, self.shape, 0.0005
        spheres.center[:, :3] = (spheres.center[:, :3] - blade.position) @ blade.rotation
        low, high = (-s.length, -0.5 * s.width), (0.0, 0.5 * s.width)
        heights, _ = height_map(spheres, low, high, cell)
        return float(heights.sum() * cell**2)

    @property
    def load(self) -> float:
        """Volume of the grains in the scoop, without the air between them [m^3]."""
        return float(self.world.volume[self.held].sum())

    def seen(self) -> tuple[np.ndarray, np.ndarray]:
        """Spheres in the world, places and radii (m, 4) [m], and their colours (m, 3) of 0 to 255."""
        spheres = self.world.spheres
        return spheres.center, self._colours[spheres.body]

    def heights(self, cell: float = 0.005) -> np.ndarray:
        """Height of the surface over the tray's floor, on cells of the tray (along its x, along its y) [m]."""
        half = 0.5 * np.array(self.tray.size[:2])
        spheres = self.world.spheres
        spheres.center[:, :3] = self.tray.to_tray(spheres.center[:, :3])
        heights, _ = height_map(spheres, (-half).tolist(), half.tolist(), cell)
        return heights

    # -- the plant's side --------------------------------------------------------------------------

    def reset(self) -> None:
        """Back to the grains as they had settled at first."""
        self.world.restore(self._start)
        self.wrench = np.zeros(6)
        self.awake, self._look, self._placed = False, 0, False

    def meet(self, model: mujoco.MjModel, data: mujoco.MjData, t: float) -> None:
        """Like `press`, with a robot that is new or was put elsewhere: the scoop is there, without having moved through the grains.

        Raises:
            PlantError: the robot has no scoop, or another physics step.
        """
        self._attend(model)
        self._placed, self._look = False, 0
        self._locate(model, data)
        data.xfrc_applied[self._body] = 0.0

    def press(self, model: mujoco.MjModel, data: mujoco.MjData, t: float) -> None:
        """Let the grains go on for one physics step from time t [s] on, and press on the scoop.

        Raises:
            PlantError: the robot has no scoop, or another physics step. GrainsTooFast: grains fly apart.
        """
        if model is not self._model:
            self._attend(model)
            self._placed = False
        self._locate(model, data)
        position, rotation = data.site_xpos[self._site], data.site_xmat[self._site]
        if self._look == 0:
            self.awake = self._is_near(position, rotation.reshape(3, 3)) or self._moving()
        self._look = (self._look + 1) % LOOK
        applied = data.xfrc_applied[self._body]
        if not self.awake:
            self._placed, self.wrench = False, np.zeros(6)
            applied[:] = 0.0
            return
        self._lead(position, rotation)
        self.wrench = wrench = self.world.run(self._substeps)[SCOOP]
        applied[:3] = wrench[:3]
        # numpy's takes ten times as long
        mujoco.mju_cross(applied[3:], position - data.xipos[self._body], wrench[:3])
        applied[3:] += wrench[3:]

    def _attend(self, model: mujoco.MjModel) -> None:
        site = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SITE, BLADE)
        if site < 0:
            raise PlantError(f"A tray of grains stands before a robot with a scoop, whose model has a site '{BLADE}'.")
        if not np.isclose(model.opt.timestep, self._dt):
            raise PlantError(
                f"The grains go on by {self._dt:g} s at a time and the robot by {model.opt.timestep:g} s; make the tray with the "
                "robot's step."
            )
        self._model, self._site, self._body = model, site, int(model.site_bodyid[site])

    def _locate(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        """Where the robot's blade is now, not one step ago, and how it moves."""
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_comVel(model, data)
        mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_SITE, self._site, self._velocity, 0)

    def _lead(self, position: np.ndarray, rotation: np.ndarray) -> None:
        """Give the grains' scoop the twist that takes it to where the robot's will be after the step."""
        turn, behind, spin = np.zeros(4), np.zeros(3), np.zeros(3)
        mujoco.mju_mat2Quat(turn, rotation)
        if not self._placed:
            self.world.move(SCOOP, position.tolist(), turn.tolist())
            self._placed = True
        place, turned = self.world.where(SCOOP)
        mujoco.mju_subQuat(behind, turn, turned)  # in the axes of the grains' scoop
        mujoco.mju_rotVecQuat(spin, behind, turned)
        velocity = self._velocity[3:] + (position - place) / self._dt
        spin = self._velocity[:3] + spin / self._dt
        self.world.move(SCOOP, velocity=velocity.tolist(), spin=spin.tolist())

    def _is_near(self, position: np.ndarray, rotation: np.ndarray) -> bool:
        middle = position + rotation @ [-0.5 * self.shape.length, 0.0, 0.5 * self.shape.height]
        away = self.world.position - middle.astype(np.float32)
        return bool(((away**2).sum(axis=1) < NEAR**2).any())

    def _moving(self) -> bool:
        return bool(np.sqrt((self.world.velocity**2).sum(axis=1).mean()) > REST)


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
    ground = box((-3.0, -3.0, -WALL - GROUND), (3.0, 3.0, -WALL))
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
