"""What a model sees of an action: a square of the picture, turned so that the drag goes along its columns.

Colours in [0, 1] and heights over the scoop's start [m], 0.16 m wide; the start is at a quarter of the width and half the height, so that
most of what the blade meets lies in it. Turned by the yaw, a scoop looks the same whichever way it goes, and a flip
of the rows leaves its volume as it is.

Source: Zhu, PhD thesis (University of Illinois 2023), section 6.3; size and resolution are choices.
"""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path

import numpy as np

from sim_core.codegen.library import Library, check, compile_library, pointer
from sim_core.scooping.bed.actions import Actions
from sim_core.scooping.bed.rendering import Picture
from sim_core.scooping.bed.swept import Field

__all__ = ["CROP", "CUBIC_CENTIMETRES", "START", "crops", "halved"]

#: width of a crop [m]; where the scoop starts in it, as shares of its columns and rows
CROP, START = 0.16, (0.25, 0.5)
RUNTIME = Path(__file__).parent / "runtime"
#: m^3 to cm^3, the unit of models
CUBIC_CENTIMETRES = 1e6
#: actions at once
CHUNK = 32


@functools.cache
def kernels() -> Library | None:
    """runtime/crops.c; None: there is no C compiler."""
    library = compile_library("refit_crops", {}, [RUNTIME / "crops.c"], dtype="float32", lanes=1)
    if not library.compiled:
        return None
    number, integer = ctypes.c_float, ctypes.c_int32
    library.symbol(
        "crops", [*[ctypes.c_void_p] * 5, ctypes.c_int64, *[integer] * 3, *[number] * 3, ctypes.c_int], ctypes.c_int
    )
    return library


def crops(picture: Picture, actions: Actions, size: int = 64, threads: int = 2) -> np.ndarray:
    """Channels red, green, blue and height of n actions, (n, 4, size, size) float32.

    What lies outside of the picture is as its nearest edge.

    Args:
        size: pixels along a side. threads: of the CPU, where there is a C compiler; without one, numpy does it in a quarter of a second.

    Raises:
        ValueError: size below 8.
    """
    if size < 8:
        raise ValueError(f"expected crops of 8 pixels or more along a side, found {size}")
    step = max(1, int(CROP / size / picture.pitch + 1e-6))
    layers = _coarser(np.dstack([picture.colour.astype(np.float32) / 255.0, picture.height]), step)
    pitch = picture.pitch * step
    start = Field(picture.height, picture.origin, picture.pitch).at(actions.place[:, 0], actions.place[:, 1])
    found = np.empty((len(actions), layers.shape[2], size, size), np.float32)
    library = kernels()
    if library is not None:
        place = np.ascontiguousarray((actions.place - picture.origin) / pitch, np.float32)
        turn = np.ascontiguousarray(np.column_stack([np.cos(actions.yaw), np.sin(actions.yaw)]), np.float32)
        layers, level = np.ascontiguousarray(layers, np.float32), np.ascontiguousarray(start, np.float32)
        arrays = (pointer(array) for array in (layers, place, turn, level, found))
        check(library.symbol("crops")(*arrays, len(actions), *layers.shape[:2], size, CROP / pitch, *START, threads))
        return found
    # A few at a time stay in the cache.
    for k in range(0, len(actions), CHUNK):
        one = slice(k, k + CHUNK)
        turned = _turned(layers, (actions.place[one] - picture.origin) / pitch, actions.yaw[one], size, CROP / pitch)
        turned[..., 3] = turned[..., 3] - start[one, None, None]
        found[one] = np.moveaxis(turned, 3, 1)
    return found


def halved(found: np.ndarray) -> np.ndarray:
    """Crops (n, 4, s, s) of half the resolution (n, 4, s / 2, s / 2): means of four pixels."""
    n, channels, rows, columns = found.shape
    return found.reshape(n, channels, rows // 2, 2, columns // 2, 2).mean((3, 5), dtype=np.float32)


def _turned(layers: np.ndarray, place: np.ndarray, yaw: np.ndarray, size: int, width: float) -> np.ndarray:
    """Squares (n, size, size, channels) of layers (h, w, channels), with the start at `place` (n, 2), `width` wide, in pixels."""
    u, v = (((np.arange(size) + 0.5) / size - share) * width for share in START)
    u, v = u[None, None, :].astype(np.float32), v[None, :, None].astype(np.float32)
    cosine, sine = (turn(yaw)[:, None, None].astype(np.float32) for turn in (np.cos, np.sin))
    x, y = (place[:, k, None, None].astype(np.float32) - np.float32(0.5) for k in (0, 1))
    return _bilinear(layers, x + u * cosine - v * sine, y + u * sine + v * cosine)


def _coarser(layers: np.ndarray, step: int) -> np.ndarray:
    """Means of blocks of step x step pixels; what is left at the far edges is not used."""
    if step == 1:
        return layers
    rows, columns = (k // step for k in layers.shape[:2])
    return layers[: rows * step, : columns * step].reshape(rows, step, columns, step, -1).mean((1, 3))


def _bilinear(layers: np.ndarray, column: np.ndarray, row: np.ndarray) -> np.ndarray:
    """Layers (h, w, channels) between pixels, at positions (...) in pixels: (..., channels)."""
    h, w, channels = layers.shape
    column, row = np.clip(column, 0.0, w - 1.001), np.clip(row, 0.0, h - 1.001)
    j, i = column.astype(np.int32), row.astype(np.int32)
    a, b = (column - j)[..., None], (row - i)[..., None]
    flat, k = layers.reshape(-1, channels), i * w + j
    upper = flat[k]
    upper += a * (flat[k + 1] - upper)
    lower = flat[k + w]
    lower += a * (flat[k + w + 1] - lower)
    upper += b * (lower - upper)
    return upper
