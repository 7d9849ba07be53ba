"""Points and sensor_msgs/PointCloud2."""

from __future__ import annotations

from typing import Any

import numpy as np
from sensor_msgs.msg import PointCloud2, PointField

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


def cloud_message(points: np.ndarray, stamp: Any, frame_id: str) -> PointCloud2:
    """Points (n, 3) [m] without colours."""
    message = PointCloud2(height=1, width=len(points), point_step=12, row_step=12 * len(points), is_dense=True)
    message.header.stamp, message.header.frame_id = stamp, frame_id
    message.fields = [PointField(name=axis, offset=4 * k, datatype=FLOAT32, count=1) for k, axis in enumerate("xyz")]
    message.data = np.ascontiguousarray(points, "<f4").tobytes()
    return message
