"""The operator's clock beside the robot's, and how good the link between them is, from pings alone.

    clock = LinkClock()
    clock.pong(sent, theirs, received)          # our clock, theirs, our clock [s]
    stamp = clock.ours(their_stamp)             # the same moment on our clock

The offset of two clocks is known to half the round trip. Queues only ever lengthen a trip, so the shortest trips of the last
while tell it best (NTP's clock filter; Mills, RFC 5905, section 10). A headset's clock may be wrong by hours, drift, and be set
anew while it runs.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

__all__ = ["LinkClock", "LinkQuality", "Transit"]

#: [s] of disagreement beyond what the round trips explain, from which on their clock was set anew
STEP = 0.25


@dataclass(frozen=True)
class LinkQuality:
    """Of the last while.

    Attributes:
        rtt, jitter: median round trip, and RFC 3550's smoothed difference of transit times [s]; NaN before the first pong.
        loss: share of samples that never came, 0 to 1.
    """

    rtt: float
    jitter: float
    loss: float


class LinkClock:
    """Args:
    window: number of round trips that are remembered.

    Attributes:
        steps: how often their clock was found to be set anew.
    """

    def __init__(self, window: int = 40) -> None:
        self._trips: deque[tuple[float, float]] = deque(maxlen=window)  # round trip, offset (theirs - ours)
        self.steps = 0

    @property
    def known(self) -> bool:
        """Whether a stamp can be brought to our clock yet."""
        return bool(self._trips)

    @property
    def offset(self) -> float:
        """Their clock less ours [s], by the shortest trip of the window; NaN before the first."""
        return min(self._trips)[1] if self._trips else float("nan")

    @property
    def rtt(self) -> float:
        """Median round trip of the window [s]; NaN before the first."""
        return float(np.median([trip for trip, _ in self._trips])) if self._trips else float("nan")

    def pong(self, sent: float, theirs: float, received: float) -> None:
        """An answer to a ping.

        Args:
            sent, received: when the ping left and its answer came, on our clock [s].
            theirs: their clock when they answered [s].

        Raises:
            ValueError: not finite, or received before it was sent.
        """
        if not np.isfinite([sent, theirs, received]).all() or received < sent:
            raise ValueError(
                f"expected a finite round trip forward in time, found {sent} to {received} by way of {theirs}"
            )
        trip, offset = received - sent, theirs - 0.5 * (sent + received)
        if self._trips:
            shortest, known = min(self._trips)
            if abs(offset - known) > STEP + 0.5 * (trip + shortest):
                self._trips.clear()
                self.steps += 1
        self._trips.append((trip, offset))

    def ours(self, theirs: float) -> float:
        """A stamp of theirs on our clock [s].

        Raises:
            ValueError: no answer has come yet.
        """
        if not self._trips:
            raise ValueError("their clock is not known before the first answer to a ping")
        return theirs - self.offset


class Transit:
    """How numbered messages come through: loss and jitter.

    Args:
        window: number of messages after which old losses are forgotten, about.

    Source: Schulzrinne et al., RFC 3550 (2003), section 6.4.1 and appendix A.8.
    """

    def __init__(self, window: int = 500) -> None:
        self._share = 1.0 / window
        self._newest: int | None = None
        self._late: set[int] = set()
        self._transit = float("nan")
        self.jitter = float("nan")
        self.loss = 0.0
        self.received = self.lost = self.reordered = 0

    def arrive(self, sequence: int, sent: float, received: float) -> None:
        """Message `sequence` came.

        Args:
            sequence: its number; those between it and the newest before count as lost until they come late.
            sent, received: on one clock [s].
        """
        transit = received - sent
        if np.isfinite(self._transit):
            change = abs(transit - self._transit)
            self.jitter = change if not np.isfinite(self.jitter) else self.jitter + (change - self.jitter) / 16.0
        self._transit = transit
        self.received += 1
        if self._newest is not None and sequence <= self._newest:
            if sequence in self._late:
                self._late.discard(sequence)
                self.lost -= 1
                self.reordered += 1
                self.loss = max(0.0, self.loss - self._share)
            return
        missing = 0 if self._newest is None else sequence - self._newest - 1
        self._late.update(range(sequence - min(missing, 1000), sequence))
        if len(self._late) > 2000:
            self._late = {number for number in self._late if number > sequence - 1000}
        self.lost += missing
        keep = 1.0 - self._share
        self.loss = keep * (1.0 - (1.0 - self.loss) * keep**missing)
        self._newest = sequence

    def quality(self, rtt: float) -> LinkQuality:
        """With the round trip that a `LinkClock` found [s]."""
        return LinkQuality(rtt, self.jitter, min(1.0, max(0.0, self.loss)))
