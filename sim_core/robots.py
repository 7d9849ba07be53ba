"""Where the project's robot models are."""

import os
from pathlib import Path

__all__ = ["robot_file", "robot_folder", "robot_names"]

_SOURCE_TREE = Path(__file__).resolve().parents[1] / "config" / "robots"


def robot_folder() -> Path:
    """Folder with the project's robots: in the source tree, else where the package installed them.

    Raises:
        FileNotFoundError: neither is there; the text says what to do.
    """
    if _SOURCE_TREE.is_dir():
        return _SOURCE_TREE
    for prefix in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep):
        candidate = Path(prefix) / "share" / "refit" / "config" / "robots"
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(
        f"No folder with robot models at {_SOURCE_TREE} or share/refit/config/robots under AMENT_PREFIX_PATH. "
        "Source the workspace's setup file, or pass the path of a model file."
    )


def robot_names() -> list[str]:
    """Names of the project's robots."""
    return sorted(path.stem for path in robot_folder().glob("*.xml"))


def robot_file(name: str) -> Path:
    """MJCF file of a robot.

    Raises:
        FileNotFoundError: no robot of that name; the text lists those there are.
    """
    path = robot_folder() / f"{name}.xml"
    if not path.is_file():
        raise FileNotFoundError(f"No robot named '{name}'. Known: {', '.join(robot_names())}; or give a path.")
    return path
