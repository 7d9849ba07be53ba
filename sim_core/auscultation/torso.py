"""A torso as a surface: stature, weight and build vary, and the places where one listens go with it.

Cross-sections are superellipses, whose half-widths change along the body; chest muscles, belly and a smooth random field make each body
different from a scaled reference. The axes are those of a side (see `regions`): x to the person's left, y up, origin at the height
of the nipples on the midline; z out of the chest. `side="back"` turns the body about y, so that z is out of the back and the
person's left is at -x; the regions' x, which goes to the left on both sides, has the other sign there.

The proportions are choices that give a man of 1.78 m and BMI 24 a chest of 0.34 m by 0.23 m.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

import mujoco
import numpy as np

from sim_core.auscultation.regions import REGIONS, Region, Side

__all__ = ["REFERENCE", "Torso", "TorsoShape", "random_shape"]

#: from the waist to the neck: height [m] of a man of 1.78 m, half-width, half-depth [m] at BMI 24
PROFILE = np.array(
    [
        [-0.26, 0.150, 0.105],
        [-0.20, 0.152, 0.108],
        [-0.12, 0.158, 0.112],
        [-0.04, 0.168, 0.116],
        [0.04, 0.176, 0.115],
        [0.12, 0.186, 0.105],
        [0.17, 0.180, 0.090],
        [0.21, 0.130, 0.072],
        [0.24, 0.070, 0.060],
    ]
)
HEIGHT, BMI = 1.78, 24.0
EXPONENT = 2.4  # of the superellipses
ROUND, ALONG = 72, 52  # vertices about and along the body
WAVES, WAVE_LENGTH = 24, 0.12  # of the individual field: how many, [m]


@dataclass(frozen=True)
class TorsoShape:
    """What a body is like.

    Attributes:
        height: of the person [m]. bmi: [kg/m^2]. shoulders, muscles, belly: relative width of the shoulders, height of the chest
            muscles and of the belly [m] beyond those that go with the weight. individual: standard deviation of the smooth
            field along the normal [m]; seed: of the field.
    """

    height: float = HEIGHT
    bmi: float = BMI
    shoulders: float = 1.0
    muscles: float = 0.006
    belly: float = 0.0
    individual: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not (1.2 <= self.height <= 2.3 and 12.0 <= self.bmi <= 60.0):
            raise ValueError(f"a person is 1.2 to 2.3 m high with a BMI of 12 to 60, not {self.height} m, {self.bmi}")


REFERENCE = TorsoShape()


def random_shape(seed: int, bmi: float | None = None) -> TorsoShape:
    """A body; BMI 17 to 35 unless given."""
    rng = np.random.default_rng([seed, 81])
    drawn = rng.uniform(17.0, 35.0)
    return TorsoShape(
        height=float(np.clip(rng.normal(HEIGHT, 0.07), 1.6, 1.96)),
        bmi=drawn if bmi is None else bmi,
        shoulders=float(rng.normal(1.0, 0.03)),
        muscles=float(rng.uniform(0.003, 0.012)),
        belly=float(rng.uniform(-0.005, 0.01)),
        individual=0.003,
        seed=seed,
    )


class Torso:
    """See the module's docstring.

    Args:
        shape: of the body. side: which the z axis comes out of.

    Attributes:
        vertices: (v, 3) [m]. faces: (f, 3), outward by the right hand. normals: outward at the vertices (v, 3).
    """

    def __init__(self, shape: TorsoShape = REFERENCE, side: Side = "front") -> None:
        self.shape, self.side = shape, side
        turn, level = np.meshgrid(np.arange(ROUND) * 2.0 * np.pi / ROUND, np.linspace(0.0, 1.0, ALONG), indexing="ij")
        self.vertices = self.at(turn.ravel(), level.ravel())
        k = np.arange(ROUND * ALONG).reshape(ROUND, ALONG)
        right = np.roll(k, -1, axis=0)
        a, b, c, d = (m.ravel() for m in (k[:, :-1], right[:, :-1], right[:, 1:], k[:, 1:]))
        lower, upper = len(self.vertices) + np.arange(2)
        ends = np.concatenate([np.stack([np.full(ROUND, lower), right[:, 0], k[:, 0]], 1),
                               np.stack([np.full(ROUND, upper), k[:, -1], right[:, -1]], 1)])  # fmt: skip
        self.faces = np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, d], 1), ends])
        ring = self.vertices.reshape(ROUND, ALONG, 3)
        self.vertices = np.concatenate([self.vertices, ring[:, [0, -1]].mean(0)])
        self.normals = _vertex_normals(self.vertices, self.faces)

    def at(self, turn: np.ndarray, level: np.ndarray) -> np.ndarray:
        """Points (n, 3) [m]: `turn` about the body (n,) [rad], 0 in the middle of the chest and towards the left from there;
        `level` from the waist to the neck, 0 to 1 (n,)."""
        s, rng = self.shape, np.random.default_rng([self.shape.seed, 82])
        y = PROFILE[0, 0] + level * np.ptp(PROFILE[:, 0])
        heavy = np.sqrt(s.bmi / BMI)
        width = np.interp(y, PROFILE[:, 0], PROFILE[:, 1]) * (1.0 + 0.8 * (heavy - 1.0))
        width = width * (1.0 + (s.shoulders - 1.0) * np.clip(y / 0.12, 0.0, 1.0))
        depth = np.interp(y, PROFILE[:, 0], PROFILE[:, 2]) * (1.0 + 1.1 * (heavy - 1.0))
        sine, cosine = np.sin(turn), np.cos(turn)
        radius = (np.abs(sine) ** EXPONENT + np.abs(cosine) ** EXPONENT) ** (-1.0 / EXPONENT)
        x, z = width * radius * sine, depth * radius * cosine
        front = np.clip(cosine, 0.0, None) ** 2
        belly = s.belly + 0.05 * max(heavy - 1.0, -0.1)
        z = z + front * belly * np.exp(-(((y + 0.17) / 0.1) ** 2))
        for side in (-1.0, 1.0):
            z = z + front * s.muscles * np.exp(-(((x - side * 0.085) / 0.06) ** 2) - ((y - 0.03) / 0.06) ** 2)
        points = np.stack([x, y, z], -1)
        if s.individual:
            waves, phases = rng.standard_normal((WAVES, 3)) / WAVE_LENGTH, rng.uniform(0.0, 2.0 * np.pi, WAVES)
            field = s.individual * np.sqrt(2.0 / WAVES) * np.cos(points @ waves.T + phases).sum(-1)
            points += field[:, None] * np.stack([sine, np.zeros_like(sine), cosine], -1)
        points *= s.height / HEIGHT
        return points if self.side == "front" else points * np.array([-1.0, 1.0, -1.0])

    @property
    def landmarks(self) -> dict[Region, np.ndarray]:
        """Region of this side -> its place (3,) [m], where it is on the reference by turn and level."""
        regions = [region for region in REGIONS if region[1] == self.side]
        where = _coordinates(self.side)
        return {region: self.at(*(np.array([w]) for w in where[region]))[0] for region in regions}

    def spec(self, name: str = "torso") -> mujoco.MjSpec:
        """A scene with the body alone, for MuJoCo."""
        spec = mujoco.MjSpec()
        # Not its convex hull: rays meet the surface itself.
        mesh = spec.add_mesh(name=name, uservert=self.vertices.ravel(), userface=self.faces.ravel().astype(np.int32))
        mesh.inertia = mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL
        spec.worldbody.add_geom(name=name, type=mujoco.mjtGeom.mjGEOM_MESH, meshname=name)
        return spec


def _vertex_normals(vertices: np.ndarray, faces: np.ndarray) -> np.ndarray:
    a, b, c = (vertices[faces[:, k]] for k in range(3))
    normals = np.zeros_like(vertices)
    for k in range(3):
        np.add.at(normals, faces[:, k], np.cross(b - a, c - a))
    return normals / np.linalg.norm(normals, axis=1, keepdims=True)


@functools.cache
def _coordinates(side: Side) -> Mapping[Region, tuple[float, float]]:
    """Turn and level of each region of a side, by where it is on the reference."""
    reference = Torso(REFERENCE, side)
    turn, level = np.meshgrid(np.linspace(-1.4, 1.4, 701), np.linspace(0.0, 1.0, 501), indexing="ij")
    middle, sign = (0.0, 1.0) if side == "front" else (np.pi, -1.0)
    points = reference.at(turn.ravel() + middle, level.ravel())
    found = {}
    for region, place in REGIONS.items():
        if region[1] == side:
            k = int(np.argmin(np.linalg.norm(points[:, :2] - np.array(place) * [sign, 1.0], axis=1)))
            found[region] = (float(turn.ravel()[k] + middle), float(level.ravel()[k]))
    return found
