"""Trials as files: one compressed archive of arrays each, in which nothing can be run."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from config.whole_file import whole_file
from sim_core.excavation.trial import Trial

__all__ = ["load_trial", "save_trial"]


def save_trial(path: str | os.PathLike[str], trial: Trial) -> Path:
    """Write a file, whole or not at all."""
    arrays = {field.name: getattr(trial, field.name) for field in fields(Trial)}
    with whole_file(path) as partial, open(partial, "wb") as file:
        np.savez_compressed(file, **{name: value for name, value in arrays.items() if value is not None})
    return Path(path)


def load_trial(path: str | os.PathLike[str]) -> Trial:
    """What `save_trial` wrote.

    Raises:
        FileNotFoundError: there is no such file. ValueError: it holds no trial.
    """
    with np.load(path, allow_pickle=False) as file:
        names = [field.name for field in fields(Trial)]
        if missing := set(names) - set(file.files) - {"images"}:
            raise ValueError(f"{path} holds no trial: expected {', '.join(sorted(missing))}; collect it again")
        found: dict[str, Any] = {name: file[name] if name in file.files else None for name in names}
    plain: dict[str, Callable[[Any], Any]] = {"bound": int, "jammed": bool, "finished": bool}
    plain |= dict.fromkeys(("mass", "position_error", "angle_error"), float)
    return Trial(**{name: plain[name](value) if name in plain else value for name, value in found.items()})
