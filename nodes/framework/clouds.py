"""Points and sensor_msgs/PointCloud2."""

from __future__ import annotations

from typing import Any

import numpy as np
from sensor_msgs.msg import PointCloud2, PointField

from nodes.framework.images import buffer

__all__ = ["cloud_message", "cloud_points"]

#: of points without a colour
GREY = (90, 110, 130)
#: sensor_msgs/PointField.FLOAT32
FLOAT32 = 7


def cloud_points(message: Any, most: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Points (N, 3) [m] and colours (N, 3) of 0 to 255 of a sensor_msgs/PointCloud2; at most about so many, evenly taken.

    Raises:
        ValueError: the cloud has no x, y and z of type float32.
    """
    fields = {field.name: field for field in message.fields}
    if any(axis not in fields or fields[axis].datatype != FLOAT32 for axis in "xyz"):
        raise ValueError(f"a cloud has fields {', '.join(fields) or 'none'}; expected x, y and z of type float32")
    order = ">" if message.is_bigendian else "<"
    rgb = "rgb" if "rgb" in fields else "rgba" if "rgba" in fields else ""
    names = ["x", "y", "z", *([rgb] if rgb else [])]
    layout = np.dtype(
        {
            "names": names,
            "formats": [f"{order}f4"] * 3 + ([f"{order}u4"] if rgb else []),
            "offsets": [fields[name].offset for name in names],
            "itemsize": message.point_step,
        }
    )
    count = int(message.width) * int(message.height)
    rows = np.frombuffer(bytes(message.data), layout, min(count, len(message.data) // message.point_step))
    rows = rows[:: max(1, len(rows) // most)] if most else rows
    points = np.stack([rows["x"], rows["y"], rows["z"]], axis=1).astype(np.float32)
    known = np.isfinite(points).all(axis=1)
    if rgb:
        packed = rows[rgb]
        colours = np.stack([packed >> 16 & 255, packed >> 8 & 255, packed & 255], axis=1).astype(np.uint8)
    else:
        colours = np.tile(np.array(GREY, np.uint8), (len(points), 1))
    return points[known], colours[known]


def cloud_message(points: np.ndarray, stamp: Any, frame_id: str, colours: np.ndarray | None = None) -> PointCloud2:
    """Points (n, 3) [m], and their colours (n, 3) of 0 to 255 where they have some: 20 bytes a point then, as depth cameras send them."""
    names = ("x", "y", "z") if colours is None else ("x", "y", "z", "rgb")
    offsets, step = ((0, 4, 8), 12) if colours is None else ((0, 4, 8, 16), 20)
    rows = np.zeros(
        len(points),
        np.dtype(
            {"names": names, "formats": ["<f4"] * 3 + ["<u4"] * (len(names) - 3), "offsets": offsets, "itemsize": step}
        ),
    )
    rows["x"], rows["y"], rows["z"] = np.asarray(points).reshape(-1, 3).T
    if colours is not None:
        red, green, blue = np.asarray(colours, np.uint32).reshape(-1, 3).T
        rows["rgb"] = red << 16 | green << 8 | blue
    message = PointCloud2(height=1, width=len(rows), point_step=step, row_step=step * len(rows), is_dense=True)
    message.header.stamp, message.header.frame_id = stamp, frame_id
    message.fields = [
        PointField(name=name, offset=offset, datatype=FLOAT32, count=1) for name, offset in zip(names, offsets)
    ]
    message.data = buffer(rows)
    return message
