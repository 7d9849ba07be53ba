"""Texts of the parameter files that nodes load."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import yaml
from scipy.spatial.transform import Rotation

__all__ = ["ros_parameters", "static_transform"]


def ros_parameters(node: str, values: Mapping[str, object], said: str) -> str:
    """A ROS parameter file for one node in any namespace, or for any node (""). said: what it is, as a comment."""
    document = {
        f"/**/{node}" if node else "/**": {"ros__parameters": {name: _written(value) for name, value in values.items()}}
    }
    return f"# {said}\n" + yaml.safe_dump(document, sort_keys=False)


def _written(value: Any) -> Any:
    """Numbers in seven digits: more than any sensor has."""
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_written(float(x)) for x in value]
    return float(f"{value:.7g}") if isinstance(value, float) else value


def static_transform(parent: str, child: str, X: np.ndarray, said: str) -> str:
    """A parameter file for a static transform, by tf2_ros's parameter names: pose X (4, 4) of `child` in `parent`."""
    values: dict[str, object] = {"frame_id": parent, "child_frame_id": child}
    values |= {f"translation.{axis}": float(x) for axis, x in zip("xyz", X[:3, 3])}
    values |= {
        f"rotation.{axis}": float(x) for axis, x in zip("xyzw", Rotation.from_matrix(X[:3, :3]).as_quat(canonical=True))
    }
    return ros_parameters("", values, said)
