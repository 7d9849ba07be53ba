"""Recordings of a real double pendulum: files, angles, velocities, windows.

IBM Research, "The Double Pendulum Chaotic" (Asseman, Kornuta, Ozcan, 2018; licence CDLA-Sharing-1.0): 21 films of about
40 s at 400 Hz, of which `data/ibm-double-pendulum/` holds the seven that are used here, compressed. Each row of a file holds x and y of pivot, elbow and tip in fifths of a pixel. What the files call x points down:
over the last quarter of each film the pendulum swings about +x, within one degree (`test_double_pendulum_data.py`).
"""

from __future__ import annotations

import gzip
import os
import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.signal import savgol_filter

from config.share import shared_folder
from sim_core.inference.data.trajectories import Trajectories

__all__ = ["LENGTHS", "RATE", "Recording", "RecordingError", "load_recording", "load_recordings", "recordings_folder"]

RATE = 400.0  # frames per second
LENGTHS = (0.091, 0.070)  # pivot to elbow, elbow to tip [m]
UNITS_PER_PIXEL = 5.0
VARIABLE = "REFIT_DOUBLE_PENDULUM"
SHIPPED = "data/ibm-double-pendulum"

# Velocities are slopes of cubics through 11 frames (27 ms). A bare difference of neighbours would carry 0.3 rad/s of
# tracking noise in the second joint; this carries 0.1 and flattens a swing of 5 Hz by under 1 %.
SMOOTHING_FRAMES, SMOOTHING_ORDER = 11, 3
_SCATTER = 0.02  # a link's length may vary by this share (standard deviation); the published files lie below 0.4 %
_TURN = 0.6  # largest turn between frames [rad]; the fastest recorded is 0.2


class RecordingError(ValueError):
    """A file that is no recording of a double pendulum."""


@dataclass(frozen=True)
class Recording:
    """One film as states.

    In the model's frame the hinge axes are +x, the world's y is the files' y and z their -x (up). q = 0: both links hang.
    q[0] is the turn of the upper link, q[1] that of the lower one against the upper; both continuous over time.

    Attributes:
        name: of the file.   x: (K, 4) q [rad], velocity [rad/s].   pixels: mean lengths of both links in the image.
    """

    name: str
    x: np.ndarray
    pixels: tuple[float, float]

    @property
    def metres_per_pixel(self) -> float:
        """Scale of the camera, from both links."""
        return sum(LENGTHS) / sum(self.pixels)

    def window(self, start: int, steps: int) -> np.ndarray:
        """States (steps + 1, 4) from frame `start`, with whole turns taken off so that it begins within (-pi, pi].

        Raises:
            RecordingError: the film is shorter.
        """
        if start < 0 or start + steps >= len(self.x):
            raise RecordingError(
                f"{self.name}: expected frames {start} to {start + steps}, found {len(self.x)} frames."
            )
        x = self.x[start : start + steps + 1].copy()
        x[:, :2] -= 2 * np.pi * np.ceil((x[0, :2] - np.pi) / (2 * np.pi))
        return x


def recordings_folder(path: str | os.PathLike | None = None) -> Path:
    """Folder with the recordings: `path`, else $REFIT_DOUBLE_PENDULUM, else the one that comes with the project.

    Raises:
        FileNotFoundError: none there; the text says what to do.
    """
    folder = path or os.environ.get(VARIABLE)
    folder = Path(folder) if folder else shared_folder(SHIPPED)
    if not _files(folder):
        raise FileNotFoundError(
            f"Expected the double-pendulum recordings (0.csv or 0.csv.gz, 1.csv, ...) in {folder}, found none; unset "
            f"{VARIABLE} for those that come with the project, or set it to a folder with such files."
        )
    return folder


def load_recordings(path: str | os.PathLike | None = None) -> dict[str, Recording]:
    """All recordings of a folder by name, in numerical order.

    Raises:
        FileNotFoundError: the folder holds none.
        RecordingError: a file is no recording.
    """
    return {name: load_recording(file) for name, file in _files(recordings_folder(path)).items()}


def _files(folder: Path) -> dict[str, Path]:
    """Files named by a number, in numerical order; where a recording is there twice, the unpacked one."""
    files = sorted(folder.glob("*.csv.gz")) + sorted(folder.glob("*.csv"))
    named = {file.name.partition(".")[0]: file for file in files if re.fullmatch(r"\d+\.csv(\.gz)?", file.name)}
    return {name: named[name] for name in sorted(named, key=int)}


def load_recording(path: str | os.PathLike) -> Recording:
    """Read one file, which may be compressed (.csv.gz).

    Raises:
        RecordingError: not six finite numbers a row, too few rows, a link that changes its length, a turn too fast to
            follow; the message says which and where.
    """
    path = Path(path)
    try:
        rows = np.loadtxt(path, delimiter=",", ndmin=2)
    except (ValueError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise RecordingError(f"{path.name}: expected rows of six numbers, found what is none ({error}).") from None
    if rows.shape[1] != 6 or len(rows) < SMOOTHING_FRAMES:
        raise RecordingError(
            f"{path.name}: expected at least {SMOOTHING_FRAMES} rows of six numbers, found {rows.shape}."
        )
    if not np.isfinite(rows).all():
        frame = int(np.argmax(~np.isfinite(rows).all(1)))
        raise RecordingError(
            f"{path.name}: expected finite pixels, found {rows[frame].tolist()} in row {frame + 1}; cut the file there."
        )
    pivot, elbow, tip = np.split(rows / UNITS_PER_PIXEL, 3, axis=1)
    links = [elbow - pivot, tip - elbow]
    pixels = []
    for name, link in zip(("upper", "lower"), links):
        length = np.linalg.norm(link, axis=1)
        if not length.std() <= _SCATTER * length.mean():
            raise RecordingError(
                f"{path.name}: expected a {name} link of constant length, found {length.mean():.1f} +- {length.std():.1f} "
                "pixels; the columns are pivot, elbow, tip."
            )
        pixels.append(float(length.mean()))
    heading = [np.unwrap(np.arctan2(link[:, 1], link[:, 0])) for link in links]
    fastest = [np.abs(np.diff(angle)).max() for angle in heading]
    if max(fastest) > _TURN:
        k = int(np.argmax(np.abs(np.diff(heading[int(np.argmax(fastest))]))))
        raise RecordingError(
            f"{path.name}: expected turns below {_TURN} rad between frames, found {max(fastest):.2f} after row {k + 1}."
        )
    q = np.stack([heading[0], heading[1] - heading[0]], axis=1)
    v = savgol_filter(q, SMOOTHING_FRAMES, SMOOTHING_ORDER, deriv=1, delta=1 / RATE, axis=0)
    return Recording(path.name.partition(".")[0], np.concatenate([q, v], axis=1), tuple(pixels))


def windows(recordings: dict[str, Recording], starts: Iterable[tuple[str, int]], steps: int = 400) -> Trajectories:
    """Windows (name, first frame) as trajectories without controls.

    Raises:
        RecordingError: a recording is not among those given, or is too short.
    """
    starts = list(starts)
    if missing := sorted({name for name, _ in starts} - set(recordings), key=int):
        raise RecordingError(
            f"expected recordings {', '.join(sorted({name for name, _ in starts}, key=int))}, found none of the name "
            f"{' or '.join(missing)}; {VARIABLE} names the folder they are read from."
        )
    x = np.array([recordings[name].window(start, steps) for name, start in starts])
    return Trajectories(1 / RATE, x, np.zeros((len(x), steps, 0)))
