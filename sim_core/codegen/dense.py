"""Fully connected networks as one operation of a graph, with their own derivatives, in loops over the weights.

Written out scalar by scalar, a network of a thousand weights is a text of ten thousand lines. A `DenseBlock` stays one
call node in the SX graph: CasADi differentiates it (forward and adjoint, through an MX definition that its virtual
machine also runs), and the emitter prints each of the three as loops of `runtime/networks/dense.h`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

import casadi as ca

__all__ = ["ACTIVATIONS", "DenseBlock", "Layer"]

Expression = TypeVar("Expression", ca.SX, ca.MX)

# Each in a form whose derivative is right at zero, where networks start, and finite far out. dense.h has the
# same functions with their derivatives.
ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "identity": lambda z: z,
    "tanh": ca.tanh,
    "sin": ca.sin,
    "relu": lambda z: z * (z > 0),
    "softplus": lambda z: (z + ca.fabs(z)) / 2 + ca.log1p(ca.exp(-ca.fabs(z))),
    "elu": lambda z: z * (z > 0) + ca.exp(z * (z <= 0)) - 1,
    "sigmoid": lambda z: (1 + ca.tanh(z / 2)) / 2,
    "softsign": lambda z: z / (1 + ca.fabs(z)),
}


class Layer(NamedTuple):
    """One layer's shape, and where its weights begin in the vector of all weights.

    Attributes:
        rows, columns: units of this layer and of the one before.
        at: of the weight matrix, row by row.
        bias: of the biases; None where the layer has none.
        activation: a key of `ACTIVATIONS`.
    """

    rows: int
    columns: int
    at: int
    bias: int | None
    activation: str


@dataclass(frozen=True)
class DenseBlock:
    """y = s_L(W_L ... s_1(W_1 x + b_1) ... + b_L).

    Attributes:
        widths: numbers of inputs, of each hidden layer's units and of outputs.
        activations, biases: one per layer, len(widths) - 1.

    The weights are one vector (n_weights,): for each layer W row by row (one row per unit), then b where it has one.
    """

    widths: tuple[int, ...]
    activations: tuple[str, ...]
    biases: tuple[bool, ...]

    #: In a folder of its own: only kernels with networks depend on it.
    header: ClassVar[Path] = Path(__file__).parent / "runtime" / "networks" / "dense.h"

    @property
    def layers(self) -> list[Layer]:
        """Shape and place of each layer, from the inputs on."""
        found: list[Layer] = []
        at = 0
        for n, m, activation, bias in zip(self.widths, self.widths[1:], self.activations, self.biases):
            found.append(Layer(m, n, at, at + m * n if bias else None, activation))
            at += m * n + (m if bias else 0)
        return found

    @property
    def n_weights(self) -> int:
        """Number of weights and biases."""
        return sum(m * n + m * b for n, m, b in zip(self.widths, self.widths[1:], self.biases))

    def results(self, kind: str) -> list[int]:
        """Lengths of what a call of a kind returns."""
        n, m = self.widths[0], self.widths[-1]
        return {"": [m], "fwd": [m], "adj": [n, self.n_weights]}[kind]

    @property
    def name(self) -> str:
        """Name of the CasADi function and of the C function, which describes the block completely."""
        biases = "".join("01"[b] for b in self.biases)
        return "_".join(["dense", *map(str, self.widths), *self.activations, biases])

    def forward(self, x: Expression, w: Expression) -> Expression:
        """Outputs as an expression of x (n,) and w (n_weights,), SX or MX: written out."""
        for rows, columns, at, bias, activation in self.layers:
            x = ca.reshape(w[at : at + rows * columns], columns, rows).T @ x
            x = ACTIVATIONS[activation](x if bias is None else x + w[bias : bias + rows])
        return x

    @property
    def function(self) -> ca.Function:
        """f(x, w) -> y, one call node wherever it is applied to SX."""
        return _function(self)

    @classmethod
    def of_call(cls, name: str) -> tuple[DenseBlock, str] | None:
        """(block, "" | "fwd" | "adj") of a function's name, CasADi's for derivatives included; None: another's."""
        found = re.fullmatch(r"(?:(fwd|adj)1_)?dense_((?:\d+_)+)((?:[a-z]+_)+)([01]+)", name)
        if not found:
            return None
        kind, widths, activations, biases = found.groups()
        block = cls(
            tuple(map(int, widths.split("_")[:-1])), tuple(activations.split("_")[:-1]), tuple(b == "1" for b in biases)
        )
        return block, kind or ""

    def text(self) -> str:
        """C of the block: NAME(x, w, y); NAME_fwd(x, w, xdot, wdot or NULL, ydot); NAME_adj(x, w, ybar, xbar, wbar or NULL),
        which adds to wbar. Each again as ..._shared, where w is one row of S for all lanes and wbar the sum over them."""
        return self._text("", "R") + self._text("_shared", "S")

    def _text(self, shared: str, T: str) -> str:
        layers, widest = self.layers, max(self.widths)
        store = "".join(f", h{k}[{n}], d{k}[{n}]" for k, (n, *_) in enumerate(layers))

        def through(with_derivatives: bool) -> Iterator[str]:
            source = "x"
            for k, (rows, columns, at, bias, activation) in enumerate(layers):
                b = "NULL" if bias is None else f"w + {bias}"
                yield f"  dense_product{shared}(w + {at}, {b}, {source}, h{k}, {rows}, {columns});"
                slope = f"&d{k}[i]" if with_derivatives else "&slope"
                yield f"  for (int i = 0; i < {rows}; i++) h{k}[i] = dense_{activation}(h{k}[i], {slope});"
                source = f"h{k}"

        last, n_out = len(layers) - 1, self.widths[-1]
        plain = "".join(f", h{k}[{n}]" for k, (n, *_) in enumerate(layers))
        lines = [
            f"REFIT_FN void {self.name}{shared}(const R *x, const {T} *w, R *y) {{",
            f"  R slope{plain};",
            *through(False),
            f"  (void)slope;\n  for (int i = 0; i < {n_out}; i++) y[i] = h{last}[i];\n}}",
            f"REFIT_FN void {self.name}_fwd{shared}(const R *x, const {T} *w, const R *xdot, const R *wdot, R *ydot) {{",
            f"  R v[2][{widest}]{store};",
            *through(True),
        ]
        source, dot = "x", "xdot"
        for k, (rows, columns, at, bias, _) in enumerate(layers):
            to = "ydot" if k == last else f"v[{k % 2}]"
            lines.append(f"  dense_product{shared}(w + {at}, NULL, {dot}, {to}, {rows}, {columns});")
            b = "NULL" if bias is None else f"wdot + {bias}"
            lines.append(f"  if (wdot) dense_add_product(wdot + {at}, {b}, {source}, {to}, {rows}, {columns});")
            lines.append(f"  for (int i = 0; i < {rows}; i++) {to}[i] *= d{k}[i];")
            source, dot = f"h{k}", to
        lines += [
            "}",
            f"REFIT_FN void {self.name}_adj{shared}(const R *x, const {T} *w, const R *ybar, R *xbar, {T} *wbar) {{",
            f"  R v[2][{widest}]{store};",
            *through(True),
        ]
        bar = "ybar"
        for k, (rows, columns, at, bias, _) in reversed(list(enumerate(layers))):
            to, source = (f"v[{k % 2}]", f"h{k - 1}") if k else ("xbar", "x")
            lines.append(f"  for (int i = 0; i < {rows}; i++) d{k}[i] *= {bar}[i];")
            b = "NULL" if bias is None else f"wbar + {bias}"
            lines.append(f"  dense_back{shared}(w + {at}, d{k}, {to}, {rows}, {columns});")
            lines.append(f"  if (wbar) dense_gradient{shared}({source}, d{k}, wbar + {at}, {b}, {rows}, {columns});")
            bar = to
        return "\n".join([*lines, "}", ""])


@functools.cache
def _function(block: DenseBlock) -> ca.Function:
    x, w = ca.MX.sym("x", block.widths[0]), ca.MX.sym("w", block.n_weights)
    return ca.Function(block.name, [x, w], [block.forward(x, w)], ["x", "w"], ["y"], {"never_inline": True})
