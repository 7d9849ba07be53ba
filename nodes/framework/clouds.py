"""Points and sensor_msgs/PointCloud2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sensor_msgs.msg import PointCloud2, PointField

from nodes.framework.images import buffer

__all__ = ["cloud_fields", "cloud_message", "cloud_points", "cloud_spheres"]

#: of points without a colour
GREY = (90, 110, 130)
#: sensor_msgs/PointField.FLOAT32
FLOAT32 = 7


def cloud_spheres(message: Any) -> tuple[np.ndarray, np.ndarray]:
    """Places and radii (n, 4) [m] and colours (n, 3) of 0 to 255 of a cloud whose points stand for spheres.

    Raises:
        ValueError: it has no radius, or not x, y and z, of type float32.
    """
    fields = {field.name: field for field in message.fields}
    if "radius" not in fields or fields["radius"].datatype != FLOAT32:
        raise ValueError(
            f"a cloud of spheres has a field 'radius' of type float32; this one has {', '.join(fields) or 'none'}"
        )
    rows = _rows(message, fields, ["x", "y", "z", "radius"])
    spheres = np.stack([rows[name] for name in ("x", "y", "z", "radius")], axis=1).astype(np.float32)
    return spheres, _colours(rows)


def cloud_points(message: Any, most: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Points (N, 3) [m] and colours (N, 3) of 0 to 255 of a sensor_msgs/PointCloud2; at most about so many, evenly taken.

    Raises:
        ValueError: the cloud has no x, y and z of type float32.
    """
    fields = {field.name: field for field in message.fields}
    rows = _rows(message, fields, ["x", "y", "z"])
    rows = rows[:: max(1, len(rows) // most)] if most else rows
    points = np.stack([rows["x"], rows["y"], rows["z"]], axis=1).astype(np.float32)
    known = np.isfinite(points).all(axis=1)
    return points[known], _colours(rows)[known]


def cloud_fields(message: Any, names: Sequence[str]) -> np.ndarray:
    """Further fields of a cloud's points, shape (N, len(names)); all of its points, in their order.

    Raises:
        ValueError: the cloud has not all of them, of type float32.
    """
    fields = {field.name: field for field in message.fields}
    if missing := [name for name in names if name not in fields or fields[name].datatype != FLOAT32]:
        raise ValueError(
            f"a cloud has fields {', '.join(fields) or 'none'}; expected {', '.join(missing)} of type float32 as well"
        )
    rows = _rows(message, fields, ["x", "y", "z", *names])
    return np.stack([rows[name] for name in names], axis=1).astype(np.float32)


def _rows(message: Any, fields: dict[str, Any], names: list[str]) -> np.ndarray:
    """The points as rows with these fields, and with `rgb` where they have a colour."""
    if any(axis not in fields or fields[axis].datatype != FLOAT32 for axis in "xyz"):
        raise ValueError(f"a cloud has fields {', '.join(fields) or 'none'}; expected x, y and z of type float32")
    order = ">" if message.is_bigendian else "<"
    offsets = [fields[name].offset for name in names]
    formats = [f"{order}f4"] * len(names)
    if rgb := next((name for name in ("rgb", "rgba") if name in fields), ""):
        names, formats, offsets = [*names, "rgb"], [*formats, f"{order}u4"], [*offsets, fields[rgb].offset]
    layout = np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": message.point_step})
    count = int(message.width) * int(message.height)
    return np.frombuffer(bytes(message.data), layout, min(count, len(message.data) // message.point_step))


def _colours(rows: np.ndarray) -> np.ndarray:
    if "rgb" not in rows.dtype.names:
        return np.tile(np.array(GREY, np.uint8), (len(rows), 1))
    packed = rows["rgb"]
    return np.stack([packed >> 16 & 255, packed >> 8 & 255, packed & 255], axis=1).astype(np.uint8)


def cloud_message(
    points: np.ndarray,
    stamp: Any,
    frame_id: str,
    colours: np.ndarray | None = None,
    radii: np.ndarray | None = None,
    further: Mapping[str, np.ndarray] = {},
) -> PointCloud2:
    """Points (n, 3) [m], and their colours (n, 3) of 0 to 255 where they have some, as depth cameras send them: 20 bytes a point then.

    Args:
        radii: (n,) [m], of points that stand for spheres: in what else would be padding.
        further: name -> values (n,) of further fields, which come last.
    """
    offset = {"x": 0, "y": 4, "z": 8}
    if radii is not None:
        offset["radius"] = 12
    if colours is not None:
        offset["rgb"] = 16
    formats = {"rgb": "<u4"}
    step = 20 if colours is not None else 16 if radii is not None else 12
    for name in further:
        offset[name], step = step, step + 4
    layout = {
        "names": list(offset),
        "formats": [formats.get(name, "<f4") for name in offset],
        "offsets": list(offset.values()),
        "itemsize": step,
    }
    rows = np.zeros(len(points), np.dtype(layout))
    rows["x"], rows["y"], rows["z"] = np.asarray(points).reshape(-1, 3).T
    if radii is not None:
        rows["radius"] = radii
    if colours is not None:
        red, green, blue = np.asarray(colours, np.uint32).reshape(-1, 3).T
        rows["rgb"] = red << 16 | green << 8 | blue
    for name, values in further.items():
        rows[name] = values
    message = PointCloud2(height=1, width=len(rows), point_step=step, row_step=step * len(rows), is_dense=True)
    message.header.stamp, message.header.frame_id = stamp, frame_id
    message.fields = [PointField(name=name, offset=at, datatype=FLOAT32, count=1) for name, at in offset.items()]
    message.data = buffer(rows)
    return message
