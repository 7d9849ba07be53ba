"""CasADi functions as one library: compiled where a compiler is, else interpreted."""

from __future__ import annotations

import ctypes
import functools
import math
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from sim_core.codegen import compiler as cc
from sim_core.codegen.emitted import emitted
from sim_core.codegen.emitter import block_text, called_blocks

_POINTER, _INT64, _INT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int


class NoCompilerWarning(UserWarning):
    """Kernels run on CasADi's virtual machine because no C compiler was found."""


class Rows(ctypes.Structure):
    """``Rows`` of runtime/batch.h: one row of scalars per robot; stride 0, one for all."""

    _fields_ = [("data", _POINTER), ("stride", _INT64)]


def compile_library(
    name: str,
    functions: Mapping[str, ca.Function],
    sources: Sequence[str | Path] = (),
    *,
    dtype: str = "float64",
    lanes: int | str = "auto",
    scalar: Sequence[str] = (),
    defines: Mapping[str, object] = {},
    flags: Sequence[str] = (),
    shared: Mapping[str, int] = {},
) -> Library:
    """Compile CasADi functions, and C written by hand on top of them, into one library.

    The translation unit is: runtime/real.h and batch.h; each function as emitted
    (``emitter.emit``); each source, which may use all of these and exports with
    ``EXPORT(name)``. Compiled objects are cached (``compiler.build``).

    Args:
        name: identifier; exported symbols are ``<name>_...``.
        functions: C name -> function.
        sources: paths of C files, included in order.
        dtype: "float64" or "float32": the scalar S.
        lanes: scalars in R; "auto" = one vector register; 1 = R is S.
        scalar: names of functions to print over S rather than R.
        defines: macros for the sources.
        flags: further compiler flags (they come last and win).
        shared: function -> its argument that lanes share (``emitter.emit``); it serves the sources alone, not ``call``.

    Returns:
        Library. Without a compiler its ``compiled`` is False: ``call`` works, on
        CasADi's virtual machine, and one NoCompilerWarning is given; ``symbol``
        raises.

    Raises:
        UnsupportedOperation, CompileError, ValueError.
    """
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        raise ValueError(f"library name {name!r} is not a C identifier")
    if dtype not in ("float64", "float32"):
        raise ValueError(f"dtype is 'float64' or 'float32', not {dtype!r}")
    unknown = set(scalar) - set(functions)
    if unknown:
        raise ValueError(f"scalar names {sorted(unknown)}, which are not among the functions {sorted(functions)}")
    lanes = cc.natural_lanes(dtype) if lanes == "auto" else int(lanes)
    if lanes not in (1, 2, 4, 8, 16):
        raise ValueError(f"lanes is 'auto', 1, 2, 4, 8 or 16, not {lanes}")

    compiler = cc.find_compiler()
    if compiler is None:
        _warn_once()
        return Library(name, functions, dtype, 1, None)
    texts = [Path(s).resolve() for s in sources]
    defines = {"REFIT_PREFIX": name, "REFIT_LANES": lanes, **defines}
    if dtype == "float32":
        defines["REFIT_FLOAT"] = 1
    blocks = called_blocks(functions.values())
    text = "\n".join(
        [
            '#include "real.h"\n#include "batch.h"\n' + block_text(blocks),
            *(emitted(n, f, scalar=n in scalar, shared=shared.get(n)) for n, f in functions.items()),
            *(f"REFIT_CALLABLE{'_SCALAR' if n in scalar else ''}({n})" for n in functions if n not in shared),
            *(f'#include "{s.name}"' for s in texts),
            "",
        ]
    )
    path = cc.build(
        name,
        text,
        compiler=compiler,
        defines=defines,
        include=list(dict.fromkeys([s.parent for s in texts] + [block.header.parent for block in blocks])),
        flags=[*cc.FLAGS, *flags],
    )
    return Library(name, functions, dtype, lanes, path, callable=functions.keys() - shared.keys())


@functools.cache
def _warn_once() -> None:
    warnings.warn(
        "no C compiler: physics kernels run on CasADi's virtual machine, about 20-100 times "
        "slower. Install gcc or clang, or set REFIT_CC.",
        NoCompilerWarning,
        stacklevel=4,
    )


class Library:
    """Functions that can be called on batches of numpy arrays; `compile_library` makes it.

    Attributes:
        functions: name -> CasADi function.
        compiled: False when CasADi's virtual machine does the work.
        lanes: robots side by side in one block.
        dtype: numpy dtype of arguments and results.
        path: the shared object, or None.
    """

    def __init__(
        self,
        name: str,
        functions: Mapping[str, ca.Function],
        dtype: DTypeLike,
        lanes: int,
        path: Path | None,
        callable: Iterable[str] = (),
    ) -> None:
        self.name, self.functions, self.lanes, self.path = name, dict(functions), lanes, path
        self.dtype = np.dtype(dtype)
        self.compiled = path is not None
        self._dll = ctypes.CDLL(str(path)) if path else None
        # time loops ask for the same few again and again
        self._mapped = functools.lru_cache(16)(self._map)
        self._core = {
            n: ([_core(f.size_in(i)) for i in range(f.n_in())], [_core(f.size_out(j)) for j in range(f.n_out())])
            for n, f in self.functions.items()
        }
        self._calls = (
            {n: self.symbol(f"call_{n}", [_POINTER, _POINTER, _INT64, _INT]) for n in callable} if path else {}
        )

    def symbol(self, name: str, argtypes: Sequence | None = None, restype: type | None = _INT) -> Any:
        """Exported C function ``<library>_<name>`` through ctypes (it releases the GIL)."""
        if self._dll is None:
            raise RuntimeError(
                f"{self.name}.{name} needs a C compiler, and none was found. Install gcc or clang, or set REFIT_CC."
            )
        function = getattr(self._dll, f"{self.name}_{name}")
        if argtypes is not None:
            function.argtypes = list(argtypes)
        function.restype = restype
        return function

    def call(self, function: str, *arguments: ArrayLike, threads: int = 1) -> tuple[np.ndarray, ...]:
        """Evaluate over a batch.

        Args:
            function: name in the library.
            arguments: one array per input, of the input's own shape (a column is (n,),
                a matrix (r, c)), with or without leading batch dimensions; those
                without are shared by the whole batch.
            threads: CPU threads over slices of the batch.

        Returns:
            One array per output with the batch dimensions in front.

        Raises:
            TypeError, ValueError: expected and found dtype or shape.
        """
        core_in, core_out = self._core[function]
        if len(arguments) != len(core_in):
            raise TypeError(f"{function} takes {len(core_in)} arguments, got {len(arguments)}")
        batch = Batch(function, self.dtype, enumerate(arguments), core_in)
        outputs = [batch.empty(core) for core in core_out]
        if batch.size and self.compiled:
            check(self._calls[function](batch.rows(), pointers(outputs), batch.size, threads))
        elif batch.size:
            self._interpret(function, batch, outputs)
        return tuple(outputs)

    def _interpret(self, function: str, batch: Batch, outputs: Sequence[np.ndarray]) -> None:
        """The same on CasADi's virtual machine: batches side by side as columns."""
        f = self._mapped(function, batch.size, tuple(i for i, s in enumerate(batch.shared) if s))
        columns = []
        for i, (a, shared) in enumerate(zip(batch.arrays, batch.shared)):
            # not -1: a column may be empty (a robot without actuators)
            a = a.reshape(1 if shared else batch.size, *self.functions[function].size_in(i))
            columns.append(a[0] if shared else np.concatenate(a, axis=1))
        for y, dm in zip(outputs, f.call([ca.DM(c) for c in columns])):
            if y.size:
                rows = dm.shape[0]
                y[...] = dm.full().reshape(rows, batch.size, -1).swapaxes(0, 1).reshape(y.shape)

    def _map(self, function: str, size: int, shared: tuple[int, ...]) -> ca.Function:
        """The function over ``size`` columns."""
        f = self.functions[function]
        return f if size == 1 else f.map(function, "serial", size, list(shared), [])


class Batch:
    """Arrays brought to one batch: leading dimensions in front of each array's own shape.

    Arrays without leading dimensions are shared by all; other leading dimensions
    must broadcast.

    Args:
        owner: who asks, for error messages.
        dtype: scalar type; see ``as_scalars``.
        arguments: pairs (name, array).
        cores: own shape of each array.

    Attributes:
        lead, size: the batch dimensions and their product.
        arrays: contiguous; shared: whether each is shared.

    Raises:
        TypeError, ValueError: expected and found dtype or shape.
    """

    def __init__(
        self,
        owner: str,
        dtype: np.dtype,
        arguments: Iterable[tuple[object, ArrayLike]],
        cores: Sequence[tuple[int, ...]],
    ) -> None:
        self.dtype, self.cores = dtype, cores
        self.arrays, leads = [], []
        for (name, array), core in zip(arguments, cores):
            array = as_scalars(array, dtype, owner, name)
            self.arrays.append(array)
            leads.append(_batch_shape(array, core, owner, name))
        self.lead = max(leads, key=len, default=())
        if any(own and own != self.lead for own in leads):
            self.lead = np.broadcast_shapes(*leads)
            for i, own in enumerate(leads):
                if own and own != self.lead:
                    wide = np.broadcast_to(self.arrays[i], self.lead + cores[i])
                    self.arrays[i] = np.ascontiguousarray(wide)
        self.shared = [not own for own in leads]
        self.size = math.prod(self.lead)

    def rows(self, which: slice = slice(None)) -> ctypes.Array[Rows]:
        """C array of Rows, of all arrays or some."""
        rows = [
            Rows(pointer(a), 0 if shared else math.prod(core))
            for a, shared, core in zip(self.arrays[which], self.shared[which], self.cores[which])
        ]
        return (Rows * len(rows))(*rows)

    def flat(self, i: int) -> np.ndarray:
        """Array i with one batch dimension, expanded if shared."""
        a, core = self.arrays[i], self.cores[i]
        return np.broadcast_to(a, (self.size, *core)) if self.shared[i] else a.reshape(self.size, *core)

    def empty(self, core: Sequence[int]) -> np.ndarray:
        """An array of the batch whose entries have the shape `core`, not initialised."""
        return np.empty(self.lead + tuple(core), self.dtype)


def _core(shape: tuple[int, int]) -> tuple[int, ...]:
    return shape if shape[1] != 1 else shape[:1]


def as_scalars(array: ArrayLike, dtype: np.dtype, owner: str, name: object) -> np.ndarray:
    """Contiguous array of the library's dtype.

    Lists, integers and non-contiguous arrays are copied; a float array of another
    precision is refused, since converting it silently costs time or digits.
    """
    if not isinstance(array, np.ndarray):
        array = np.asarray(array, dtype)
    elif array.dtype != dtype:
        if array.dtype.kind not in "iu":
            raise TypeError(
                f"{owner}, argument {name}: expected {dtype}, found {array.dtype}; convert it with "
                f".astype(np.{dtype}) or choose dtype='{array.dtype}' for the kernels."
            )
        array = array.astype(dtype)
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def _batch_shape(array: np.ndarray, core: tuple[int, ...], owner: str, name: object) -> tuple[int, ...]:
    """The dimensions of an array before its own shape ``core``."""
    shape, n = array.shape, len(core)
    if shape[len(shape) - n :] != core or len(shape) < n:
        raise ValueError(f"{owner}, argument {name}: expected shape (..., {', '.join(map(str, core))}), found {shape}")
    return shape[: len(shape) - n]


def pointer(array: np.ndarray) -> int:
    """Address of an array's first element."""
    return array.__array_interface__["data"][0]


def pointers(arrays: Sequence[np.ndarray]) -> ctypes.Array[ctypes.c_void_p]:
    """C array of pointers."""
    return (_POINTER * len(arrays))(*[pointer(a) for a in arrays])


def check(status: int) -> None:
    """Raise what a C routine's status means."""
    if status:
        raise MemoryError("no memory for the kernel's scratch; use a smaller batch")
