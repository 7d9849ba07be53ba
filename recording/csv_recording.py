"""Recordings as tables: a CSV file in place of a bag.

    t, joint1.position, joint1.velocity, joint1.effort
    0.000, 0.10, 0.00, 1.5

One row per sample; t in seconds; positions [rad or m], velocities [rad/s or m/s], and the effort [N m or N] applied
over the period that ended at t. Columns of a joint that has no effort anywhere count as zero; without velocities,
central differences of the positions serve.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from recording.bag_reader import BagError, BagReader, JointSeries

__all__ = ["CsvRecording", "open_recording"]


class CsvRecording:
    """Joint states of a CSV file, as a bag gives them. It names no robot.

    Raises:
        BagError: no such file, or it is no table of numbers with a column t.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        try:
            with self.path.open(newline="", encoding="utf-8") as file:
                rows = [row for row in csv.reader(file, skipinitialspace=True) if row and not row[0].startswith("#")]
        except (OSError, UnicodeDecodeError) as error:
            raise BagError(f"{path} cannot be read as a table: {error}") from None
        header = [name.strip() for name in rows[0]] if rows else []
        if "t" not in header or len(rows) < 3:
            raise BagError(
                f"{path}: expected a header with 't' and 'JOINT.position' and at least two rows, found "
                f"{len(rows)} rows, header {', '.join(header) or 'none'}"
            )
        self._columns = {name: i for i, name in enumerate(header)}
        uneven = [k for k, row in enumerate(rows) if len(row) != len(header)]
        if uneven:
            raise BagError(f"{path}: row {uneven[0] + 1} has {len(rows[uneven[0]])} fields, the header {len(header)}")
        try:
            self._table = np.array([[float(field) if field.strip() else np.nan for field in row] for row in rows[1:]])
        except ValueError as error:
            raise BagError(f"{path}: {error}; expected numbers only") from None

    def joint_states(self, joints: Sequence[str]) -> JointSeries:
        """Series of these joints.

        Raises:
            BagError: a joint has no column of positions.
        """
        missing = [joint for joint in joints if f"{joint}.position" not in self._columns]
        if missing:
            raise BagError(f"{self.path} has no column {missing[0]}.position; it has {', '.join(self._columns)}")
        t = self._table[:, self._columns["t"]]
        q = np.column_stack([self._table[:, self._columns[f"{joint}.position"]] for joint in joints])
        v = self._block(joints, "velocity")
        if v is None:
            v = np.gradient(q, t, axis=0)
        effort = self._block(joints, "effort")
        return JointSeries(t, t, tuple(joints), q, v, np.zeros_like(q) if effort is None else effort)

    def _block(self, joints: Sequence[str], what: str) -> np.ndarray | None:
        """Columns of all joints, zeros for those without; None if none has one."""
        found = {j: self._table[:, self._columns[f"{j}.{what}"]] for j in joints if f"{j}.{what}" in self._columns}
        zero = np.zeros(len(self._table))
        return np.column_stack([found.get(j, zero) for j in joints]) if found else None


def open_recording(path: str | os.PathLike[str], allow_truncated: bool = False) -> BagReader | CsvRecording:
    """A bag with joint states and the robot's description, or a table of joint states (.csv).

    Raises:
        BagError: it is neither, or a bag that was cut off, unless that is allowed.
    """
    if Path(path).suffix == ".csv":
        return CsvRecording(path)
    reader = BagReader(path)
    if reader.truncated and not allow_truncated:
        raise BagError(f"{reader.truncated} Use --allow-truncated to identify from that part.")
    reader.require("joint_states", "robot_description", "run_info")
    return reader
