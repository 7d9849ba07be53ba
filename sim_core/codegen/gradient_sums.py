"""Weight gradients that go straight to where they are summed.

A reverse step's gradient by a network's weights is p's, plus one term for each time the network was called. Scalar by
scalar that is a thousand additions and as many values kept. Where it is found in a graph, the output is filled with
the first summand instead, and each call's adjoint adds to it in place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sim_core.codegen.blocks import block_of_call
from sim_core.codegen.dense import DenseBlock
from sim_core.codegen.graph import Graph

__all__ = ["GradientSums", "gradient_sums"]


@dataclass
class GradientSums:
    """Which calls add their gradients to which outputs.

    Attributes:
        target: call -> (output, first element) to which its adjoint adds.
        start: (output, first element) -> (argument, first element) that the place is filled with before; None for zeros.
        lengths: (output, first element) -> number of elements.
        skipped: values that nothing reads any more.
    """

    target: dict[int, tuple[int, int]] = field(default_factory=dict)
    start: dict[tuple[int, int], tuple[int, int] | None] = field(default_factory=dict)
    lengths: dict[tuple[int, int], int] = field(default_factory=dict)
    skipped: set[int] = field(default_factory=set)


def gradient_sums(graph: Graph) -> GradientSums:
    """Sums of adjoint calls' weight gradients among the outputs of a graph."""
    found = GradientSums()
    uses = graph.uses()
    sizes = {}  # adjoint call -> number of its block's weights
    for i, value in enumerate(graph.values):
        if value.op == "call":
            block, kind = block_of_call(value.args[0]) or (None, "")
            if kind == "adj" and isinstance(block, DenseBlock):
                sizes[i] = block.n_weights
    if not sizes:
        return found
    for j, row in enumerate(graph.outputs):
        at = 0
        while at < len(row):
            at += _take(graph, uses, sizes, found, j, row, at) or 1
    return found


def _take(
    graph: Graph,
    uses: Sequence[int],
    sizes: Mapping[int, int],
    found: GradientSums,
    j: int,
    row: Sequence[int | None],
    at: int,
) -> int:
    """Record the sum that starts at element ``at`` of output j; its length, 0 for none."""
    terms = _terms(graph, uses, row[at])
    calls = [graph.values[t].args[0] for t in terms if _is_gradient(graph, sizes, t)]
    if not calls or calls[0] in found.target:
        return 0
    n = sizes[calls[0]]
    rest = [_terms(graph, uses, value) for value in row[at : at + n]]
    if len(rest) < n or len(set(calls)) < len(calls):
        return 0
    starts: list[Any] = []
    skipped: set[int] = set()
    for e, terms in enumerate(rest):
        gradients = {t for t in terms if _is_gradient(graph, sizes, t)}
        if {graph.values[t].args for t in gradients} != {(call, 1, e) for call in calls}:
            return 0
        if any(uses[t] > 1 for t in gradients):
            return 0
        others = [t for t in terms if t not in gradients]
        if len(others) > 1 or any(graph.values[t].op != "input" for t in others):
            return 0
        starts.append(graph.values[others[0]].args if others else None)
        skipped |= gradients | _sums(graph, uses, row[at + e])
    first = starts[0]
    if starts != [first and (first[0], first[1] + e) for e in range(n)]:
        return 0
    found.target |= {call: (j, at) for call in calls}
    found.start[j, at], found.lengths[j, at] = first, n
    found.skipped |= skipped
    return n


def _is_gradient(graph: Graph, sizes: Mapping[int, int], t: int) -> bool:
    value = graph.values[t]
    return value.op == "of_call" and value.args[0] in sizes and value.args[1] == 1


def _terms(graph: Graph, uses: Sequence[int], value: int | None) -> list[int]:
    """What is summed to give a value: through additions that nothing else reads."""
    if value is None:
        return []
    if graph.values[value].op == "add" and uses[value] == 1:
        return [t for a in graph.values[value].args for t in _terms(graph, uses, a)]
    return [value]


def _sums(graph: Graph, uses: Sequence[int], value: int | None) -> set[int]:
    if value is None or graph.values[value].op != "add":
        return set()
    return {value}.union(*(_sums(graph, uses, a) for a in graph.values[value].args if uses[a] == 1))
