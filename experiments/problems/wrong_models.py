"""Recordings of robots that the model in use cannot describe: what calibration under a wrong model is measured on.

The robots, quantities, motions and noise are those of `known_truths`; the recording is made by another robot: one whose gears
have friction, or that carries something somewhere, or that is built or mounted otherwise. How wrong it is is drawn with the truth.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from experiments.problems.known_truths import Problem
from sim_core.inference.data.trajectories import Trajectories
from sim_core.inference.shooting.joint_causes import JointCauses
from sim_core.multibody import Dynamics, RobotModel, load_model

__all__ = ["CASES", "WrongModel"]

#: what the recorded robot has and the model has not
CASES = ("nothing", "hidden friction", "payload offset", "wrong geometry")
FRICTION = 0.05  # of each joint's load, times 0.5 to 1.5
OFFSET = (
    0.03  # centre of mass moved by, in shares of a body's distance from its parent or of its own, standard deviation
)
PLACES = 0.02  # bodies moved in their parents by, in shares of their distance from them, standard deviation
TILT = 0.03  # of the base where no body is placed in another one [rad], standard deviation


@dataclass(frozen=True)
class WrongModel:
    """A problem, and the robot that moves in its place.

    Attributes:
        known: problem whose model is used. case: of CASES.
    """

    known: Problem
    case: str
    robot: Dynamics
    load: np.ndarray

    @staticmethod
    def of(known: Problem, case: str) -> WrongModel:
        """One of CASES for a problem."""
        model = known.dynamics.model
        twin = load_model(model.mj_model, geometry=True, friction=True)
        middle = known.parameters.to_physical(0.5 * (known.parameters.lower + known.parameters.upper))
        X = known.dynamics.rollout(known.x0, known.u, middle)
        load = JointCauses(known.dynamics).load(middle, X[:, :-1], known.u)
        return WrongModel(known, case, _with(known.dynamics, twin), load)

    def drawn(self, seed: int) -> tuple[np.ndarray, Trajectories]:
        """A truth z (M,) of the problem's quantities, and recordings of the other robot with them."""
        known = self.known
        z, x = self.moved(seed)
        noise = np.random.default_rng([seed, 1]).standard_normal(x[:, 1:].shape)
        x[:, 1:] += known.sigma * known.scale * noise
        return z, Trajectories(known.dynamics.dt, x, known.u)

    def moved(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """The truth, and how the other robot moves without noise, (R, T+1, nx)."""
        known, rng = self.known, np.random.default_rng(seed)
        z = rng.random(known.parameters.n)
        p = self._truth(known.parameters.to_physical(known.parameters.theta(z)), rng)
        return z, self.robot.rollout(known.x0, known.u, p)

    def _truth(self, p: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        ours, theirs = self.known.dynamics.model.parameters, self.robot.model.parameters
        full = theirs.nominal.copy()
        for name in ours.names:
            if name in theirs:  # places of sites are not
                full[theirs.index(name)] = p[ours.index(name)]
        full[[theirs.index(f"{joint}.frictionloss") for joint in self.robot.model.joint_names]] = 0.0
        return {
            "nothing": _as_it_is,
            "hidden friction": self._rubbed,
            "payload offset": _carrying,
            "wrong geometry": _bent,
        }[self.case](self.robot.model, full, rng)

    def _rubbed(self, model: RobotModel, full: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        for joint, load in zip(model.joint_names, self.load):
            full[model.parameters.index(f"{joint}.frictionloss")] = FRICTION * load * rng.uniform(0.5, 1.5)
        return full


def _with(dynamics: Dynamics, model: RobotModel) -> Dynamics:
    return Dynamics(model, dt=dynamics.dt, substeps=dynamics.substeps, threads=dynamics.threads)


def _as_it_is(model: RobotModel, full: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return full


def _carrying(model: RobotModel, full: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Something sits on the body in the middle of the chain, beside its axis."""
    bodies = [name for name in model.body_names if f"{name}.mass" in model.parameters]
    where = model.parameters.inertia_slice(bodies[len(bodies) // 2])
    mass = full[where][0]
    added = mass * rng.uniform(0.05, 0.15)
    at = rng.normal(0.0, 0.1, 3)
    full[where.start] += added
    full[where.start + 1 : where.start + 4] += added * at
    full[where.start + 4 : where.start + 10] += added * np.array(
        [
            at @ at - at[0] ** 2,
            at @ at - at[1] ** 2,
            at @ at - at[2] ** 2,
            -at[0] * at[1],
            -at[0] * at[2],
            -at[1] * at[2],
        ]
    )
    return full


def _bent(model: RobotModel, full: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Bodies sit elsewhere in their parents, and the base is not level."""
    for i, name in enumerate(model.parameters.names):
        owner, found, _ = name.rpartition(".pos.")
        if found:
            distance = np.linalg.norm([full[model.parameters.index(f"{owner}.pos.{axis}")] for axis in "xyz"])
            full[i] += PLACES * distance * rng.standard_normal()
    g = np.array([model.parameters.index(f"gravity.{axis}") for axis in "xyz"])
    full[g[:2]] += TILT * np.abs(full[g[2]]) * rng.standard_normal(2)
    return full
