"""ICBHI 2017, the respiratory sound database: lungs of 126 people, breath by breath, with crackles and wheezes.

    FOLDER/101_1b1_Al_sc_Meditron.wav       patient, recording, place, mode, equipment
    FOLDER/101_1b1_Al_sc_Meditron.txt       begin, end [s], crackles (0 or 1), wheezes (0 or 1) of each breath

Sounds are at 4000 to 44100 Hz, 16 or 24 bits.

Source: Rocha et al., Physiol. Meas. 40 (2019); https://bhichallenge.med.auth.gr/ names the fields of a file's name.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from recording.auscultation.collected import Collected, CollectionError, Segment, existing_folder, table_of

__all__ = ["BREATHS", "EQUIPMENT", "MODES", "PLACES", "find_icbhi", "name_fields"]

PLACES = {
    "Tc": "trachea",
    "Al": "anterior left",
    "Ar": "anterior right",
    "Pl": "posterior left",
    "Pr": "posterior right",
    "Ll": "lateral left",
    "Lr": "lateral right",
}
MODES = {"sc": "one channel after the other", "mc": "several channels at once"}
EQUIPMENT = {
    "AKGC417L": "AKG C417L microphone",
    "LittC2SE": "3M Littmann Classic II SE stethoscope",
    "Litt3200": "3M Littmann 3200 electronic stethoscope",
    "Meditron": "WelchAllyn Meditron Master Elite electronic stethoscope",
}
#: (crackles, wheezes) -> name of a breath
BREATHS = {(0, 0): "normal", (1, 0): "crackles", (0, 1): "wheezes", (1, 1): "crackles and wheezes"}
_NAME = re.compile(rf"(\d+)_(\w+?)_({'|'.join(PLACES)})_({'|'.join(MODES)})_({'|'.join(EQUIPMENT)})")


def find_icbhi(folder: str | os.PathLike[str]) -> list[Collected]:
    """All recordings below a folder, by name; `label` is None, since breaths are labelled and not recordings.

    Raises:
        CollectionError: none are there, a name has other fields, or annotations are missing or damaged.
    """
    folder = existing_folder(
        Path(folder), "audio_and_txt_files with PATIENT_RECORDING_PLACE_MODE_EQUIPMENT.wav and .txt"
    )
    found = []
    for path in sorted(folder.rglob("*.wav")):
        patient, recording, place, mode, equipment = name_fields(path)
        if not (text := path.with_suffix(".txt")).is_file():
            raise CollectionError(f"{path}: its annotations {text.name} are missing; download them")
        breaths = []
        for k, (begin, end, *sounds) in enumerate(table_of(text, ("begin", "end", "crackles", "wheezes")), 1):
            if tuple(sounds) not in BREATHS:
                raise CollectionError(f"{text}, line {k}: expected crackles and wheezes of 0 or 1, found {sounds}")
            breaths.append(Segment(begin, end, BREATHS[int(sounds[0]), int(sounds[1])]))
        facts = {"recording": recording, "mode": mode, "equipment": equipment}
        found.append(Collected(path, "lung", patient, place, None, None, tuple(breaths), facts))
    if not found:
        raise CollectionError(f"{folder}: expected WAV files such as 101_1b1_Al_sc_Meditron.wav, found none below it")
    return found


def name_fields(path: Path) -> tuple[str, str, str, str, str]:
    """Patient, recording, place, mode and equipment that a file's name says.

    Raises:
        CollectionError: it has other fields.
    """
    match = _NAME.fullmatch(path.stem)
    if not match:
        raise CollectionError(
            f"{path}: expected PATIENT_RECORDING_PLACE_MODE_EQUIPMENT with a place of {', '.join(PLACES)}, a mode of "
            f"{', '.join(MODES)} and equipment of {', '.join(EQUIPMENT)}, found '{path.stem}'"
        )
    patient, recording, place, mode, equipment = match.groups()
    return patient, recording, place, mode, equipment
