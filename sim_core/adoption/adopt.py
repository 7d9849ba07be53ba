"""The folder of a robot that is named, given as a folder, or given as a model file: the last is taken over first.

    robot = adopted("~/arms/xarm7.urdf")            # ".../xarm7-3f09c1/xarm7", a folder like those of config/robots

What is made of a file is kept as long as neither the file, its side file nor this project's rules change.
"""

from __future__ import annotations

import hashlib
import os
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

from config.robot import MODEL_FILES, folder_of_model, robot_names
from config.whole_file import whole_file
from sim_core.adoption.errors import AdoptionError
from sim_core.adoption.side_file import SideFile, SideFileError, read_side_file, side_file_of

__all__ = ["adopted", "is_model_file", "name_of"]

#: whose text decides what is made of a file
RULES = (Path(__file__).parent, Path(__file__).parents[1] / "multibody" / "model" / "urdf.py")


def is_model_file(robot: str | os.PathLike[str]) -> bool:
    """Whether this names a model file, rather than a robot or its folder."""
    return os.fspath(robot).endswith(MODEL_FILES)


def adopted(robot: str) -> str:
    """A robot's name or folder, as everything takes it.

    Args:
        robot: name, path of a robot's folder, or of a .urdf, .xacro or .xml file.

    Raises:
        AdoptionError: the file cannot be taken over.
    """
    if not is_model_file(robot):
        return robot
    path = Path(robot).expanduser().resolve()
    if not path.is_file():
        raise AdoptionError(f"no model file at {path}; check the path")
    if own := folder_of_model(path):
        return str(own)
    side = side_file_of(path)
    digest = hashlib.sha256(str(path).encode())
    for content in _contents(path, side):
        digest.update(content)
    name = name_of(path)
    folder = cache() / f"{name}-{digest.hexdigest()[:12]}" / name
    if not (folder / "robot.yaml").is_file():
        from sim_core.adoption.adopter import adopt  # MuJoCo and CasADi, which a name does not need

        # robot.yaml last: a folder that has it is whole.
        for file, text in sorted(
            adopt(path, name, _said(side)).files.items(), key=lambda each: each[0] == "robot.yaml"
        ):
            with whole_file(folder / file) as partial:
                partial.write_text(text, encoding="utf-8")
    return str(folder)


def _said(side: Path) -> SideFile:
    try:
        return read_side_file(side)
    except SideFileError as error:
        raise AdoptionError(str(error)) from None


def _contents(path: Path, side: Path) -> Iterator[bytes]:
    """Everything whose change makes the robot another one; what an MJCF file includes lies beside it as a rule."""
    if path.suffix == ".xacro":
        from sim_core.multibody.model.xacro_file import expanded

        try:
            text = expanded(path)  # with whatever it includes, wherever that is
        except ValueError as error:
            raise AdoptionError(str(error)) from None
        yield text.encode()
    else:
        text = path.read_text(encoding="utf-8", errors="replace") if path.suffix == ".urdf" else ""
    yield from _looks(text, path.parent)
    rules = [file for place in RULES for file in (place.glob("*.py") if place.is_dir() else [place])]
    beside = path.parent.glob("*.xml") if path.suffix == ".xml" else [path]
    own = (side, side.parent / _said(side).nodes)
    for file in (*sorted(rules), *sorted(beside), *own):
        if file.is_file():
            yield file.read_bytes()


def _looks(urdf: str, folder: Path) -> Iterator[bytes]:
    """Which meshes a URDF names, and when they were changed."""
    if "<mesh" in urdf:
        from sim_core.adoption.visuals import mesh_files

        try:
            robot = ElementTree.fromstring(urdf)
        except ElementTree.ParseError:
            return  # whoever adopts it says so
        for file in mesh_files(robot, folder):
            yield f"{file} {file.stat().st_mtime_ns} {file.stat().st_size}".encode()


def name_of(path: Path) -> str:
    """What a robot of this file is called: as the file, in letters that topics and folders take."""
    name = re.sub(r"\W+", "_", path.name.split(".")[0].lower()).strip("_") or "robot"
    name = f"r{name}" if name[0].isdigit() else name
    return f"{name}_file" if name in robot_names() else name


def cache() -> Path:
    """Where folders of adopted robots are kept."""
    chosen = os.environ.get("REFIT_CACHE")
    return (
        Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "refit"
    ) / "robots"
