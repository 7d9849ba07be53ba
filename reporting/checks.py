"""A measured number beside its target, and the collection of them that decides an exit code.

result = Result("identify_panda", seed=1, size="quick")
result.check("payload mass error", 0.031, 0.05, "<=", unit="1", source="own target")
result.print()
result.to_json("out.json")
raise SystemExit(result.exit_code)
"""

from __future__ import annotations

import importlib.metadata
import json
import math
import numbers
import os
import platform
import shutil
import subprocess
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from config.whole_file import whole_file

#: exit codes of every refit command
EXIT_OK, EXIT_CHECK_FAILED, EXIT_USAGE = 0, 1, 2
#: columns from which a terminal also shows where each target is from
WIDE = 120


def _contains(value: Any, target: Any) -> bool:
    """Two numbers mean the closed interval between them; any other collection means membership."""
    interval = len(target) == 2 and all(_is_number(t) for t in target) and _is_number(value)
    return bool(target[0] <= value <= target[1]) if interval else value in target


RELATIONS: dict[str, Callable[[Any, Any], bool]] = {
    "<=": lambda value, target: value <= target,
    ">=": lambda value, target: value >= target,
    "<": lambda value, target: value < target,
    ">": lambda value, target: value > target,
    "==": lambda value, target: value == target,
    "in": _contains,
}


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _plain(value: Any) -> Any:
    """`value` in JSON's own types. NumPy scalars and arrays become numbers and lists, paths text;
    NaN and infinities become null, because JSON has no word for them."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, numbers.Real):
        return _plain(float(value))
    return str(value)


@dataclass(frozen=True)
class Check:
    """One number against one target.

    Attributes:
        name: what was measured.
        value: the measurement; NaN or None (nothing measured) never passes.
        target: what it is held against; for "in" an interval (low, high), ends included, or a
            collection of allowed values.
        relation: `value relation target` must hold; a key of `RELATIONS`.
        unit: SI unit, "" for none, "1" for a ratio.
        source: where the target comes from.

    Raises:
        ValueError: unknown relation, or a target that does not fit it.
    """

    name: str
    value: Any
    target: Any
    relation: str
    unit: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        if self.relation not in RELATIONS:
            raise ValueError(
                f"check '{self.name}': relation '{self.relation}' is unknown; use one of {', '.join(RELATIONS)}."
            )
        if self.relation == "in" and (isinstance(self.target, str) or not isinstance(self.target, Collection)):
            raise ValueError(
                f"check '{self.name}': relation 'in' needs an interval (low, high) or a collection, "
                f"found {self.target!r}."
            )
        if self.relation in ("<", "<=", ">", ">=") and not _is_number(self.target):
            raise ValueError(
                f"check '{self.name}': relation '{self.relation}' needs a number as target, found {self.target!r}."
            )

    @property
    def passed(self) -> bool:
        """Whether the measurement meets its target; NaN and None never do."""
        value = self.value
        if value is None or (_is_number(value) and math.isnan(value)):
            return False
        if self.relation in ("<", "<=", ">", ">=") and not _is_number(value):
            return False
        return bool(RELATIONS[self.relation](value, self.target))

    def to_dict(self) -> dict[str, Any]:
        """The check in JSON's own types, with its verdict as "passed"."""
        return _plain(
            {
                "name": self.name,
                "value": self.value,
                "target": self.target,
                "relation": self.relation,
                "unit": self.unit,
                "source": self.source,
                "passed": self.passed,
            }
        )


@dataclass
class Result:
    """Everything one run of an experiment, benchmark or demonstration has to show.

    Attributes:
        name: of the experiment.
        seed: all randomness followed from it; None where there is none.
        size: "quick", "full" or what the run calls its size.
        checks: in the order they were made.
        details: any further data for the JSON file (tables, curves), by name.
    """

    name: str
    seed: int | None = None
    size: str = ""
    checks: list[Check] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)

    def check(
        self, name: str, value: Any, target: Any, relation: str = "<=", unit: str = "", source: str = ""
    ) -> Check:
        """Hold a measurement against its target and keep both; see `Check`."""
        check = Check(name, value, target, relation, unit, source)
        self.checks.append(check)
        return check

    def detail(self, name: str, value: Any) -> None:
        """Keep further data under `name` in the JSON file."""
        self.details[name] = value

    @property
    def passed(self) -> bool:
        """Every check passed, and there was at least one: a run that measured nothing proves nothing."""
        return bool(self.checks) and all(check.passed for check in self.checks)

    @property
    def exit_code(self) -> int:
        """What a command ends with: 0 where every check passed, else 1."""
        return EXIT_OK if self.passed else EXIT_CHECK_FAILED

    def to_dict(self) -> dict[str, Any]:
        """All of the result in JSON's own types, with the machine and the versions it was measured on."""
        document = {
            "name": self.name,
            "passed": self.passed,
            "seed": self.seed,
            "size": self.size,
            "machine": machine(),
            "versions": versions(),
            "checks": [check.to_dict() for check in self.checks],
        }
        if self.details:
            document["details"] = _plain(self.details)
        return document

    def to_json(self, path: str | os.PathLike[str]) -> Path:
        """Write the document to `path`, whole or not at all. Returns the path."""
        return write_json(path, self.to_dict())

    def table(self, source: bool = True) -> Table:
        """The checks as a rich table; without their sources it fits a terminal of 80 columns."""
        table = Table(
            title=self.title,
            title_justify="left",
            title_style="bold",
            header_style="bold",
            box=SIMPLE_HEAD,
            pad_edge=False,
        )
        table.add_column("", width=6)
        table.add_column("check")
        table.add_column("value", justify="right")
        table.add_column("target", justify="right")
        table.add_column("unit")
        if source:
            table.add_column("source", style="dim")
        for check in self.checks:
            verdict = "[green]pass[/]" if check.passed else "[bold red]MISSED[/]"
            table.add_row(
                verdict,
                check.name,
                number_text(check.value),
                f"{check.relation} {number_text(check.target)}",
                unit_text(check.unit),
                *([check.source] if source else []),
            )
        return table

    @property
    def title(self) -> str:
        """Name, size and seed."""
        size = f", {self.size}" if self.size else ""
        seed = "" if self.seed is None else f", seed {self.seed}"
        return f"{self.name}{size}{seed}"

    @property
    def verdict(self) -> str:
        """One sentence: how many targets were met and which were not."""
        if not self.checks:
            return "Nothing was checked."
        missed = [check.name for check in self.checks if not check.passed]
        if not missed:
            return f"All {len(self.checks)} targets met."
        return f"{len(self.checks) - len(missed)} of {len(self.checks)} targets met; missed: {', '.join(missed)}."

    def print(self, console: Console | None = None) -> None:
        """Print the table and the verdict."""
        console = console or Console()
        console.print(self.table(source=console.width >= WIDE))
        console.print(self.verdict, style="green" if self.passed else "bold red", markup=False, highlight=False)


def number_text(value: Any) -> str:
    """`value` in four significant digits where it is a number; intervals and lists element by element."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if value is None:
        return "–"
    if isinstance(value, bool) or isinstance(value, str):
        return str(value)
    if isinstance(value, numbers.Integral):
        return str(value)
    if isinstance(value, numbers.Real):
        if math.isfinite(value) and 1e4 <= abs(float(value)) < 1e7:
            return f"{value:.0f}"
        return f"{value:z.4g}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(number_text(item) for item in value) + "]"
    if isinstance(value, (set, frozenset)):
        return "{" + ", ".join(sorted(number_text(item) for item in value)) + "}"
    return str(value)


def unit_text(unit: str) -> str:
    """The unit as people write it: of a ratio, none."""
    return "" if unit == "1" else unit


def write_json(path: str | os.PathLike[str], document: Any) -> Path:
    """Write `document` as strict JSON (NaN becomes null), whole or not at all.

    Raises:
        OSError: the folder cannot be made or written.
    """
    return write_text(path, json.dumps(_plain(document), indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def write_text(path: str | os.PathLike[str], text: str) -> Path:
    """Write `text`, whole or not at all. Returns the path."""
    path = Path(path)
    with whole_file(path) as partial:
        partial.write_text(text, encoding="utf-8")
    return path


def machine() -> dict[str, Any]:
    """What a timing depends on: processor, usable cores, memory, GPU. No host names, no paths."""
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "simd": _simd(),
        "memory_gib": _memory_gib(),
        "gpu": _gpu(),
    }


#: distributions whose version a reader of a result may need; the first name present counts
_VERSIONED = {
    "refit": ("refit",),
    "numpy": ("numpy",),
    "scipy": ("scipy",),
    "torch": ("torch",),
    "mujoco": ("mujoco",),
    "casadi": ("casadi",),
    "pin": ("pin",),
    "rclpy": ("ros-rclpy", "rclpy"),
    "rosbags": ("rosbags",),
    "jax": ("jax",),
    "crocoddyl": ("crocoddyl",),
}


def versions() -> dict[str, str]:
    """Versions of Python and of the installed libraries that results depend on, without importing them."""
    found = {"python": platform.python_version()}
    for label, names in _VERSIONED.items():
        for name in names:
            try:
                found[label] = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                continue
            break
    return found


def _cpuinfo(key: str) -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            for line in lines:
                name, _, value = line.partition(":")
                if name.strip() == key:
                    return value.strip()
    except OSError:
        pass
    return ""


def _cpu_model() -> str:
    return _cpuinfo("model name") or platform.processor() or platform.machine()


def _simd() -> str:
    """Widest vector unit, because the generated kernels' speed follows from it."""
    flags = set((_cpuinfo("flags") or _cpuinfo("Features")).split())
    for flag, name in (("avx512f", "AVX-512"), ("avx2", "AVX2"), ("avx", "AVX"), ("asimd", "NEON"), ("sse2", "SSE2")):
        if flag in flags:
            return name
    return "unknown"


def _memory_gib() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (ValueError, OSError):
        return None


def _gpu() -> str | None:
    """Name of the first NVIDIA GPU, or None."""
    if shutil.which("nvidia-smi") is None:
        return None
    try:
        answer = subprocess.run(
            ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    names = answer.stdout.strip().splitlines()
    return names[0] if answer.returncode == 0 and names else None
