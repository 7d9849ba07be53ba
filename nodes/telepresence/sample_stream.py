"""The stream of one session's samples: how old each is, by clocks that pings align, and which are taken."""

from __future__ import annotations

import math
from collections import deque

from nodes.telepresence.protocol import Ping, Pong, Sample
from nodes.telepresence.protocol_robot import LinkNumbers
from sim_core.telepresence.link_clock import LinkClock, Transit
from sim_core.telepresence.operator_sample import OperatorSample, Refused, SampleGate

__all__ = ["AGE_LIMIT", "SampleStream"]

#: [s] from which on a sample is too old
AGE_LIMIT = 0.25
#: pings whose answers are waited for; 5 a second are sent
WAITING = 64
#: ages that are remembered: those of half an hour at 120 Hz
AGES = 200_000
#: reason of a gate -> word that a count has
REASONS = {
    Refused.OLD: "stale",
    Refused.FUTURE: "future",
    Refused.ORDER: "order",
    Refused.SESSION: "session",
    Refused.JUMP: "jump",
}


class SampleStream:
    """Of one session; what is said of times is in the loop's clock [s], but for the client's own t [ms].

    Attributes:
        ages: of the samples that were taken [s]. trips: round trips of pings [s].
    """

    def __init__(self, session: str) -> None:
        self._session = session
        self._clock = LinkClock()
        self._transit = Transit()
        self._gate = SampleGate(age_limit=AGE_LIMIT)
        self._pings: dict[int, float] = {}
        self._number = 0
        self.ages: deque[float] = deque(maxlen=AGES)
        self.trips: deque[float] = deque(maxlen=AGES)

    def ping(self, now: float) -> Ping:
        """A question to the client, whose answer tells its clock."""
        self._number += 1
        self._pings[self._number] = now
        if len(self._pings) > WAITING:
            del self._pings[next(iter(self._pings))]
        return Ping(self._number, 1e3 * now)

    def pong(self, pong: Pong, now: float) -> None:
        """An answer of the client; one to what nobody asked says nothing."""
        sent = self._pings.pop(pong.id, None)
        if sent is not None:
            self._clock.pong(sent, 1e-3 * pong.t, now)
            self.trips.append(now - sent)

    def age(self, t: float, now: float) -> float | None:
        """How old something is that the client stamped with t [ms]; None: its clock is not known yet."""
        return now - self._clock.ours(1e-3 * t) if self._clock.known else None

    def take(self, sample: Sample, now: float) -> tuple[float, str]:
        """(age of a sample, why it is not taken, in a word, or "")."""
        age = self.age(sample.t, now)
        if age is None:
            return math.nan, "unaligned"
        self._transit.arrive(sample.seq, now - age, now)
        before = self._gate.refused.copy()
        taken, _ = self._gate.read(OperatorSample(now - age, sample.seq, self._session), now)
        if taken is None:
            return age, next(word for reason, word in REASONS.items() if self._gate.refused[reason] > before[reason])
        age = max(age, 0.0)
        self.ages.append(age)
        return age, ""

    @property
    def newest_trip(self) -> float | None:
        """The last ping's round trip [s]."""
        return self.trips[-1] if self.trips else None

    @property
    def clock_steps(self) -> int:
        """How often the client's clock was found to be set anew."""
        return self._clock.steps

    def numbers(self, bandwidth: dict[str, float]) -> LinkNumbers:
        """The link as a status shows it."""
        quality = self._transit.quality(self._clock.rtt)
        return LinkNumbers(
            rtt_ms=_milliseconds(quality.rtt),
            loss=quality.loss if self._transit.received else None,
            jitter_ms=_milliseconds(quality.jitter),
            age_ms=_milliseconds(self.ages[-1] if self.ages else math.nan),
            bandwidth_kbit=bandwidth,
        )

    def loss(self) -> tuple[int, int]:
        """Samples that came, and that never did."""
        return self._transit.received, self._transit.lost


def _milliseconds(value: float) -> float | None:
    return round(1e3 * value, 2) if math.isfinite(value) else None
