"""Joint trajectories on the bus cycle: splines between points, tolerances on the way and at the end.

As ros2_control's joint_trajectory_controller: linear without velocities, cubic with them, quintic with
accelerations; the first segment begins at the state when the trajectory was taken.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from hardware.dynamixel.commands import Goals, Source
from hardware.dynamixel.joints import GroupState

__all__ = ["Outcome", "Tolerances", "Trajectory", "TrajectoryError", "TrajectoryFollower"]


class TrajectoryError(ValueError):
    """A trajectory that cannot be followed; one sentence."""


class Outcome(enum.IntEnum):
    """Error codes of control_msgs/FollowJointTrajectory."""

    SUCCESSFUL = 0
    INVALID_GOAL = -1
    INVALID_JOINTS = -2
    OLD_HEADER_TIMESTAMP = -3
    PATH_TOLERANCE_VIOLATED = -4
    GOAL_TOLERANCE_VIOLATED = -5


class Trajectory:
    """Points in time for m joints.

    Args:
        times: from the start, strictly increasing, shape (p,) [s].
        position: shape (p, m) [rad].
        velocity, acceleration: shape (p, m), or None.

    Raises:
        TrajectoryError: shapes or numbers do not fit.
    """

    def __init__(
        self,
        times: ArrayLike,
        position: ArrayLike,
        velocity: ArrayLike | None = None,
        acceleration: ArrayLike | None = None,
    ) -> None:
        self.times = np.asarray(times, dtype=float)
        if not len(self.times):
            raise TrajectoryError("a trajectory needs at least one point")
        if self.times[0] < 0.0 or (np.diff(self.times) <= 0.0).any():
            raise TrajectoryError("time_from_start must increase from point to point")
        if acceleration is not None and velocity is None:
            raise TrajectoryError("points with accelerations need velocities too")
        self.position = np.asarray(position, dtype=float)
        m = self.position.shape[-1]
        self.velocity, self.acceleration = (
            None if x is None else np.asarray(x, dtype=float) for x in (velocity, acceleration)
        )
        for name, values in (
            ("positions", self.position),
            ("velocities", self.velocity),
            ("accelerations", self.acceleration),
        ):
            if values is None:
                continue
            if values.shape != (len(self.times), m):
                raise TrajectoryError(f"every point needs as many {name} as there are joints")
            if not np.isfinite(values).all():
                raise TrajectoryError(f"{name} must be finite")

    @property
    def duration(self) -> float:
        """Until the last point [s]."""
        return float(self.times[-1])

    def begin(self, q: np.ndarray, qd: np.ndarray) -> None:
        """Put the present state in front, shape (m,) each [rad, rad/s]; a first point at time 0 then is the start itself."""
        if self.times[0] == 0.0:
            return
        self.times = np.concatenate([[0.0], self.times])
        self.position = np.vstack([q, self.position])
        if self.velocity is not None:
            self.velocity = np.vstack([qd, self.velocity])
        if self.acceleration is not None:
            self.acceleration = np.vstack([np.zeros_like(q), self.acceleration])

    def velocities(self, q: np.ndarray, qd: np.ndarray, samples: int = 20) -> np.ndarray:
        """What it asks for on its way from a state, (m,) each [rad, rad/s]: `samples` of each segment, (p, m) [rad/s]."""
        way = Trajectory(self.times, self.position, self.velocity, self.acceleration)
        way.begin(q, qd)
        shares = (np.arange(samples) + 0.5) / samples
        times = way.times[:-1, None] + np.diff(way.times)[:, None] * shares
        return np.array([way.at(t)[1] for t in times.ravel()]).reshape(-1, self.position.shape[1])

    def at(self, t: float) -> tuple[np.ndarray, np.ndarray]:
        """Position and velocity at time t from the start, shape (m,) each; held before the first and after the last point."""
        if t <= self.times[0] or len(self.times) == 1:
            return self.position[0], np.zeros_like(self.position[0])
        if t >= self.times[-1]:
            return self.position[-1], np.zeros_like(self.position[-1])
        k = int(np.searchsorted(self.times, t, side="right")) - 1
        T, s = self.times[k + 1] - self.times[k], t - self.times[k]
        p0, d = self.position[k], self.position[k + 1] - self.position[k]
        if self.velocity is None:
            return p0 + d * (s / T), d / T
        v0, v1 = self.velocity[k], self.velocity[k + 1]
        if self.acceleration is None:  # cubic Hermite
            c2, c3 = (3 * d - (2 * v0 + v1) * T) / T**2, (-2 * d + (v0 + v1) * T) / T**3
            return p0 + s * (v0 + s * (c2 + s * c3)), v0 + s * (2 * c2 + s * 3 * c3)
        a0, a1 = self.acceleration[k], self.acceleration[k + 1]
        c2 = 0.5 * a0
        c3 = (20 * d - (8 * v1 + 12 * v0) * T - (3 * a0 - a1) * T**2) / (2 * T**3)
        c4 = (-30 * d + (14 * v1 + 16 * v0) * T + (3 * a0 - 2 * a1) * T**2) / (2 * T**4)
        c5 = (12 * d - 6 * (v1 + v0) * T + (a1 - a0) * T**2) / (2 * T**5)
        return (
            p0 + s * (v0 + s * (c2 + s * (c3 + s * (c4 + s * c5)))),
            v0 + s * (2 * c2 + s * (3 * c3 + s * (4 * c4 + s * 5 * c5))),
        )


@dataclass(frozen=True)
class Tolerances:
    """Of m joints, shape (m,) each; infinite: not watched.

    Attributes:
        path, path_velocity: while moving [rad, rad/s].
        goal, goal_velocity: at the end.
        goal_time: after the end, in which the goal must be reached [s]; 0: no limit.
    """

    path: np.ndarray
    path_velocity: np.ndarray
    goal: np.ndarray
    goal_velocity: np.ndarray
    goal_time: float = 0.0


class TrajectoryFollower(Source):
    """Follows one trajectory; at its end it goes on holding the last point, claiming nothing.

    Args:
        trajectory: of the joints `which` (indices).
        start: host time of the trajectory's time 0 [s].
        names: of all joints, for sentences.

    Attributes:
        outcome: None while it lasts.
        sentence: what happened, if it did not succeed.
        desired, desired_velocity, error: of the newest cycle, shape (m,).
    """

    name = "joint_trajectory_controller"

    def __init__(
        self, trajectory: Trajectory, tolerances: Tolerances, which: Sequence[int], start: float, names: Sequence[str]
    ) -> None:
        self.trajectory, self.tolerances, self.which = trajectory, tolerances, np.asarray(which)
        self.start, self.names = start, [names[k] for k in which]
        self.outcome: Outcome | None = None
        self.sentence = ""
        self.desired, self.desired_velocity, self.error = (np.zeros(len(which)) for _ in range(3))
        self._begun = False

    def busy(self, now: float) -> bool:
        return self.outcome is None

    def fill(self, state: GroupState, goals: Goals) -> str:
        which, tol = self.which, self.tolerances
        q, qd = state.q[which], state.qd[which]
        if not self._begun:
            # A trajectory that begins later, or has begun, is joined from where the joints are.
            self.trajectory.begin(q, qd)
            self._begun = True
        t = state.t - self.start
        self.desired, self.desired_velocity = self.trajectory.at(t)
        self.error = self.desired - q
        if self.outcome is None:
            sick = which[~state.healthy[which]]
            if len(sick):
                return self._end(
                    Outcome.INVALID_GOAL,
                    f"joint {state.names[sick[0]]} does not answer, reports an error or has lost its torque",
                )
            rate_error = np.abs(self.desired_velocity - qd)
            late = t - self.trajectory.duration
            if late < 0.0:
                wrong = (np.abs(self.error) > tol.path) | (rate_error > tol.path_velocity)
                if wrong.any():
                    return self._end(Outcome.PATH_TOLERANCE_VIOLATED, self._off(wrong, tol.path))
            else:
                wrong = (np.abs(self.error) > tol.goal) | (rate_error > tol.goal_velocity)
                if not wrong.any():
                    self.outcome = Outcome.SUCCESSFUL
                elif tol.goal_time and late > tol.goal_time:
                    return self._end(
                        Outcome.GOAL_TOLERANCE_VIOLATED, self._off(wrong, tol.goal) + f", {late:.2f} s after the end"
                    )
        goals.position[which] = self.desired
        goals.velocity[which] = self.desired_velocity
        return ""

    def _end(self, outcome: Outcome, sentence: str) -> str:
        self.outcome, self.sentence = outcome, sentence
        return sentence

    def _off(self, wrong: np.ndarray, allowed: np.ndarray) -> str:
        k = int(np.flatnonzero(wrong)[0])
        return f"joint {self.names[k]} is {self.error[k]:.4g} rad off, allowed {allowed[k]:.4g}"
