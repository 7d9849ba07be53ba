"""Collecting a tool's wrench in different orientations, one resting pose after the other."""

from __future__ import annotations

import numpy as np

from sim_core.perception.tool_load import MINIMUM_POSES, ToolIdentification, identify_tool
from sim_core.perception.wrench_filter import RestingMean

__all__ = ["ToolSurvey"]

DEFAULT_POSES, DEFAULT_ANGLE, DEFAULT_TIMEOUT = 8, 0.35, 120.0
DRIFT = 0.01  # [rad] that gravity may turn while a pose is collected
SETTLING = 0.3  # [s] at rest before samples count


class ToolSurvey:
    """What an IdentifyTool goal is doing. Advanced by a timer, fed by the device's thread through `resting`.

    Attributes:
        collected: poses so far; hint: what is waited for; fresh: not yet said.
        resting: takes samples now; None: no pose is being collected.
        found: the result; failure: why there is none.
        apply: use the result.

    Args:
        goal: IdentifyTool.Goal.
        samples, max_std, still_speed: number of samples of a pose, largest standard deviation of a force [N], of a joint's speed [rad/s].
        now: [s].
    """

    def __init__(self, goal, samples: int, max_std: float, still_speed: float, now: float) -> None:
        self.poses = max(goal.poses or DEFAULT_POSES, MINIMUM_POSES)
        self.min_angle, self.apply = goal.min_angle or DEFAULT_ANGLE, goal.apply
        self._end = now + (goal.timeout or DEFAULT_TIMEOUT)
        self._samples, self._max_std, self._still_speed = samples, max_std, still_speed
        self._gravity: list[np.ndarray] = []
        self._wrench: list[np.ndarray] = []
        self._here: np.ndarray | None = None
        self._rest_since = now
        self.resting: RestingMean | None = None
        self.found: ToolIdentification | None = None
        self.hint, self.failure, self.fresh = "bring the tool to rest", "", True

    @property
    def collected(self) -> int:
        return len(self._gravity)

    def advance(self, now: float, gravity: np.ndarray | None, speed: float, valid: bool) -> bool:
        """One look; True once there is a result or none will come.

        Args:
            gravity: in the sensor's axes (3,) [m/s^2]; None: not known.
            speed: of the fastest joint since the last look [rad/s].
            valid: whether the sensor's samples may be used.
        """
        if now > self._end:
            self.failure = f"{self.collected} of {self.poses} poses within the time: {self.hint}"
            return True
        if gravity is None or not valid or speed > self._still_speed:
            if gravity is not None:
                self.hint = "the sensor gives no valid wrench" if not valid else "bring the tool to rest"
            self._rest_since, self.resting = now, None
        elif self.resting is not None:
            if _angle(gravity, self._here) > DRIFT:
                self.hint, self._rest_since, self.resting = "bring the tool to rest", now, None
            elif self.resting.collected >= self._samples:
                return self._finish_pose(now)
        elif any(_angle(gravity, g) < self.min_angle for g in self._gravity):
            self.hint = f"tilt the tool by at least {self.min_angle:.2f} rad from all poses before"
            self._rest_since = now
        elif self._here is None or _angle(gravity, self._here) > DRIFT:
            self._here, self._rest_since = gravity, now
        elif now - self._rest_since >= SETTLING:
            self.hint, self.resting = "hold still", RestingMean(self._samples)
        return False

    def _finish_pose(self, now: float) -> bool:
        (mean, std), self.resting, self._rest_since = self.resting.result(), None, now
        if std[:3].max() > self._max_std:
            self.hint = f"hold still: the force varies by {std[:3].max():.2g} N, at most {self._max_std:g} N"
            return False
        self._gravity.append(self._here)
        self._wrench.append(mean)
        self.hint = "tilt the tool to another orientation"
        if self.collected < self.poses:
            return False
        try:
            self.found = identify_tool(np.array(self._gravity), np.array(self._wrench))
        except ValueError as error:
            # More orientations may still tell what these do not.
            self.hint = str(error)
            return False
        return True


def _angle(a: np.ndarray, b: np.ndarray) -> float:
    """Between two vectors [rad]; exact for small ones, which an arc cosine is not."""
    return float(np.arctan2(np.linalg.norm(np.cross(a, b)), a @ b))
