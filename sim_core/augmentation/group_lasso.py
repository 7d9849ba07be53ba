"""Which inputs does a network need? Sparse-group lasso on its first layer, by a proximal Gauss-Newton method.

    F(w) = sum_t |r_t(w)|^2 / (T nx)  +  kappa_1 |W_0|_1  +  kappa_g sum_i |W_0[:, i]|_2  +  lambda |w_rest|^2

r_t is the error of one step from a measured state, each state's in units of that error's RMS without networks: F counts
what the equations leave unexplained, so that kappa means the same for strong and for weak effects. Each iteration
linearises r and solves the convex remainder, penalties included, to the end: its zeros are exact, not small. A
Levenberg term keeps steps where the linear model holds. Plain gradient descent on the L1 norm never reaches zero, and
takes thousands of steps.

Source: Heiden et al., NeuralSim, ICRA 2021, Eq. 10 (L1 and ridge); Feng & Simon, Sparse-Input Neural Networks, 2017, for
the groups; Lee, Sun, Saunders, Proximal Newton-type methods, 2014.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TypedDict

import numpy as np

from sim_core.augmentation.augment import attached, augment, detach, networks_of, weight_slice
from sim_core.inference.data.trajectories import Trajectories
from sim_core.multibody import Dynamics, RobotModel

__all__ = ["Discovery", "OneStepError", "discover", "pruned"]

INNER = 2000  # accelerated proximal steps on the convex model, at most
TOLERANCE = 1e-10
MOST = 100.0  # a column's penalty over that of its network's most useful one, at most


class Step(TypedDict):
    """One step of the outer iteration: objective, surviving inputs by blueprint, damping after it."""

    step: int
    objective: float
    surviving: dict[str, tuple[str, ...]]
    damping: float


@dataclass
class Discovery:
    """Which inputs of the networks survive the penalties.

    Attributes:
        model: RobotModel with the sparse weights.
        surviving: blueprint name -> names of the inputs whose first-layer column is not zero.
        history: objective, surviving inputs and damping after each step.
        settled: first step from which on the surviving inputs stayed the same.
    """

    model: RobotModel
    surviving: dict[str, tuple[str, ...]]
    history: list[Step] = field(default_factory=list)
    settled: int = 0


class OneStepError:
    """Errors of single steps and their derivatives with respect to all weights.

    Args:
        model: RobotModel with networks.   trajectories: Trajectories; every step of them counts.
        substeps: integrator steps per period.

    Raises:
        ValueError: the model without networks explains every step already, or diverges.
    """

    def __init__(self, model: RobotModel, trajectories: Trajectories, substeps: int = 1) -> None:
        self.model, self.where = model, weight_slice(model)
        self.dynamics = Dynamics(model, dt=trajectories.dt, substeps=substeps)
        nx = model.nx
        self.x, self.after = trajectories.x[:, :-1].reshape(-1, nx), trajectories.x[:, 1:].reshape(-1, nx)
        self.u = trajectories.u.reshape(len(self.x), 1, model.nu)
        base = detach(model)
        X = Dynamics(base, dt=trajectories.dt, substeps=substeps).rollout(self.x, self.u, base.parameters.nominal)
        self.scale = np.sqrt(np.mean((X[:, 1] - self.after) ** 2, axis=0))
        if not np.isfinite(self.scale).all() or not np.all(self.scale > 1e-12):
            raise ValueError(
                f"Expected one-step errors to explain in every state, found RMS {self.scale.tolist()}; "
                "the equations need no network here, or the trajectories are damaged."
            )
        self.select = np.eye(model.np_)[:, self.where]

    def residuals(self, w: np.ndarray) -> np.ndarray:
        """(T nx,) at the weights w (n,)."""
        X = self.dynamics.rollout(self.x, self.u, self._p(w))
        return ((X[:, 1] - self.after) / self.scale).ravel()

    def linearised(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Residuals (T nx,) and their Jacobian (T nx, n)."""
        X, S = self.dynamics.rollout_sensitivity(self.x, self.u, self._p(w), self.select)
        J = S[:, 1, :, self.model.nx :] / self.scale[:, None]
        return ((X[:, 1] - self.after) / self.scale).ravel(), J.reshape(-1, w.size)

    def _p(self, w: np.ndarray) -> np.ndarray:
        p = self.model.parameters.nominal.copy()
        p[self.where] = w
        return p


def discover(
    model: RobotModel,
    trajectories: Trajectories,
    kappa: float = 2e-3,
    kappa_group: float = 2e-2,
    ridge: float = 1e-4,
    steps: int = 15,
    free_steps: int = 5,
    damping: float = 1e-3,
    substeps: int = 1,
) -> Discovery:
    """Shrink the networks' inputs to those that the data ask for.

    Args:
        model: RobotModel with networks, each connected to all its candidate inputs; normalise them (input_scale), or the
            penalty prefers those with large numbers.
        trajectories: Trajectories at the period of the steps.
        kappa, kappa_group, ridge: weights of the L1 norm and of the column norms of each first layer, and of the squares
            of all other weights.
        steps: of the outer iteration, all of them together.
        free_steps: the first ones, without the sparse penalties: columns that shrink before the layer above has learnt
            anything take it along to zero, where every gradient vanishes.
        damping: first Levenberg term, relative to the largest curvature.
        substeps: integrator steps per period.

    Raises:
        ValueError: one-step errors that are not finite, or nothing to explain.
    """
    error, w = OneStepError(model, trajectories, substeps), model.parameters.nominal[weight_slice(model)].copy()
    penalty = _Penalty(model, kappa, kappa_group, ridge)
    out = Discovery(model, {})
    if not np.isfinite(_objective(error, penalty, w)):
        raise ValueError("One-step errors are not finite; look at the trajectories, or start with smaller weights.")
    for step in range(1, steps + 1):
        r, J = error.linearised(w)
        if step == free_steps + 1:
            penalty.adapt(w, J)
        value = _objective(error, penalty, w)
        H, g = 2 * J.T @ J / r.size, 2 * J.T @ r / r.size
        largest = np.linalg.norm(H, 2)
        for _ in range(12):
            trial = penalty.minimise_quadratic(H + damping * largest * np.eye(w.size), g, w)
            after = _objective(error, penalty, trial)
            if after <= value:
                w, value, damping = trial, after, max(damping / 4.0, 1e-12)
                break
            damping *= 4.0
        alive = penalty.surviving(w)
        if not out.history or alive != out.history[-1]["surviving"]:
            out.settled = step
        out.history.append({"step": step, "objective": value, "surviving": alive, "damping": damping})
    p = model.parameters.nominal.copy()
    p[weight_slice(model)] = w
    out.model, out.surviving = augment(detach(model), attached(model, p)), penalty.surviving(w)
    return out


def _objective(error: OneStepError, penalty: _Penalty, w: np.ndarray) -> float:
    r = error.residuals(w)
    return float(r @ r / r.size + penalty.value(w))


def pruned(model: RobotModel) -> RobotModel:
    """The model with each network's unused inputs taken out, and networks without any input as well."""
    smaller = []
    for blueprint in attached(model):
        rows, inputs, at, *_ = blueprint.block.layers[0]
        first = blueprint.weights[at : at + rows * inputs].reshape(rows, inputs)
        used = np.flatnonzero(first.any(axis=0))
        if used.size:
            w = np.concatenate([first[:, used].ravel(), blueprint.weights[at + rows * inputs :]])
            smaller.append(
                replace(
                    blueprint,
                    inputs=tuple(blueprint.inputs[i] for i in used),
                    weights=w,
                    input_offset=blueprint.input_offset[used],
                    input_scale=blueprint.input_scale[used],
                )
            )
    return augment(detach(model), smaller) if smaller else detach(model)


class _Penalty:
    """The penalties, their proximal operator, and where each input's column is in w."""

    def __init__(self, model: RobotModel, kappa: float, kappa_group: float, ridge: float) -> None:
        self.kappa, self.kappa_group, self.ridge = kappa, kappa_group, ridge
        self.columns: list[tuple[str, str, np.ndarray]] = []  # (blueprint, input, indices in w)
        start = weight_slice(model).start
        self.first = np.zeros(weight_slice(model).stop - start, dtype=bool)
        for network in networks_of(model):
            rows, inputs, at, *_ = network.blueprint.block.layers[0]
            for i, name in enumerate(network.inputs):
                index = network.where.start - start + at + i + inputs * np.arange(rows)
                self.columns.append((network.name, name, index))
                self.first[index] = True

        self.factors = np.zeros(len(self.columns))  # no sparse penalty yet

    def adapt(self, w: np.ndarray, J: np.ndarray) -> None:
        """Penalise each column by how little it does: its first-order share of the errors, against its network's largest.

        Plain penalties also shrink the inputs that matter, and what one network lacks the next one makes up for from
        the wrong inputs.
        """
        share = np.array([np.linalg.norm(J[:, index] @ w[index]) for *_, index in self.columns])
        largest = {name: max(s for s, (of, *_) in zip(share, self.columns) if of == name) for name, *_ in self.columns}
        self.factors = np.array(
            [min(largest[name] / s, MOST) if s > 0 else MOST for s, (name, *_) in zip(share, self.columns)]
        )

    def value(self, w: np.ndarray) -> float:
        sparse = (
            factor * (self.kappa * np.abs(w[index]).sum() + self.kappa_group * np.linalg.norm(w[index]))
            for factor, (*_, index) in zip(self.factors, self.columns)
        )
        return sum(sparse) + self.ridge * np.sum(w[~self.first] ** 2)

    def proximal(self, w: np.ndarray, size: float) -> np.ndarray:
        """argmin_v |v - w|^2 / 2 + size * (L1 + groups): soft thresholds, each number's and then each column's."""
        v = w.copy()
        for factor, (*_, index) in zip(size * self.factors, self.columns):
            column = np.sign(v[index]) * np.maximum(np.abs(v[index]) - factor * self.kappa, 0.0)
            length = np.linalg.norm(column)
            v[index] = column * max(0.0, 1 - factor * self.kappa_group / length) if length > 0 else 0.0
        return v

    def minimise_quadratic(self, H: np.ndarray, g: np.ndarray, w: np.ndarray) -> np.ndarray:
        """argmin_v g'(v - w) + (v - w)' H (v - w) / 2 + penalties(v), by accelerated proximal gradients with restarts."""
        smooth = H + np.diag(np.where(self.first, 0.0, 2 * self.ridge))
        size, v, ahead, t = 1.0 / float(np.linalg.norm(smooth, 2)), w.copy(), w.copy(), 1.0
        constant = g - H @ w
        for _ in range(INNER):
            after = self.proximal(ahead - size * (smooth @ ahead + constant), size)
            change = after - v
            if np.dot(ahead - after, change) > 0:  # momentum points uphill
                t = 1.0
            t_after = (1 + np.sqrt(1 + 4 * t * t)) / 2
            ahead, v, t = after + (t - 1) / t_after * change, after, t_after
            if np.abs(change).max() < TOLERANCE * (1 + np.abs(v).max()):
                break
        return v

    def surviving(self, w: np.ndarray) -> dict[str, tuple[str, ...]]:
        found: dict[str, tuple[str, ...]] = {name: () for name, *_ in self.columns}
        for name, of, index in self.columns:
            if np.any(w[index] != 0.0):
                found[name] += (of,)
        return found
