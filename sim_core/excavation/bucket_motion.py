"""One motion of a bucket on an arm, from where it was told to be last: what shall be when, what was felt, and how it ended.

    motion = BucketMotion("going down", [Stretch(1.5, lambda t: ..., "going down")], limits)
    stretch = motion.step(force, torques, dt)               # 125 times a second
    stretch.at(motion.time)
    motion.ended, motion.outcome, motion.why

A force that lasts beyond its limit, or a joint's torque beyond its own, is a jam: the motion ends within the cycle, and the arm stays
where it is. What moves in a jam's place afterwards is for others to say. A force on its way there ends a motion that can be relieved
before: it is done as far as it came, and the bucket is told nothing farther.

Source: Zhu, PhD thesis (University of Illinois 2023), section 7.6, where a collaborative arm stops itself; limits and their times are ours.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from sim_core.telepresence.clutch import Pose

__all__ = ["BucketMotion", "Jam", "JamLimits", "MotionOutcome", "Stretch"]

#: by which the force has to rise in a motion that begins beyond its relief before it goes no farther [N]: it may be one that relieves
RISE = 3.0


class MotionOutcome(Enum):
    """How a motion ended."""

    DONE = "done"
    JAMMED = "jammed"
    OUT_OF_REACH = "out of reach"
    SENSOR_SILENT = "force sensor silent"
    ARM_STOPPED = "arm stopped"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class JamLimits:
    """When an arm stops itself.

    Attributes:
        force: on the bucket [N]. patience: for which it has to last [s]. torque: that the pile puts on a joint, at once [N m].
        silent: time without a force that ends a motion [s]. relief: force at which a motion goes no farther [N]; it is no jam.
    """

    force: float = 66.0
    patience: float = 0.02
    torque: float = 60.0
    silent: float = 0.1
    relief: float = np.inf

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not (value > 0.0 and (np.isfinite(value) or name == "relief")):
                raise ValueError(f"{name}: expected a positive number, found {value}")


@dataclass(frozen=True, eq=False)
class Jam:
    """What stopped the arm.

    Attributes:
        force: of the pile on the bucket (3,) [N]. torques: of that on the joints (n,) [N m].
    """

    force: np.ndarray
    torques: np.ndarray


@dataclass(frozen=True, eq=False)
class Stretch:
    """Part of a motion.

    Attributes:
        lasts: [s]. at: what is commanded at a time [s] since its begin: a pose of the bucket in the world, or all joints (n,) [rad]. phase: in words.
        rests: whether forces count as the load's at its end.
    """

    lasts: float
    at: Callable[[float], Pose | np.ndarray]
    phase: str
    rests: bool = False


class BucketMotion:
    """See the module's docstring.

    Args:
        name: of the motion. stretches: one after the other. limits: see there.

    Attributes:
        outcome: None until it has ended. why: in words. peak, held: largest force, and the largest that lasted as long as a jam must [N].
        jam: what stopped it; None: nothing did. relieved: it is done, and yet did not come to its end.
        load: force along z at rest, mean (of what hangs in the bucket) [N]; NaN: not measured.
    """

    def __init__(self, name: str, stretches: Sequence[Stretch], limits: JamLimits = JamLimits()) -> None:
        self.name, self.limits = name, limits
        self._ahead, self._t, self._gone = list(stretches), 0.0, 0.0
        self._whole = sum(one.lasts for one in stretches)
        self.outcome: MotionOutcome | None = None
        self.jam: Jam | None = None
        self.relieved = False
        self._began: float | None = None
        self.why, self.peak, self.held, self.load = "", 0.0, 0.0, np.nan
        self._recent: deque[tuple[float, float]] = deque()
        self._weighed: list[float] = []
        self._silent = self._clock = 0.0

    @property
    def ended(self) -> bool:
        """Whether nothing is to be done any more."""
        return self.outcome is not None

    @property
    def share(self) -> float:
        """That is done, 0 to 1."""
        return 1.0 if self._whole == 0.0 else min(1.0, self._gone / self._whole)

    @property
    def phase(self) -> str:
        """In words."""
        return self._ahead[0].phase if self._ahead else self.name

    def cancel(self, why: str) -> None:
        """It is called back: the bucket stays where it was told to be."""
        self._end(MotionOutcome.CANCELLED, why)

    def stop(self, why: str) -> None:
        """Nothing moves the arm any more."""
        self._end(MotionOutcome.ARM_STOPPED, why)

    def step(self, force: np.ndarray, torques: np.ndarray, dt: float) -> Stretch | None:
        """Let time go on by dt [s]; the stretch that is under way, whose `at` is to be asked for `time`; None: it has ended.

        Args:
            force: of the pile on the bucket (3,) [N], not finite: it is not known. torques: of that on the joints (n,) [N m].
        """
        if self.ended or not self._feel(force, torques, dt):
            return None
        self._t += dt
        self._gone += dt
        while self._t >= self._ahead[0].lasts - 1e-9:
            if len(self._ahead) == 1:
                if self._weighed:
                    self.load = float(np.mean(self._weighed))
                last, self._t = self._ahead[0], self._ahead[0].lasts
                self._end(MotionOutcome.DONE, f"the pile pushed with up to {self.peak:.0f} N")
                return last
            self._t -= self._ahead.pop(0).lasts
        if self._ahead[0].rests and self._t > 0.5 * self._ahead[0].lasts:
            self._weighed.append(float(force[2]))
        return self._ahead[0]

    @property
    def time(self) -> float:
        """Since the begin of the stretch that is under way [s]."""
        return self._t

    def _feel(self, force: np.ndarray, torques: np.ndarray, dt: float) -> bool:
        """Whether it may go on."""
        limits, self._clock = self.limits, self._clock + dt
        if not np.isfinite(force).all():
            self._silent += dt
            if self._silent > limits.silent:
                self._end(MotionOutcome.SENSOR_SILENT, f"no force was told for {1e3 * self._silent:.0f} ms")
            return not self.ended
        self._silent = 0.0
        size = float(np.linalg.norm(force))
        self._began = size if self._began is None else self._began
        self.peak = max(self.peak, size)
        self._recent.append((self._clock, size))
        while len(self._recent) > 1 and self._clock - self._recent[1][0] >= limits.patience - 1e-9:
            self._recent.popleft()
        if self._clock - self._recent[0][0] >= limits.patience - 1e-9:
            self.held = max(self.held, min(value for _, value in self._recent))
        worst = float(np.max(np.abs(torques)))
        if self.held >= limits.force:
            self._jam(
                force,
                torques,
                f"{self.held:.0f} N for {1e3 * limits.patience:.0f} ms, at most {limits.force:g} N may be",
            )
        elif worst >= limits.torque:
            self._jam(force, torques, f"{worst:.0f} N m on a joint, at most {limits.torque:g} N m may be")
        elif size >= max(limits.relief, self._began + RISE):
            self.relieved = True
            self._end(MotionOutcome.DONE, f"the pile pushed with {size:.0f} N, at which it goes no farther")
        return not self.ended

    def _jam(self, force: np.ndarray, torques: np.ndarray, why: str) -> None:
        self.jam = Jam(force.copy(), torques.copy())
        self._end(MotionOutcome.JAMMED, f"the pile pushed with {why}, {self.phase}")

    def _end(self, outcome: MotionOutcome, why: str) -> None:
        if self.outcome is None:
            self.outcome, self.why = outcome, why
