"""Projected Gauss-Seidel over friction cones as one operation of a graph, with its own derivatives, in loops.

Written out, 50 iterations over the eight corners of a box are 75 000 operations. A `ConeBlock` stays one call node in
the SX graph, as dense blocks do: CasADi differentiates it through an MX definition that its virtual machine also runs,
and the emitter prints value, tangent and adjoint as loops of `runtime/solvers/cone.h`. All three are those of the
iterations themselves, whether or not they have converged.
"""
from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import casadi as ca

__all__ = ["ConeBlock"]

# Under the square root of |p_t|: no infinite derivative at rest. The same as in cone.h.
TINY = 1e-24


@dataclass(frozen=True)
class ConeBlock:
    """Impulses p (3 n,) of n points, (normal, tangent, tangent) each, with p_n >= 0 and |p_t| <= mu p_n.

    `function` is f(A, b, mu, touching) -> p with A (3 n, 3 n) symmetric and positive on its diagonal, b (3 n,), mu (n,) and
    touching (n,), 1 where the point takes part, else 0. An iteration solves each point's rows in turn for the others as
    they are and draws the result into the cone.
    """

    n: int
    iterations: int

    header: ClassVar[Path] = Path(__file__).parent / "runtime" / "solvers" / "cone.h"

    @property
    def name(self):
        return f"cone_{self.n}_{self.iterations}"

    @classmethod
    def of_call(cls, name):
        """(block, "" | "fwd" | "adj") of a function's name, CasADi's for derivatives included; None: another's."""
        found = re.fullmatch(r"(?:(fwd|adj)1_)?cone_(\d+)_(\d+)", name)
        return found and (cls(int(found[2]), int(found[3])), found[1] or "")

    @property
    def function(self) -> ca.Function:
        """One call node wherever it is applied to SX."""
        return _function(self)

    def results(self, kind):
        """Lengths of what a call of a kind returns."""
        m = 3 * self.n
        return {"": [m], "fwd": [m], "adj": [m * m, m, self.n, self.n]}[kind]

    def text(self) -> str:
        """C: NAME(A, b, mu, touching, p); NAME_fwd(A, b, mu, touching, Adot, bdot, mudot, touchingdot, pdot);
        NAME_adj(A, b, mu, touching, pbar, Abar, bbar, mubar, touchingbar). Touching has no derivative."""
        m, sizes = 3 * self.n, f"{self.n}, {self.iterations}"
        given, store = "const R *A, const R *b, const R *mu, const R *touching", f"left[{m}], inverse[{m}]"
        kept = f"history[{self.iterations * m}], relaxed[{self.iterations * 2 * self.n}]"
        return f"""
REFIT_FN void {self.name}({given}, R *p) {{
  R {store};
  cone_solve(A, b, mu, touching, p, NULL, NULL, {sizes}, left, inverse);
}}
REFIT_FN void {self.name}_fwd({given}, const R *Adot, const R *bdot, const R *mudot, const R *touchingdot, R *pdot) {{
  R p[{m}], {kept}, {store};
  (void)touchingdot;
  cone_fwd(A, b, mu, touching, Adot, bdot, mudot, pdot, {sizes}, p, history, relaxed, left, inverse);
}}
REFIT_FN void {self.name}_adj({given}, const R *seed, R *Abar, R *bbar, R *mubar, R *touchingbar) {{
  R p[{m}], pbar[{m}], {kept}, {store};
  cone_adj(A, b, mu, touching, seed, Abar, bbar, mubar, {sizes}, p, pbar, history, relaxed, left, inverse);
  for (int k = 0; k < {self.n}; k++) touchingbar[k] = C(0.0);
}}
"""


@functools.cache
def _function(block):
    shapes = {"A": (3 * block.n, 3 * block.n), "b": (3 * block.n,), "mu": (block.n,), "touching": (block.n,)}
    symbols = [ca.SX.sym(name, *shape) for name, shape in shapes.items()]
    p = ca.SX.sym("p", 3 * block.n)
    sweep = ca.Function("sweep", [p, *symbols], [_sweep(p, *symbols)], {"never_inline": True})
    given = [ca.MX.sym(name, *shape) for name, shape in shapes.items()]
    p = ca.MX.zeros(3 * block.n)
    for _ in range(block.iterations):
        p = sweep(p, *given)
    return ca.Function(block.name, given, [p], [*shapes], ["p"], {"never_inline": True})


def _sweep(p, A, b, mu, touching):
    """One iteration: SX p (3 n,) after p (3 n,)."""
    p = ca.vertsplit(p)

    def relaxed(i):
        return p[i] + (b[i] - sum(A[j, i] * p[j] for j in range(len(p)))) / A[i, i]

    for k in range(mu.numel()):
        c, i, j = 3 * k, 3 * k + 1, 3 * k + 2
        p[c] = touching[k] * ca.fmax(relaxed(c), 0)
        p[i] = relaxed(i)
        p[j] = relaxed(j)
        inside = ca.fmin(1, mu[k] * p[c] / ca.sqrt(p[i] ** 2 + p[j] ** 2 + TINY))
        p[i], p[j] = inside * p[i], inside * p[j]
    return ca.vertcat(*p)
