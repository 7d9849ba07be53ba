"""A network between an operator and a robot, in simulated time: delay, jitter, loss, reordering and outages.

    way = Channel(LinkConditions(delay=0.1, jitter=0.005, loss=0.02), seed=0)
    way.send(message, now)
    for message in way.receive(now): ...                  # those that have arrived by now, in the order of their arrival

One channel is one direction. It carries datagrams, as the data channel of the protocol does: what is lost is not said again, and
what is late is overtaken. The delay of a message is constant and an exponentially distributed rest,

    T = delay + jitter E,   E ~ Exp(1),   so that   mean T = delay + jitter,   std T = jitter,

two messages sent h apart arrive in the wrong order with the probability exp(-h / jitter) / 2, and RFC 3550's jitter, the mean of
|T1 - T2|, is `jitter` itself.
"""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["Channel", "LinkConditions"]


@dataclass(frozen=True)
class LinkConditions:
    """Of one direction.

    Attributes:
        delay: that every message has [s]. jitter: mean and standard deviation of what comes on top [s].
        loss: share of the messages that never arrive, each by itself, 0 to 1. twice: share of those that do which come twice.
        outages: (begin, end) [s], end excluded: what is sent between them never arrives.

    Raises:
        ValueError: a number is outside its range, or an outage ends before it begins.
    """

    delay: float = 0.0
    jitter: float = 0.0
    loss: float = 0.0
    twice: float = 0.0
    outages: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        for name in ("delay", "jitter"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value >= 0.0):
                raise ValueError(f"expected {name} of at least 0 s, found {value}")
        for name in ("loss", "twice"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"expected {name} between 0 and 1, found {getattr(self, name)}")
        for begin, end in self.outages:
            if not begin <= end:
                raise ValueError(f"an outage begins before it ends, found {begin:g} to {end:g} s")

    def is_out(self, now: float) -> bool:
        """Whether nothing comes through at that time [s]."""
        return any(begin <= now < end for begin, end in self.outages)


@dataclass(order=True)
class _Underway:
    arrival: float
    number: int
    message: Any = field(compare=False)


class Channel:
    """Args:
        conditions: of the network.
        seed: of chance; equal seeds treat equal streams of messages equally.

    Attributes:
        counts: messages "sent", "lost" by chance, "cut" by an outage, "doubled" and "delivered"; what is missing from
            sent + doubled = lost + cut + delivered is underway.
    """

    def __init__(self, conditions: LinkConditions, seed: int | list[int] = 0) -> None:
        self.conditions = conditions
        self.counts: Counter[str] = Counter()
        self._rng = np.random.default_rng(seed)
        self._underway: list[_Underway] = []
        self._number = 0

    @property
    def underway(self) -> int:
        """Messages that have been sent and have yet to arrive."""
        return len(self._underway)

    def send(self, message: Any, now: float) -> None:
        """Send a message now [s]."""
        # All numbers are drawn for every message, so that an outage changes nothing of what comes after it.
        lost, doubled = self._rng.random(2) < (self.conditions.loss, self.conditions.twice)
        late = self.conditions.jitter * self._rng.standard_exponential(2)
        self.counts["sent"] += 1
        if self.conditions.is_out(now):
            self.counts["cut"] += 1
            return
        if lost:
            self.counts["lost"] += 1
            return
        for more in late[: 2 if doubled else 1]:
            heapq.heappush(self._underway, _Underway(now + self.conditions.delay + more, self._number, message))
            self._number += 1
        self.counts["doubled"] += int(doubled)

    def receive(self, now: float) -> list[Any]:
        """Messages that have arrived by now [s] and have not been received before, the earliest first."""
        arrived = []
        while self._underway and self._underway[0].arrival <= now:
            arrived.append(heapq.heappop(self._underway).message)
        self.counts["delivered"] += len(arrived)
        return arrived
