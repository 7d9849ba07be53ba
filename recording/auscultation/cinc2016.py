"""PhysioNet/CinC Challenge 2016: heart sounds, normal or abnormal, and whether they can be judged.

    FOLDER/training-a/a0001.wav, a0001.hea
    FOLDER/training-a/REFERENCE.csv                                 a0001,1        -1 normal, 1 abnormal, 0 unsure
    FOLDER/annotations/updated/training-a/REFERENCE_withSQI.csv     a0001,1,1      and 1 good, 0 unsure quality

The third column came with the revised labels of July 2016; where both files are found, the revised one counts. Sounds
are mono at 2000 Hz, 16 bits. Most of its groups do not say which recordings are of one person, hence `patient` is
None.

Source: Liu et al., Physiol. Meas. 37 (2016); the read-me of annotations/updated;
https://physionet.org/content/challenge-2016/1.0.0/
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from recording.auscultation.collected import Collected, CollectionError, existing_folder, lines_of

__all__ = ["find_cinc2016"]

LABELS = {-1: "normal", 1: "abnormal", 0: "unsure"}
REVISED, FIRST = "REFERENCE_withSQI.csv", "REFERENCE.csv"
_LINE = re.compile(r"(\w+)\s*,\s*(-1|0|1)(?:\s*,\s*([01]))?")


def find_cinc2016(folder: str | os.PathLike[str]) -> list[Collected]:
    """All labelled recordings below a folder, by name.

    Raises:
        CollectionError: none are there, a labelled one or its header is missing, or a line of labels is damaged.
    """
    folder = existing_folder(Path(folder), f"training-a to training-f with WAV files and {FIRST}")
    sounds: dict[str, Path] = {}
    # validation/ repeats recordings of the training set under the same names.
    for path in sorted(folder.rglob("*.wav"), key=lambda p: (not p.parent.name.startswith("training"), p)):
        sounds.setdefault(path.stem, path)
    labels: dict[str, tuple[int, bool | None]] = {}
    for name in (FIRST, REVISED):
        for path in sorted(folder.rglob(name)):
            labels.update(_labels(path))
    if not labels:
        raise CollectionError(f"{folder}: expected {FIRST} or {REVISED}, found neither below it; download the labels")
    if lost := sorted(set(labels) - set(sounds)):
        raise CollectionError(
            f"{folder}: {len(lost)} of {len(labels)} labelled recordings have no WAV file, the first is {lost[0]}; "
            "download them, or keep the labels of what is there alone"
        )
    found = []
    for name in sorted(labels):
        if not sounds[name].with_suffix(".hea").exists():
            raise CollectionError(f"{sounds[name]}: its header {name}.hea is missing; download it")
        label, usable = labels[name]
        found.append(Collected(sounds[name], "heart", None, label=LABELS[label], usable=usable))
    return found


def _labels(path: Path) -> dict[str, tuple[int, bool | None]]:
    """Record -> label and, where the file says it, whether it is of good quality."""
    found: dict[str, tuple[int, bool | None]] = {}
    for k, line in enumerate(lines_of(path), 1):
        match = _LINE.fullmatch(line)
        if not match:
            raise CollectionError(
                f"{path}, line {k}: expected RECORD,LABEL or RECORD,LABEL,QUALITY with a label of -1, 0 or 1 and "
                f"a quality of 0 or 1, found '{line}'"
            )
        record, label, quality = match.groups()
        found[record] = (int(label), None if quality is None else quality == "1")
    return found
