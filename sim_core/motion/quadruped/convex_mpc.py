"""Convex model-predictive control of a legged trunk: which forces shall the standing feet exert?

The trunk is one rigid body pushed by four feet. With yaw at zero (everything is in the heading frame), orientation
Theta = (roll, pitch, yaw) and the feet's places held over the horizon, the 13-state linear model

    dTheta/dt = omega,  dp/dt = v,  domega/dt = sum_i I^-1 [r_i]x f_i,  dv/dt = sum_i f_i / m - g

is a double integrator driven by a = B u + g with a constant B. Its exact discretisation under forces held for dt is

    pos_k = pos_0 + k dt vel_0 + sum_{j<k} dt^2 (k - j - 1/2) a_j,    vel_k = vel_0 + sum_{j<k} dt a_j

with pos = (Theta, p), vel = (omega, v); so the condensed Hessian is two Kronecker products, and no matrix exponential
is needed. The friction pyramid |f_x|, |f_y| <= mu f_z, 0 <= f_z <= f_max holds for standing feet, f = 0 for the others.
The contacts stay as they are over the horizon, as in the published controller: the solution is a function of one
observation.

Source: Di Carlo et al., Dynamic Locomotion in the MIT Cheetah 3 Through Convex Model-Predictive Control, IROS 2018; weights
and constants as in Heiden, NeuralSim (2021) and the Tiny Differentiable Simulator.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import osqp
import scipy.sparse as sparse

from sim_core.motion.quadruped.observation import Observation
from sim_core.motion.quadruped.robot import QuadrupedRobot, rotation_rpy, skew

__all__ = ["ConvexMpc", "ConvexMpcConfig", "ConvexMpcSolution"]

_USABLE = ("solved", "solved inaccurate", "maximum iterations reached")


@dataclass(frozen=True)
class ConvexMpcConfig:
    """Constants of the problem.

    Attributes:
        horizon: knots. dt: between them [s].
        weights: of the states (Theta, p, omega, v, g), 13 numbers; the last belongs to the constant gravity state.
        force_weight: alpha of |u|^2 [1/N^2].
        force_limit: f_max of a foot, as a multiple of the robot's weight.
        tolerance: OSQP's absolute and relative one.
    """

    horizon: int = 10
    dt: float = 0.025
    weights: tuple[float, ...] = (5.0, 5.0, 0.2, 0.0, 0.0, 10.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0)
    force_weight: float = 1e-5
    force_limit: float = 1.0
    tolerance: float = 1e-3

    def __post_init__(self) -> None:
        if len(self.weights) != 13 or min(self.weights) < 0:
            raise ValueError(f"weights: expected 13 numbers, none negative, found {self.weights}.")
        if self.horizon < 1 or not self.dt > 0 or not self.force_weight > 0:
            raise ValueError("horizon, dt and force_weight must be positive.")


@dataclass(frozen=True)
class ConvexMpcSolution:
    """Outcome of one solve.

    Attributes:
        forces: of the ground on the feet, in the heading frame, (H, 4, 3) [N].
        iterations, status: as OSQP reports them.
        time: of the whole solve [s].
        osqp_time: the part of it that OSQP took [s].
    """

    forces: np.ndarray
    iterations: int
    status: str
    time: float
    osqp_time: float


class ConvexMpc:
    """The controller's quadratic programme, set up once; each solve updates numbers and starts from the last solution.

    Args:
        robot: mass, inertia and centre of mass.
        config: ConvexMpcConfig.
    """

    def __init__(self, robot: QuadrupedRobot, config: ConvexMpcConfig = ConvexMpcConfig()) -> None:
        self.robot, self.config = robot, config
        H, dt, n = config.horizon, config.dt, 12 * config.horizon
        w = np.array(config.weights)
        self._w_pos, self._w_vel = w[:6], w[6:12]
        k, j = np.arange(1, H + 1)[:, None], np.arange(H)[None, :]
        self._S_pos = np.where(j < k, dt**2 * (k - j - 0.5), 0.0)  # (H, H): a_j -> pos_k
        self._S_vel = np.where(j < k, dt, 0.0)
        self._G_pos, self._G_vel = self._S_pos.T @ self._S_pos, self._S_vel.T @ self._S_vel
        self._t = dt * np.arange(1, H + 1)[:, None]
        self._gravity = np.array([0, 0, 0, 0, 0, -robot.gravity])
        self._f_max = config.force_limit * robot.mass * robot.gravity
        rows, columns = np.triu_indices(n)
        order = np.lexsort((rows, columns))  # OSQP takes the upper triangle by columns
        self._upper = rows[order] * n + columns[order]
        self._P_shape = sparse.csc_matrix((np.ones(len(order)), (rows[order], columns[order])), (n, n))
        self._friction = np.full(4, np.nan)
        self._solver: osqp.OSQP | None = None

    def problem(self, observation: Observation) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(P, q, lower, upper) of min 1/2 u'P u + q'u over the forces of all knots, lower <= A u <= upper: half the cost over
        alpha.

        P is (12 H, 12 H), q (12 H,), the bounds (20 H,): see `constraints`.
        """
        o, robot, config = observation, self.robot, self.config
        R = rotation_rpy(o.orientation[0], o.orientation[1])
        r = (o.feet - robot.com) @ R.T  # centre of mass to feet, heading frame
        standing = o.contacts > 0.5
        height = robot.foot_radius - r[standing, 2].mean()
        inertia = R @ robot.inertia @ R.T
        B = np.empty((6, 12))
        B[:3] = np.linalg.solve(inertia, skew(r).transpose(1, 0, 2).reshape(3, 12))
        B[3:] = np.tile(np.eye(3), 4) / robot.mass
        pos = np.concatenate([o.orientation, (0.0, 0.0, height)])
        vel = np.concatenate([o.angular_velocity, o.velocity])
        vel_ref = np.concatenate([o.desired_angular_velocity, o.desired_velocity])
        pos_ref = np.concatenate([o.desired_orientation, o.desired_position])
        t = self._t
        error_pos = pos - pos_ref + t * (vel - vel_ref) + 0.5 * t * t * self._gravity  # without any force, (H, 6)
        error_vel = vel - vel_ref + t * self._gravity
        QB_pos, QB_vel = self._w_pos[:, None] * B, self._w_vel[:, None] * B
        P = np.kron(self._G_pos, B.T @ QB_pos) + np.kron(self._G_vel, B.T @ QB_vel)
        P.flat[:: P.shape[0] + 1] += config.force_weight
        # In units of alpha: accelerations per newton make the raw cost so flat that any force passes OSQP's tolerance.
        P /= config.force_weight
        q = (self._S_pos.T @ error_pos @ QB_pos + self._S_vel.T @ error_vel @ QB_vel).ravel() / config.force_weight
        upper = np.full((config.horizon, 4, 5), np.inf)
        upper[:, :, 4] = self._f_max * standing
        return P, q, np.zeros(20 * config.horizon), upper.ravel()

    def constraints(self, friction: np.ndarray) -> sparse.csc_matrix:
        """A (20 H, 12 H): per knot and foot mu f_z +- f_x, mu f_z +- f_y (at least 0) and f_z."""
        feet = [[[1, 0, mu], [-1, 0, mu], [0, 1, mu], [0, -1, mu], [0, 0, 1]] for mu in friction]
        return sparse.kron(sparse.eye(self.config.horizon), sparse.block_diag(feet), format="csc")

    def solve(self, observation: Observation) -> ConvexMpcSolution:
        """The forces of all knots for one observation; with no foot standing, none.

        Raises:
            ValueError: the observation is not finite, or friction not positive.
            RuntimeError: OSQP found no usable solution.
        """
        start = time.perf_counter()
        if not np.isfinite(observation.vector).all() or observation.friction.min() <= 0:
            raise ValueError(
                "The observation of the convex MPC holds NaN, infinity or a friction that is not positive."
            )
        H = self.config.horizon
        if observation.contacts.max() <= 0.5:
            return ConvexMpcSolution(np.zeros((H, 4, 3)), 0, "no foot stands", time.perf_counter() - start, 0.0)
        P, q, lower, upper = self.problem(observation)
        solver = self._updated(P.ravel()[self._upper], q, lower, upper, observation.friction)
        found = solver.solve(raise_error=False)
        if found.info.status not in _USABLE or not np.isfinite(found.x).all():
            self._solver = None
            raise RuntimeError(f"OSQP: {found.info.status} after {found.info.iter} iterations.")
        osqp_time = found.info.update_time + found.info.solve_time
        return ConvexMpcSolution(
            found.x.reshape(H, 4, 3), int(found.info.iter), found.info.status, time.perf_counter() - start, osqp_time
        )

    def reset(self) -> None:
        """Forget the last solution; the next solve sets up anew."""
        self._solver = None

    def _updated(
        self, Px: np.ndarray, q: np.ndarray, lower: np.ndarray, upper: np.ndarray, friction: np.ndarray
    ) -> osqp.OSQP:
        """The solver with these numbers in it; set up where there is none."""
        if self._solver is None:
            self._P_shape.data[:] = Px
            self._solver, self._friction = osqp.OSQP(), friction.copy()
            # A fixed interval: by default OSQP measures time to choose it, and results would depend on the machine's load.
            self._solver.setup(
                self._P_shape,
                q,
                self.constraints(friction),
                lower,
                upper,
                verbose=False,
                warm_starting=True,
                eps_abs=self.config.tolerance,
                eps_rel=self.config.tolerance,
                adaptive_rho_interval=25,
                check_termination=5,
                max_iter=500,
            )
            return self._solver
        new = {}
        if (friction != self._friction).any():
            self._friction = friction.copy()
            new["Ax"] = self.constraints(friction).data
        self._solver.update(Px=Px, q=q, l=lower, u=upper, **new)
        return self._solver
