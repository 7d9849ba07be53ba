"""A CasADi function read as a list of values, each computed once.

CasADi keeps an SX function as instructions over work slots that are reused.
Here the same list becomes static single assignment: value i is written once,
by one operation on earlier values. Equal operations on equal values are the
same value (value numbering), so what CasADi's own common-subexpression pass
leaves behind is shared here as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import casadi as ca

from sim_core.codegen.blocks import block_of_call


class UnsupportedOperation(NotImplementedError):
    """The function holds an operation that the emitter has no C for."""


@dataclass(frozen=True)
class Value:
    """One scalar of the graph.

    op: "input", "const", "call", "of_call" or a name from ``OPERATIONS``.
    args: indices of earlier values; for "input" (argument, dense row-major
        element); for "const" (the number,); for "call" of a block (its name,
        one tuple of values per argument); for "of_call" (call, output, element).
    """

    op: str
    args: tuple[Any, ...]

    @property
    def operands(self) -> tuple[int, ...]:
        """The values it is computed from."""
        if self.op in ("input", "const"):
            return ()
        if self.op == "call":
            return tuple(a for argument in self.args[1:] for a in argument)
        return self.args[:1] if self.op == "of_call" else self.args


@dataclass
class Graph:
    """Scalars in evaluation order and where the outputs take theirs from."""

    values: list[Value] = field(default_factory=list)
    in_shapes: list[tuple[int, int]] = field(default_factory=list)
    out_shapes: list[tuple[int, int]] = field(default_factory=list)
    #: outputs[j][i] is the value of dense row-major element i, None = structural zero
    outputs: list[list[int | None]] = field(default_factory=list)

    def uses(self) -> list[int]:
        """How often each value is read, by other values or by an output."""
        count = [0] * len(self.values)
        for value in self.values:
            for a in value.operands:
                count[a] += 1
        for row in self.outputs:
            for output in row:
                if output is not None:
                    count[output] += 1
        return count


#: CasADi operation -> (name here, number of arguments). CasADi's own names,
#: lower case; assignment-like operations are resolved while reading.
OPERATIONS = {
    getattr(ca, f"OP_{name.upper()}"): (name, arity)
    for arity, names in {
        1: "neg exp log sqrt sq twice sin cos tan asin acos atan floor ceil not fabs sign "
        "erf inv sinh cosh tanh asinh acosh atanh log1p expm1",
        2: "add sub mul div pow constpow lt le eq ne and or fmod copysign fmin fmax atan2 if_else_zero hypot remainder",
    }.items()
    for name in names.split()
}
COMMUTATIVE = {"add", "mul", "eq", "ne", "and", "or", "hypot"}
_NAMES = {getattr(ca, n): n for n in dir(ca) if n.startswith("OP_")}


def read(function: ca.Function) -> Graph:
    """Read an SX function (an MX function is expanded first).

    Raises:
        UnsupportedOperation: names the operation, the function and what to do.
        ValueError: the function has free variables.
    """
    if not function.is_a("SXFunction"):
        try:
            function = function.expand()
        except RuntimeError as error:
            raise UnsupportedOperation(
                f"{function.name()} cannot be expanded to scalar operations "
                f"({str(error).strip().splitlines()[-1]}); build it from ca.SX."
            ) from error
    if function.has_free():
        raise ValueError(f"{function.name()} has free variables {function.get_free()}; make them inputs.")
    graph = Graph(
        in_shapes=[function.size_in(i) for i in range(function.n_in())],
        out_shapes=[function.size_out(i) for i in range(function.n_out())],
    )
    in_dense = [_row_major(function.sparsity_in(i)) for i in range(function.n_in())]
    out_dense = [_row_major(function.sparsity_out(i)) for i in range(function.n_out())]
    graph.outputs = [[None] * (r * c) for r, c in graph.out_shapes]

    number: dict[tuple[str, tuple[Any, ...]], int] = {}  # plain pairs: a dataclass takes thrice as long to look up

    def value(op: str, *args: Any) -> int:
        if op in COMMUTATIVE and args[0] > args[1]:
            args = args[::-1]
        found = number.setdefault((op, args), len(graph.values))
        if found == len(graph.values):
            graph.values.append(Value(op, args))
        return found

    calls = [ca.SX(0)] * function.n_instructions()
    if function.find_functions():
        calls = ca.vertsplit(function.instructions_sx())
    slot: dict[int, int] = {}  # CasADi work slot -> value held now
    instruction, reads, writes = function.instruction_id, function.instruction_input, function.instruction_output
    for k in range(function.n_instructions()):
        op, i, o = instruction(k), reads(k), writes(k)
        # What most instructions are comes first.
        if op in OPERATIONS:
            name, arity = OPERATIONS[op]
            slot[o[0]] = value(name, *(slot[a] for a in i[:arity]))
        elif op == ca.OP_INPUT:
            slot[o[0]] = value("input", i[0], in_dense[i[0]][i[1]])
        elif op == ca.OP_OUTPUT:
            graph.outputs[o[0]][out_dense[o[0]][o[1]]] = slot[i[0]]
        elif op == ca.OP_CONST:
            # 0.0 == -0.0 and nan != nan as dictionary keys: the text tells them apart
            slot[o[0]] = value("const", repr(function.instruction_constant(k)))
        elif op in (ca.OP_ASSIGN, ca.OP_LIFT):
            slot[o[0]] = slot[i[0]]
        elif op == ca.OP_CALL and block_of_call((called := calls[k].which_function()).name()):
            arguments, results = _split(i, called.nnz_in, called.n_in()), _split(o, called.nnz_out, called.n_out())
            call = value("call", called.name(), *(tuple(slot[a] for a in argument) for argument in arguments))
            for j, result in enumerate(results):
                slot |= {at: value("of_call", call, j, e) for e, at in enumerate(result) if at >= 0}
        else:
            raise UnsupportedOperation(
                f"{function.name()}: no C for {_NAMES.get(op, op)} (instruction {k}). Express it "
                f"with the operations in sim_core.codegen.graph.OPERATIONS, or add it there."
            )
    return graph


def _row_major(sparsity: ca.Sparsity) -> list[int]:
    """CasADi nonzero (column-major) -> element of the dense row-major array."""
    rows, columns = sparsity.get_triplet()
    return [r * sparsity.size2() + c for r, c in zip(rows, columns)]


def _split(flat: Sequence[int], size: Callable[[int], int], n: int) -> list[list[int]]:
    """Consecutive pieces of a list, ``size(0)``, ``size(1)``, ... long."""
    flat, pieces = list(flat), []
    for i in range(n):
        pieces.append(flat[: size(i)])
        flat = flat[size(i) :]
    return pieces
