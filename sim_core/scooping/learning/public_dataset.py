"""The published scoops (Hugging Face, `pthangeda/scooping-dataset`, CC BY 4.0) as the same records as simulated ones.

    FOLDER/rgb_images/terrain_12_sample_7*.png       1280 x 720, colour
    FOLDER/depth_images/terrain_12_sample_7*.png     1280 x 720, 16 bits, from depth_min to depth_max
    FOLDER/metadata.csv                              one row for each scoop: terrain_id, sample_index, composition, material_1,
                                                     material_2, material_3, depth_min, depth_max, pixel_x, pixel_y, yaw [rad],
                                                     scoop_depth [m], stiffness, scooped_volume [m^3]
    FOLDER/tray.json                                 {"corners": [[u, v], ...]}: where the tray's corners are in the pictures

The first two are published so. The rows are published as an Arrow table; with the package `datasets`, metadata.csv is
`load_from_disk(FOLDER + "/scooping_dataset").remove_columns(["rgb_image", "depth_image"]).to_csv(FOLDER + "/metadata.csv")`. Camera
and scale are not published: the corners, in the order (-x, -y), (x, -y), (x, y), (-x, y), give a map from the tray to the picture. Rows and
pictures are joined by terrain and sample, never by their order.

This has been tried on files of this format that a test writes; nobody has run it on the published ones.
"""

from __future__ import annotations

import csv
import json
import os
from collections import defaultdict
from pathlib import Path

import numpy as np
from PIL import Image
from scipy.ndimage import map_coordinates

from sim_core.scooping.bed.actions import Actions
from sim_core.scooping.bed.rendering import PIXEL, Picture
from sim_core.scooping.bed.terrain import TRAY
from sim_core.scooping.learning.crops import crops
from sim_core.scooping.learning.dataset import SIZE, DataSetError, TerrainRecord

__all__ = ["load_public", "tray_map"]

FIELDS = (
    *("terrain_id", "sample_index", "composition", "material_1", "material_2", "material_3", "depth_min", "depth_max"),
    *("pixel_x", "pixel_y", "yaw", "scoop_depth", "stiffness", "scooped_volume"),
)
_ABSENT = ("", "none", "null", "nan")


def load_public(folder: str | os.PathLike[str], size: int = SIZE) -> list[TerrainRecord]:
    """All terrains of a folder, by number.

    Raises:
        DataSetError: a file is missing or damaged, a row lacks a field, or a scoop has no picture.
    """
    folder = Path(folder)
    homography = tray_map(_corners(folder / "tray.json"))
    rows = defaultdict(list)
    for row in _rows(folder / "metadata.csv"):
        rows[int(row["terrain_id"])].append(row)
    return [_terrain(folder, number, rows[number], homography, size) for number in sorted(rows)]


def tray_map(corners: np.ndarray) -> np.ndarray:
    """Homography (3, 3) from the tray's x and y [m] to pixels, by four corners (4, 2) [px]; see the module for their order."""
    half = np.array(TRAY) / 2.0
    places = half * [[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]]
    equations = []
    for (x, y), (u, v) in zip(places, corners):
        equations += [[x, y, 1, 0, 0, 0, -u * x, -u * y, -u], [0, 0, 0, x, y, 1, -v * x, -v * y, -v]]
    return np.linalg.svd(np.array(equations))[2][-1].reshape(3, 3)


def _terrain(folder: Path, number: int, rows: list[dict[str, str]], homography: np.ndarray, size: int) -> TerrainRecord:
    rows = sorted(rows, key=lambda row: int(row["sample_index"]))
    inverse = np.linalg.inv(homography)
    table, seen, first = [], [], None
    for row in rows:
        place = _mapped(inverse, np.array([[float(row["pixel_x"]), float(row["pixel_y"])]]))[0]
        table.append([*place, float(row["yaw"]), float(row["scoop_depth"]), float(row["stiffness"])])
        stem = f"terrain_{number}_sample_{int(row['sample_index'])}"
        picture = _picture(folder, stem, float(row["depth_min"]), float(row["depth_max"]), homography)
        first = first or picture
        seen.append(crops(picture, Actions.of(np.array(table[-1:])), size)[0])
    names = [rows[0][f"material_{k}"].strip().lower() for k in (1, 2, 3)]
    materials = tuple(name for name in names if name not in _ABSENT)
    volumes = np.array([float(row["scooped_volume"]) for row in rows])
    actions = Actions.of(np.array(table))
    return TerrainRecord(
        number, rows[0]["composition"], materials, np.stack(seen), actions, volumes, np.zeros(len(rows), bool), first
    )


def _picture(folder: Path, stem: str, low: float, high: float, homography: np.ndarray) -> Picture:
    """What a camera saw, on the tray's grid of pixels; heights count from the farthest depth."""
    colour = _png(folder / "rgb_images", stem)[..., :3]
    depth = low + (high - low) * _png(folder / "depth_images", stem)
    if depth.shape != colour.shape[:2]:
        raise DataSetError(
            f"{folder}: expected colour and depth of {stem} of one size, found {colour.shape}, {depth.shape}"
        )
    columns, rows = (round(length / PIXEL) for length in TRAY)
    x, y = ((np.arange(k) + 0.5) * PIXEL - length / 2.0 for k, length in zip((columns, rows), TRAY))
    places = np.stack(np.meshgrid(x, y), -1).reshape(-1, 2)
    at = _mapped(homography, places).T[::-1]
    layers = [map_coordinates(layer, at, order=1, mode="nearest") for layer in (*np.moveaxis(colour, 2, 0), depth)]
    red, green, blue, far = (layer.reshape(rows, columns) for layer in layers)
    pixels = np.round(np.clip(np.dstack([red, green, blue]), 0.0, 1.0) * 255.0).astype(np.uint8)
    return Picture(pixels, (high - far).astype(np.float32), -np.array(TRAY) / 2.0)


def _mapped(homography: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Places (n, 2) through a homography."""
    x = np.column_stack([places, np.ones(len(places))]) @ homography.T
    return x[:, :2] / x[:, 2:]


def _png(folder: Path, stem: str) -> np.ndarray:
    """A picture in [0, 1]; what follows the stem in the file's name is not a digit."""
    paths = [path for path in sorted(folder.glob(f"{stem}*.png")) if not path.stem[len(stem) :][:1].isdigit()]
    if len(paths) != 1:
        raise DataSetError(f"{folder}: expected one file {stem}*.png, found {len(paths)}; download the data set again")
    try:
        with Image.open(paths[0]) as image:
            return np.asarray(image, float) / (255.0 if image.mode in ("L", "RGB", "RGBA") else 65535.0)
    except (OSError, SyntaxError, ValueError) as error:
        raise DataSetError(f"{paths[0]}: expected a PNG, found {error}; download it again") from None


def _corners(path: Path) -> np.ndarray:
    try:
        corners = np.array(json.loads(path.read_text(encoding="utf-8"))["corners"], float)
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise DataSetError(
            f"{path}: expected the tray's corners in the pictures, found {error}; write them there"
        ) from None
    if corners.shape != (4, 2):
        raise DataSetError(f"{path}: expected four corners of u and v [px], found the shape {corners.shape}")
    return corners


def _rows(path: Path) -> list[dict[str, str]]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except OSError as error:
        raise DataSetError(
            f"{path}: expected the rows of all scoops, found {error}; export them as the module says"
        ) from None
    if not rows or (missing := [name for name in FIELDS if name not in rows[0]]):
        raise DataSetError(f"{path}: expected rows with {', '.join(FIELDS)}; found {'no row' if not rows else missing}")
    return rows
