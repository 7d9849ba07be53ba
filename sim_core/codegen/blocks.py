"""Operations of a graph that are not scalar: call nodes that are printed as loops (dense.py, cone.py)."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from sim_core.codegen.cone import ConeBlock
from sim_core.codegen.dense import DenseBlock

__all__ = ["Block", "block_of_call"]


class Block(Protocol):
    """An operation of a graph that is printed as loops in C of its own.

    Attributes:
        name: of the C function.
        header: C file with what the loops call.
    """

    @property
    def name(self) -> str: ...

    @property
    def header(self) -> Path: ...

    def results(self, kind: str) -> list[int]:
        """Lengths of what a call returns: of the value (kind ""), its tangent ("fwd") or its adjoint ("adj")."""
        ...

    def text(self) -> str:
        """C text of the value, its tangent and its adjoint."""
        ...


def block_of_call(name: str) -> tuple[Block, str] | None:
    """(block, "" | "fwd" | "adj") of a called function's name; None where the function is no block."""
    return DenseBlock.of_call(name) or ConeBlock.of_call(name)
