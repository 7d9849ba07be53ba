"""Images on their way into the SDK: it reads past the end of whatever it is handed, so everything is checked here."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["MalformedFrame", "checked"]

#: SDK format -> (element type, channels)
_LAYOUT = {"z16": (np.uint16, 1), "y8": (np.uint8, 1), "rgb8": (np.uint8, 3), "bgr8": (np.uint8, 3)}


class MalformedFrame(ValueError):
    """An image that is not what its profile promises."""


def checked(pixels: ArrayLike, pixel_format: str, width: int, height: int) -> np.ndarray:
    """The image, if the SDK may have it.

    Args:
        pixels: array of shape (height, width) or (height, width, channels), C-contiguous.
        pixel_format: "z16", "y8", "rgb8" or "bgr8".
        width, height: of the profile [pixels].

    Raises:
        MalformedFrame: another type, size or memory layout, or an unknown format.
    """
    if pixel_format not in _LAYOUT:
        raise MalformedFrame(f"format {pixel_format} is none of {', '.join(_LAYOUT)}")
    kind, channels = _LAYOUT[pixel_format]
    expected = (height, width) if channels == 1 else (height, width, channels)
    if not isinstance(pixels, np.ndarray):
        raise MalformedFrame(f"{pixel_format} needs a numpy array, not {type(pixels).__name__}")
    if pixels.dtype != kind:
        raise MalformedFrame(f"{pixel_format} needs {np.dtype(kind).name}, not {pixels.dtype.name}")
    if pixels.shape != expected:
        raise MalformedFrame(f"{pixel_format} of {width}x{height} has shape {expected}, not {pixels.shape}")
    if not pixels.flags.c_contiguous:
        raise MalformedFrame(f"{pixel_format} image is strided; pass np.ascontiguousarray of it")
    return pixels
