"""CasADi's operators between its scalars and matrices of scalars, without asking what else the operands could be.

CasADi's Python wrapper tries the pairs of types that an operator may stand between one after another, and converts operands to find
out: 30 to 45 us for an operation that takes 3, and equations of a robot with forty joints are ten thousand of them. Where both
operands are SX, or one is and the other a number, there is nothing to find out. What is computed is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import casadi as ca
import numpy as np

__all__ = ["constant", "hasten", "scalars"]

_OPERATIONS = {"add": ca.OP_ADD, "sub": ca.OP_SUB, "mul": ca.OP_MUL, "truediv": ca.OP_DIV}
_NUMBERS = (float, int)


def hasten() -> None:
    """Give `ca.SX` the operators + - * / described above, once; all other operands go CasADi's own way."""
    if getattr(ca.SX.__add__, "hastened", False):
        return
    for name, operation in _OPERATIONS.items():
        setattr(ca.SX, f"__{name}__", _forward(operation, getattr(ca.SX, f"__{name}__")))
        setattr(ca.SX, f"__r{name}__", _reflected(operation, getattr(ca.SX, f"__r{name}__")))


def _forward(operation: int, own: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    SX, binary = ca.SX, ca.SX.binary

    def operator(x: Any, y: Any) -> Any:
        kind = type(y)
        return binary(operation, x, y) if kind is SX or kind in _NUMBERS else own(x, y)

    operator.hastened = True  # type: ignore[attr-defined]
    return operator


def _reflected(operation: int, own: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    binary = ca.SX.binary

    def operator(x: Any, y: Any) -> Any:
        return binary(operation, y, x) if type(y) in _NUMBERS else own(x, y)

    return operator


def scalars(x: Any) -> ca.SX:
    """`x` as SX; an SX is itself, no copy."""
    return x if type(x) is ca.SX else ca.SX(x)


_constants: dict[tuple[bytes, tuple[int, ...]], ca.SX] = {}


def constant(a: np.ndarray) -> ca.SX:
    """An array of numbers as SX, which takes 3 us where it was asked for before, and 50 us else."""
    key = a.tobytes(), a.shape
    found = _constants.get(key)
    if found is None:
        if len(_constants) > 10_000:
            _constants.clear()
        found = _constants[key] = ca.SX(a)
    return +found  # a copy, as whoever gets it may assign to its entries
