"""CirCor DigiScope: children's heart sounds from four places, with states of the beat and murmurs.

    FOLDER/13918.txt            13918 4 4000                                    patient, recordings, samples per s
                                AV 13918_AV.hea 13918_AV.wav 13918_AV.tsv       place and files of each
                                #Age: Child
                                #Murmur: Present
                                #Murmur locations: AV+MV
    FOLDER/13918_AV.hea         as `wfdb_header`, 4000 Hz, 16 bits
    FOLDER/13918_AV.tsv         begin, end [s] and state: 1 S1, 2 systole, 3 S2, 4 diastole, 0 not annotated

Places are AV, PV, TV, MV (the valve areas) and Phc (another); a second recording of a place is PATIENT_AV_2.

Source: Oliveira et al., IEEE J. Biomed. Health Inform. 26 (2022);
https://physionet.org/content/circor-heart-sound/1.0.3/
"""

from __future__ import annotations

import os
from pathlib import Path

from recording.auscultation.collected import Collected, CollectionError, Segment, existing_folder, lines_of, table_of

__all__ = ["STATES", "find_circor"]

STATES = ("not annotated", "S1", "systole", "S2", "diastole")
PLACES = ("AV", "PV", "TV", "MV", "Phc")


def find_circor(folder: str | os.PathLike[str]) -> list[Collected]:
    """All recordings below a folder, by patient.

    `label` is "present", "absent" or "unknown": a murmur, at this place where that is said.

    Raises:
        CollectionError: no patient is there, or a patient's file is damaged or names one that is missing.
    """
    folder = existing_folder(Path(folder), "training_data with PATIENT.txt and PATIENT_PLACE.wav, .hea, .tsv")
    found = [one for path in sorted(folder.rglob("*.txt")) if path.stem.isdigit() for one in _patient(path)]
    if not found:
        raise CollectionError(f"{folder}: expected PATIENT.txt such as 13918.txt, found none below it")
    return found


def _patient(path: Path) -> list[Collected]:
    lines = lines_of(path)
    first = lines[0].split() if lines else []
    if len(first) != 3 or first[0] != path.stem or not first[1].isdigit():
        raise CollectionError(
            f"{path}: expected '{path.stem} RECORDINGS RATE' in its first line, found '{' '.join(first)}'"
        )
    facts = {}
    for line in lines:
        if line.startswith("#"):
            key, _, value = line[1:].partition(":")
            facts[key.strip()] = value.strip()
    rows = [line.split() for line in lines[1 : int(first[1]) + 1]]
    found = []
    for row in rows:
        if len(row) != 4 or row[0] not in PLACES:
            raise CollectionError(
                f"{path}: expected {first[1]} lines 'PLACE FILE.hea FILE.wav FILE.tsv' with a place of "
                f"{', '.join(PLACES)}, found '{' '.join(row)}'"
            )
        for name in row[1:]:
            if not (path.parent / name).is_file():
                raise CollectionError(f"{path} names {name}, which is missing beside it; download it")
        segments = _segments(path.parent / row[3])
        found.append(
            Collected(path.parent / row[2], "heart", first[0], row[0], _murmur(facts, row[0]), None, segments, facts)
        )
    if len(found) != int(first[1]):
        raise CollectionError(
            f"{path}: expected {first[1]} recordings, found lines for {len(found)}; download it again"
        )
    return found


def _murmur(facts: dict[str, str], place: str) -> str | None:
    """Whether a murmur is heard at a place; that of the patient where its places are not said."""
    murmur = facts.get("Murmur", "").lower() or None
    places = facts.get("Murmur locations", "nan")
    return "absent" if murmur == "present" and places != "nan" and place not in places.split("+") else murmur


def _segments(path: Path) -> tuple[Segment, ...]:
    rows = table_of(path, ("begin", "end", "state"))
    for k, row in enumerate(rows, 1):
        if row[2] not in range(len(STATES)):
            raise CollectionError(f"{path}, line {k}: expected a state from 0 to {len(STATES) - 1}, found {row[2]:g}")
    return tuple(Segment(begin, end, STATES[int(state)]) for begin, end, state in rows)
