"""Prints a graph as straight-line C over a number type.

The text says nothing about what a number is: ``R`` may be a double, a float,
a vector with one robot per lane, or a double inside a CUDA thread. The headers
in ``runtime/`` define the type and the ``r_...`` functions on it.
"""
from __future__ import annotations

import casadi as ca

from sim_core.codegen.graph import Graph, read

_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_SAME_TWICE = {"sq": "*", "twice": "+"}


def emit(name: str, function: ca.Function, scalar: bool = False) -> str:
    """C text of one function.

    ``static inline void NAME(const R *const *in, R *const *out, R *w)``: in[i]
    and out[j] are dense row-major arrays that must not overlap; every element
    of every output is written. ``w`` is scratch of NAME_W elements (0 here:
    values live in registers and on the stack). Macros: NAME_N_IN, NAME_N_OUT,
    NAME_INi_SIZE, NAME_OUTj_SIZE, NAME_W, NAME_IN_SIZES, NAME_OUT_SIZES.

    Args:
        name: a C identifier.
        function: SX function, or MX function that can be expanded.
        scalar: print over the scalar type ``S`` instead of ``R``, for a
            function that runs on one robot inside a library of vectors.

    Raises:
        UnsupportedOperation, ValueError: from ``graph.read``.
    """
    if not name.isidentifier() or not name.isascii():
        raise ValueError(f"function name {name!r} is not a C identifier")
    graph = read(function)
    return "\n".join([*_macros(name, graph), *_body(name, graph, *("Ss" if scalar else "Rr")), ""])


def count_operations(function: ca.Function) -> int:
    """Arithmetic operations in the emitted text (loads and constants are free)."""
    return sum(v.op not in ("input", "const") for v in read(function).values)


def _macros(name: str, graph: Graph) -> list[str]:
    lines = []
    for kind, shapes in (("IN", graph.in_shapes), ("OUT", graph.out_shapes)):
        sizes = [r * c for r, c in shapes]
        lines.append(f"#define {name}_N_{kind} {len(sizes)}")
        lines += [f"#define {name}_{kind}{i}_SIZE {n}" for i, n in enumerate(sizes)]
        lines.append(f"#define {name}_{kind}_SIZES {{{', '.join(map(str, sizes or [0]))}}}")
    return [*lines, f"#define {name}_W 0"]


def _body(name: str, graph: Graph, real: str, ops: str) -> list[str]:
    ops, constant = f"{ops}_", "C" if real == "R" else "K"
    text: list[str] = []  # how later lines refer to value i
    lines = [f"REFIT_FN void {name}(const {real} *const *in, {real} *const *out, {real} *w) {{",
             "  (void)in; (void)out; (void)w;"]
    used = {v.args[0] for v in graph.values if v.op == "input"}
    lines += [f"  const {real} *const REFIT_RESTRICT a{i} = in[{i}];" for i in sorted(used)]
    lines += [f"  {real} *const REFIT_RESTRICT y{j} = out[{j}];"
              for j, row in enumerate(graph.outputs) if row]

    stores: dict[int, list[str]] = {}
    for j, row in enumerate(graph.outputs):
        for i, value in enumerate(row):
            if value is not None:
                stores.setdefault(value, []).append(f"y{j}[{i}]")
            else:
                lines.append(f"  y{j}[{i}] = {constant}(0.0);")

    angles = _both_sin_and_cos(graph)
    reciprocal = _shared_denominators(graph)
    for i, value in enumerate(graph.values):
        t = f"t{i}"
        if value.op == "input":
            t = f"a{value.args[0]}[{value.args[1]}]"
        elif value.op == "const":
            t = f"{constant}({_number(value.args[0])})"
        elif value.op in ("sin", "cos") and value.args[0] in angles:
            x = value.args[0]
            if angles[x] is not None:  # first of the pair computes both
                s, c = angles[x]
                lines.append(f"  {real} t{s}, t{c}; {ops}sincos({text[x]}, &t{s}, &t{c});")
                angles[x] = None
        elif value.op == "div" and value.args[1] in reciprocal:
            d = value.args[1]
            if d not in reciprocal.emitted:
                reciprocal.emitted.add(d)
                lines.append(f"  const {real} i{d} = {constant}(1.0) / {text[d]};")
            lines.append(f"  const {real} {t} = {text[value.args[0]]} * i{d};")
        else:
            lines.append(f"  const {real} {t} = {_expression(value, text, ops, constant)};")
        text.append(t)
        # stored as soon as known: the value need not stay in a register
        lines += [f"  {target} = {t};" for target in stores.get(i, ())]
    return [*lines, "}"]


def _expression(value, text, ops, constant) -> str:
    args = [text[a] for a in value.args]
    if value.op in _INFIX:
        return f"{args[0]} {_INFIX[value.op]} {args[1]}"
    if value.op in _SAME_TWICE:
        return f"{args[0]} {_SAME_TWICE[value.op]} {args[0]}"
    if value.op == "neg":
        return f"-{args[0]}"
    if value.op == "inv":
        return f"{constant}(1.0) / {args[0]}"
    name = {"constpow": "pow"}.get(value.op, value.op)
    return f"{ops}{name}({', '.join(args)})"


def _number(text: str) -> str:
    """A Python float's repr (exact on reading back) as a C constant."""
    return {"nan": "NAN", "inf": "INFINITY", "-inf": "-INFINITY"}.get(text, text)


def _both_sin_and_cos(graph: Graph) -> dict[int, tuple[int, int] | None]:
    """Arguments whose sine and cosine both occur -> (sine value, cosine value)."""
    found = {"sin": {}, "cos": {}}
    for i, value in enumerate(graph.values):
        if value.op in found:
            found[value.op][value.args[0]] = i
    return {x: (s, found["cos"][x]) for x, s in found["sin"].items() if x in found["cos"]}


class _shared_denominators(set):
    """Denominators of two or more quotients: one division, then products.

    A vector division costs as much as ten products; the rounding differs from
    a true division by at most one unit in the last place.
    """

    def __init__(self, graph: Graph):
        count: dict[int, int] = {}
        for value in graph.values:
            if value.op == "div":
                count[value.args[1]] = count.get(value.args[1], 0) + 1
        super().__init__(d for d, n in count.items() if n > 1)
        self.emitted: set[int] = set()
