"""Symbolic links that lead to the old target or to the new one, never nowhere."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["place_link"]


def place_link(link: Path, target: str | os.PathLike[str]) -> None:
    """Make `link` lead to `target`, replacing what is there in one step; its folder is made where it is missing."""
    link.parent.mkdir(parents=True, exist_ok=True)
    fresh = link.with_name(f"{link.name}.{os.getpid()}.part")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    fresh.replace(link)
