"""Surfaces whose texture is known: heights over a plane as sums of waves, drawn at random by kind and seed.

    surface = texture_surface("gravel", seed=3)
    surface.heights(x, y)                                    # (n,), (m,) [m] -> (m, n) [m]
    surface.at(points)                                       # (..., 2) [m] -> (...) [m]

    h(x, y) = sum_i a_i cos(2 pi (k_i . (x, y)) + p_i)

with wave vectors k_i [1/m], amplitudes a_i [m] and phases p_i. The mean square over the plane is sum_i a_i^2 / 2. Five kinds:

* smooth: a polished face, 0.02 to 0.04 mm root mean square, which is below what the camera resolves;
* gravel: grains of 6 to 8 mm, an isotropic band of waves about one length;
* grooves: ridges in one direction, 9 to 12.5 mm apart, with a second harmonic that makes their crests sharper;
* cobbles: as gravel, 17 to 22 mm;
* rock: a broken face, self-affine between 12 and 400 waves per metre: power per octave falls as k^(-2 H), H = 0.8.

All but the smooth one are 0.4 to 1 mm rough, so that roughness alone does not tell them apart. Roughness is drawn with the seed.

Source: self-affine fractures with H near 0.8: Bouchaud, Lapasset & Planes, Europhysics Letters 13 (1990) 73; sums of random waves:
Longuet-Higgins, Phil. Trans. R. Soc. A 249 (1957) 321. Grain sizes and amplitudes are ours, as of coarse sand to small pebbles.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.ndimage import map_coordinates

__all__ = ["KINDS", "TextureSurface", "sinusoid", "texture_surface"]

KINDS = ("smooth", "gravel", "grooves", "cobbles", "rock")
#: side of the face that is modelled [m], and the distance between two heights of it where it is a grid [m]
SIDE, PITCH = 0.2, 0.0005
#: root mean square of the heights, drawn between [m]
ROUGH, POLISHED = (0.0004, 0.001), (0.00002, 0.00004)
#: dominant wave number, drawn between [1/m], and its relative spread in a band
GRAVEL, GROOVES, COBBLES, SPREAD = (125.0, 165.0), (80.0, 110.0), (45.0, 58.0), 0.1
#: of a self-affine face: exponent, and where it begins and ends [1/m]
HURST, LONGEST, SHORTEST = 0.8, 12.0, 400.0
#: of the grooves' second harmonic, beside the first
HARMONIC = 0.25
WAVES = 160


@dataclass(frozen=True, eq=False)
class TextureSurface:
    """See the module's docstring.

    Attributes:
        name: its kind. seed: it was drawn with.
        frequency: of the wave that stands out [1/m]; 0: none does.
        vectors: (n, 2) [1/m]. amplitudes: (n,) [m]. phases: (n,) [rad].
    """

    name: str
    seed: int
    frequency: float
    vectors: np.ndarray
    amplitudes: np.ndarray
    phases: np.ndarray

    @property
    def roughness(self) -> float:
        """Root mean square over the whole plane [m]."""
        return float(np.sqrt(0.5 * np.sum(self.amplitudes**2)))

    def heights(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Heights (m, n) [m] on the grid of these x (n,) and y (m,) [m]."""
        along = np.exp(2j * np.pi * np.outer(y, self.vectors[:, 1])) * (self.amplitudes * np.exp(1j * self.phases))
        return np.real(along @ np.exp(2j * np.pi * np.outer(self.vectors[:, 0], x)))

    @cached_property
    def grid(self) -> np.ndarray:
        """Heights (n, n) [m] from -SIDE / 2 to SIDE / 2, PITCH apart, rows along y."""
        line = np.arange(-round(0.5 * SIDE / PITCH), round(0.5 * SIDE / PITCH) + 1) * PITCH
        return self.heights(line, line)

    def at(self, points: np.ndarray) -> np.ndarray:
        """Heights (...) [m] at points (..., 2) [m], linear between those of the grid; beyond it, those of its edge."""
        index = (np.asarray(points, float) + 0.5 * SIDE) / PITCH
        return map_coordinates(self.grid, [index[..., 1], index[..., 0]], order=1, mode="nearest")


def texture_surface(name: str, seed: int = 0) -> TextureSurface:
    """A surface of one of KINDS.

    Raises:
        ValueError: there is no such kind.
    """
    if name not in KINDS:
        raise ValueError(f"expected a surface among {', '.join(KINDS)}, found '{name}'")
    rng = np.random.default_rng([seed, KINDS.index(name), 17])
    rough = float(rng.uniform(*(POLISHED if name == "smooth" else ROUGH)))
    if name == "grooves":
        k, turn = float(rng.uniform(*GROOVES)), float(rng.uniform(0.0, np.pi))
        phase = float(rng.uniform(0.0, 2.0 * np.pi))
        along = k * np.array([np.cos(turn), np.sin(turn)])
        vectors, amplitudes = np.array([along, 2.0 * along]), np.array([1.0, HARMONIC])
        return _scaled(name, seed, k, vectors, amplitudes, np.array([phase, 2.0 * phase]), rough)
    if name in ("gravel", "cobbles"):
        k = float(rng.uniform(*(GRAVEL if name == "gravel" else COBBLES)))
        lengths, amplitudes = k * (1.0 + SPREAD * rng.standard_normal(WAVES)), np.ones(WAVES)
        frequency = k
    else:
        lengths = np.geomspace(LONGEST, SHORTEST, WAVES)
        amplitudes, frequency = lengths**-HURST, 0.0
    turns = rng.uniform(0.0, 2.0 * np.pi, WAVES)
    vectors = lengths[:, None] * np.column_stack([np.cos(turns), np.sin(turns)])
    return _scaled(name, seed, frequency, vectors, amplitudes, rng.uniform(0.0, 2.0 * np.pi, WAVES), rough)


def sinusoid(amplitude: float, frequency: float, turn: float = 0.0) -> TextureSurface:
    """One wave: amplitude [m], frequency [1/m], and the direction it runs in [rad]."""
    vector = frequency * np.array([[np.cos(turn), np.sin(turn)]])
    return TextureSurface("sinusoid", 0, frequency, vector, np.array([amplitude]), np.zeros(1))


def _scaled(
    name: str,
    seed: int,
    frequency: float,
    vectors: np.ndarray,
    amplitudes: np.ndarray,
    phases: np.ndarray,
    rough: float,
) -> TextureSurface:
    amplitudes = amplitudes * rough / np.sqrt(0.5 * np.sum(amplitudes**2))
    return TextureSurface(name, seed, frequency, vectors, amplitudes, phases)
