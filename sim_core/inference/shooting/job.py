"""What a launch of runtime/shooting.h takes, on a CPU or a GPU, and what the GPU's form asks of the kernel beside it."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import casadi as ca

from sim_core.inference.shooting.recorded import Recorded

__all__ = ["RUNTIME", "Job", "Launchable"]

RUNTIME = Path(__file__).parent / "runtime"


class Job(ctypes.Structure):
    """`shooting_job` of runtime/shooting.h."""

    DATA = ("start", "u", "y", "per_sigma", "scale", "per_defect")
    GIVEN = ("theta", "offsets", "multipliers")
    EACH = ("misfit_each", "thetabar_each")
    RESULTS = ("misfit", "d", "offsetbar", "thetabar")
    _fields_ = [
        *((name, ctypes.c_void_p) for name in (*DATA, *GIVEN, *EACH, *RESULTS, "records")),
        *((name, ctypes.c_int64) for name in ("particles", "trajectories", "windows", "steps")),
        ("damping", ctypes.c_double),
        ("gradient", ctypes.c_int64),
    ]


class Launchable(Protocol):
    """A shooting kernel as its GPU form sees it.

    Attributes:
        recorded: the data. dynamics: for dtype and substeps.
    """

    recorded: Recorded
    dynamics: Any

    def functions(self, seeds: int, form: str) -> dict[str, ca.Function]:
        """C name -> function, for a reverse sweep in `seeds` columns and a form of the constraints."""
        ...

    def defines(self, seeds: int) -> dict[str, int]:
        """Macros of runtime/shooting.h."""
        ...

    def job(self, N: int, damping: float, gradient: bool, addresses: Mapping[str, int | None]) -> Job:
        """What a launch with N particles takes; addresses: name -> address, or None."""
        ...
