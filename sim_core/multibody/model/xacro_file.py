"""Xacro to URDF, by the macro language's own implementation."""

from __future__ import annotations

from pathlib import Path

__all__ = ["expanded"]


def expanded(path: Path) -> str:
    """The URDF that a xacro file stands for, with its arguments' defaults.

    Raises:
        ValueError: it cannot be expanded; one sentence names the file.
    """
    import xacro  # here: few models need it

    try:
        return str(xacro.process_file(str(path)).toxml())
    except Exception as error:  # xacro raises many kinds, and its files run Python
        raise ValueError(f"{path}: xacro refuses it: {' '.join(str(error).split())}") from None
