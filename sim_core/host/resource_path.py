"""Files that a robot's description names: `package://NAME/...`, `file://...`, or relative to the description itself."""

from __future__ import annotations

import os
import re
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

__all__ = ["resource_path"]


def resource_path(uri: str, beside: Path) -> Path | None:
    """The file that a URI names, None where it is not on this machine.

    A package is looked for upwards from the description, as a folder of its name or one whose package.xml says so, then
    where ROS installs packages (ROS_PACKAGE_PATH, AMENT_PREFIX_PATH).

    Args:
        uri: `package://NAME/path`, `model://NAME/path`, `file:///path` or a path.
        beside: folder of the description.
    """
    parts = urllib.parse.urlsplit(uri)
    path = urllib.parse.unquote(parts.path)
    if parts.scheme in ("package", "model"):
        found = (folder / path.lstrip("/") for folder in _packages(parts.netloc, beside.resolve()))
        return next((file for file in found if file.is_file()), None)
    file = Path(path) if parts.scheme == "file" else beside / Path(uri).expanduser()
    return file if file.is_file() else None


def _packages(name: str, start: Path) -> Iterator[Path]:
    """Folders that may be the package, the likeliest first."""
    for above in (start, *start.parents):
        if above.name == name or _says(above / "package.xml", name):
            yield above
        if (above / name).is_dir():
            yield above / name
    for variable, inside in (("ROS_PACKAGE_PATH", ""), ("AMENT_PREFIX_PATH", "share")):
        for place in filter(None, os.environ.get(variable, "").split(os.pathsep)):
            folder = Path(place) / inside
            yield from (folder, folder / name) if folder.name == name else (folder / name,)


def _says(manifest: Path, name: str) -> bool:
    """Whether a package.xml is that of the package."""
    try:
        return re.search(rf"<name>\s*{re.escape(name)}\s*</name>", manifest.read_text(encoding="utf-8")) is not None
    except (OSError, UnicodeDecodeError):
        return False
