"""Cameras: the newest image of each, small."""

from __future__ import annotations

from typing import Any

import numpy as np

from nodes.view.stage.layer import Layer, Want
from nodes.view.stage.stage import Stage

__all__ = ["ImageLayer", "picture"]

#: [px] width that is not exceeded
WIDTH = 360
#: encoding -> numpy type, channels, and their order as RGB
ENCODINGS = {
    "rgb8": (np.uint8, 3, (0, 1, 2)),
    "bgr8": (np.uint8, 3, (2, 1, 0)),
    "rgba8": (np.uint8, 4, (0, 1, 2)),
    "bgra8": (np.uint8, 4, (2, 1, 0)),
    "mono8": (np.uint8, 1, (0, 0, 0)),
    "8UC1": (np.uint8, 1, (0, 0, 0)),
    "mono16": (np.uint16, 1, (0, 0, 0)),
    "16UC1": (np.uint16, 1, (0, 0, 0)),
    "32FC1": (np.float32, 1, (0, 0, 0)),
}


class ImageLayer(Layer):
    """See the module's docstring."""

    wants = (Want("*", "sensor_msgs/msg/Image", period=0.2),)

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._shown: dict[str, Any] = {}

    def take(self, topic: str, message: Any, time: float) -> None:
        image = picture(message)
        if topic in self._shown:
            self._shown[topic].image = image
            return
        with self.stage.tab("Sensors"):
            self._shown[topic] = self.stage.gui.add_image(image, label=topic, format="jpeg", jpeg_quality=70)


def picture(message: Any, width: int = WIDTH) -> np.ndarray:
    """A sensor_msgs/Image as RGB (rows, columns, 3) of 0 to 255, made smaller by leaving pixels out.

    What is no colour (depths) is drawn from black, the smallest, to white, the largest value of 98 % of the pixels.

    Raises:
        ValueError: an encoding that is not drawn; the text lists those that are.
    """
    if message.encoding not in ENCODINGS:
        raise ValueError(f"an image is encoded as '{message.encoding}'; drawn are {', '.join(ENCODINGS)}")
    kind, channels, order = ENCODINGS[message.encoding]
    item = np.dtype(kind).newbyteorder(">" if message.is_bigendian else "<")
    rows = np.frombuffer(bytes(message.data), np.uint8).reshape(message.height, message.step)
    used = np.ascontiguousarray(rows[:, : message.width * channels * item.itemsize]).view(item)
    every = max(1, -(-int(message.width) // width))
    image = used.reshape(message.height, message.width, channels)[::every, ::every]
    if kind is np.uint8:
        return np.ascontiguousarray(image[..., order])
    depth = np.nan_to_num(image.astype(float), posinf=0.0, neginf=0.0)
    top = float(np.percentile(depth, 98)) or 1.0
    return np.ascontiguousarray((255 * np.clip(depth / top, 0.0, 1.0)).astype(np.uint8)[..., order])
