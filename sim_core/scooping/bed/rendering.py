"""What an overhead camera sees of a terrain: colours and heights on one grid of pixels, with grains, shade and noise.

The picture is rectified: row and column go with y and x of the tray. Grains are cells of a Voronoi diagram, each with a colour of its
material and a rounded top, so that a picture shows size, colour and roughness; what was scooped shows other grains than before. Depths
have the noise of a time-of-flight camera (`perception.depth_noise`); lost rays take the nearest height.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.ndimage import distance_transform_edt, gaussian_filter
from scipy.spatial import cKDTree

from sim_core.perception.depth_noise import noisy_depth
from sim_core.scooping.bed.materials import Material, Soil
from sim_core.scooping.bed.terrain import TRAY, Terrain

__all__ = ["PIXEL", "Camera", "Picture"]

#: width of a pixel [m]; height of the camera above the floor [m]
PIXEL, ABOVE = 0.0025, 1.0
#: direction towards the light; share of it that falls into shade; standard deviation of a channel
LIGHT, AMBIENT, GRAIN_NOISE = np.array([-0.35, -0.3, 0.89]), 0.4, 0.02
#: pixels by which the grains are others after each disturbance, rows and columns
_FRESH = (37, 53)


@dataclass(frozen=True)
class Picture:
    """Part of the tray as it is seen.

    Attributes:
        colour: (h, w, 3) uint8. height: above the floor (h, w) float32 [m].
        origin: x and y of the corner of the first pixel (2,) [m]. pitch: width of a pixel [m].
    """

    colour: np.ndarray
    height: np.ndarray
    origin: np.ndarray
    pitch: float = PIXEL

    def __post_init__(self) -> None:
        if self.colour.shape != (*self.height.shape, 3) or self.colour.dtype != np.uint8:
            raise ValueError(
                f"expected colours (h, w, 3) uint8 and heights (h, w), found {self.colour.shape} "
                f"{self.colour.dtype} and {self.height.shape}"
            )


class Camera:
    """Sees one terrain; its grains are drawn once.

    Args:
        terrain: which is seen as it is at the moment of each picture.
    """

    def __init__(self, terrain: Terrain) -> None:
        self.terrain = terrain
        rng = np.random.default_rng([terrain.recipe.seed, terrain.recipe.number, 64])
        self.shape = (round(TRAY[1] / PIXEL), round(TRAY[0] / PIXEL))
        drawn = [_grains(soil, self.shape, rng) for soil in terrain.soils]
        self._colours = np.stack([colour for colour, _ in drawn])
        self._bumps = np.stack([bump for _, bump in drawn])
        tint = 1.0 + 0.02 * rng.standard_normal(3)
        self._tint = tint * (1.0 + 0.08 * rng.standard_normal())

    def picture(
        self, rng: np.random.Generator, center: np.ndarray | None = None, reach: float = 0.16, noise: bool = True
    ) -> Picture:
        """A picture of all of the tray, or of what is around a place.

        Args:
            rng: of the noise. center: (2,) [m]; None: all. reach: half the width of what is seen around it [m].
            noise: False: exact heights of the grains and colours without noise.
        """
        rows, columns = self._window(center, reach)
        r, c = np.arange(self.shape[0])[rows], np.arange(self.shape[1])[columns]
        origin = self.terrain.origin + PIXEL * np.array([c[0], r[0]])
        x, y = np.meshgrid((c + 0.5) * PIXEL + self.terrain.origin[0], (r + 0.5) * PIXEL + self.terrain.origin[1])
        ground = self.terrain.surface
        cell = ground.cell(x, y)
        soil, fresh = self.terrain.top[cell], self.terrain.touched[cell]
        there = (
            soil,
            (r[:, None] + _FRESH[0] * fresh) % self.shape[0],
            (c[None, :] + _FRESH[1] * fresh) % self.shape[1],
        )
        height = ground.at(x, y) + self._bumps[there]
        by_y, by_x = np.gradient(height, PIXEL)
        lit = (LIGHT[2] - LIGHT[0] * by_x - LIGHT[1] * by_y) / np.sqrt(1.0 + by_x**2 + by_y**2)
        colour = self._colours[there] * self._tint * (AMBIENT + (1.0 - AMBIENT) * np.clip(lit, 0.0, 1.0))[..., None]
        if noise:
            colour = colour + GRAIN_NOISE * rng.standard_normal(colour.shape)
            height = _seen(x, y, height, rng)
        return Picture(np.round(np.clip(colour, 0.0, 1.0) * 255.0).astype(np.uint8), height.astype(np.float32), origin)

    def _window(self, center: np.ndarray | None, reach: float) -> tuple[slice, slice]:
        if center is None:
            return slice(None), slice(None)
        pixels = (np.asarray(center) - self.terrain.origin) / PIXEL
        low = np.maximum(np.floor(pixels - reach / PIXEL).astype(int), 0)
        high = np.ceil(pixels + reach / PIXEL).astype(int)
        return slice(low[1], high[1]), slice(low[0], high[0])


def _seen(x: np.ndarray, y: np.ndarray, height: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Heights as a camera above the middle of the tray tells them, lost rays filled from the nearest one."""
    points = np.stack([x, y, height], -1)
    rays = points - [0.0, 0.0, ABOVE]
    depth = np.linalg.norm(rays, axis=-1)
    rays = rays / depth[..., None]
    told = ABOVE + rays[..., 2] * noisy_depth(depth, points, rays, rng)
    lost = np.isnan(told)
    if lost.all():
        raise ValueError("the camera sees nothing: every ray is lost")
    nearest = distance_transform_edt(lost, return_distances=False, return_indices=True)
    return told[tuple(nearest)]


def _grains(soil: Soil, shape: tuple[int, int], rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Colours (h, w, 3) and tops (h, w) [m] of a tray full of a soil's grains."""
    fine = [material for material in soil.materials if material.grain < 1.5 * PIXEL]
    points, sizes, colours, relief = [np.empty((0, 2))], [np.empty(0)], [np.empty((0, 3))], [np.empty(0)]
    for material in soil.materials:
        if material in fine:
            continue
        n = int(TRAY[0] * TRAY[1] / material.grain**2 / len(soil.materials)) + 1
        points.append(rng.uniform(0.0, 1.0, (n, 2)) * np.array(shape))
        sizes.append(np.full(n, material.grain / PIXEL / 2.0))
        colours.append(_painted(material, n, rng))
        relief.append(np.full(n, material.relief * material.grain))
    pixels = np.stack(np.meshgrid(*(np.arange(k) + 0.5 for k in shape), indexing="ij"), -1).reshape(-1, 2)
    colour, top = np.zeros((len(pixels), 3)), np.zeros(len(pixels))
    if len(sizes) > 1:
        distance, which = cKDTree(np.concatenate(points)).query(pixels)
        share = np.clip(distance / np.concatenate(sizes)[which], 0.0, 1.0)
        raised = np.concatenate(relief)[which]
        colour = np.concatenate(colours)[which] * (1.0 - 0.35 * (raised > 0.0) * share**4)[:, None]
        top = raised * (np.sqrt(1.0 - share**2) - 0.67)
    if fine:
        # Grains below a pixel: each pixel is a mean of several. Beside coarse ones they show in patches.
        dust = _painted(fine[0], len(pixels), rng)
        patch = (
            gaussian_filter(rng.standard_normal(shape), 2.0).ravel() > 0.0
            if len(sizes) > 1
            else np.ones(len(pixels), bool)
        )
        colour, top = np.where(patch[:, None], dust, colour), np.where(patch, 0.0, top)
    return colour.reshape(*shape, 3), top.reshape(shape)


def _painted(material: Material, n: int, rng: np.random.Generator) -> np.ndarray:
    """Colours of n grains (n, 3): between its colours, with some variation."""
    palette = np.array(material.colours)
    chosen = palette[rng.integers(len(palette), size=n)]
    return np.clip(chosen * (1.0 + 0.06 * rng.standard_normal((n, 1))), 0.0, 1.0)
