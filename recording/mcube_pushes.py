"""MCube's pushes of planar objects: one JSON file per push, loose or in the archives it is published in.

    FOLDER/plywood/rect1/motion_surface=plywood_shape=rect1_a=0_v=100_i=0.000_s=0.300_t=-0.349.json
    FOLDER/plywood/rect1/rect1_json.zip                      # the same files, as downloaded

A file is {"object_pose": [[t, x, y, yaw], ...], "tip_pose": [[t, x, y, yaw], ...], "ft_wrench": [[t, fx, fy, tz], ...]}
in seconds, metres, radians, newtons and the robot's frame, each list with a clock and a rate (about 250 Hz) of its own.
The name tells the surface, the object, acceleration a [mm/s^2] and speed v [mm/s] of the tip (a = 0: constant speed; v
= -1: none was set), the side i that is pushed, where on it (s, 0 to 1) and at what angle to its normal (t [rad]).

Source: Yu, Bauza, Fazeli, Rodriguez, More than a Million Ways to Be Pushed, IROS 2016; fields and units as its public
programmes read them (mcubelab/pdproc, peterkty/pnpush). The same recordings are published as HDF5, which is not read
here.
"""

from __future__ import annotations

import json
import os
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

__all__ = ["Push", "PushError", "PushFile", "find_pushes"]

_NUMBER = r"(-?\d+(?:\.\d+)?)"
_NAME = re.compile(
    rf"motion_surface=(\w+?)_shape=(\w+?)_a={_NUMBER}_v={_NUMBER}_i={_NUMBER}_s={_NUMBER}_t={_NUMBER}"
    r"(?:_rep=\d+)?\.(json|h5)$"
)
_LARGEST_TURN = np.deg2rad(15)  # between two samples of the tracker; beyond it the tracker lost the object


class PushError(ValueError):
    """A file or folder that holds no pushes; the text says what was expected."""


@dataclass(frozen=True)
class Push:
    """One push on one clock.

    Attributes:
        file: which one. period: of the samples [s].
        object: pose x, y [m], yaw [rad, continuous], (T+1, 3). tip: its centre, (T+1, 2) [m].
        force: of the tip on the object, mean over the period that ended at the sample, (T+1, 2) [N].
    """

    file: PushFile
    period: float
    object: np.ndarray
    tip: np.ndarray
    force: np.ndarray


@dataclass(frozen=True)
class PushFile:
    """A recording by its name, not read yet.

    Attributes:
        path: of the file, or of the archive it lies in; member: its name there, "" for a file.
        surface, shape: names. acceleration [m/s^2] and speed [m/s] of the tip; speed is NaN where none was set.
        side: number of the side. place: on it, 0 to 1. angle: to its normal [rad].
    """

    path: Path
    member: str
    surface: str
    shape: str
    acceleration: float
    speed: float
    side: float
    place: float
    angle: float

    @classmethod
    def named(cls, path: Path, member: str = "") -> PushFile:
        """From the name of a file or of an archive's member.

        Raises:
            PushError: the name is no push's.
        """
        found = _NAME.search(member or path.name)
        if not found:
            raise PushError(
                f"{path}: expected a name such as motion_surface=plywood_shape=rect1_a=0_v=100_i=0.000_s=0.300_"
                f"t=0.000.json, found {member or path.name}."
            )
        a, v, i, s, t = (float(x) for x in found.groups()[2:7])
        return cls(Path(path), member, found[1], found[2], a / 1000, v / 1000 if v > 0 else np.nan, i, s, t)

    @property
    def label(self) -> str:
        """Where the recording is, for messages."""
        return f"{self.path}, {self.member}" if self.member else str(self.path)

    def read(self, period: float) -> Push:
        """The push, resampled to one clock over the time in which all three sensors give data.

        Poses are interpolated; force is the mean over each period. The tracker at times takes the object for one turned
        by quarters (its markers look alike): jumps by such angles are taken out. The sensor's convention does not say
        which body's force is recorded: of both signs the one is taken under which the tip does work on the object, as a
        pusher must.

        Raises:
            PushError: it cannot be read, lacks a list, or the lists do not fit each other.
        """
        lists = self._lists()
        objects, tips, wrench = (
            self._table(lists, name, columns)
            for name, columns in (("object_pose", 4), ("tip_pose", 3), ("ft_wrench", 3))
        )
        objects[:, 3] = np.unwrap(objects[:, 3], period=np.pi / 2)
        turn = np.abs(np.diff(objects[:, 3])).max(initial=0.0)
        if turn > _LARGEST_TURN:
            raise PushError(
                f"{self.label}: the object turns by {np.rad2deg(turn):.0f} degrees between two samples, which no push "
                f"does (15 at most); leave this file out."
            )
        start = max(table[0, 0] for table in (objects, tips, wrench))
        end = min(table[-1, 0] for table in (objects, tips, wrench))
        count = int((end - start) / period + 1e-9)
        if count < 2:
            raise PushError(
                f"{self.label}: expected poses and forces of the same time, found {max(end - start, 0.0):.3f} s in common."
            )
        t = start + period * np.arange(count + 1)
        at = lambda table, columns: np.column_stack([np.interp(t, table[:, 0], table[:, c]) for c in columns])
        tip = at(tips, (1, 2))
        # The mean over a period is the difference of the integral, so that no sample between two ticks is lost.
        steps = 0.5 * (wrench[1:, 1:3] + wrench[:-1, 1:3]) * np.diff(wrench[:, 0])[:, None]
        integral = np.column_stack([wrench[:, 0], np.concatenate([np.zeros((1, 2)), steps.cumsum(0)])])
        force = np.diff(at(integral, (1, 2)), axis=0) / period
        force = np.concatenate([at(wrench, (1, 2))[:1], force])
        work = (force[1:] * np.diff(tip, axis=0)).sum()
        return Push(self, period, at(objects, (1, 2, 3)), tip, force if work >= 0 else -force)

    def _lists(self) -> dict:
        try:
            if self.member:
                with zipfile.ZipFile(self.path) as archive:
                    text = archive.read(self.member)
            else:
                text = self.path.read_bytes()
            lists = json.loads(text)
        except (OSError, KeyError, zipfile.BadZipFile, ValueError) as error:
            raise PushError(f"{self.label} cannot be read as JSON: {error}.") from None
        if not isinstance(lists, dict):
            raise PushError(
                f"{self.label}: expected object_pose, tip_pose and ft_wrench, found a {type(lists).__name__}."
            )
        return lists

    def _table(self, lists: dict, name: str, columns: int) -> np.ndarray:
        """Rows of a list by increasing time, each time once."""
        if name not in lists:
            raise PushError(
                f"{self.label}: expected object_pose, tip_pose and ft_wrench, found {', '.join(lists) or 'nothing'}."
            )
        try:
            table = np.array(lists[name], dtype=float)
        except (TypeError, ValueError):
            raise PushError(f"{self.label}: {name} is no table of numbers.") from None
        if table.ndim != 2 or table.shape[1] < columns or len(table) < 2 or not np.isfinite(table).all():
            raise PushError(
                f"{self.label}: {name}: expected at least two rows of {columns} finite numbers or more, time first, "
                f"found shape {table.shape}."
            )
        return table[np.unique(table[:, 0], return_index=True)[1]]


def find_pushes(folder: str | os.PathLike[str], surface: str | None = None, shape: str | None = None) -> list[PushFile]:
    """All pushes below `folder`, in JSON files and in archives of them, by name; each once, loose files first.

    Args:
        surface, shape: only those, such as "plywood" and "rect1".

    Raises:
        PushError: there are none; the text says what there is.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise PushError(f"{folder} is no folder; expected MCube's recordings, FOLDER/SURFACE/SHAPE/*.json.")
    found: dict[str, PushFile] = {}
    others: set[str] = set()
    for path, member in _files(folder):
        match = _NAME.search(member or path.name)
        if not match:
            continue
        if match[8] == "json" and surface in (None, match[1]) and shape in (None, match[2]):
            found.setdefault((member or path.name).rpartition("/")[2], PushFile.named(path, member))
        else:
            others.add(f"{match[1]}/{match[2]} ({match[8]})")
    if not found:
        wanted = f"{surface or 'any surface'}/{shape or 'any shape'} (json)"
        raise PushError(
            f"{folder}: expected recordings of {wanted}, found {', '.join(sorted(others)) or 'none'}; download the "
            "archive of JSON files of that surface and shape."
        )
    return [found[name] for name in sorted(found)]


def _files(folder: Path) -> Iterator[tuple[Path, str]]:
    for path in sorted(p for p in folder.rglob("*") if p.suffix in (".json", ".h5")):
        yield path, ""
    for path in sorted(folder.rglob("*.zip")):
        try:
            with zipfile.ZipFile(path) as archive:
                members = sorted(archive.namelist())
        except (OSError, zipfile.BadZipFile) as error:
            raise PushError(f"{path} cannot be read as an archive: {error}; download it again.") from None
        for member in members:
            yield path, member
