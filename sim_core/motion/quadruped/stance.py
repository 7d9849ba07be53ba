"""Stance solvers turn an observation of 41 numbers into twelve joint torques. There are the quadratic programme and a
network that imitates it, with the programme as its fallback.

    solver = QpStance(robot)
    solver = GuardedNetStance(robot, StanceNet.load("config/robots/quadruped/stance.safetensors"))
    stance = solver.solve(observation)          # stance.torques (4, 3), zero for legs that do not stand
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sim_core.motion.quadruped.convex_mpc import ConvexMpc, ConvexMpcConfig
from sim_core.motion.quadruped.observation import SIZE, Observation
from sim_core.motion.quadruped.robot import QuadrupedRobot, rotation_rpy
from sim_core.motion.quadruped.stance_net import StanceNet

__all__ = ["GuardedNetStance", "QpStance", "Stance", "StanceSolver", "stance_torques"]


@dataclass(frozen=True)
class Stance:
    """Answer of a stance solver.

    Attributes:
        torques: of the joints, zero for legs that do not stand, (4, 3) [N m].
        solver: which one found them, "osqp" or "neural".
        time: that it took [s].
        reason: why a network was not asked or not believed; "" where it was, or where there is none.
    """

    torques: np.ndarray
    solver: str
    time: float
    reason: str = ""


class StanceSolver(Protocol):
    """A way from an observation to torques; `reset` makes it forget what it remembers of the past."""

    def solve(self, observation: Observation) -> Stance: ...

    def reset(self) -> None: ...


def stance_torques(robot: QuadrupedRobot, observation: Observation, forces: np.ndarray) -> np.ndarray:
    """Joint torques (4, 3) [N m] under which the ground pushes the feet by `forces` (4, 3) [N, heading frame].

    tau = -J' f: the legs push the ground the other way. Legs without force have none. Within the joints' limits.
    """
    R = rotation_rpy(observation.orientation[0], observation.orientation[1])
    J = robot.jacobians(robot.joint_angles(observation.feet))
    tau = -np.einsum("lji,lj->li", J, forces @ R)
    limit = robot.effort_limit.reshape(4, 3)
    return np.clip(tau, -limit, limit)


class QpStance:
    """The convex MPC's first forces as torques."""

    def __init__(self, robot: QuadrupedRobot, config: ConvexMpcConfig = ConvexMpcConfig()) -> None:
        self.robot, self.mpc = robot, ConvexMpc(robot, config)

    def solve(self, observation: Observation) -> Stance:
        """Raises as `ConvexMpc.solve` does."""
        start = time.perf_counter()
        forces = self.mpc.solve(observation).forces[0]
        torques = stance_torques(self.robot, observation, forces * (observation.contacts > 0.5)[:, None])
        return Stance(torques, "osqp", time.perf_counter() - start)

    def reset(self) -> None:
        """Forget the last solution."""
        self.mpc.reset()


class GuardedNetStance:
    """The network; where it must not be believed, the programme, in the same cycle.

    Reasons: an input that is not finite or outside what the network was trained on, or an output that is not finite. The
    programme, too, needs finite inputs: it takes the last finite value of each that is not. Torques are clamped to the
    joints' limits, and are zero for legs that do not stand: the network itself knows neither limit nor friction cone.

    Attributes:
        fallbacks: how often the programme had to answer.
    """

    def __init__(self, robot: QuadrupedRobot, net: StanceNet, config: ConvexMpcConfig = ConvexMpcConfig()) -> None:
        self.robot, self.net, self.qp = robot, net, QpStance(robot, config)
        self._limit = robot.effort_limit.reshape(4, 3)
        self._last = np.full(SIZE, np.nan)
        self.fallbacks = 0

    def solve(self, observation: Observation) -> Stance:
        """Raises ValueError where the programme cannot help either: an input that never was finite."""
        start = time.perf_counter()
        reason = self.net.objection(observation.vector)
        if not reason:
            torques = self.net.evaluate(observation.vector).reshape(4, 3)
            if np.isfinite(torques.sum()):
                # minimum and maximum: np.clip takes 4 us longer on arrays of this size.
                torques = np.minimum(np.maximum(torques, -self._limit), self._limit)
                torques *= observation.contacts[:, None] > 0.5
                self._last = observation.vector
                return Stance(torques, "neural", time.perf_counter() - start)
            reason = "the network's output is not finite"
        self.fallbacks += 1
        finite = np.where(np.isfinite(observation.vector), observation.vector, self._last)
        torques = self.qp.solve(Observation(finite)).torques
        self._last = finite
        return Stance(torques, "osqp", time.perf_counter() - start, reason)

    def reset(self) -> None:
        """Forget the programme's last solution."""
        self.qp.reset()
