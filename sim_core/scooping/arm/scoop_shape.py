"""The scoop: a floor, a back and two sides, open in front and above, on a handle that is bolted to an arm's flange.

    shape = ScoopShape()
    shape.capacity                               # [m^3], level with the top of its sides
    shape.boxes                                  # what grains meet, in the frame of the blade
    shape.tool()                                 # the same for a world of grains
    shape.geoms("scoop")                         # and as MJCF, for the robot's model

Everything is in the frame of the blade (`primitive.py`): its origin is the middle of the cutting edge, x points forward along the
floor, z out of it. All inner faces are planes: the floor's is z = 0, the back's x = -length, the sides' y = +-width/2. Edges are
rounded, which a discrete-element simulation asks for: a rounded box is all that is nearer than its radius to a smaller box.

The published scoop is not described beyond its load of about 0.26 litres; the dimensions are choices that give that capacity.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.spatial.transform import Rotation

from sim_core.granular.tools import Part, Tool
from sim_core.scooping.arm.primitive import blade_rotation
from sim_core.telepresence.clutch import Pose

__all__ = ["RoundedBox", "ScoopShape"]

#: [kg/m^3] of its aluminium
DENSITY = 2700.0


@dataclass(frozen=True, eq=False)
class RoundedBox:
    """A box with round edges.

    Attributes:
        name: of the part. centre: (3,) [m]. rotation: of its axes (3, 3). half: outer half lengths (3,) [m]. radius: of the edges [m].

    Raises:
        ValueError: the radius is not positive, or leaves nothing of the box.
    """

    name: str
    centre: np.ndarray
    rotation: np.ndarray
    half: np.ndarray
    radius: float

    def __post_init__(self) -> None:
        if not 0.0 < self.radius <= float(np.min(self.half)):
            raise ValueError(
                f"{self.name}: expected a radius between 0 and the least half length {np.min(self.half):g} m, found {self.radius:g}"
            )

    @property
    def core(self) -> np.ndarray:
        """Half lengths (3,) [m] of the box that is rounded."""
        return self.half - self.radius

    def distance(self, points: np.ndarray) -> np.ndarray:
        """Of points (n, 3) from its surface (n,) [m], negative within."""
        local = np.abs((points - self.centre) @ self.rotation) - self.core
        return np.linalg.norm(np.maximum(local, 0.0), axis=1) + np.minimum(local.max(axis=1), 0.0) - self.radius

    def rays(self, origins: np.ndarray, directions: np.ndarray) -> np.ndarray:
        """How far along rays (n, 3), of any length, its sharp-edged box is met (n,), in lengths of the ray; inf: nowhere ahead."""
        o, d = (origins - self.centre) @ self.rotation, directions @ self.rotation
        with np.errstate(divide="ignore", invalid="ignore"):
            a, b = (-self.half - o) / d, (self.half - o) / d
        near, far = np.fmin(a, b).max(axis=1), np.fmax(a, b).min(axis=1)
        return np.where((near <= far) & (near > 0.0), near, np.inf)


@dataclass(frozen=True)
class ScoopShape:
    """See the module's docstring.

    Attributes:
        length, width, height: of its inside [m]. wall: thickness [m]. edge: radius of its edges [m].
        handle, grip: length and thickness of its handle [m]. upright: angle of the blade at which the handle stands upright [rad].
    """

    length: float = 0.090
    width: float = 0.080
    height: float = 0.036
    wall: float = 0.004
    edge: float = 0.0015
    handle: float = 0.16
    grip: float = 0.02
    upright: float = float(np.deg2rad(160.0))

    @property
    def capacity(self) -> float:
        """Volume of its inside, level with the top of its sides [m^3]."""
        return self.length * self.width * self.height

    @property
    def rim(self) -> np.ndarray:
        """Corners of what it holds its load in, from above: the edge's left end, its right end, the back's, (4, 3) [m]."""
        half = 0.5 * self.width
        return np.array(
            [[0.0, half, 0.0], [0.0, -half, 0.0], [-self.length, -half, self.height], [-self.length, half, self.height]]
        )

    @property
    def mount(self) -> Pose:
        """Of the flange in the blade's frame: its z axis points along the handle into the scoop, its y axis as the blade's."""
        up = blade_rotation(0.0, self.upright).T @ np.array([0.0, 0.0, 1.0])
        y = np.array([0.0, 1.0, 0.0])
        foot = np.array([-self.length - 0.5 * self.grip, 0.0, self.height - 0.5 * self.grip])
        return Pose(foot + self.handle * up, np.column_stack([np.cross(y, -up), y, -up]))

    @cached_property
    def boxes(self) -> tuple[RoundedBox, ...]:
        """Its parts, in the frame of the blade."""
        t, L, W, H = self.wall, self.length, self.width, self.height
        mount, here = self.mount, np.eye(3)

        def between(name: str, low: tuple[float, ...], high: tuple[float, ...]) -> RoundedBox:
            a, b = np.array(low), np.array(high)
            return RoundedBox(name, 0.5 * (a + b), here, 0.5 * (b - a), self.edge)

        middle = mount.position + 0.5 * self.handle * mount.rotation[:, 2]
        half = 0.5 * np.array([self.grip, self.grip, self.handle])
        return (
            between("floor", (-L - t, -0.5 * W - t, -t), (0.0, 0.5 * W + t, 0.0)),
            between("back", (-L - t, -0.5 * W - t, -t), (-L, 0.5 * W + t, H)),
            between("left", (-L - t, 0.5 * W, -t), (0.0, 0.5 * W + t, H)),
            between("right", (-L - t, -0.5 * W - t, -t), (0.0, -0.5 * W, H)),
            RoundedBox("handle", middle, mount.rotation, half, self.edge),
        )

    @cached_property
    def inertial(self) -> tuple[float, np.ndarray, np.ndarray]:
        """Mass [kg], centre of mass (3,) [m] and inertia about it (3, 3) [kg m^2], of aluminium; the handle is a tube of half the mass."""
        masses, inertias = [], []
        for box in self.boxes:
            mass = DENSITY * 8.0 * float(np.prod(box.half)) * (0.5 if box.name == "handle" else 1.0)
            square = box.half**2
            own = mass / 3.0 * np.diag(square.sum() - square)
            masses.append(mass)
            inertias.append(box.rotation @ own @ box.rotation.T)
        total = float(np.sum(masses))
        centre = np.average([box.centre for box in self.boxes], axis=0, weights=masses)
        I = np.zeros((3, 3))
        for box, mass, own in zip(self.boxes, masses, inertias):
            arm = box.centre - centre
            I += own + mass * ((arm @ arm) * np.eye(3) - np.outer(arm, arm))
        return total, centre, I

    def tool(self, name: str = "scoop", material: str = "tool") -> Tool:
        """What grains meet, whose origin and axes are the blade's."""
        parts = []
        for box in self.boxes:
            core, middle = (tuple(float(value) for value in row) for row in (box.core, box.centre))
            turn = tuple(float(value) for value in np.roll(Rotation.from_matrix(box.rotation).as_quat(), 1))
            parts.append(Part(core, middle, turn, box.radius, material))  # type: ignore[arg-type]
        return Tool(name, tuple(parts))

    def contains(self, points: np.ndarray) -> np.ndarray:
        """Which points (n, 3) in the frame of the blade are over its floor and not below it, (n,); a heap over its sides counts."""
        x, y, z = points.T
        return (x <= 0.0) & (x >= -self.length) & (np.abs(y) <= 0.5 * self.width) & (z >= 0.0)

    def geoms(self, prefix: str) -> str:
        """MJCF of its parts, which touch nothing, in a body whose frame is the flange's."""
        mount, lines = self.mount, []
        for box in self.boxes:
            place = mount.rotation.T @ (box.centre - mount.position)
            w_last = Rotation.from_matrix(mount.rotation.T @ box.rotation).as_quat()
            quaternion = " ".join(f"{value:.8g}" for value in np.roll(w_last * np.sign(w_last[3] or 1.0), 1))
            pos, size = (" ".join(f"{value:.8g}" for value in row) for row in (place, box.half))
            lines.append(f'<geom name="{prefix}_{box.name}" type="box" pos="{pos}" quat="{quaternion}" size="{size}"/>')
        return "\n".join(lines)
