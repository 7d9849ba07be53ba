"""What an operator's glove read in each of the poses, and the file that keeps it.

    calibration = GloveCalibration.load("ada.yaml")          # or of a procedure.py
    calibration.save("ada.yaml")

The file keeps readings, not what was fitted to them: it can be read by eye, and fitted anew by another method.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml

from config import yaml_text
from config.typed import TypedError, key, read
from config.whole_file import whole_file
from sim_core.telepresence.hand.poses import CALIBRATION_POSES
from sim_core.telepresence.hand.synthetic_operator import CHANNELS

__all__ = ["VERSION", "CalibrationError", "GloveCalibration"]

VERSION = 1
#: [rad] by which every channel has to differ between poses
MOVES = 0.01
#: [rad] beyond which a reading is no angle of a hand
MOST = 10.0


class CalibrationError(ValueError):
    """A calibration that cannot be used; one sentence says where, what was expected and what was found."""


@dataclass(frozen=True)
class _File:
    """As it stands in the file."""

    version: int = key("", (1, VERSION), "of the file's form")
    operator: str = key("", None, "who wore the glove")
    poses: dict[str, tuple[tuple[float, ...], ...]] = key("rad", None, "name of the pose -> readings of the glove")
    made: str = key("", None, "when, as people write it", default="")


@dataclass(frozen=True, eq=False)
class GloveCalibration:
    """Readings of one operator's glove.

    Attributes:
        operator: who. made: when, as people write it.
        readings: by the name of each of `poses.CALIBRATION_POSES`: (m, 20) [rad], m at least 1.

    Raises:
        CalibrationError: a pose is missing or unknown, readings have another shape or are no angles, or a channel reads the
            same in all poses.
    """

    operator: str
    readings: Mapping[str, np.ndarray]
    made: str = ""

    def __post_init__(self) -> None:
        names = [pose.name for pose in CALIBRATION_POSES]
        missing = [name for name in names if name not in self.readings]
        if missing:
            raise CalibrationError(
                f"expected readings of {len(names)} poses, found none of {', '.join(missing)}; calibrate anew"
            )
        unknown = [name for name in self.readings if name not in names]
        if unknown:
            raise CalibrationError(f"expected the poses {', '.join(names)}, found also {', '.join(unknown)}")
        for name in names:
            rows = self.readings[name]
            if rows.ndim != 2 or rows.shape[1] != len(CHANNELS) or len(rows) < 1:
                raise CalibrationError(
                    f"pose '{name}': expected rows of {len(CHANNELS)} angles, found the shape {rows.shape}"
                )
            if not (np.abs(rows) < MOST).all():  # NaN too
                raise CalibrationError(f"pose '{name}': expected angles within {MOST} rad, found others or none at all")
        means = np.array([self.readings[name].mean(0) for name in names])
        still = np.flatnonzero(np.ptp(means, axis=0) < MOVES)
        if len(still):
            what = ", ".join(f"{k} ({CHANNELS[k]})" for k in still)
            raise CalibrationError(
                f"channel {what} of the glove differs by less than {MOVES} rad between all poses: it does not follow the "
                "hand; put the glove on anew, or have its sensor looked at"
            )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> GloveCalibration:
        """Read a file.

        Raises:
            CalibrationError: it is not there, is not such a file, or holds what no calibration may.
        """
        try:
            document = yaml_text.load(Path(path).read_text(encoding="utf-8"))
            file: _File = read(_File, document, "")
        except OSError as error:
            raise CalibrationError(f"{path}: cannot be read ({error.strerror}); check glove_calibration") from None
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            line = getattr(getattr(error, "problem_mark", None), "line", None)
            where = "" if line is None else f" near line {line + 1}"
            raise CalibrationError(f"{path}: is not YAML{where}; calibrate_glove writes such a file") from None
        except TypedError as error:
            raise CalibrationError(f"{path}: {error}") from None
        try:
            return cls(file.operator, {name: _rows(name, rows) for name, rows in file.poses.items()}, file.made)
        except CalibrationError as error:
            raise CalibrationError(f"{path}: {error}") from None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file, whole or not at all.

        Raises:
            OSError: it cannot be written.
        """
        poses = {name: [[round(float(x), 5) for x in row] for row in rows] for name, rows in self.readings.items()}
        document = {"version": VERSION, "operator": self.operator, "made": self.made, "poses": poses}
        with whole_file(path) as file:
            file.write_text(yaml.safe_dump(document, sort_keys=False, default_flow_style=None, width=200))


def _rows(name: str, rows: tuple[tuple[float, ...], ...]) -> np.ndarray:
    try:
        return np.array(rows, float)
    except ValueError:
        raise CalibrationError(
            f"pose '{name}': expected rows of {len(CHANNELS)} angles, found rows of several lengths"
        ) from None
