"""WAV files as the collections hold them: PCM of 8 to 32 bits and floating point, with any further chunks.

The standard library's `wave` reads neither floating point nor, before Python 3.12, the extensible format, and takes a
file that was cut for a shorter one.

Source: IBM and Microsoft, Multimedia Programming Interface and Data Specifications 1.0 (1991); Microsoft, Multiple
Channel Audio Data and WAVE Files (2001), for the extensible format.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

import numpy as np

__all__ = ["CollectionError", "read_wav"]

PCM, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE


class CollectionError(ValueError):
    """A file or folder that is no part of the collection; the text says what was expected, found, and what to do."""


def read_wav(path: str | os.PathLike[str]) -> tuple[np.ndarray, float]:
    """Samples (n,) of one channel or (n, channels), full scale at 1, and their rate [Hz].

    Raises:
        CollectionError: there is no such file, it is no WAV file, was cut, or its samples are of an unknown kind.
    """
    path = Path(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CollectionError(f"{path} cannot be read: {error.strerror}") from None
    if content[:4] != b"RIFF" or content[8:12] != b"WAVE":
        raise CollectionError(f"{path}: expected a WAV file (RIFF ... WAVE), found {content[:12]!r}; download it again")
    chunks = _chunks(path, content)
    if missing := {"fmt ", "data"} - set(chunks):
        raise CollectionError(f"{path}: the chunk {' and '.join(sorted(missing))} is missing; download it again")
    if len(chunks["fmt "]) < 16:
        raise CollectionError(f"{path}: its format takes {len(chunks['fmt '])} bytes, expected 16 or more")
    kind, channels, rate, _, _, bits = struct.unpack("<HHIIHH", chunks["fmt "][:16])
    if kind == EXTENSIBLE and len(chunks["fmt "]) >= 26:
        (kind,) = struct.unpack("<H", chunks["fmt "][24:26])
    if channels < 1 or rate < 1:
        raise CollectionError(f"{path}: expected a channel and a rate, found {channels} channels at {rate} Hz")
    frame = channels * bits // 8
    if frame == 0 or len(chunks["data"]) % frame:
        raise CollectionError(
            f"{path}: {len(chunks['data'])} bytes are no whole number of frames of {frame} bytes; download it again"
        )
    samples = _samples(path, chunks["data"], kind, bits)
    return (samples if channels == 1 else samples.reshape(-1, channels)), float(rate)


def _chunks(path: Path, content: bytes) -> dict[str, bytes]:
    """Name -> bytes of each chunk, the first of a name."""
    found: dict[str, bytes] = {}
    at = 12
    while at + 8 <= len(content):
        name, size = content[at : at + 4].decode("latin-1"), struct.unpack("<I", content[at + 4 : at + 8])[0]
        body = content[at + 8 : at + 8 + size]
        if len(body) < size and name in ("fmt ", "data"):
            raise CollectionError(
                f"{path} was cut: expected {size} bytes in its chunk '{name}', found {len(body)}; download it again"
            )
        found.setdefault(name, body)
        at += 8 + size + size % 2
    return found


def _samples(path: Path, data: bytes, kind: int, bits: int) -> np.ndarray:
    """All samples in order of time and channel, full scale at 1."""
    if kind == FLOAT and bits in (32, 64):
        samples = np.frombuffer(data, f"<f{bits // 8}").astype(float)
        if not np.isfinite(samples).all():
            raise CollectionError(f"{path} holds samples that are not finite; download it again")
        return samples
    if kind == PCM and bits == 8:
        return (np.frombuffer(data, np.uint8) - 128.0) / 128.0
    if kind == PCM and bits in (16, 32):
        return np.frombuffer(data, f"<i{bits // 8}") / 2.0 ** (bits - 1)
    if kind == PCM and bits == 24:
        low = np.frombuffer(data, np.uint8).reshape(-1, 3).astype(np.int32)
        return ((low[:, 0] << 8 | low[:, 1] << 16 | low[:, 2] << 24) >> 8) / 2.0**23
    raise CollectionError(
        f"{path}: expected PCM of 8, 16, 24 or 32 bits or floating point, found kind {kind} of {bits} bits; convert it"
    )
