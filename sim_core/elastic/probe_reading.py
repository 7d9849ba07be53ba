"""What a probe is told and feels at one moment: from joints and a wrench at the wrist to the place of its tip and what pushes on it.

    readings = ProbeReadings(load_model("panda_poker"), "probe_tip", "wrist")
    reading = readings.at(stamp, q, wrench)
    displacement, force = reading.displacement(point, normal), reading.along(normal)

The controller that pokes and whoever reads a bag of it use this one function, so that both say the same to the last bit.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from sim_core.multibody import RobotModel
from sim_core.scooping.arm.felt_wrench import FeltWrench
from sim_core.telepresence.arm_kinematics import ArmKinematics

__all__ = ["Heard", "HeardWrenches", "JointTrace", "ProbeReading", "ProbeReadings"]


@dataclass(frozen=True, eq=False)
class ProbeReading:
    """At one stamp of the wrist's sensor.

    Attributes:
        stamp: [s]. tip: of the probe (3,) [m]. wrench: on the probe about its tip, in the world's axes, its own weight taken away, and what
            the sensor says in the air not yet (6,) [N], [N m]. raw: what the sensor said, in its own axes (6,).
    """

    stamp: float
    tip: np.ndarray
    wrench: np.ndarray
    raw: np.ndarray

    def displacement(self, point: np.ndarray, normal: np.ndarray) -> float:
        """Of the tip from a point on the surface (3,) [m] along its inward normal [m]; negative: still outside."""
        return float((point - self.tip) @ normal)

    def along(self, normal: np.ndarray) -> float:
        """The force along the outward normal (3,) [N]."""
        return float(self.wrench[:3] @ normal)


class ProbeReadings:
    """See the module's docstring.

    Args:
        model: of the robot. frame, wrist: sites of the tip and of the sensor, of one rigid piece.

    Raises:
        KeyError: there is no such site. ValueError: something moves between them.
    """

    def __init__(self, model: RobotModel, frame: str, wrist: str) -> None:
        self._kinematics = ArmKinematics(model, frame)
        self._load = FeltWrench(model, wrist, frame)

    def at(self, stamp: float, q: np.ndarray, wrench: np.ndarray) -> ProbeReading:
        """Of joint positions (n,) [rad] and the sensor's word of the same moment (6,) [N], [N m]."""
        posture, wrench = self._kinematics.at(q), np.array(wrench, float)
        return ProbeReading(stamp, posture.position, self._load.external(wrench, posture.rotation), wrench)


class JointTrace:
    """Where the joints were a moment ago, between the moments at which they were measured.

    Args:
        longest: [s] that are kept.
    """

    def __init__(self, longest: float = 0.5) -> None:
        self._longest = longest
        self._kept: deque[tuple[float, np.ndarray]] = deque()

    def forget(self) -> None:
        """Nothing is known any more."""
        self._kept.clear()

    def add(self, stamp: float, q: np.ndarray) -> None:
        """They were measured at q (n,) [rad]; a stamp that is not newer than the last begins anew."""
        if self._kept and stamp <= self._kept[-1][0]:
            self._kept.clear()
        self._kept.append((stamp, np.array(q, float)))
        while self._kept[-1][0] - self._kept[0][0] > self._longest:
            self._kept.popleft()

    @property
    def newest(self) -> float:
        """Stamp of the last measurement [s]; minus infinity: there is none."""
        return self._kept[-1][0] if self._kept else -np.inf

    def at(self, stamp: float) -> np.ndarray | None:
        """Joint positions (n,) at a stamp, as measured then or between the two nearest; None: it is before or after all of them."""
        after = None
        for time, q in reversed(self._kept):
            if time == stamp:
                return q
            if time < stamp:
                if after is None:
                    return None
                share = (stamp - time) / (after[0] - time)
                return q + share * (after[1] - q)
            after = time, q
        return None


@dataclass(frozen=True, eq=False)
class Heard:
    """Attributes:
    now: stamp of the joints' last state [s]. words: of the wrist's sensor since the one before, stamps [s] and wrenches (6,).
    """

    now: float
    words: tuple[tuple[float, np.ndarray], ...] = ()


class HeardWrenches:
    """What a sensor said since it was asked last: every word counts, none is smoothed away.

    Args:
        most: words that are kept, the newest.
    """

    def __init__(self, most: int = 1000) -> None:
        self._words: deque[tuple[float, np.ndarray]] = deque(maxlen=most)

    def forget(self) -> None:
        """Nothing was said."""
        self._words.clear()

    def feel(self, wrench: np.ndarray, rotation: np.ndarray, stamp: float) -> None:
        """One more word (6,) at a stamp [s]; where the probe was turned to meanwhile (3, 3) is found out later, for that stamp."""
        self._words.append((stamp, np.array(wrench, float)))

    def at(self, now: float) -> Heard:
        """All of them, which are forgotten, with the stamp of a joint state [s]."""
        words = tuple(self._words)
        self._words.clear()
        return Heard(now, words)
