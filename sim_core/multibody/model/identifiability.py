"""What data can say about free parameters: rank, inert parameters, and the combinations that are determined.

The sensitivity J = d x_next / d xi of one-step predictions, stacked over the data, decides locally: a zero column is
an inert parameter, a rank below n means that only combinations show. Sensitivities are exact (no differences), so the
gap in the singular values is clean.

Base combinations by QR with column pivoting, after Gautier, "Numerical calculation of the base inertial parameters of
robots", J. Robotic Systems 8(4), 1991.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike

from sim_core.multibody.model import build
from sim_core.multibody.model.model import RobotModel
from sim_core.multibody.model.parameters import FreeParameters

__all__ = ["Identifiability", "identifiability"]


@dataclass(frozen=True)
class Identifiability:
    """Local identifiability at coordinates xi.

    Attributes:
        rank: number of independent combinations that the data determine.
        singular_values: of the scaled sensitivity, (n,), largest first.
        names: free coordinates (n,).  inert: those without any influence on the data.
        base: for each determined combination {name: coefficient}; the first name has coefficient 1.
        unidentifiable: coordinates that the data determine in combination with others only; inert ones are not among them.
        null_space: directions in xi without influence, (n, n - rank), in prior standard deviations.
        condition: largest over smallest singular value within the rank.
    """

    rank: int
    singular_values: np.ndarray
    names: tuple[str, ...]
    inert: tuple[str, ...]
    base: tuple[dict[str, float], ...]
    unidentifiable: tuple[str, ...]
    null_space: np.ndarray
    condition: float

    @property
    def base_names(self) -> tuple[str, ...]:
        """Combinations as text, such as "pole2.mass + 0.5 pole2.com.z"."""
        return tuple(_text(combination) for combination in self.base)

    def __str__(self) -> str:
        lines = [f"rank {self.rank} of {len(self.names)}, condition {self.condition:.3g}"]
        lines += [f"  determined: {text}" for text in self.base_names]
        lines += [f"  inert: {', '.join(self.inert)}"] if self.inert else []
        return "\n".join(lines)


def _text(combination: Mapping[str, float]) -> str:
    parts = []
    for name, k in combination.items():
        sign = "-" if k < 0 else "+"
        factor = "" if abs(abs(k) - 1) < 1e-12 else f"{abs(k):.4g} "
        parts.append(f"{sign} {factor}{name}")
    return " ".join(parts).removeprefix("+ ")


def sensitivity(
    model: RobotModel,
    spec: FreeParameters,
    X: np.ndarray,
    U: np.ndarray,
    xi: np.ndarray,
    dt: float,
    integrator: str | None = None,
    substeps: int = 1,
) -> np.ndarray:
    """d x_next / d xi for each sample, (N, nx, n)."""
    step = build.step(model, dt, integrator, substeps)
    x, u, p = ca.SX.sym("x", model.nx), ca.SX.sym("u", model.nu), ca.SX.sym("p", model.np_)
    columns = [model.parameters.index(name) for name in spec.written]
    derivative = ca.Function("C", [x, u, p], [ca.densify(ca.jacobian(step(x, u, p), p)[:, columns])])
    dp_dxi = spec.jacobian(xi)[columns]
    C = derivative(X.T, U.T, spec.to_physical(xi)).full()
    # The call maps over samples: one block of len(columns) columns each.
    C = C.reshape(model.nx, len(X), len(columns)).transpose(1, 0, 2)
    return C @ dp_dxi


def identifiability(
    model: RobotModel,
    spec: FreeParameters,
    X: ArrayLike,
    U: ArrayLike,
    dt: float | None = None,
    integrator: str | None = None,
    substeps: int = 1,
    xi: ArrayLike | None = None,
    noise: ArrayLike | None = None,
    tolerance: float = 1e-8,
) -> Identifiability:
    """Rank of the parameter sensitivity over given data, with named consequences.

    Args:
        model: RobotModel.  spec: FreeParameters of it.
        X, U: states (N, nx) and controls (N, nu); samples need not be consecutive.
        dt: prediction step [s], default the model's. integrator, substeps: as in build.step.
        xi: coordinates to linearise at, default the prior mean.
        noise: standard deviation of each predicted state (nx,), default the spread of X.
        tolerance: relative to the largest singular value. Columns are scaled by the prior standard deviation, so a
            direction counts if it shows at all; with `noise` given, singular values above 1 beat the noise.

    Raises:
        ValueError: shapes do not fit, or fewer equations than parameters.
    """
    X, U = np.atleast_2d(np.asarray(X, float)), np.atleast_2d(np.asarray(U, float))
    if X.shape[1] != model.nx or U.shape != (len(X), model.nu):
        raise ValueError(f"Expected X (N, {model.nx}) and U (N, {model.nu}), found {X.shape} and {U.shape}.")
    if X.size < spec.n:
        raise ValueError(f"{X.size} equations for {spec.n} parameters; give at least {-(-spec.n // model.nx)} samples.")
    xi = spec.prior_mean if xi is None else np.asarray(xi, float)
    spread = X.std(axis=0)
    noise = np.where(spread > 0, spread, 1.0) if noise is None else np.asarray(noise, float)
    J = sensitivity(model, spec, X, U, xi, dt or model.timestep, integrator, substeps) / noise[:, None]
    J = J.reshape(-1, spec.n) * spec.prior_std
    column_norms = np.linalg.norm(J, axis=0)
    inert = column_norms <= tolerance * 1e-4 * column_norms.max()
    # One scale for all remaining columns, so that rank does not depend on anyone's choice of prior.
    scale = np.where(inert, 1.0, column_norms)
    scaled = np.where(inert, 0.0, J / scale)
    _, s, Vt = np.linalg.svd(scaled, full_matrices=True)
    s = np.r_[s, np.zeros(spec.n - len(s))]
    rank = int(np.sum(s > tolerance * s[0])) if s[0] > 0 else 0
    null_space = Vt[rank:].T / scale[:, None]
    moved = np.abs(Vt[rank:].T).max(axis=1, initial=0.0) > 1e-6
    return Identifiability(
        rank=rank,
        singular_values=np.linalg.svd(J, compute_uv=False),
        names=spec.names,
        inert=tuple(np.array(spec.names)[inert]),
        base=_base(scaled, scale / spec.prior_std, rank, spec.names),
        unidentifiable=tuple(np.array(spec.names)[moved & ~inert]),
        null_space=null_space,
        condition=float(s[0] / s[rank - 1]) if rank else float("inf"),
    )


def _base(scaled: np.ndarray, scale: np.ndarray, rank: int, names: tuple[str, ...]) -> tuple[dict[str, float], ...]:
    """xi_1 + K xi_2 with K = R11^-1 R12 of the pivoted QR factorisation, in the units of xi."""
    from scipy.linalg import qr, solve_triangular  # slow to load, and every node that reads a robot loads this module

    _, R, order = qr(scaled, mode="economic", pivoting=True)
    K = solve_triangular(R[:rank, :rank], R[:rank, rank:])
    first, rest = order[:rank], order[rank:]
    combinations = []
    for i, row in zip(first, K):
        combination = {names[i]: 1.0}
        for j, k in zip(rest, row):
            if abs(k) > 1e-7:
                combination[names[j]] = float(k * scale[j] / scale[i])
        combinations.append(combination)
    return tuple(combinations)
