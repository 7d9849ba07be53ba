"""Estimators of sound quality as files: arrays and a text header in one safetensors file, in which nothing can be run.

The header says the kind of estimator, its version, the structure, and what it was fitted to. A version is raised when
the same arrays would mean something else: other features, another preparation, another network.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from config.whole_file import whole_file
from sim_core.auscultation.regions import Structure

__all__ = ["EstimatorFileError", "read_estimator", "write_estimator"]

REMEDY = "`./refit experiment auscultation_quality` fits one"


class EstimatorFileError(ValueError):
    """A file that holds no estimator of the kind and version that is asked for; the text says what it is."""


def write_estimator(
    path: str | os.PathLike[str],
    kind: str,
    version: int,
    structure: Structure,
    arrays: Mapping[str, np.ndarray],
    meta: Mapping[str, Any],
) -> Path:
    """Write a file, whole or not at all.

    Args:
        kind: of estimator. arrays: by name. meta: anything that JSON can say: what it was fitted to, its error.
    """
    header = {"kind": kind, "version": str(version), "structure": structure, "meta": json.dumps(dict(meta))}
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    with whole_file(path) as partial:
        partial.write_bytes(save(contiguous, metadata=header))
    return Path(path)


def read_estimator(
    path: str | os.PathLike[str], kind: str, version: int, names: tuple[str, ...]
) -> tuple[Structure, dict[str, np.ndarray], dict[str, Any]]:
    """Structure, arrays and meta of the file that `write_estimator` wrote.

    Raises:
        FileNotFoundError: there is no such file.
        EstimatorFileError: of another kind or version, damaged, or without one of the arrays `names`.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no estimator at {path}; {REMEDY}")
    try:
        with safe_open(path, framework="numpy") as file:
            header = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}
    except (SafetensorError, OSError) as error:
        raise EstimatorFileError(f"{path} is no readable estimator ({error}); {REMEDY}") from None
    found = header.get("kind"), header.get("version")
    if found != (kind, str(version)):
        raise EstimatorFileError(
            f"{path}: expected {kind} of version {version}, found {found[0] or 'no kind'} of version "
            f"{found[1] or 'none'}; {REMEDY}"
        )
    if header.get("structure") not in get_args(Structure) or set(names) - set(arrays):
        raise EstimatorFileError(f"{path} is damaged: it lacks its structure or one of {', '.join(names)}; {REMEDY}")
    if not all(np.isfinite(arrays[name]).all() for name in names if name != "edge"):
        raise EstimatorFileError(f"{path} is damaged: it holds numbers that are not finite; {REMEDY}")
    try:
        meta = json.loads(header.get("meta", "{}"))
    except json.JSONDecodeError as error:
        raise EstimatorFileError(f"{path} is damaged: its header is no JSON ({error}); {REMEDY}") from None
    structure: Structure = header["structure"]
    return structure, arrays, meta
