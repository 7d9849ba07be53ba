"""Where a planner keeps the state of a run, from which it can be resumed."""

from __future__ import annotations

import time
from pathlib import Path

__all__ = ["new_folder"]


def new_folder(directory: str, word: str) -> Path:
    """A folder below a directory that is not there yet, named by a word and the present time (UTC); it is not made."""
    folder = Path(directory).expanduser() / f"{word}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
    while folder.exists():
        folder = folder.with_name(f"{folder.name}x")
    return folder
