"""Projected Gauss-Seidel over friction cones as one operation of a graph, with its own derivatives, in loops.

Written out, 50 iterations over the eight corners of a box are 40 000 operations. A `ConeBlock` stays one call node in
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
    """(J Y + diag cfm) p = b for impulses p (3 n,) of n points, (normal, tangent, tangent) each, p_n >= 0, |p_t| <= mu p_n.

    `function` is f(Jt, Y, b, cfm, mu, touching) -> p with Jt = J' and Y = M^-1 J', both (nv, 3 n), b (3 n,), cfm (n,),
    mu (n,) and touching (n,), 1 where the point takes part, else 0. An iteration solves each point's rows in turn for
    the others as they are and draws the result into the cone. The matrix J Y itself is not made: Y p is carried along.
    """

    n: int
    nv: int
    iterations: int

    header: ClassVar[Path] = Path(__file__).parent / "runtime" / "solvers" / "cone.h"

    @property
    def name(self) -> str:
        """Name of the CasADi function and of the C function, which describes the block completely."""
        return f"cone_{self.n}_{self.nv}_{self.iterations}"

    @classmethod
    def of_call(cls, name: str) -> tuple[ConeBlock, str] | None:
        """(block, "" | "fwd" | "adj") of a function's name, CasADi's for derivatives included; None: another's."""
        found = re.fullmatch(r"(?:(fwd|adj)1_)?cone_(\d+)_(\d+)_(\d+)", name)
        return found and (cls(*map(int, found.groups()[1:])), found[1] or "")

    @property
    def function(self) -> ca.Function:
        """One call node wherever it is applied to SX."""
        return _function(self)

    def results(self, kind: str) -> list[int]:
        """Lengths of what a call of a kind returns."""
        m = 3 * self.n
        return {"": [m], "fwd": [m], "adj": [self.nv * m, self.nv * m, m, self.n, self.n, self.n]}[kind]

    def text(self) -> str:
        """C: NAME(Jt, Y, b, cfm, mu, touching, p); NAME_fwd takes the six and their tangents; NAME_adj the six, dL/dp and six
        results. Touching has no derivative."""
        m, nv = 3 * self.n, self.nv
        names = ("J", "Y", "b", "cfm", "mu", "touching")
        given = ", ".join(f"const R *{name}" for name in names)
        tangents = ", ".join(f"const R *{name}dot" for name in names)
        results = ", ".join(f"R *{name}bar" for name in names)
        problem = f"const Cone c = {{{', '.join(names)}, inverse, {self.n}, {nv}, {self.iterations}}};"
        dots = f"const Cone dot = {{{', '.join(f'{name}dot' for name in names)}, inversedot, {self.n}, {nv}, {self.iterations}}};"
        return f"""
REFIT_FN void {self.name}({given}, R *p) {{
  R w[{nv}], inverse[{m}];
  {problem}
  cone_solve(&c, p, w, NULL);
}}
REFIT_FN void {self.name}_fwd({given}, {tangents}, R *pdot) {{
  R p[{m}], w[{nv}], wdot[{nv}], inverse[{m}], inversedot[{m}];
  {problem}
  {dots}
  cone_fwd(&c, &dot, p, w, pdot, wdot);
}}
REFIT_FN void {self.name}_adj({given}, const R *seed, {results}) {{
  R p[{m}], w[{nv}], pbar[{m}], wbar[{nv}], inverse[{m}], inversebar[{m}], history[{5 * self.n * self.iterations}];
  {problem}
  const ConeBar bar = {{Jbar, Ybar, bbar, cfmbar, mubar, inversebar}};
  cone_adj(&c, &bar, seed, p, w, pbar, wbar, history);
  for (int k = 0; k < {self.n}; k++) touchingbar[k] = C(0.0);
}}
"""


@functools.cache
def _function(block: ConeBlock) -> ca.Function:
    n, nv = block.n, block.nv
    shapes = {"Jt": (nv, 3 * n), "Y": (nv, 3 * n), "b": (3 * n,), "cfm": (n,), "mu": (n,), "touching": (n,)}
    symbols = [ca.SX.sym(name, *shape) for name, shape in shapes.items()]
    p, w = ca.SX.sym("p", 3 * n), ca.SX.sym("w", nv)
    sweep = ca.Function("sweep", [p, w, *symbols], _sweep(p, w, *symbols), {"never_inline": True})
    given = [ca.MX.sym(name, *shape) for name, shape in shapes.items()]
    impulses, motion = ca.MX.zeros(3 * n), ca.MX.zeros(nv)
    for _ in range(block.iterations):
        impulses, motion = sweep(impulses, motion, *given)
    return ca.Function(block.name, given, [impulses], [*shapes], ["p"], {"never_inline": True})


def _sweep(p: ca.SX, w: ca.SX, Jt: ca.SX, Y: ca.SX, b: ca.SX, cfm: ca.SX, mu: ca.SX, touching: ca.SX) -> list[ca.SX]:
    """One iteration: SX p (3 n,) and w = Y p (nv,) after those before."""
    y = ca.vertsplit(p)

    def relaxed(i: int) -> ca.SX:
        own = ca.dot(Jt[:, i], Y[:, i]) + cfm[i // 3]
        return y[i] + (b[i] - ca.dot(Jt[:, i], w) - cfm[i // 3] * y[i]) / own

    def put(i: int, value: ca.SX) -> None:
        nonlocal w
        w, y[i] = w + Y[:, i] * (value - y[i]), value

    for k in range(mu.numel()):
        c, i, j = 3 * k, 3 * k + 1, 3 * k + 2
        put(c, touching[k] * ca.fmax(relaxed(c), 0))
        y_i = relaxed(i)
        put(i, y_i)
        y_j = relaxed(j)
        inside = ca.fmin(1, mu[k] * y[c] / ca.sqrt(y_i**2 + y_j**2 + TINY))
        put(i, inside * y_i)
        put(j, inside * y_j)
    return [ca.vertcat(*y), w]
