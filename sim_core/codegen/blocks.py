"""Operations of a graph that are not scalar: call nodes that are printed as loops (dense.py, cone.py)."""

from __future__ import annotations

from sim_core.codegen.cone import ConeBlock
from sim_core.codegen.dense import DenseBlock

__all__ = ["block_of_call"]


def block_of_call(name: str):
    """(block, "" | "fwd" | "adj") of a called function's name; None where it is no block."""
    return DenseBlock.of_call(name) or ConeBlock.of_call(name)
