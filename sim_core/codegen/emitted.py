"""What `emitter.emit` printed before, from the cache of kernels: printing takes ten times as long as knowing a function again."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

import casadi as ca

from sim_core.codegen import compiler
from sim_core.codegen.emitter import emit

__all__ = ["emitted"]

#: instructions of a function from which on its text is kept
WORTH_KEEPING = 200


def emitted(name: str, function: ca.Function, scalar: bool = False, shared: int | None = None) -> str:
    """`emit(name, function, scalar, shared=shared)`.

    A function that calls others, as networks are called, is printed anew each time: what it calls is no part of it.

    Raises:
        as `emit`.
    """
    if not function.is_a("SXFunction") or function.n_instructions() < WORTH_KEEPING or function.find_functions():
        return emit(name, function, scalar, shared=shared)
    key = [_printer(), name, str(scalar), str(shared), function.serialize()]
    path = compiler.cached(
        f"emitted_{name}", key, ".c", lambda folder: emit(name, function, scalar, shared=shared).encode()
    )
    return path.read_bytes()[: -hashlib.sha256().digest_size].decode()


@functools.cache
def _printer() -> str:
    """Stands for what prints: the text of this package, and CasADi, whose numbers of operations it reads."""
    digest = hashlib.sha256(ca.CasadiMeta.version().encode())
    for file in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(file.read_bytes() + b"\0")
    return digest.hexdigest()
