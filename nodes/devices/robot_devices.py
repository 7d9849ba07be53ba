"""Which of a robot's devices are brought up, by the launch argument `devices`."""

from __future__ import annotations

from pathlib import Path

from config.description import Device
from config.robot import load_robot

__all__ = ["robot_devices"]


def robot_devices(robot: str | Path, only: str = "") -> list[Device]:
    """The devices of a robot in the order they are brought up; none for a robot whose joint states come from elsewhere.

    Args:
        robot: name, or path of a robot's folder.
        only: names separated by commas; empty: all.

    Raises:
        ValueError: a robot.yaml that cannot be used, or a device that the robot does not have; the text lists those it has.
    """
    found = load_robot(robot)
    wanted = [name.strip() for name in only.split(",") if name.strip()]
    names = [device.node for device in found.devices]
    if missing := [name for name in wanted if name not in names]:
        there = f"only {', '.join(names)}" if names else "and no other device either"
        raise ValueError(f"devices:={only}: {found.name} has no {', '.join(missing)}, {there}")
    return [device for device in found.devices if not wanted or device.node in wanted]
