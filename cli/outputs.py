"""Where a command may write: options that several commands share."""

from __future__ import annotations

from pathlib import Path

from cli.errors import CommandError

__all__ = ["check_outputs"]


def check_outputs(out: Path | None, json: Path | None) -> None:
    """Refuse before hours of work what could not be written after them.

    Raises:
        CommandError: --out exists, or --json is no file in an existing folder.
    """
    if out is not None and out.exists():
        raise CommandError(f"--out: {out} exists already; name a new folder.")
    if json is not None and (json.is_dir() or not json.parent.is_dir()):
        raise CommandError(f"--json: {json} is no file in an existing folder.")
