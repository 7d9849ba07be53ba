"""A planner's state in a file that is whole at every moment."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from config.whole_file import whole_file

__all__ = ["load", "save"]


def save(state: dict[str, Any], path: Path | str) -> None:
    """Write JSON beside the file and put it in its place at once: killed at any moment, the old or the new one is there."""
    with whole_file(path) as partial, partial.open("w", encoding="utf-8") as file:
        json.dump(state, file, allow_nan=False)
        file.flush()
        os.fsync(file.fileno())


def load(path: Path | str) -> dict[str, Any]:
    """What `save` wrote.

    Raises:
        ValueError: missing, cut, or something else.
    """
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is no planner's checkpoint: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path} is no planner's checkpoint: it holds a {type(found).__name__}, not an object")
    return found
