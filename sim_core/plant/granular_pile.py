"""The pile of blocks before an arm with a bucket (see `grains_at_tool` for how they meet), and the bin beside it.

    pile = GranularPile(PileSite.of(load_model("panda_bucket")), seed=3)      # with `MujocoPlant("panda_bucket", tray=pile)`
    pile.load_mass                                                            # of the blocks in the bucket [kg]

It is the pile of `sim_core/excavation/pile.py`: for a seed the same blocks where they fell there, but for a few that roll on until all
rest, and the same contact law. Then the high walls between which they fell give way to those of a box that a bucket can be carried
over. What falls beside box and bin falls onto the ground and stays there.
"""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np

from sim_core.excavation.pile import BOX, BUCKET, PileSettings, poured, surface_of
from sim_core.granular.tools import Part, Tool, box
from sim_core.granular.world import GranularWorld
from sim_core.multibody import RobotModel
from sim_core.plant.errors import PlantError
from sim_core.plant.grains_at_tool import REST, WIDE, GrainsAtTool, Led

__all__ = ["GranularPile", "PileSite"]

#: sites of a robot's model: the bucket's middle, the origin of the pile's frame, the middle of the bin's floor
BUCKET_SITE, PILE_SITE, BIN_SITE = "bucket", "pile", "bin"
#: names of what stands still once the blocks are at rest, in their world
RIM, REST_OF_IT = "rim", "ground"
#: by which the box is higher than deep [m]: blocks settle to 0.03 m below the surface that was meant, and a rim of 0.04 m lets a bucket pass
OVER = 0.01
#: inside of the bin: half side and height [m]; thickness of walls [m]
BIN, WALL = (0.12, 0.12), 0.05
#: [m] of a block from the bucket's middle at which the blocks are computed
NEAR = 0.15
#: out of everybody's way [m]
AWAY = 40.0


@dataclass(frozen=True)
class PileSite:
    """Where things are, in the world.

    Attributes:
        pile: origin of the pile's frame, whose axes are the world's: z = 0 is the surface (3,) [m]. bin: middle of the bin's floor (3,) [m].
    """

    pile: tuple[float, float, float]
    bin: tuple[float, float, float]

    @classmethod
    def of(cls, model: RobotModel) -> PileSite:
        """That before a robot.

        Raises:
            ValueError: the model lacks a site, or the pile's frame is turned against the world.
        """
        mj = model.mj_model
        data = mujoco.MjData(mj)
        mujoco.mj_kinematics(mj, data)

        def place(name: str) -> tuple[float, float, float]:
            index = mujoco.mj_name2id(mj, mujoco.mjtObj.mjOBJ_SITE, name)
            if index < 0:
                raise ValueError(f"expected a site '{name}' of the robot '{model.name}' for its pile, found none")
            if not np.allclose(data.site_xmat[index], np.eye(3).ravel(), atol=1e-9):
                raise ValueError(f"expected a site '{name}' with the world's axes, found it turned")
            x, y, z = data.site_xpos[index].tolist()
            return x, y, z

        return cls(place(PILE_SITE), place(BIN_SITE))


class GranularPile(GrainsAtTool):
    """See the module's docstring.

    Args:
        site: where it is. seed: of sizes, shapes, places and friction. settings: of the blocks. step: of the plant's physics [s].
        threads: of the CPU for the blocks.

    Attributes:
        see `GrainsAtTool`; the tool's origin is the bucket's middle.

    Raises:
        PlantError: the plant's step is no multiple of the blocks'.
    """

    def __init__(
        self,
        site: PileSite,
        seed: int = 0,
        settings: PileSettings = PileSettings(),
        step: float = 0.002,
        threads: int = 1,
    ) -> None:
        self.site, self.settings = site, settings
        substeps = round(step / settings.step)
        if substeps < 1 or not np.isclose(substeps * settings.step, step):
            raise PlantError(
                f"The blocks' step of {settings.step:g} s does not fit into the robot's of {step:g} s a whole number of times; "
                "give the pile a step that does."
            )
        world, shades = poured(settings, np.random.default_rng([seed, 73]), [_rim(settings), _rest_of_it(site)])
        world.threads = threads
        _uncover(world, site, settings)
        colours = np.clip(255.0 * shades, 0.0, 255.0).astype(np.uint8)
        super().__init__(world, colours, Led("bucket", BUCKET, BUCKET_SITE, (0.0, 0.0, 0.0), NEAR), step, substeps)

    @property
    def held(self) -> np.ndarray:
        """Which blocks are in the bucket (n,)."""
        bucket = self.tool
        return self.settings.bucket.holds((self.world.position.astype(float) - bucket.position) @ bucket.rotation)

    @property
    def load_mass(self) -> float:
        """Of the blocks in the bucket [kg]."""
        return float(self.world.mass[self.held].sum())


def _uncover(world: GranularWorld, site: PileSite, settings: PileSettings) -> None:
    """Put the box where blocks fell between high walls, let them rest, and move everything to where the surface belongs."""
    world.move(RIM, world.where(BOX)[0].tolist())
    world.move(BOX, (0.0, 0.0, -AWAY))
    world.settle(1.0, 0.5 * REST)
    rise = np.array(site.pile) - (0.0, 0.0, surface_of(world, settings))
    world.position[:] = world.position + rise.astype(np.float32)
    world.move(RIM, (world.where(RIM)[0] + rise).tolist())
    world.move(REST_OF_IT, (0.0, 0.0, 0.0))
    world.touch()
    world.run(0)


def _rim(settings: PileSettings) -> Tool:
    """The box, its origin in the middle of its floor."""
    x, y = 0.5 * settings.box[0], 0.5 * settings.box[1]
    return Tool(RIM, tuple(_walls(x, y, settings.floor + OVER)), position=(0.0, 0.0, AWAY))


def _rest_of_it(site: PileSite) -> Tool:
    """The bin and the ground, in the world's axes."""
    x, y, z = site.bin
    bin_parts = [
        Part(part.half, (part.offset[0] + x, part.offset[1] + y, part.offset[2] + z), material="wall")
        for part in _walls(BIN[0], BIN[0], BIN[1])
    ]
    ground = box((-WIDE, -WIDE, -0.3), (WIDE, WIDE, 0.0), "wall")
    return Tool(REST_OF_IT, (*bin_parts, ground), position=(0.0, 0.0, -AWAY))


def _walls(x: float, y: float, height: float) -> list[Part]:
    """Around half sides [m], their floor at z = 0."""
    low, out = -WALL, WALL
    return [
        box((-x - out, -y - out, low), (x + out, y + out, 0.0), "wall"),
        box((-x - out, -y - out, low), (-x, y + out, height), "wall"),
        box((x, -y - out, low), (x + out, y + out, height), "wall"),
        box((-x - out, -y - out, low), (x + out, -y, height), "wall"),
        box((-x - out, y, low), (x + out, y + out, height), "wall"),
    ]
