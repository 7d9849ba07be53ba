"""Which devices a robot has and how each is played: config/robots/<robot>/devices.yaml."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import yaml

from config.robot import robots_folder

__all__ = ["RobotDevice", "robot_devices"]


@dataclass(frozen=True)
class RobotDevice:
    """One driver node of a robot.

    Attributes:
        node: its name; `executable`, `namespace`, `remap`: how it is run.
        emulator: words of `refit emulate`; empty: it cannot be played.
        emulated: parameters that lead the driver to its emulator.
    """

    node: str
    executable: str
    namespace: str = ""
    remap: dict[str, str] = field(default_factory=dict)
    emulator: tuple[str, ...] = ()
    emulated: dict[str, object] = field(default_factory=dict)

    @property
    def path(self) -> str:
        """The node's name with its namespace."""
        return f"{self.namespace}/{self.node}".lstrip("/")

    def placed(self, **places: str) -> RobotDevice:
        """The same with {folder}, {world}, ... in words and parameters filled in."""

        def fill(value):
            return value.format(**places) if isinstance(value, str) else value

        return RobotDevice(
            self.node,
            self.executable,
            self.namespace,
            self.remap,
            tuple(map(fill, self.emulator)),
            {name: fill(value) for name, value in self.emulated.items()},
        )


def robot_devices(robot: str, only: str = "", folder: Path | None = None) -> list[RobotDevice]:
    """The devices of a robot in the order they are brought up; none for a robot without a device file.

    Args:
        robot: name in config/robots.
        only: names separated by commas; empty: all.
        folder: of robots; None: config/robots.

    Raises:
        ValueError: a name or key that does not exist; the text lists those that do.
    """
    path = (folder or robots_folder()) / robot / "devices.yaml"
    if not path.is_file():
        return []
    known = {"executable", "namespace", "remap", "emulator", "emulated"}
    devices = []
    for node, entry in (yaml.safe_load(path.read_text()) or {}).items():
        if unknown := set(entry) - known:
            raise ValueError(
                f"{path.name}: {node} has {', '.join(sorted(unknown))}, expected only {', '.join(sorted(known))}"
            )
        devices.append(
            RobotDevice(
                node,
                entry.get("executable", node),
                entry.get("namespace", ""),
                entry.get("remap", {}),
                tuple(map(str, entry.get("emulator", ()))),
                entry.get("emulated", {}),
            )
        )
    wanted = [name.strip() for name in only.split(",") if name.strip()]
    names = [device.node for device in devices]
    if missing := [name for name in wanted if name not in names]:
        raise ValueError(f"devices:={only}: {robot} has no {', '.join(missing)}, only {', '.join(names)}")
    return [device for device in devices if not wanted or device.node in wanted]
