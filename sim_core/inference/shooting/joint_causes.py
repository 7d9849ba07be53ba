"""What a simulator may have wrong, as joint forces that it lacks: the directions in which a recording may part from it.

Every cause is a family of joint forces along a trajectory, in shares of the forces that act there anyway, so that one size
says how wrong the simulator is: a friction of 2 % of the load, links whose masses are 2 % off, lengths that are 2 % off.
What the forces do to the states follows from the linearised dynamics.

Source: the idea, Kennedy & O'Hagan, "Bayesian calibration of computer models", JRSS B 63(3), 2001; as forces in place of
functions of time, ours.
"""

from __future__ import annotations

import casadi as ca
import numpy as np

from sim_core.multibody import load_model
from sim_core.multibody.equations import inertia
from sim_core.multibody.model import build
from sim_core.multibody.model.model import RobotModel
from sim_core.multibody.rollout.rollout import Dynamics

__all__ = ["KINDS", "JointCauses", "held_inertias"]

#: what is told apart by size
KINDS = ("friction", "posture", "bodies", "geometry", "inertia")
STILL = 0.05  # of a joint's RMS velocity, below which Coulomb's friction is not yet whole


class JointCauses:
    """The causes of a robot's simulator.

    Args:
        dynamics: of a robot with as many positions as velocities, and without networks in its equations.

    Raises:
        ValueError: it has balls, free joints or networks.
    """

    def __init__(self, dynamics: Dynamics) -> None:
        model = dynamics.model
        if model.nq != model.nv:
            raise ValueError(
                f"joint causes: expected hinges and slides, found {model.name} with {model.nq} positions and {model.nv} velocities"
            )
        if (
            model.augmentation
        ):  # a network is what the simulator lacked, learnt: causes beside it would explain it once more
            raise ValueError(
                f"joint causes: expected a robot without networks in its equations, found {model.name} with {len(model.augmentation)}"
            )
        self.dynamics, self.model = dynamics, model
        self._accel, self._force, self._mass = (
            build.accel(model),
            build.inverse_dynamics(model),
            build.mass_matrix(model),
        )
        self._bodies = _ForceByParameters(model, _body_entries(model))
        twin = load_model(model.mj_model, geometry=True)
        places = [i for i, name in enumerate(twin.parameters.names) if ".pos." in name]
        self._places = _ForceByParameters(twin, places)

    def load(self, p: np.ndarray, X: np.ndarray, U: np.ndarray) -> np.ndarray:
        """RMS of the larger of what moves a joint and what pulls at it (nv,) [N or N m], along states X (R, T, nx)."""
        q, v, a = self._motion(p, X, U)
        moving, pulling = (_batched(self._force, q, v, each, p)[..., 0] for each in (a, np.zeros_like(a)))
        return np.sqrt(np.maximum(np.mean(moving**2, axis=(0, 1)), np.mean(pulling**2, axis=(0, 1))))

    def forces(self, p: np.ndarray, X: np.ndarray, U: np.ndarray, held: tuple[str, ...] = ()) -> dict[str, np.ndarray]:
        """Joint forces of every cause along trajectories, each for a size of one.

        Args:
            p: physical vector (np_,). X: states (R, T, nx). U: controls (R, T, nu).
            held: bodies whose inertia is held while their mass or centre is asked for, see `held_inertias`.

        Returns:
            kind -> forces (R, T, nv, K) [N or N m].
        """
        q, v, a = self._motion(p, X, U)
        load = self.load(p, X, U)
        speed = _or_one(np.sqrt(np.mean(v**2, axis=(0, 1))))
        bent = (q - q.mean(axis=(0, 1))) / _or_one(q.std(axis=(0, 1)))
        return {
            "friction": np.concatenate([_each(load, np.tanh(v / (STILL * speed))), _each(load, v / speed)], axis=-1),
            "posture": np.concatenate([_each(load, np.ones_like(q)), _each(load, bent)], axis=-1),
            "bodies": self._bodies(q, v, a, p, _shares_of_bodies(self.model, p)),
            "geometry": self._places(q, v, a, *self._with_places(p)),
            "inertia": self._bodies(q, v, a, p, _shares_of_inertias(self.model, p, held)),
        }

    def response(self, p: np.ndarray, X: np.ndarray, U: np.ndarray, forces: np.ndarray) -> np.ndarray:
        """What joint forces (R, T, nv, K) change of roll-outs X (R, T+1, nx): (R, T+1, nx, K), 0 at the start."""
        dt = self.dynamics.dt
        A, _ = self.dynamics.linearize(X[:, :-1], U, p)
        velocity = dt * np.linalg.solve(_batched(self._mass, X[:, :-1, : self.model.nq], p), forces)
        push = np.concatenate([0.5 * dt * velocity, velocity], axis=2)
        S = np.zeros((*X.shape, forces.shape[-1]))
        for k in range(U.shape[1]):
            S[:, k + 1] = A[:, k] @ S[:, k] + push[:, k]
        return S

    def _motion(self, p: np.ndarray, X: np.ndarray, U: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        q, v = X[..., : self.model.nq], X[..., self.model.nq :]
        return q, v, _batched(self._accel, q, v, U, p)[..., 0]

    def _with_places(self, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The physical vector of the model whose places are parameters, and a body's distance from its parent for each of them."""
        layout = self._places.model.parameters
        full = layout.nominal.copy()
        for i, name in enumerate(layout.names):
            if name in self.model.parameters:
                full[i] = p[self.model.parameters.index(name)]
        owners = [layout.names[i].rpartition(".pos.")[0] for i in self._places.entries]
        share = [np.linalg.norm([full[layout.index(f"{owner}.pos.{axis}")] for axis in "xyz"]) for owner in owners]
        return full, np.array(share)


class _ForceByParameters:
    """-d tau / d p for entries of the physical vector: the force that is missing where they are larger than thought."""

    def __init__(self, model: RobotModel, entries: list[int]) -> None:
        self.model, self.entries = model, entries
        q, v, a = (ca.SX.sym(name, size) for name, size in (("q", model.nq), ("v", model.nv), ("a", model.nv)))
        p = ca.SX.sym("p", model.np_)
        tau = build.inverse_dynamics(model)(q, v, a, p)
        self._jacobian = ca.Function("jacobian", [q, v, a, p], [ca.densify(-ca.jacobian(tau, p)[:, entries])])

    def __call__(self, q: np.ndarray, v: np.ndarray, a: np.ndarray, p: np.ndarray, share: np.ndarray) -> np.ndarray:
        """(R, T, nv, K) for changes `share` (n,) of the entries; those of size zero are left out."""
        if not self.entries:
            return np.zeros((*v.shape, 0))
        return (_batched(self._jacobian, q, v, a, p) * share)[..., share > 0]


def _body_entries(model: RobotModel) -> list[int]:
    return [i for name in _bodies(model) for i in range(*model.parameters.inertia_slice(name).indices(model.np_))]


def _bodies(model: RobotModel) -> list[str]:
    return [name for name in model.body_names if f"{name}.mass" in model.parameters]


def _shares_of_bodies(model: RobotModel, p: np.ndarray) -> np.ndarray:
    """Of each entry: a body's mass, that mass moved by the radius of gyration, and turned with it."""
    shares: list[float] = []
    for name in _bodies(model):
        mass, _, about_com = inertia.com_inertia(p[model.parameters.inertia_slice(name)])
        if mass <= 0.0:
            shares += 10 * [0.0]
            continue
        radius = float(np.sqrt(max(np.trace(about_com), 0.0) / mass))
        shares += [mass, *3 * [mass * radius], *6 * [mass * radius**2]]
    return np.array(shares)


def _shares_of_inertias(model: RobotModel, p: np.ndarray, held: tuple[str, ...]) -> np.ndarray:
    """Of each entry: the mass of a body in `held`, as far from its centre as this is from the body's frame, and nothing of others."""
    shares: list[float] = []
    for name in _bodies(model):
        entries = p[model.parameters.inertia_slice(name)]
        mass, centre, about_com = inertia.com_inertia(entries) if name in held else (0.0, np.zeros(3), np.zeros((3, 3)))
        shares += [*4 * [0.0], *6 * [max(mass * float(centre @ centre), float(np.trace(about_com)))]]
    return np.array(shares)


def held_inertias(model: RobotModel, jacobian: np.ndarray) -> tuple[str, ...]:
    """Bodies of which something is asked for, mass or centre, while their inertia about it is held.

    What made them other than the model, a payload or a tool, has made their inertia other as well, by more than a share of it.

    Args:
        jacobian: d p / d theta (np_, M) of what is asked for.
    """
    held = []
    for name in _bodies(model):
        moved = jacobian[model.parameters.inertia_slice(name)]
        alone = moved[4:].any(axis=0) & ~moved[:4].any(axis=0)
        if moved[:4].any() and not alone.any():
            held.append(name)
    return tuple(held)


def _each(load: np.ndarray, shape: np.ndarray) -> np.ndarray:
    """A force of its own for every joint: (R, T, nv, nv) of shapes (R, T, nv)."""
    return shape[..., None] * np.diag(load)


def _or_one(a: np.ndarray) -> np.ndarray:
    return np.where(a > 0, a, 1.0)


def _batched(function: ca.Function, *arguments: np.ndarray) -> np.ndarray:
    """A function's one matrix for every sample: (R, T, rows, columns) of arguments (R, T, n) or (n,)."""
    R, T = arguments[0].shape[:2]
    columns = [
        each.reshape(R * T, -1).T if each.ndim == 3 else np.repeat(each[:, None], R * T, axis=1) for each in arguments
    ]
    rows, wide = function.size_out(0)
    values = np.asarray(function.map(R * T)(*columns))
    return values.reshape(rows, R * T, wide).transpose(1, 0, 2).reshape(R, T, rows, wide)
