"""Files that exist whole or not at all; on the ground floor, because recordings, reports, simulators and emulators write such."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["whole_file"]


@contextlib.contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A path beside `path` to write to, which takes its place at the end; an error leaves what was there before.

        with whole_file("panda.yaml") as partial:
            partial.write_text(text)

    Raises:
        OSError: the folder cannot be made or written.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
