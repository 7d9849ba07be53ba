"""A tray of granular material that changes where it is scooped.

Heights on cells of 1 cm; each cell has a soil on top and, where it is covered, another one below a known thickness. Slopes are at rest. A scoop
takes its volume away, pushes some of the rest to the end of the drag, uncovers what is below, and slopes slide until they rest
again: what is in the tray and what was taken always add up.

The relief is a smooth random field (a choice), of at most 0.2 m; see `suite` for what terrains are made of.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.ndimage import gaussian_filter

from sim_core.scooping.bed.actions import Actions
from sim_core.scooping.bed.materials import Soil
from sim_core.scooping.bed.relaxation import relaxed, steepest
from sim_core.scooping.bed.suite import SHEET, Recipe
from sim_core.scooping.bed.swept import BLADE, Blade, Field

__all__ = ["CELL", "TRAY", "Terrain", "make_terrain"]

#: of the tray, x and y [m]; of a cell [m]
TRAY, CELL = (0.9, 0.6), 0.01
#: lowest surface [m]; relief [m]; width of its hills [m]
LOWEST, RELIEF, HILLS = 0.09, (0.06, 0.16), (0.05, 0.10)
#: thickness of the upper of two layers [m]
COVER = (0.02, 0.035)
#: share of what was swept and not kept that ends as a heap before the blade, and the heap's length [m]
PLOUGHED, HEAP = 0.3, 0.03
#: cells around a scoop beyond which slopes rarely slide
SLIDES = 12
#: standard deviation of the logarithm of a terrain's efficiency: how dense and how dry it is today
STATE = 0.15


@dataclass
class Terrain:
    """The state of a tray; cells (rows along y, columns along x).

    Attributes:
        recipe: what it is made of. soils: that occur in it.
        height: of the surface [m]. top: number of the soil on top. below: of the soil under it. cover: thickness of the
            upper one [m], infinite where there is no other. touched: how often a cell was disturbed.
        density: factor on every scoop's volume here.
    """

    recipe: Recipe
    soils: tuple[Soil, ...]
    height: np.ndarray
    top: np.ndarray
    below: np.ndarray
    cover: np.ndarray
    touched: np.ndarray
    density: float = 1.0

    @property
    def origin(self) -> np.ndarray:
        """x and y of the corner of the first cell (2,) [m]."""
        return -np.array(TRAY) / 2.0

    @property
    def surface(self) -> Field:
        """Its heights, to be read between cells."""
        return Field(self.height, self.origin, CELL)

    @property
    def volume(self) -> float:
        """Of everything above the floor [m^3]."""
        return float(self.height.sum() * CELL**2)

    def copy(self) -> Terrain:
        """One that changes for itself."""
        height, top, below, cover, touched = (
            each.copy() for each in (self.height, self.top, self.below, self.cover, self.touched)
        )
        return Terrain(self.recipe, self.soils, height, top, below, cover, touched, self.density)

    def scoop(self, action: Actions, wanted: float, blade: Blade = BLADE) -> float:
        """Change by one scoop.

        Args:
            action: one. wanted: volume that shall leave the tray [m^3].

        Returns:
            The volume that left it [m^3]: no more than the sweep passes through.

        Raises:
            ValueError: more than one action, or a volume below 0.
        """
        if len(action) != 1 or not wanted >= 0.0:
            raise ValueError(f"expected one action and a volume of 0 or more, found {len(action)} and {wanted}")
        depth, ahead = self._swept(action, blade)
        swept = float(depth.sum()) * CELL**2
        taken = min(wanted, swept)
        if taken <= 0.0:
            return 0.0
        pushed = PLOUGHED * (swept - taken) if ahead.any() else 0.0
        lost = depth * ((taken + pushed) / swept)
        self._settle(ahead * (pushed / (max(float(ahead.sum()), 1.0) * CELL**2)) - lost)
        return taken

    def _swept(self, action: Actions, blade: Blade) -> tuple[np.ndarray, np.ndarray]:
        """Terrain above the blade's bottom [m], and the cells before the end of the sweep, both by cell."""
        rows, columns = self.height.shape
        x = (np.arange(columns) + 0.5) * CELL + self.origin[0] - action.place[0, 0]
        y = (np.arange(rows) + 0.5) * CELL + self.origin[1] - action.place[0, 1]
        cosine, sine = np.cos(action.yaw[0]), np.sin(action.yaw[0])
        s, side = np.add.outer(y * sine, x * cosine), np.add.outer(y * cosine, -x * sine)
        inside = np.abs(side) <= blade.width / 2.0
        end = float(blade.ends(action.depth)[2][0])
        start = float(self.surface.at(action.place[:, 0], action.place[:, 1])[0])
        bottom = start + blade.bottom(s, action.depth)
        # The tray has a floor.
        above = np.clip(self.height - bottom, 0.0, self.height)
        depth = np.where(inside & (s >= 0.0) & (s <= end), above, 0.0)
        return depth, (inside & (s > end) & (s < end + HEAP)).astype(float)

    def _settle(self, change: np.ndarray) -> None:
        """Change heights and let the slopes slide."""
        after, slopes = self.height + change, self.slopes
        around = [np.flatnonzero(change.any(axis)) for axis in (1, 0)]
        window = tuple(slice(max(0, k[0] - SLIDES), k[-1] + SLIDES + 1) for k in around)
        part = relaxed(after[window], slopes[window], CELL)
        moved = np.abs(part - after[window])
        moved[1:-1, 1:-1] = 0.0
        if moved.any():  # a slide that left the window
            after = relaxed(after, slopes, CELL)
        else:
            after[window] = part
        difference = after - self.height
        self.height, self.cover = after, self.cover + difference
        bare = self.cover <= 0.0
        self.top = np.where(bare, self.below, self.top)
        self.cover = np.where(bare, np.inf, self.cover)
        self.touched = self.touched + (np.abs(difference) > 0.001)

    @property
    def slopes(self) -> np.ndarray:
        """Steepest slope at rest by cell: the tangent of its soil's repose."""
        return np.tan([soil.repose for soil in self.soils])[self.top]


def make_terrain(recipe: Recipe) -> Terrain:
    """The terrain of a recipe, before anybody scoops; the same each time."""
    rng = np.random.default_rng([recipe.seed, recipe.number, 63])
    shape = (round(TRAY[1] / CELL), round(TRAY[0] / CELL))
    names = recipe.materials
    groups = (names,) if recipe.composition == "Mixture" else tuple((name,) for name in names)
    soils = tuple(Soil.of(group) for group in groups)
    top = np.zeros(shape, int)
    if recipe.composition in ("Partition", "Layers"):
        # A border that is not quite straight, near the middle.
        wave = gaussian_filter(rng.standard_normal(shape[0]), 6, mode="reflect")
        border = rng.uniform(-0.05, 0.05) + 0.02 * wave / max(float(np.abs(wave).max()), 1e-9)
        x = (np.arange(shape[1]) + 0.5) * CELL - TRAY[0] / 2.0
        top = (x[None, :] > border[:, None]).astype(int)
        if rng.uniform() < 0.5:
            top = 1 - top
    below, cover = top.copy(), np.full(shape, np.inf)
    # A sheet covers whatever depth a blade could reach: nothing below it is ever met.
    if recipe.composition == "Layers" and names[1] != SHEET:
        below = np.where(top == 1, 2, top)
        cover = np.where(top == 1, rng.uniform(*COVER), np.inf)
    field = gaussian_filter(rng.standard_normal(shape), rng.uniform(*HILLS) / CELL, mode="reflect")
    field = (field - field.min()) / np.ptp(field) * rng.uniform(*RELIEF)
    rest = min(float(np.tan(soil.repose)) for soil in soils)
    field *= min(1.0, rest / steepest(field, CELL))
    density = float(np.exp(STATE * rng.standard_normal() - STATE**2 / 2.0))
    return Terrain(recipe, soils, LOWEST + field, top, below, cover, np.zeros(shape, int), density)
