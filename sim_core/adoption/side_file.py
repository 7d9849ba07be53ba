"""What its owner says of a robot beside its model file: `<file without suffix>.refit.yaml`, every key optional.

tool: {body: link_eef, position: [0.0, 0.0, 0.1]}
home: {joint1: 0.0, joint2: -0.5}
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from config.description import Device, TrackingWeights
from config.typed import TypedError, key, read_file

__all__ = ["SideFile", "SideFileError", "Tool", "read_side_file", "side_file_of"]


class SideFileError(ValueError):
    """A side file that cannot be used; one sentence names file and key, what was expected and what was found."""


@dataclass(frozen=True)
class Tool:
    """Where the tool is."""

    body: str = key("", None, "link of the model that carries the tool")
    position: tuple[float, float, float] = key(
        "m", (-10.0, 10.0), "the tool centre point in that link's frame", default=(0.0, 0.0, 0.0)
    )


@dataclass(frozen=True)
class SideFile:
    """See the module's docstring. Dictionaries are by joint."""

    title: str = key("", None, "what people call the robot", default="")
    tool: Tool | None = key("", None, "what follows the path", default=None)
    payload_body: str = key("", None, "link whose inertia the refit corrects: it carries what is held", default="")
    home: dict[str, float] = key("rad or m", (-1e3, 1e3), "posture at the start and in the path's middle", factory=dict)
    velocity: dict[str, float] = key("rad/s or m/s", (1e-3, 1e3), "limits; instead of the file's", factory=dict)
    effort: dict[str, float] = key("N m or N", (1e-3, 1e6), "limits; instead of the file's", factory=dict)
    armature: dict[str, float] = key("kg m^2 or kg", (0.0, 1e3), "rotor inertia behind the gear", factory=dict)
    damping: dict[str, float] = key("N m s/rad or N s/m", (0.0, 1e4), "viscous friction", factory=dict)
    payload: float = key("kg", (0.0, 1e3), "mass of the demonstration's payload; 0: derived", default=0.0)
    path_width: float = key("m", (0.0, 0.4), "half width of the tracked figure eight; 0: derived", default=0.0)
    path_height: float = key("m", (0.0, 0.3), "half height of the tracked figure eight; 0: derived", default=0.0)
    weights: TrackingWeights | None = key("", None, "of the controller's cost; left out: derived", default=None)
    devices: tuple[Device, ...] = key("", None, "its drivers, servo types among them, as in robot.yaml", default=())
    nodes: str = key("", None, "file with ROS parameters on top of the derived ones, beside this one", default="")


def side_file_of(model: Path) -> Path:
    """Where the side file of a model file is, if there is one."""
    stem = model.name.removesuffix(model.suffix).removesuffix(".urdf")
    return model.with_name(f"{stem}.refit.yaml")


def read_side_file(path: Path) -> SideFile:
    """Read a side file; one that is not there says nothing.

    Raises:
        SideFileError: see there.
    """
    try:
        found: SideFile = read_file(SideFile, path, nothing={})
    except FileNotFoundError:
        return SideFile()
    except TypedError as error:
        raise SideFileError(str(error)) from None
    return found
