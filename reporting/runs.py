"""Run directories: one folder per run, named by what ran and when, with what it ran from."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from reporting.checks import machine, versions, write_json

CHECKOUT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class RunDirectory:
    """`path` exists and is empty when made; `run / "report.html"` is a path inside it."""

    path: Path

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def __fspath__(self) -> str:
        return str(self.path)

    def write_json(self, name: str, document: Any) -> Path:
        """Write `document` as the file `name` in the folder; returns its path."""
        return write_json(self.path / name, document)


def runs_root() -> Path:
    """$REFIT_RUNS, else `runs` in the checkout this code runs from, else `runs` where the caller stands."""
    chosen = os.environ.get("REFIT_RUNS")
    if chosen:
        return Path(chosen)
    if (CHECKOUT / "refit").is_file() and os.access(CHECKOUT, os.W_OK):
        return CHECKOUT / "runs"
    return Path.cwd() / "runs"


def new_run(name: str, root: str | os.PathLike[str] | None = None, **facts: Any) -> RunDirectory:
    """Make `<root>/<name>-<UTC stamp>/` and write `run.json` in it.

    Args:
        name: of the experiment or demonstration; letters, digits, '-', '_' and '.'.
        root: parent folder; default `runs_root()`.
        facts: anything else `run.json` should say (seed, arguments).

    Raises:
        ValueError: `name` is not usable as a folder name.
        OSError: the folder cannot be made.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise ValueError(f"run name '{name}' is not a plain name; use letters, digits, '-', '_' and '.'.")
    parent = Path(root) if root is not None else runs_root()
    parent.mkdir(parents=True, exist_ok=True)
    started = datetime.now(UTC)
    stem = f"{name}-{started:%Y%m%dT%H%M%SZ}"
    for attempt in range(1, 1000):
        path = parent / (stem if attempt == 1 else f"{stem}-{attempt}")
        try:
            path.mkdir()
        except FileExistsError:  # another run of the same second
            continue
        break
    else:
        raise OSError(f"no free run directory {parent / stem}")
    run = RunDirectory(path)
    run.write_json(
        "run.json",
        {
            "name": name,
            "started": f"{started:%Y-%m-%dT%H:%M:%SZ}",
            "git": git_state(),
            "machine": machine(),
            "versions": versions(),
            **facts,
        },
    )
    return run


def write_run(name: str, fill: Callable[[RunDirectory], None], out: Path | None = None, **facts: Any) -> Path:
    """A run directory that appears complete or not at all.

    Args:
        name, facts: as for `new_run`.
        fill: writes what belongs into it; if it raises, nothing is left.
        out: path of the folder, which must not exist; None: below `runs_root()`.

    Returns:
        The folder.
    """
    root = out.resolve().parent if out is not None else runs_root()
    root.mkdir(parents=True, exist_ok=True)
    workshop = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=root))
    try:
        run = new_run(name, root=workshop, **facts)
        fill(run)
        target = out if out is not None else _free_name(root / run.path.name)
        os.rename(run.path, target)
    finally:
        shutil.rmtree(workshop, ignore_errors=True)
    return target


def _free_name(path: Path) -> Path:
    """`path`, or with a number appended if another run took it in the same second."""
    candidate, number = path, 2
    while candidate.exists():
        candidate, number = path.with_name(f"{path.name}-{number}"), number + 1
    return candidate


def git_state(checkout: str | os.PathLike[str] = CHECKOUT) -> dict[str, Any]:
    """{"hash": commit or None, "dirty": uncommitted changes, None where there is no checkout}."""

    def git(*arguments: str) -> str | None:
        try:
            answer = subprocess.run(
                ["git", "-C", str(checkout), *arguments], capture_output=True, text=True, timeout=20
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return answer.stdout.strip() if answer.returncode == 0 else None

    top = git("rev-parse", "--show-toplevel")
    # A copy of the sources inside some other repository must not report that repository's commit.
    if top is None or Path(top).resolve() != Path(checkout).resolve():
        return {"hash": None, "dirty": None}
    changes = git("status", "--porcelain", "--untracked-files=no")
    return {"hash": git("rev-parse", "HEAD"), "dirty": None if changes is None else bool(changes)}
