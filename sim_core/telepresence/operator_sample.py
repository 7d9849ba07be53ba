"""What the operator's devices say at one moment, and the door through which it comes in.

    gate = SampleGate()
    sample, why = gate.read(sample, now)     # None and the sentence why not

A link loses, delays, doubles and reorders; a headset loses its hands and finds them a metre away; a person sends whatever the
protocol allows. What comes through this door is recent, newer than all before, finite, and of one session.
"""

from __future__ import annotations

import dataclasses
import enum
from collections import Counter

import numpy as np

from sim_core.telepresence.clutch import OPENXR, Pose

__all__ = ["GLOVE_ANGLES", "SIDES", "OperatorSample", "Refused", "SampleGate"]

SIDES = ("right", "left")
GLOVE_ANGLES = 20


@dataclasses.dataclass(frozen=True, eq=False)
class OperatorSample:
    """Devices at one moment; pairs are right and left.

    Attributes:
        stamp: when they were read, on the robot's clock [s].
        sequence: number within the session, rising.
        session: of the link; every hand-shake makes a new one.
        axes: of the poses' world, `OPENXR` or `UNITY`, (3, 3).
        head, hands: poses, None where they are not tracked.
        clutch: whether a hand moves its arm.
        trigger: 0 open to 1 closed.
        stick: forward, left, anticlockwise, each -1 to 1.
        glove: angles of the left hand (20,) [rad], None without a glove.

    Raises:
        ValueError: a number is not finite or outside its range.
    """

    stamp: float
    sequence: int
    session: str
    head: Pose | None = None
    hands: tuple[Pose | None, Pose | None] = (None, None)
    clutch: tuple[bool, bool] = (False, False)
    trigger: tuple[float, float] = (0.0, 0.0)
    stick: tuple[float, float, float] = (0.0, 0.0, 0.0)
    glove: np.ndarray | None = None
    axes: np.ndarray = dataclasses.field(default_factory=lambda: OPENXR)

    def __post_init__(self) -> None:
        if not np.isfinite(self.stamp):
            raise ValueError(f"expected a finite stamp, found {self.stamp}")
        for name, low, high in (("trigger", 0.0, 1.0), ("stick", -1.0, 1.0)):
            value = np.asarray(getattr(self, name), float)
            if not (np.isfinite(value).all() and (low <= value).all() and (value <= high).all()):
                raise ValueError(f"expected {name} within {low:g} and {high:g}, found {value.tolist()}")
        if self.glove is not None:
            glove = np.asarray(self.glove, float)
            if glove.shape != (GLOVE_ANGLES,) or not np.isfinite(glove).all():
                raise ValueError(f"expected {GLOVE_ANGLES} finite angles of the glove, found shape {glove.shape}")


class Refused(enum.Enum):
    """Why a sample, or a hand of it, was not taken."""

    OLD = "older than its age limit"
    FUTURE = "stamped in the future"
    ORDER = "not newer than one before it"
    SESSION = "of a session that is over"
    JUMP = "a hand was elsewhere a moment before"


class SampleGate:
    """Takes the samples of one session at a time.

    Args:
        age_limit, future_limit: [s] by which a stamp may lie before and after now.
        speed_limit: [m/s] of a hand; what is faster is a tracker that has lost and found it, and the clutch is opened.
        slack: [m] that a hand may move at once on top of that.

    Attributes:
        session: whose samples are taken; "" before the first.
        refused: how many were not, by reason.
    """

    def __init__(
        self, age_limit: float = 0.25, future_limit: float = 0.1, speed_limit: float = 6.0, slack: float = 0.05
    ) -> None:
        self.age_limit, self.future_limit = age_limit, future_limit
        self.speed_limit, self.slack = speed_limit, slack
        self.session = ""
        self.refused: Counter[Refused] = Counter()
        self._over: set[str] = set()
        self._start_over()

    def _start_over(self) -> None:
        self._newest: tuple[int, float] | None = None
        self._places: list[tuple[float, np.ndarray] | None] = [None, None]
        self._barred = [False, False]
        self._jumped = [0.0, 0.0]

    def open(self, session: str) -> None:
        """From here on samples of this session are taken, and none of those before it."""
        if session != self.session:
            if self.session:
                self._over.add(self.session)
            self.session = session
            self._start_over()

    def read(self, sample: OperatorSample, now: float) -> tuple[OperatorSample | None, str]:
        """(the sample, with the clutch open on a hand that jumped, and "" or the sentence), or (None, sentence).

        Stamps of samples that are taken never go back.

        A session that was not heard of before opens by itself: the bridge alone speaks on the topic, and every hand-shake
        makes a new one.

        Args:
            sample: as received.
            now: the robot's clock [s].
        """
        if sample.session in self._over:
            return self._refuse(Refused.SESSION, "the page has joined anew since")
        age = now - sample.stamp
        if age > self.age_limit:
            return self._refuse(Refused.OLD, f"{1e3 * age:.0f} ms old, limit {1e3 * self.age_limit:.0f} ms")
        if -age > self.future_limit:
            return self._refuse(Refused.FUTURE, f"{-1e3 * age:.0f} ms ahead, limit {1e3 * self.future_limit:.0f} ms")
        self.open(sample.session)
        if self._newest is not None:
            if sample.sequence <= self._newest[0]:
                return self._refuse(Refused.ORDER, f"number {sample.sequence} after {self._newest[0]}")
            # The number says what came later. Their clock is estimated, and a better estimate may lie before the last.
            sample = dataclasses.replace(sample, stamp=max(sample.stamp, self._newest[1]))
        self._newest = (sample.sequence, sample.stamp)
        return self._without_jumps(sample)

    def _refuse(self, reason: Refused, found: str) -> tuple[None, str]:
        self.refused[reason] += 1
        return None, f"The operator's sample was not taken: {reason.value} ({found})."

    def _without_jumps(self, sample: OperatorSample) -> tuple[OperatorSample, str]:
        """A hand that jumped holds its arm until its clutch has been released."""
        clutch, why = list(sample.clutch), ""
        for i, hand in enumerate(sample.hands):
            before = self._places[i]
            self._places[i] = None if hand is None else (sample.stamp, hand.position)
            if hand is not None and before is not None:
                moved = float(np.linalg.norm(hand.position - before[1]))
                if moved > self.slack + self.speed_limit * (sample.stamp - before[0]):
                    self._barred[i] = True
                    self.refused[Refused.JUMP] += 1
                    self._jumped[i] = moved
            self._barred[i] = self._barred[i] and sample.clutch[i]
            if self._barred[i]:
                why = f"The {SIDES[i]} hand jumped by {self._jumped[i]:.2f} m; release its clutch and press it again."
            clutch[i] = clutch[i] and hand is not None and not self._barred[i]
        return dataclasses.replace(sample, clutch=(clutch[0], clutch[1])), why
