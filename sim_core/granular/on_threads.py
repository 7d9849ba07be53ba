"""A world's steps on CPU threads, and what any machine that takes them is asked (`Steps`)."""

from __future__ import annotations

import ctypes
import functools
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from sim_core.codegen.library import Library, compile_library, pointer

__all__ = ["NO_MEMORY", "OK", "PAIRS", "RUNTIME", "TOO_FAST", "OnThreads", "Steps", "WorldData", "kernels"]

RUNTIME = Path(__file__).parent / "runtime"
#: as granular.c has it
OK, NO_MEMORY, TOO_FAST = 0, 1, 2
#: what a pair is: shape and type of its numbers; see `granular_pairs` of runtime/law.h
PAIRS: dict[str, tuple[tuple[int, ...], str]] = {
    "a": ((), "i4"),
    "b": ((), "i4"),
    "history": ((6,), "f4"),
    "touches": ((), "u1"),
    "force": ((12,), "f4"),
}
_P, _I32, _I64, _F = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_float


class WorldData(ctypes.Structure):
    """`granular_world` of runtime/law.h."""

    POINTERS = (
        *("motion", "quaternion", "inertia", "first", "body", "material"),
        *("offset", "center", "reference", "part", "pose", "tool", "wrench", "peak", "law"),
    )
    _fields_ = [
        *((name, _P) for name in POINTERS),
        *((name, _I32) for name in ("bodies", "spheres", "tools", "parts", "materials")),
        ("gravity", _F * 3),
        *((name, _F) for name in ("step", "skin", "fastest", "drag")),
    ]

    @property
    def address(self) -> int:
        """Of the structure, as long as this object is."""
        return ctypes.addressof(self)


class Steps(Protocol):
    """Where a world's steps are taken."""

    def run(self, steps: int) -> tuple[int, int]:
        """Let time go on: wrenches, peaks and tools are then in the world's arrays. Returns OK, NO_MEMORY or TOO_FAST, and for the
        last the step at which it was."""
        ...

    def forget(self) -> None:
        """Look for pairs anew before the next step."""
        ...

    def fetch(self) -> None:
        """Bring bodies and spheres into the world's arrays, which the caller may then write to."""
        ...

    def pairs(self) -> dict[str, np.ndarray]:
        """What is known of all pairs, as PAIRS says, (n, ...) each."""
        ...

    def put_pairs(self, pairs: Mapping[str, np.ndarray]) -> int:
        """What `pairs` gave, but the forces. Returns OK or NO_MEMORY."""
        ...


@functools.cache
def kernels(flags: tuple[str, ...] = ()) -> Library:
    """The compiled kernels; `flags` of the compiler come last. Raises RuntimeError: there is no C compiler, without which grains do
    not move."""
    library = compile_library(
        "refit_granular", {}, [RUNTIME / "granular.c"], dtype="float32", flags=["-O3", "-ftree-vectorize", *flags]
    )
    signatures: dict[str, tuple[list, Any]] = {
        "new": ([_P], _P),
        "free": ([_P], None),
        "run": ([_P, _P, _I64, ctypes.c_int, _P], ctypes.c_int),
        "pair_count": ([_P], _I64),
        "list_count": ([_P], _I64),
        "forget": ([_P], None),
        "take_pairs": ([_P] * 6, None),
        "put_pairs": ([_P, _P, _I64, _P, _P, _P, _P], ctypes.c_int),
        "heights": ([_P, _F, _F, _F, _I32, _I32, _F, _P, _P], None),
        "draw": ([_P, _P, _I32, _I32, _P, _P, _P], None),
    }
    for name, (arguments, result) in signatures.items():
        library.symbol(name, arguments, result)
    return library


class OnThreads:
    """`Steps` on threads of the CPU; their number changes no result, to the bit.

    Args:
        data: of the world, whose pointers are into arrays that outlive this object.

    Raises:
        MemoryError, RuntimeError: there is no C compiler.
    """

    def __init__(self, data: WorldData, threads: int, library: Library | None = None) -> None:
        self.data, self.threads, self._library = data, threads, library or kernels()
        self._state = self._call("new", data.address)
        if not self._state:
            raise MemoryError(f"no memory for the pairs of {data.spheres} spheres")
        weakref.finalize(self, self._library.symbol("free", [_P], None), self._state)

    def _call(self, name: str, *arguments: Any) -> Any:
        return getattr(self._library._dll, f"refit_granular_{name}")(*arguments)

    def run(self, steps: int) -> tuple[int, int]:
        failed = ctypes.c_int64(-1)
        status = self._call("run", self.data.address, self._state, steps, self.threads, ctypes.addressof(failed))
        return int(status), int(failed.value)

    def forget(self) -> None:
        self._call("forget", self._state)

    def fetch(self) -> None:
        """Bodies are in the arrays already."""

    def pairs(self) -> dict[str, np.ndarray]:
        count = self._call("pair_count", self._state)
        arrays = {name: np.zeros((count, *shape), kind) for name, (shape, kind) in PAIRS.items()}
        self._call("take_pairs", self._state, *map(pointer, arrays.values()))
        return arrays

    def put_pairs(self, pairs: Mapping[str, np.ndarray]) -> int:
        given = [np.ascontiguousarray(pairs[name], kind) for name, (_, kind) in PAIRS.items() if name != "force"]
        return int(self._call("put_pairs", self.data.address, self._state, len(given[0]), *map(pointer, given)))
