"""Inverse kinematics that keeps an arm away from its singularities: the measure of manipulability stays above a threshold.

    ik = MomIk(kinematics, threshold=1.5)
    q = ik.step(target, q, bias)               # 125 times a second

The target is changed before a damped Newton step goes there. As the measure falls to the threshold, what of the motion to
the target lowers it further is taken away, and at the threshold a small motion that raises it is added:

    dM/dq_i = M tr(dJ/dq_i J^+),  g = (J^+)' dM/dq,  n = g / |g|
    dx' = dx - rho min(0, n'dx) n + k max(0, m - M) n

All this holds to the first order, while a step is finite and joints have limits. So a step is also measured where it ends,
and shortened until the measure there is above the threshold or, where the arm starts from below, no lower than it was. If
nothing is left of it, the arm slides along the threshold: to the joint positions nearest to those of the step for which the
measure does not fall, limits and speeds included. Therefore, whatever the target,

    M(q_next) >= min(M(q), threshold)

Source: Zhu, PhD thesis, University of Illinois (2023), section 8.4.2, eq. (8.3), which states neither threshold nor gains;
Yoshikawa, Manipulability of Robotic Mechanisms (1985). That steps are measured and slide is ours.
"""

from __future__ import annotations

import casadi as ca
import numpy as np

from sim_core.telepresence.arm_equations import (
    OneCall,
    cholesky,
    pose_difference,
    pose_symbols,
    shortened,
    solve_cholesky,
)
from sim_core.telepresence.arm_ik import PERIOD, step_bounds
from sim_core.telepresence.arm_kinematics import ArmKinematics
from sim_core.telepresence.clutch import Pose

__all__ = ["MomIk", "nearest_rising"]

#: how often a step is halved before the arm slides
HALVINGS = 6
#: of the threshold by which the motion that raises the measure aims higher, as the surface of equal measure is curved
HIGHER = 0.05
#: [1] length of that motion in a step, the arm's own unit of length and radians
LONGEST = 0.05
#: share of the largest rise of a step that a slide asks for at least, so that it does not leave the surface again
SLIDE = 0.01
#: [rad] that a step may end beyond a limit before it is clipped there
ROUNDING = 1e-12


class MomIk:
    """A damped Newton step to a target that is changed so that the manipulability stays above a threshold.

    Args:
        kinematics: of the arm; its length is that of the threshold.
        threshold: least manipulability. With the default length a Panda has 2.97 at home, so the default is half of that.
        margin: above the threshold, in which motions that lower the measure are taken away more and more.
        raising: share of what is missing to the threshold that a step makes up.
        pull: share of the way to the bias that a step goes where the target leaves a choice. The default is that of the
            quadratic programme, 0.0005 / (0.0005 + 0.02).
        damping: of the Newton step, as a length of singular values.
        reach: [m] and [rad] that a single step goes at most: what is farther is come to step by step.
        period: [s] between two steps, in which no joint goes farther than its speed lets it; inf: as far as it likes.

    Attributes:
        threshold: least manipulability.

    Raises:
        ValueError: threshold, margin, damping or period are not positive.
    """

    def __init__(
        self,
        kinematics: ArmKinematics,
        threshold: float = 1.5,
        margin: float = 0.5,
        raising: float = 0.2,
        pull: float = 0.0244,
        damping: float = 0.02,
        reach: tuple[float, float] = (0.05, 0.3),
        period: float = PERIOD,
    ) -> None:
        for name, value in (("threshold", threshold), ("margin", margin), ("damping", damping), ("period", period)):
            if not value > 0.0:
                raise ValueError(f"{name}: expected a positive number, found {value}")
        self._kinematics, self.threshold = kinematics, threshold
        self._most, self._raising = kinematics.speed * period, raising
        arm, n = kinematics.equations, len(kinematics.joints)
        numbers, target = pose_symbols("target")
        bias, free, fixed = ca.SX.sym("bias", n), ca.SX.sym("free", n), ca.SX.sym("fixed", n)
        error = shortened(pose_difference(target, (arm.position, arm.rotation)), reach) - arm.J @ fixed
        wanted = ca.vertcat(error[:3] / kinematics.length, error[3:])
        S = arm.S @ ca.diag(free)
        factor = cholesky(S @ S.T + damping**2 * ca.SX.eye(6))
        M, gradient = arm.manipulability, free * arm.gradient

        g = solve_cholesky(factor, S @ gradient)
        size = ca.sqrt(ca.sumsqr(g) + 1e-12)
        direction = g / size
        nearness = ca.fmin(ca.fmax((threshold + margin - M) / margin, 0.0), 1.0)
        missing = ca.fmax((1.0 + HIGHER) * threshold - M, 0.0)
        changed = (
            wanted
            - nearness * ca.fmin(ca.dot(direction, wanted), 0.0) * direction
            + ca.fmin(raising * missing / size, LONGEST) * direction
        )
        # Motions that leave the frame where it is lead to the bias, by the same rule.
        own = _without_motion(free * pull * (bias - arm.q), S, factor)
        rising = _without_motion(gradient, S, factor)
        falls = ca.fmin(ca.dot(gradient, own), 0.0)
        own = own - nearness * falls / (ca.dot(gradient, rising) + 1e-9) * rising
        step = S.T @ solve_cholesky(factor, changed) + own + fixed
        step = step / ca.fmax(1.0, ca.mmax(ca.fabs(step) * ca.DM(1.0 / self._most)))
        there = _within_limits(arm.q + step, kinematics)
        excess = ca.mmax(ca.fabs(there - arm.q - step))
        M_there = ca.Function("measure", [arm.q], [M])(there)
        inputs = ca.vertcat(arm.q, numbers, bias, free, fixed)
        outputs = ca.vertcat(M, M_there, excess, there, step, arm.gradient)
        self._newton = OneCall("refit_arm_newton", ca.Function("newton", [inputs], [outputs]))
        self._free = np.concatenate((np.ones(n), np.zeros(n)))

    @property
    def kinematics(self) -> ArmKinematics:
        """Of the arm."""
        return self._kinematics

    def step(self, target: Pose, q: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
        """Joint positions (n,) [rad] for this period.

        Args:
            target: where the frame shall be.
            q: where the joints were told to be last (n,) [rad].
            bias: the posture that is preferred where the target leaves a choice (n,) [rad]; None: the neutral one.
        """
        arm, n = self._kinematics, len(q)
        given = np.concatenate((q, target.position, target.rotation.ravel(), arm.neutral if bias is None else bias))
        numbers = self._newton(np.concatenate((given, self._free)))
        M = float(numbers[0])
        bound = min(M, self.threshold)
        if numbers[2] > ROUNDING:
            numbers = self._within(given, numbers)
        if numbers[1] >= bound:
            return numbers[3 : 3 + n]
        step, gradient = numbers[3 : 3 + n] - q, numbers[3 + 2 * n :]
        reached = self._shortened(q, 0.5 * step, bound)
        if reached is None:
            low, high = step_bounds(q, arm.lower, arm.upper, self._most)
            most = float(np.abs(gradient) @ np.maximum(high, -low))
            rise = max(SLIDE * most, self._raising * ((1.0 + HIGHER) * self.threshold - M))
            reached = self._shortened(q, nearest_rising(step, gradient, low, high, rise), bound)
        return np.array(q, float) if reached is None else reached

    def _within(self, given: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """The numbers of a step that ends within limits, from those of one that does not.

        Joints that the step takes beyond a limit go to the limit, and the others do what is left.
        """
        n = len(self._kinematics.joints)
        q, free, fixed = given[:n], np.ones(n), np.zeros(n)
        for _ in range(n):
            inside, step = numbers[3 : 3 + n] - q, numbers[3 + n : 3 + 2 * n]
            beyond = np.abs(inside - step) > ROUNDING
            free[beyond], fixed[beyond] = 0.0, inside[beyond]
            numbers = self._newton(np.concatenate((given, free, fixed)))
            if numbers[2] <= ROUNDING:
                break
        return numbers

    def _shortened(self, q: np.ndarray, step: np.ndarray, bound: float) -> np.ndarray | None:
        """Joint positions (n,) as far along the step as the manipulability is at least `bound`, None if that is nowhere."""
        arm, share = self._kinematics, 1.0
        for _ in range(HALVINGS):
            there = np.minimum(np.maximum(q + share * step, arm.lower), arm.upper)
            if arm.manipulability(there) >= bound:
                return there
            share *= 0.5
        return None


def _within_limits(q: ca.SX, kinematics: ArmKinematics) -> ca.SX:
    """The nearest joint positions (n, 1) within the limits, of which a joint may have none."""
    pairs = zip(ca.vertsplit(q), kinematics.lower.tolist(), kinematics.upper.tolist())
    return ca.vertcat(
        *(ca.fmin(ca.fmax(one, low), high) if np.isfinite([low, high]).all() else one for one, low, high in pairs)
    )


def _without_motion(v: ca.SX, S: ca.SX, factor: ca.SX) -> ca.SX:
    """What of joint motions v (n, 1) leaves the frame where it is."""
    return v - S.T @ solve_cholesky(factor, S @ v)


def nearest_rising(
    step: np.ndarray, gradient: np.ndarray, low: np.ndarray, high: np.ndarray, rise: float
) -> np.ndarray:
    """The point d (n,) nearest to a step with gradient'd >= rise and low <= d <= high, all (n,).

    Where there is none, the point between the bounds with the largest gradient'd.

    The point is clip(step + t gradient) for some t >= 0, and gradient'd is a rising line from each t at which a coordinate
    meets a bound to the next.
    """
    moves = gradient != 0.0
    slope = np.where(moves, gradient, 1.0)
    times = np.where(moves, np.stack([(low - step) / slope, (high - step) / slope]), 0.0)
    times = np.unique(np.concatenate(([0.0], times.ravel()[times.ravel() > 0.0])))
    points = np.clip(step + times[:, None] * gradient, low, high)
    rises = points @ gradient
    if rises[-1] <= rise:
        return points[-1]
    after = int(np.argmax(rises >= rise))
    if after == 0:
        return points[0]
    share = (rise - rises[after - 1]) / (rises[after] - rises[after - 1])
    return points[after - 1] + share * (points[after] - points[after - 1])
