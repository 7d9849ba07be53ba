"""Prints a graph as straight-line C over a number type.

The text says nothing about what a number is: ``R`` may be a double, a float,
a vector with one robot per lane, or a double inside a CUDA thread. The headers
in ``runtime/`` define the type and the ``r_...`` functions on it.

A long function is cut into parts, each a C function of its own; values that
one part computes and a later one reads pass through an array. A compiler's
register allocation costs more than linear time in the length of a block: 8000
operations in one piece compile for 4.6 s, in pieces for 2 s, and run no slower
(docs/kernels.md has the measurement).

Calls of blocks (``blocks.py``) become calls of C functions, printed once per library by
``block_text``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import casadi as ca

from sim_core.codegen.blocks import Block, block_of_call
from sim_core.codegen.dense import DenseBlock
from sim_core.codegen.gradient_sums import gradient_sums
from sim_core.codegen.graph import Graph, UnsupportedOperation, Value, read

#: Operations up to which a function is one part, and operations per part of a longer one.
WHOLE = 1000
PART = 200

_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_SAME_TWICE = {"sq": "*", "twice": "+"}


def emit(
    name: str, function: ca.Function, scalar: bool = False, part: int | None = None, shared: int | None = None
) -> str:
    """C text of one function.

    ``static inline void NAME(const R *const *in, R *const *out, R *w)``: in[i]
    and out[j] are dense row-major arrays that must not overlap; every element
    of every output is written. ``w`` is scratch of NAME_W elements (0 here: it
    may be NULL). Macros: NAME_N_IN, NAME_N_OUT, NAME_INi_SIZE, NAME_OUTj_SIZE,
    NAME_W, NAME_IN_SIZES, NAME_OUT_SIZES.

    Args:
        name: a C identifier.
        function: SX function, or MX function that can be expanded.
        scalar: print over the scalar type ``S`` instead of ``R``, for a
            function that runs on one robot inside a library of vectors.
        part: operations per part; default WHOLE or PART, by the function's length.
        shared: an argument that is the same for all lanes where it holds weights. Dense blocks read them from
            in[NAME_N_IN], that argument as a row of S (cast), and add their gradient, summed over the lanes, to
            out[NAME_N_OUT], a row of S like it, in place of the output where it is summed (``gradient_sums``).

    Raises:
        UnsupportedOperation, ValueError: from ``graph.read``.
    """
    if not name.isidentifier() or not name.isascii():
        raise ValueError(f"function name {name!r} is not a C identifier")
    graph = read(function)
    return "\n".join([*_macros(name, graph), *_Printer(name, graph, scalar, part, shared).lines(), ""])


def called_blocks(functions: Iterable[ca.Function]) -> list[Block]:
    """The blocks that any of the functions call."""
    # Most functions call nothing, which they say at once: reading is half of what a library costs whose object is in the cache.
    asked = [f for f in functions if not f.is_a("SXFunction") or f.find_functions()]
    names = sorted({v.args[0] for f in asked for v in read(f).values if v.op == "call"})
    return list(dict.fromkeys(block for name in names for block, _ in [_block(name)]))


def _block(name: str) -> tuple[Block, str]:
    """The block that a call node of a graph calls; `graph.read` lets no other call through."""
    found = block_of_call(name)
    if found is None:
        raise UnsupportedOperation(f"No block has the name {name}; sim_core.codegen.blocks has those there are.")
    return found


def block_text(blocks: Iterable[Block]) -> str:
    """C text of blocks; nothing for none."""
    headers = dict.fromkeys(f'#include "{block.header.name}"\n' for block in blocks)
    return "\n".join([*headers, *(block.text() for block in blocks)])


def count_operations(function: ca.Function) -> int:
    """Arithmetic operations in the emitted text (loads and constants are free; a call counts as one)."""
    return sum(_costs(v) for v in read(function).values)


def _costs(value: Value) -> bool:
    return value.op not in ("input", "const")


def _macros(name: str, graph: Graph) -> list[str]:
    lines = []
    for kind, shapes in (("IN", graph.in_shapes), ("OUT", graph.out_shapes)):
        sizes = [r * c for r, c in shapes]
        lines.append(f"#define {name}_N_{kind} {len(sizes)}")
        lines += [f"#define {name}_{kind}{i}_SIZE {n}" for i, n in enumerate(sizes)]
        lines.append(f"#define {name}_{kind}_SIZES {{{', '.join(map(str, sizes or [0]))}}}")
    return [*lines, f"#define {name}_W 0"]


class _Printer:
    """One function: where each value is computed, kept and stored."""

    def __init__(self, name: str, graph: Graph, scalar: bool, part: int | None, shared: int | None) -> None:
        self.name, self.graph, self.shared = name, graph, shared
        self.read = {v.args[:2] for v in graph.values if v.op == "of_call"}  # (call, output)
        self.R, self.r, self.C = ("S", "s_", "K") if scalar else ("R", "r_", "C")
        self.angles = _both_sin_and_cos(graph)
        self.reciprocals = _shared_denominators(graph)
        self.sums = gradient_sums(graph)
        self.home = self._cut(part)  # value -> part that computes it
        self.slot = self._slots()  # value -> element of the passing array
        self.stores: dict[int | None, list[str]] = {}
        for j, row in enumerate(graph.outputs):
            for i, value in enumerate(row):
                if value not in self.sums.skipped:
                    self.stores.setdefault(value, []).append(f"out[{j}][{i}]")

    def lines(self) -> list[str]:
        parts: list[list[str]] = [[] for _ in range(max(self.home, default=0) + 1)]
        for i, value in enumerate(self.graph.values):
            parts[self.home[i]] += self._statement(i, value)
        parts[0] += [f"{target} = {self.C}(0.0);" for target in self.stores.get(None, ())]
        if self.shared is None:
            parts[0][:0] = self._starts_of_sums()
        R = self.R
        signature = f"(const {R} *const *in, {R} *const *out, {R} *w)"
        unused = "  (void)in; (void)out; (void)w;"
        if len(parts) == 1:
            return [f"REFIT_FN void {self.name}{signature} {{", unused, *map("  {}".format, self._named(parts[0])), "}"]
        lines = []
        for k, body in enumerate(parts):
            lines += [
                f"REFIT_FN void {self.name}_part{k}{signature} {{",
                unused,
                *map("  {}".format, self._named(body)),
                "}",
            ]
        size = max(self.slot.values(), default=0) + 1
        return [
            *lines,
            f"REFIT_FN void {self.name}{signature} {{",
            f"  {R} passed[{size}];",
            "  (void)w;",
            *(f"  {self.name}_part{k}(in, out, passed);" for k in range(len(parts))),
            "}",
        ]

    def _named(self, body: list[str]) -> list[str]:
        """A part's statements with its arrays as restrict pointers a0.., y0.., k."""
        text = "\n".join(body)
        R, names = self.R, []
        for i in range(len(self.graph.in_shapes)):
            if f"in[{i}][" in text:
                names.append(f"const {R} *const REFIT_RESTRICT a{i} = in[{i}];")
                text = text.replace(f"in[{i}][", f"a{i}[")
        for j in range(len(self.graph.out_shapes)):
            if f"out[{j}][" in text:
                names.append(f"{R} *const REFIT_RESTRICT y{j} = out[{j}];")
                text = text.replace(f"out[{j}][", f"y{j}[")
        if "k[" in text:
            names.append(f"{R} *const REFIT_RESTRICT k = w;")
        return [*names, *text.split("\n")]

    def _cut(self, part: int | None) -> list[int]:
        """Consecutive parts of about ``part`` operations; sin and cos of one angle together."""
        home: list[int] = []
        count = 0
        part = part or (WHOLE if sum(map(_costs, self.graph.values)) <= WHOLE else PART)
        for i, value in enumerate(self.graph.values):
            # what a call returns is read out beside it: its array is local to the part
            home.append(home[value.args[0]] if value.op == "of_call" else count // part)
            count += _costs(value) and i not in self.sums.skipped
        for s, c in self.angles.values():
            home[s] = home[c] = min(home[s], home[c])
        return home

    def _slots(self) -> dict[int, int]:
        """Places in the passing array, free again after the last part that reads them."""
        last: dict[int, int] = {}
        for i, value in enumerate(self.graph.values):
            if i not in self.sums.skipped:
                for a in value.operands:
                    last[a] = max(last.get(a, 0), self.home[i])
        passing = [i for i in range(len(self.home)) if _costs(self.graph.values[i]) and last.get(i, 0) > self.home[i]]
        slots: dict[int, int] = {}
        free: list[int] = []
        busy: dict[int, list[int]] = {}
        size = 0
        freed = -1  # the last part whose places have been looked through
        for i in sorted(passing, key=self.home.__getitem__):
            if self.home[i] > freed:
                freed = self.home[i]
                for part in [p for p in busy if p < freed]:
                    free += busy.pop(part)
            if not free:
                free.append(size)
                size += 1
            slots[i] = free.pop()
            busy.setdefault(last[i], []).append(slots[i])
        return slots

    def _text(self, a: int, part: int) -> str:
        """How a statement in ``part`` reads value a."""
        value = self.graph.values[a]
        if value.op == "input":
            return f"in[{value.args[0]}][{value.args[1]}]"
        if value.op == "const":
            return f"{self.C}({_number(value.args[0])})"
        return f"t{a}" if self.home[a] == part else f"k[{self.slot[a]}]"

    def _statement(self, i: int, value: Value) -> list[str]:
        """Compute value i, store it where outputs and later parts want it."""
        lines: list[str] = []
        part, R = self.home[i], self.R
        if i in self.sums.skipped:
            return lines
        if value.op == "call":
            return self._call(i, value, part)
        if value.op in ("sin", "cos") and value.args[0] in self.angles:
            s, c = self.angles[value.args[0]]
            if i == min(s, c):
                x = self._text(value.args[0], part)
                lines.append(f"{R} t{s}, t{c}; {self.r}sincos({x}, &t{s}, &t{c});")
        elif value.op == "div" and value.args[1] in self.reciprocals:
            d = value.args[1]
            if (d, part) not in self.reciprocals.emitted:
                self.reciprocals.emitted.add((d, part))
                lines.append(f"const {R} i{d} = {self.C}(1.0) / {self._text(d, part)};")
            lines.append(f"const {R} t{i} = {self._text(value.args[0], part)} * i{d};")
        elif _costs(value):
            lines.append(f"const {R} t{i} = {self._expression(value, part)};")
        # stored as soon as known: the value need not stay in a register
        if i in self.slot:
            lines.append(f"k[{self.slot[i]}] = t{i};")
        return [*lines, *(f"{target} = {self._text(i, part)};" for target in self.stores.get(i, ()))]

    def _expression(self, value: Value, part: int) -> str:
        if value.op == "of_call":
            return "c{}_{}[{}]".format(*value.args)
        args = [self._text(a, part) for a in value.args]
        if value.op in _INFIX:
            return f"{args[0]} {_INFIX[value.op]} {args[1]}"
        if value.op in _SAME_TWICE:
            return f"{args[0]} {_SAME_TWICE[value.op]} {args[0]}"
        if value.op == "neg":
            return f"-{args[0]}"
        if value.op == "inv":
            return f"{self.C}(1.0) / {args[0]}"
        name = {"constpow": "pow"}.get(value.op, value.op)
        return f"{self.r}{name}({', '.join(args)})"

    def _starts_of_sums(self) -> list[str]:
        """Fill the outputs that calls add to."""
        return [
            f"for (int i = 0; i < {n}; i++) out[{j}][{at} + i] = "
            + (f"{self.C}(0.0);" if start is None else f"in[{start[0]}][{start[1]} + i];")
            for (j, at), start in self.sums.start.items()
            for n in [self.sums.lengths[j, at]]
        ]

    def _call(self, i: int, value: Value, part: int) -> list[str]:
        """Call of a block, arguments in arrays of their own where they do not lie in a row already."""
        name, *given = value.args
        block, kind = _block(name)
        if isinstance(block, DenseBlock):
            return self._dense_call(i, block, kind, given, part)
        lines, R = [], self.R
        arguments = []
        for k, values in enumerate(given):
            if not values:
                continue  # the undifferentiated output, which derivatives here do without
            text, line = self._array(f"c{i}_a{k}", values, part)
            arguments.append(text)
            lines += line
        for j, size in enumerate(block.results(kind)):
            arguments.append(f"c{i}_{j}")
            lines.append(f"{R} c{i}_{j}[{size}];")
        return [*lines, f"{block.name}{kind and '_' + kind}({', '.join(arguments)});"]

    def _dense_call(self, i: int, block: DenseBlock, kind: str, given: Sequence[Sequence[int]], part: int) -> list[str]:
        """Call of a network: weights from its robot or from the row that all share, their gradient to its own place."""
        x, w, *rest = given
        if kind:
            rest = rest[1:]  # the undifferentiated output, which derivatives here do without
        row = self._consecutive_inputs(w)
        wanted = kind == "adj" and (i, 1) in self.read
        shared = row is not None and row[0] == self.shared and (not wanted or i in self.sums.target)
        lines, arguments = [], []
        for k, values in enumerate((x, w, *rest)):
            if k == 1 and shared and row is not None:
                arguments.append(f"(const S *)in[{len(self.graph.in_shapes)}] + {row[1]}")
            elif k == 3 and all(_is_zero(self.graph.values[a]) for a in values):
                arguments.append("NULL")  # the tangent of the weights
            else:
                text, line = self._array(f"c{i}_a{k}", values, part)
                arguments.append(text)
                lines += line
        lines.append(f"{self.R} c{i}_0[{block.results(kind)[0]}];")
        arguments.append(f"c{i}_0")
        if wanted and i in self.sums.target:
            output, at = self.sums.target[i]
            arguments.append(f"(S *)out[{len(self.graph.out_shapes)}] + {at}" if shared else f"&out[{output}][{at}]")
        elif wanted:
            lines += [
                f"{self.R} c{i}_1[{block.n_weights}];",
                f"for (int i = 0; i < {block.n_weights}; i++) c{i}_1[i] = {self.C}(0.0);",
            ]
            arguments.append(f"c{i}_1")
        elif kind == "adj":
            arguments.append("NULL")
        suffix = (kind and f"_{kind}") + "_shared" * shared
        return [*lines, f"{block.name}{suffix}({', '.join(arguments)});"]

    def _consecutive_inputs(self, values: Sequence[int]) -> tuple[int, int] | None:
        """(argument, first element) where the values lie in a row in an argument."""
        first = self.graph.values[values[0]]
        if first.op == "input":
            argument, at = first.args
            if all(self.graph.values[a] == Value("input", (argument, at + e)) for e, a in enumerate(values)):
                return argument, at
        return None

    def _array(self, name: str, values: Sequence[int], part: int) -> tuple[str, list[str]]:
        """How a call reads values as one array, and the statements that make it."""
        row = self._consecutive_inputs(values)
        if row is not None:
            return "&in[{}][{}]".format(*row), []
        if all(_is_zero(self.graph.values[a]) for a in values):
            return name, [
                f"{self.R} {name}[{len(values)}];",
                f"for (int i = 0; i < {len(values)}; i++) {name}[i] = {self.C}(0.0);",
            ]
        elements = ", ".join(self._text(a, part) for a in values)
        return name, [f"const {self.R} {name}[{len(values)}] = {{{elements}}};"]


def _is_zero(value: Value) -> bool:
    return value.op == "const" and float(value.args[0]) == 0


def _number(text: str) -> str:
    """A Python float's repr (exact on reading back) as a C constant."""
    return {"nan": "NAN", "inf": "INFINITY", "-inf": "-INFINITY"}.get(text, text)


def _both_sin_and_cos(graph: Graph) -> dict[int, tuple[int, int]]:
    """Arguments whose sine and cosine both occur -> (sine value, cosine value)."""
    found: dict[str, dict[int, int]] = {"sin": {}, "cos": {}}
    for i, value in enumerate(graph.values):
        if value.op in found:
            found[value.op][value.args[0]] = i
    return {x: (s, found["cos"][x]) for x, s in found["sin"].items() if x in found["cos"]}


class _shared_denominators(set[int]):
    """Denominators of two or more quotients: one division, then products.

    A vector division costs as much as ten products; the rounding differs from
    a true division by at most one unit in the last place.
    """

    def __init__(self, graph: Graph) -> None:
        count: dict[int, int] = {}
        for value in graph.values:
            if value.op == "div":
                count[value.args[1]] = count.get(value.args[1], 0) + 1
        super().__init__(d for d, n in count.items() if n > 1)
        self.emitted: set[tuple[int, int]] = set()
