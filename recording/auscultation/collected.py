"""One recording of a public collection: where it is, whose it is, and what people wrote about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from recording.auscultation.wav_file import CollectionError, read_wav
from recording.auscultation.wfdb_header import read_header

__all__ = ["Collected", "CollectionError", "Segment", "existing_folder", "lines_of", "table_of"]


@dataclass(frozen=True)
class Segment:
    """A stretch of a recording from begin to end [s] and what it is; names are those of the collection's module."""

    begin: float
    end: float
    name: str


@dataclass(frozen=True)
class Collected:
    """A recording that is not read yet.

    Attributes:
        path: of the WAV file. structure: what was listened to.
        patient: whose; recordings of one patient belong to one side of a split. None where the collection does not say.
        place: where on the body, in the collection's own letters; None where it does not say.
        label: what people found, in the collection's own words; None where it is withheld.
        usable: whether people found that it can be judged; None where they were not asked.
        segments: in order of time. facts: further fields, as written.
    """

    path: Path
    structure: Literal["heart", "lung"]
    patient: str | None
    place: str | None = None
    label: str | None = None
    usable: bool | None = None
    segments: tuple[Segment, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)

    def read(self) -> tuple[np.ndarray, float]:
        """Samples (n,) or (n, channels), full scale at 1, and their rate [Hz].

        Raises:
            CollectionError: damaged, not what the .hea file beside it says, or shorter than its segments.
        """
        sound, rate = read_wav(self.path)
        if (beside := self.path.with_suffix(".hea")).exists():
            header = read_header(beside)
            if header.rate != rate or (header.samples is not None and header.samples != len(sound)):
                raise CollectionError(
                    f"{self.path}: expected {header.samples} samples at {header.rate:g} Hz as {beside.name} says, "
                    f"found {len(sound)} at {rate:g} Hz; download both files again"
                )
        last = max((segment.end for segment in self.segments), default=0.0)
        # Annotations are rounded, at the coarsest to a tenth of a second.
        if last > len(sound) / rate + 0.1:
            raise CollectionError(
                f"{self.path}: annotated up to {last:.2f} s, but it lasts {len(sound) / rate:.2f} s; download it again"
            )
        return sound, rate


def existing_folder(folder: Path, expected: str) -> Path:
    """The folder, or an error that says what it should hold."""
    if not folder.is_dir():
        raise CollectionError(f"{folder} is no folder; expected {expected}")
    return folder


def lines_of(path: Path) -> list[str]:
    """Lines of a text file, without blank ones."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CollectionError(f"{path} cannot be read as text: {error}") from None
    return [line.strip() for line in text.lstrip("\ufeff").splitlines() if line.strip()]


def table_of(path: Path, columns: tuple[str, ...]) -> list[tuple[float, ...]]:
    """Rows of finite numbers, separated by blanks or tabs; the first two columns are begin and end [s].

    Raises:
        CollectionError: another number of columns, no number, or an end before its begin.
    """
    rows = []
    for k, line in enumerate(lines_of(path), 1):
        fields = line.split()
        try:
            row = tuple(float(text) for text in fields)
        except ValueError:
            row = ()
        if len(row) != len(columns) or not np.isfinite(row).all() or row[0] < 0.0 or row[1] < row[0]:
            raise CollectionError(
                f"{path}, line {k}: expected {', '.join(columns)} with 0 <= {columns[0]} <= {columns[1]}, "
                f"found '{line}'"
            )
        rows.append(row)
    return rows
