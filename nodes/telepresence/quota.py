"""How much a client may say: a bucket for each kind of message, and an end for who keeps overflowing them.

Excess messages are dropped before anybody looks at what they say. A client that is a little too fast loses what is too
much; one that floods is sent away. Knows neither the network nor ROS.
"""

from __future__ import annotations

from collections import deque

__all__ = ["Bucket", "Quota"]

#: kind of message -> how many a second, and how many at once; "any": of all texts, before they are read. Samples come at
#: 120 Hz, the rest of a page's by hand or at 5 Hz
RATES = {
    "any": (300.0, 200.0),
    "sample": (150.0, 60.0),
    "ping": (20.0, 20.0),
    "pong": (20.0, 20.0),
    "button": (20.0, 20.0),
    "offer": (1.0, 5.0),
}
#: of every other kind, and of what is no message
OTHER = (5.0, 10.0)
#: so many messages too many within so many seconds are a flood; a network that comes back after a while delivers what was
#: said meanwhile at once, which is none
FLOOD, FLOOD_TIME = 2000, 5.0
#: so many texts that are no messages within so many seconds are no mistake
WRONG, WRONG_TIME = 10, 10.0


class Bucket:
    """Fills with `rate` a second, holds `size`, and gives one for each message, or as much as somebody asks for."""

    def __init__(self, rate: float, size: float) -> None:
        self._rate, self._size = rate, size
        self._level, self._at = size, 0.0

    def take(self, now: float, amount: float = 1.0) -> bool:
        """Whether there was so much, at a time [s] of a clock that never goes back."""
        self._level = min(self._size, self._level + self._rate * max(now - self._at, 0.0))
        self._at = now
        if self._level < amount:
            return False
        self._level -= amount
        return True


class _Recent:
    """Whether so many events come within a time."""

    def __init__(self, count: int, within: float) -> None:
        self._count, self._within = count, within
        self._times: deque[float] = deque(maxlen=count)

    def add(self, now: float) -> bool:
        self._times.append(now)
        return len(self._times) == self._count and now - self._times[0] <= self._within


class Quota:
    """What one client may say.

    Attributes:
        dropped: messages too many so far. wrong: texts that were no messages so far.
    """

    def __init__(self) -> None:
        self._buckets: dict[str, Bucket] = {}
        self._flood = _Recent(FLOOD, FLOOD_TIME)
        self._nonsense = _Recent(WRONG, WRONG_TIME)
        self.dropped = self.wrong = 0
        self.flooding = self.senseless = False

    def allows(self, kind: str, now: float) -> bool:
        """Whether a message of a kind may be taken now; sets `flooding` where it is one of far too many."""
        bucket = self._buckets.get(kind) or self._buckets.setdefault(kind, Bucket(*RATES.get(kind, OTHER)))
        if bucket.take(now):
            return True
        self.dropped += 1
        self.flooding = self._flood.add(now)
        return False

    def mistake(self, now: float) -> None:
        """A text was no message; sets `senseless` where it is one of too many."""
        self.wrong += 1
        self.senseless = self._nonsense.add(now)
