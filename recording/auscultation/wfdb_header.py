"""Headers of PhysioNet's waveform database (.hea), as far as phonocardiograms have them.

    a0001 2 2000 71332                       record, signals, samples per second [Hz], samples
    a0001.wav 16+44 1 16 0 0 0 0 PCG         file, format and bytes to skip, gain, bits, zero, ..., description
    a0001.dat 16 1000 16 0 0 367 0 ECG
    # Abnormal

Source: PhysioNet, WFDB Applications Guide, header(5); the lines are those of the PhysioNet/CinC Challenge 2016.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

from recording.auscultation.wav_file import CollectionError

__all__ = ["Header", "read_header"]

RATE_UNSAID = 250.0  # [Hz], header(5)


@dataclass(frozen=True)
class Header:
    """What a .hea file says.

    Attributes:
        record: name. rate: samples per second [Hz]. samples: of each signal; None where it does not say.
        signals: file and description of each. comments: what stands after "#", without it.
    """

    record: str
    rate: float
    samples: int | None
    signals: tuple[tuple[str, str], ...]
    comments: tuple[str, ...]


def read_header(path: str | os.PathLike[str]) -> Header:
    """Read a header.

    Raises:
        CollectionError: it is missing, is no header, or names more signals than it lists.
    """
    path = Path(path)
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise CollectionError(f"{path} cannot be read as a header: {error}") from None
    comments = tuple(line.lstrip("# ") for line in lines if line.startswith("#"))
    lines = [line for line in lines if not line.startswith("#")]
    first = lines[0].split() if lines else []
    try:
        count = int(first[1])
        # A counter's frequency and its base value may follow the rate: 2000/1000(0).
        rate = float(first[2].partition("/")[0]) if len(first) > 2 else RATE_UNSAID
        samples = int(first[3]) if len(first) > 3 else 0
        if not math.isfinite(rate) or rate <= 0.0 or samples < 0:
            raise ValueError
    except (IndexError, ValueError):
        raise CollectionError(
            f"{path}: expected 'RECORD SIGNALS RATE SAMPLES' in its first line, found '{' '.join(first)}'"
        ) from None
    if len(lines) - 1 < count:
        raise CollectionError(f"{path}: expected {count} lines of signals, found {len(lines) - 1}; download it again")
    signals = []
    for line in lines[1 : count + 1]:
        fields = line.split(maxsplit=8)
        if len(fields) < 2:
            raise CollectionError(f"{path}: expected 'FILE FORMAT ...' for each signal, found '{line}'")
        signals.append((fields[0], fields[8] if len(fields) > 8 else ""))
    return Header(first[0], rate, samples or None, tuple(signals), comments)
