"""The compiled kernel: pairs of a body's points and a surface's, and their complementarity problem, for many poses in one call."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path

import numpy as np

from sim_core.codegen.library import Library, check, compile_library, pointer

__all__ = ["OUTCOME", "PAIR", "RUNTIME", "SOLVERS", "SightData", "deform", "kernel", "solve", "touch"]

RUNTIME = Path(__file__).parent / "runtime"
#: `elastic_pair` and `elastic_outcome` of the C text
PAIR = np.dtype([("feature", "f8", 9), ("rigid", "f8", 3), ("nominal", "f8"), ("displacement", "f8")])
OUTCOME = np.dtype(
    [("penetration", "f8"), ("count", "i4"), ("beside", "i4"), ("undercut", "i4"), ("failed", "i4")], align=True
)
#: what solves the complementarity problem: exactly; pruned as published; or not at all, every point by itself
SOLVERS = {"exact": 0, "pruned": 1, "apart": 2}
_P, _I32, _I64, _F = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_double


class SightData(ctypes.Structure):
    """`elastic_sight` of runtime/elastic.h."""

    _fields_ = [
        *((name, _P) for name in ("across", "feature", "start", "covers")),
        *(("u", _F * 3), ("v", _F * 3), ("low", _F * 2), ("cell", _F), ("reach", _F)),
        *(("columns", _I32), ("rows", _I32)),
    ]


@functools.cache
def kernel() -> Library:
    """The compiled text. Raises RuntimeError: there is no C compiler."""
    flags = ["-O3", "-ftree-vectorize", "-mprefer-vector-width=512"]
    library = compile_library("refit_elastic", {}, [RUNTIME / "elastic.c"], lanes=1, flags=_known(flags))
    library.symbol("touch", [_P, _P, _P, _P, _P, _F, _F, _I32, _I32, _I64, ctypes.c_int])
    library.symbol("solve", [_P, _P, _P, _P, _I32, _I32])
    library.symbol("deform", [_P, _P, _P, _P, _F, _I64, _I64])
    return library


def _known(flags: list[str]) -> list[str]:
    """Without those of x86 elsewhere."""
    import platform

    return flags if platform.machine() == "x86_64" else flags[:2]


def touch(
    sight: SightData,
    body: np.ndarray,
    poses: np.ndarray,
    coupling: float,
    onset: float,
    solver: str,
    threads: int,
) -> tuple[np.ndarray, np.ndarray]:
    """PAIR (b, m), of which the first `count` of each pose are filled, and OUTCOME (b,).

    Args:
        body: (m, 3). poses: (b, 4, 4), contiguous.

    Raises:
        MemoryError: no room for a contact's equations. RuntimeError: a problem was not solved.
    """
    pairs, outcome = np.empty((len(poses), len(body)), PAIR), np.zeros(len(poses), OUTCOME)
    # of records the array interface is slow
    arrays = (pointer(body), pointer(poses), pairs.ctypes.data, outcome.ctypes.data)
    call = kernel().symbol("touch")
    numbers = (coupling, onset, len(body), SOLVERS[solver], len(poses), threads)
    check(call(ctypes.addressof(sight), *arrays, *numbers))
    _checked(int(outcome["failed"].max(initial=0)), int(outcome["count"].max(initial=0)))
    return pairs, outcome


def solve(matrix: np.ndarray, nominal: np.ndarray, solver: str = "exact") -> tuple[np.ndarray, float]:
    """Displacements (n,) [m] of one problem (complementarity.py), and the penetration that pruning alone leaves [m].

    Args:
        matrix: G (n, n). nominal: d (n,) [m].

    Raises:
        MemoryError: no room. RuntimeError: the matrix is not positive definite.
    """
    g, d = np.ascontiguousarray(matrix, float), np.ascontiguousarray(nominal, float)
    if g.shape != (len(d), len(d)):
        raise ValueError(f"a matrix for {len(d)} displacements is of shape {(len(d), len(d))}, found {g.shape}")
    z, left = np.zeros(len(d)), np.zeros(1)
    _checked(kernel().symbol("solve")(*map(pointer, (g, d, z, left)), len(d), SOLVERS[solver]), len(d))
    return z, float(left[0])


def deform(places: np.ndarray, points: np.ndarray, displacement: np.ndarray, coupling: float) -> np.ndarray:
    """Displacements (n,) [m] at places (n, 3) that points (m, 3) displaced by so much (m,) bring about."""
    s, q, z = (np.ascontiguousarray(a, float) for a in (places, points, displacement))
    out = np.zeros(len(s))
    check(kernel().symbol("deform")(*map(pointer, (s, q, z, out)), coupling, len(s), len(q)))
    return out


def _checked(failed: int, count: int) -> None:
    if failed == 1:
        raise MemoryError(f"no memory for the equations of a contact of {count} points; sample the body more coarsely")
    if failed:
        raise RuntimeError(
            f"a contact of up to {count} points was not solved: its coupling matrix is not positive definite, "
            "as where points coincide"
        )
