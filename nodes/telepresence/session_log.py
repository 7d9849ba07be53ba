"""What a session was: who, for how long, what came and what was dropped, and how good the link was.

Plain facts of finished sessions, in JSON's own types; `session_report` makes pages of them. Knows neither the network nor ROS.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from nodes.telepresence.sample_stream import SampleStream

__all__ = ["SessionLog", "percentiles"]


class SessionLog:
    """One session, while it lasts.

    Args:
        session, name, role, address: whose it is. began: when, by the loop's clock [s]. date: when, by the calendar.
        stream: of its samples.
    """

    def __init__(
        self, session: str, name: str, role: str, address: str, began: float, date: str, stream: SampleStream
    ) -> None:
        self.session, self.name, self.role, self.address = session, name, role, address
        self.began, self.date, self.stream = began, date, stream
        self.dropped: Counter[str] = Counter()
        self.buttons: Counter[str] = Counter()
        self.video: list[dict[str, Any]] = []  # of each connection, as `VideoLink.facts` says it
        self._sizes: Counter[str] = Counter()

    def measure(self, name: str, size: int) -> None:
        """Something of a stream has passed [bytes]."""
        self._sizes[name] += size

    def facts(self, ended: float, heard: float, how: str) -> dict[str, Any]:
        """All that is known at the end.

        Args:
            ended: when [s]. heard: when anything was last heard of the client [s]. how: it ended, in words.
        """
        arrived, lost = self.stream.loss()
        quality = self.stream.numbers({})
        seconds = max(ended - self.began, 1e-9)
        return {
            "session": self.session,
            "name": self.name,
            "role": self.role,
            "address": self.address,
            "date": self.date,
            "began_s": self.began,
            "last_heard_s": heard,
            "seconds": seconds,
            "ended": how,
            "samples": {
                "arrived": arrived,
                "taken": len(self.stream.ages),
                "lost": lost,
                "dropped": dict(sorted(self.dropped.items())),
            },
            "age_ms": percentiles(self.stream.ages),
            "rtt_ms": percentiles(self.stream.trips),
            "jitter_ms": quality.jitter_ms,
            "loss": lost / (arrived + lost) if arrived else None,
            "clock_steps": self.stream.clock_steps,
            "bandwidth_kbit": {name: 8e-3 * size / seconds for name, size in sorted(self._sizes.items())},
            "buttons": dict(sorted(self.buttons.items())),
            "video": self.video,
        }


def percentiles(values: Iterable[float]) -> dict[str, float] | None:
    """{"p50": ..., "p95": ..., "p99": ..., "max": ...} [ms] of times [s]; None of none."""
    found = 1e3 * np.fromiter(values, float)
    if not found.size:
        return None
    return dict(zip(("p50", "p95", "p99", "max"), np.percentile(found, [50, 95, 99, 100]).round(3).tolist()))
