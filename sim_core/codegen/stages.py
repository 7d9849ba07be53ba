"""A step and its reverse, divided by how often their values change: what depends on parameters alone is computed once for
a whole roll-out, and what is dear to compute is kept from the way there for the way back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import casadi as ca

from sim_core.codegen.graph import OPERATIONS, Graph, Value, read

__all__ = ["stages"]

# What is kept: dearer to compute again than to write and read. The rest of a step's values is cheaper computed twice.
DEAR = {
    "div",
    "inv",
    "sqrt",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "atan2",
    "exp",
    "log",
    "pow",
    "tanh",
    "sinh",
    "cosh",
    "erf",
    "hypot",
    "log1p",
    "expm1",
    "asinh",
    "acosh",
    "atanh",
    "fmod",
    "remainder",
}
_CODES = {name: (code, arity) for code, (name, arity) in OPERATIONS.items()}


def stages(step: ca.Function, reverse: ca.Function) -> tuple[ca.Function, ca.Function, ca.Function]:
    """Divide a step and its reverse.

    Args:
        step: f(x, u, theta) -> x'.
        reverse: f(x, u, theta, ...) -> ...

    Returns:
        prepare: f(theta) -> prepared.
        step: f(x, u, theta, prepared) -> x', kept.
        reverse: f(x, u, theta, prepared, kept, ...) -> as before.
        Same values as before up to rounding (a / d may become a (1 / d)). Where blocks are called (networks, contacts),
        nothing is divided: `prepared` and `kept` are empty.
    """
    inputs = reverse.sx_in()
    x, u, theta, *others = inputs
    ahead, back = step(x, u, theta), reverse.call(inputs)
    whole = ca.Function("whole", inputs, [ahead, *back])
    if step.find_functions() or reverse.find_functions():
        empty = ca.SX(0, 1)
        return (
            ca.Function("prepare", [theta], [empty]),
            ca.Function("step", [x, u, theta, empty], [ahead, empty]),
            ca.Function("step_vjp", [x, u, theta, empty, empty, *others], back),
        )
    graph = _with_reciprocals(read(whole))
    constant = _depends_on_nothing_but(graph, 2)
    rows = graph.outputs
    symbols = {
        i: inputs[v.args[0]][_element(inputs[v.args[0]], v.args[1])]
        for i, v in enumerate(graph.values)
        if v.op == "input"
    }
    worth = [c and v.op not in ("input", "const") for c, v in zip(constant, graph.values)]
    constants = _met(graph, rows, worth)
    forward = _ancestors(graph, rows[:1], set())
    dear = [i in forward and not worth[i] and v.op in DEAR for i, v in enumerate(graph.values)]
    saved = _met(graph, rows[1:], [a or b for a, b in zip(worth, dear)]) - constants
    prepared, kept = sorted(constants), sorted(saved)
    c, k = ca.SX.sym("prepared", len(prepared)), ca.SX.sym("kept", len(kept))
    given = symbols | {i: c[at] for at, i in enumerate(prepared)}
    after = given | {i: k[at] for at, i in enumerate(kept)}
    return (
        ca.Function("prepare", [theta], _matrices(graph, [prepared], [(len(prepared), 1)], symbols)),
        ca.Function("step", [x, u, theta, c], _matrices(graph, [rows[0], kept], [ahead.shape, (len(kept), 1)], given)),
        ca.Function(
            "step_vjp", [x, u, theta, c, k, *others], _matrices(graph, rows[1:], [y.shape for y in back], after)
        ),
    )


def _with_reciprocals(graph: Graph) -> Graph:
    """The graph with one division for each denominator that is used more than once."""
    denominators = Counter(v.args[1] for v in graph.values if v.op == "div")
    values: list[Value] = []
    number: dict[Value, int] = {}
    moved: list[int] = []

    def value(op: str, *args: Any) -> int:
        key = Value(op, args)
        if key not in number:
            number[key] = len(values)
            values.append(key)
        return number[key]

    for v in graph.values:
        args = v.args if v.op in ("input", "const") else tuple(moved[a] for a in v.args)
        if v.op == "div" and denominators[v.args[1]] > 1:
            moved.append(value("mul", args[0], value("inv", args[1])))
        else:
            moved.append(value(v.op, *args))
    outputs = [[None if a is None else moved[a] for a in row] for row in graph.outputs]
    return Graph(values, graph.in_shapes, graph.out_shapes, outputs)


def _depends_on_nothing_but(graph: Graph, argument: int) -> list[bool]:
    found: list[bool] = []
    for v in graph.values:
        found.append(v.args[0] == argument if v.op == "input" else all(found[a] for a in v.operands))
    return found


def _ancestors(graph: Graph, rows: Sequence[Sequence[int | None]], borders: set[int]) -> set[int]:
    """Values that rows of outputs are computed from, themselves included, not looking behind `borders`."""
    found: set[int] = set()
    todo = [a for row in rows for a in row if a is not None]
    while todo:
        if (i := todo.pop()) not in found:
            found.add(i)
            if i not in borders:
                todo += graph.values[i].operands
    return found


def _met(graph: Graph, rows: Sequence[Sequence[int | None]], marked: Sequence[bool]) -> set[int]:
    """The marked values that are met first on the ways back from rows of outputs."""
    borders = {i for i, m in enumerate(marked) if m}
    return _ancestors(graph, rows, borders) & borders


def _matrices(
    graph: Graph, rows: Sequence[Sequence[int | None]], shapes: Iterable[tuple[int, int]], known: Mapping[int, ca.SX]
) -> list[ca.SX]:
    """SX of outputs, from values already known."""
    known = dict(known)
    for i in sorted(_ancestors(graph, rows, set(known)) - set(known)):
        v = graph.values[i]
        if v.op == "const":
            known[i] = ca.SX(float(v.args[0]))
        else:
            code, arity = _CODES[v.op]
            known[i] = (ca.SX.unary if arity == 1 else ca.SX.binary)(code, *(known[a] for a in v.args))
    elements = [[ca.SX(0) if a is None else known[a] for a in row] for row in rows]
    return [
        ca.densify(ca.reshape(ca.vertcat(*row), shape[1], shape[0]).T) if row else ca.SX(*shape)
        for row, shape in zip(elements, shapes)
    ]


def _element(array: ca.SX, at: int) -> tuple[int, int]:
    """(row, column) of a dense row-major element."""
    return divmod(at, array.size2())
