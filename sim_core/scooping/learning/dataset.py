"""Scoops by terrain: what was seen before each, what was done, what it brought; one file for each terrain.

    generate(training_recipes() + test_recipes(), "scoops", scoops=100, executor=executor)
    records = load("scoops")

A terrain is scooped again and again and changes on the way, as in the published data. Each file is written whole, so that a run that is killed,
or that finds no room, leaves those that are complete; the next one makes the rest. The same recipe gives the same file.

Source: Zhu, PhD thesis (University of Illinois 2023), section 6.4.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np

from config.whole_file import whole_file
from sim_core.host.executors import spread
from sim_core.scooping.bed.actions import Actions, random_actions
from sim_core.scooping.bed.rendering import PIXEL, Camera, Picture
from sim_core.scooping.bed.reward import REWARD, RewardSettings, scoop
from sim_core.scooping.bed.suite import Recipe
from sim_core.scooping.bed.terrain import make_terrain
from sim_core.scooping.learning.crops import crops

__all__ = ["DataSetError", "TerrainRecord", "collect", "generate", "load", "read_record", "write_record"]

VERSION = 1
#: resolution at which crops are kept
SIZE = 64
#: heights are kept as whole numbers of this [m]
_STEP = 1e-4


class DataSetError(ValueError):
    """A file or folder that holds no scoops; the text says what was expected, found, and what to do."""


@dataclass(frozen=True, eq=False)
class TerrainRecord:
    """n scoops of one terrain.

    Attributes:
        number: of the terrain. composition, materials: by name.
        crops: what was seen before each scoop (n, 4, s, s), see `crops.crops`. actions: n of them. volumes: (n,) [m^3].
        stopped: whether the arm's limit ended it (n,).
        first: the whole tray before the first scoop; None where it was not kept.
    """

    number: int
    composition: str
    materials: tuple[str, ...]
    crops: np.ndarray
    actions: Actions
    volumes: np.ndarray
    stopped: np.ndarray
    first: Picture | None = None

    def __post_init__(self) -> None:
        n = len(self.actions)
        if self.crops.ndim != 4 or self.crops.shape[:2] != (n, 4) or self.volumes.shape != (n,):
            raise DataSetError(
                f"terrain {self.number}: expected crops ({n}, 4, s, s) and volumes ({n},), found {self.crops.shape} "
                f"and {self.volumes.shape}"
            )
        if not (np.isfinite(self.volumes).all() and (self.volumes >= 0.0).all()):
            raise DataSetError(f"terrain {self.number}: expected finite volumes of 0 or more [m^3]")

    @property
    def name(self) -> str:
        """As of its recipe."""
        return f"{self.number} {self.composition} {' + '.join(self.materials)}"

    def threshold(self, rank: int = 5) -> float:
        """The rank-th largest volume [m^3]: what a deployment has to reach."""
        return float(np.sort(self.volumes)[-rank])


def collect(recipe: Recipe, scoops: int = 100, size: int = SIZE, settings: RewardSettings = REWARD) -> TerrainRecord:
    """Scoop a new terrain at random."""
    rng = np.random.default_rng([recipe.seed, recipe.number, 65])
    terrain = make_terrain(recipe)
    camera, actions = Camera(terrain), random_actions(scoops, rng)
    first = camera.picture(rng)
    seen, outcomes = [], []
    for k in range(scoops):
        one = actions[[k]]
        seen.append(crops(camera.picture(rng, one.place[0]), one, size)[0])
        outcomes.append(scoop(terrain, one, rng, settings))
    volumes = np.array([outcome.volume for outcome in outcomes])
    stopped = np.array([outcome.stopped for outcome in outcomes])
    return TerrainRecord(
        recipe.number, recipe.composition, recipe.materials, np.stack(seen), actions, volumes, stopped, first
    )


def generate(
    recipes: Sequence[Recipe],
    folder: str | os.PathLike[str],
    scoops: int = 100,
    size: int = SIZE,
    executor: Executor | None = None,
    done: Callable[[int], None] | None = None,
) -> list[TerrainRecord]:
    """Records of all recipes, in their order; those that a folder has are read, the others are made and written.

    Args:
        done: called with the number of terrains so far that were made.

    Raises:
        DataSetError: the folder holds other scoops. OSError: it cannot be written.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    told = {"version": VERSION, "scoops": scoops, "size": size, "reward": asdict(REWARD)}
    settings = folder / "settings.json"
    if settings.exists():
        if json.loads(settings.read_text(encoding="utf-8")) != json.loads(json.dumps(told)):
            raise DataSetError(f"{folder}: its scoops were made with other settings; give another folder, or delete it")
    else:
        with whole_file(settings) as part:
            part.write_text(json.dumps(told), encoding="utf-8")
    lacking = [recipe for recipe in recipes if not _path(folder, recipe.number).exists()]
    spread(partial(_make, folder=folder, scoops=scoops, size=size), lacking, executor, done)
    records = [read_record(_path(folder, recipe.number)) for recipe in recipes]
    for record, recipe in zip(records, recipes):
        if (record.composition, record.materials) != (recipe.composition, recipe.materials):
            raise DataSetError(
                f"{folder}: expected {recipe.name}, found {record.name}; give another folder, or delete it"
            )
    return records


def load(folder: str | os.PathLike[str]) -> list[TerrainRecord]:
    """All records of a folder, by number. Raises DataSetError: there are none, or one cannot be read."""
    paths = sorted(Path(folder).glob("terrain_*.npz"))
    if not paths:
        raise DataSetError(f"{folder}: expected files terrain_*.npz, found none; `generate` makes them")
    return [read_record(path) for path in paths]


def write_record(record: TerrainRecord, path: str | os.PathLike[str]) -> None:
    """One file, whole or not at all. Colours are kept with 8 bits, heights to a tenth of a millimetre."""
    colour = np.round(record.crops[:, :3] * 255.0).astype(np.uint8)
    height = np.round(record.crops[:, 3] / _STEP).astype(np.int16)
    header = {"version": VERSION, "number": record.number, "composition": record.composition}
    first: dict[str, np.ndarray] = {}
    if record.first is not None:
        tray = np.round(record.first.height / _STEP).astype(np.int16)
        first = {"tray_colour": record.first.colour, "tray_height": tray, "tray_origin": record.first.origin}
        header["pitch"] = record.first.pitch
    header["materials"] = list(record.materials)
    arrays = {
        "header": np.array(json.dumps(header)),
        "colour": colour,
        "height": height,
        "actions": record.actions.table(),
        "volumes": record.volumes,
        "stopped": record.stopped,
        **first,
    }
    with whole_file(path) as part, part.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


def read_record(path: str | os.PathLike[str]) -> TerrainRecord:
    """What `write_record` wrote. Raises DataSetError: missing, damaged, or of another version."""
    try:
        with np.load(path, allow_pickle=False) as file:
            header = json.loads(str(file["header"]))
            if header["version"] != VERSION:
                raise DataSetError(f"{path}: expected version {VERSION}, found {header['version']}; make it anew")
            seen = np.concatenate([file["colour"] / np.float32(255.0), file["height"][:, None] * np.float32(_STEP)], 1)
            first = None
            if "tray_colour" in file:
                tray = file["tray_height"] * np.float32(_STEP)
                first = Picture(file["tray_colour"], tray, file["tray_origin"], header.get("pitch", PIXEL))
            return TerrainRecord(
                header["number"],
                header["composition"],
                tuple(header["materials"]),
                seen,
                Actions.of(file["actions"]),
                file["volumes"],
                file["stopped"],
                first,
            )
    except (OSError, KeyError, zipfile.BadZipFile, json.JSONDecodeError, EOFError) as error:
        raise DataSetError(
            f"{path}: expected the scoops of a terrain, found {error}; delete it and make it anew"
        ) from None


def _make(recipe: Recipe, folder: Path, scoops: int, size: int) -> int:
    write_record(collect(recipe, scoops, size), _path(folder, recipe.number))
    return recipe.number


def _path(folder: Path, number: int) -> Path:
    return folder / f"terrain_{number:02d}.npz"
