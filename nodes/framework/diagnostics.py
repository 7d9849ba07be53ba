"""Diagnostics once a second, sent by the loop they describe.

The loop calls `beat()` on every turn; once a second that publishes. A stalled loop therefore
falls silent, instead of a timer beside it reporting that all is well.

    diagnostics.tick("cycles")                 # counted, and published as cycles and cycles_rate
    diagnostics.set("real_time_factor", 0.99)  # a value as of now
    diagnostics.warn("Command refused: ...")   # the worst since the last beat sets the level
    diagnostics.beat()
"""

from __future__ import annotations

import threading
import time

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue

from nodes.framework.qos import STATE

__all__ = ["Diagnostics"]

OK, WARN, ERROR = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR


class Diagnostics:
    """Collects one node's facts and publishes them on `diagnostics`. Safe to use from any thread.

    Args:
        node: publisher's owner; its fully qualified name is the status name.
        hardware_id: robot or device the facts are about.
        period: time between messages [s], wall clock: a paused simulation still reports.
        now: source of the message stamp, a callable giving builtin_interfaces/Time; the node's
            clock if None.
        turned: called on every turn of the loop, that is by every `beat`.
    """

    def __init__(self, node, hardware_id: str = "", period: float = 1.0, now=None, turned=None) -> None:
        self.hardware_id = hardware_id
        self.period = period
        self._name = node.get_fully_qualified_name().lstrip("/")
        self._now = now or (lambda: node.get_clock().now().to_msg())
        self._turned = turned or (lambda: None)
        self._publisher = node.create_publisher(DiagnosticArray, "diagnostics", STATE)
        self._lock = threading.Lock()
        self._values: dict[str, object] = {}
        self._counts: dict[str, int] = {}
        self._counts_before: dict[str, int] = {}
        self._worst = (OK, "running")
        self._standing: tuple[bytes, str] | None = None
        self._notice = ""
        self._due = self._since = time.monotonic()

    def set(self, key: str, value) -> None:
        """State a value; it is repeated until set anew."""
        with self._lock:
            self._values[key] = value

    def set_percentiles(self, key: str, values) -> None:
        """State the 50th, 95th and 99th percentile of at least two values as <key>_p50 and so on."""
        if len(values) >= 2:
            for q in (50, 95, 99):
                self.set(f"{key}_p{q}", float(np.percentile(values, q)))

    def tick(self, key: str, n: int = 1) -> int:
        """Count an event; returns the total. Published with its rate since the last message."""
        with self._lock:
            self._counts[key] = total = self._counts.get(key, 0) + n
        return total

    def count(self, key: str) -> int:
        """Events counted so far under `key`."""
        return self._counts.get(key, 0)

    def warn(self, sentence: str) -> None:
        """Something is off, the node goes on; said in the next message."""
        self._raise_level(WARN, sentence)

    def notice(self, sentence: str) -> None:
        """A warning that stands before whatever else the next message says, and is not replaced by it."""
        with self._lock:
            self._notice = sentence

    def error(self, sentence: str) -> None:
        """Something failed; said in the next message."""
        self._raise_level(ERROR, sentence)

    def stand(self, level: bytes | None, sentence: str = "") -> None:
        """A condition that lasts (halted, paused) until called with level None."""
        with self._lock:
            self._standing = None if level is None else (level, sentence)

    def _raise_level(self, level: bytes, sentence: str) -> None:
        with self._lock:
            if level >= self._worst[0]:
                self._worst = (level, sentence)

    def beat_due(self) -> bool:
        """Whether the next `beat` will publish: the moment to state values that cost something."""
        return time.monotonic() >= self._due

    def beat(self, force: bool = False) -> bool:
        """Publish if a period has passed; True if published."""
        self._turned()
        now = time.monotonic()
        if now < self._due and not force:
            return False
        with self._lock:
            self._due = now + self.period
            elapsed, self._since = max(now - self._since, 1e-9), now
            level, sentence = self._worst
            if self._standing is not None and self._standing[0] >= level:
                level, sentence = self._standing
            if self._notice:
                level, sentence = max(level, WARN), f"{self._notice} {sentence}" if level > OK else self._notice
            self._worst, self._notice = (OK, "running"), ""
            values = {key: _text(value) for key, value in self._values.items()}
            for key, total in self._counts.items():
                values[key] = str(total)
                values[f"{key}_rate"] = f"{(total - self._counts_before.get(key, 0)) / elapsed:.1f}"
            self._counts_before = dict(self._counts)
        message = DiagnosticArray(
            status=[
                DiagnosticStatus(
                    level=level,
                    name=self._name,
                    message=sentence,
                    hardware_id=self.hardware_id,
                    values=[KeyValue(key=key, value=value) for key, value in values.items()],
                )
            ]
        )
        message.header.stamp = self._now()
        self._publisher.publish(message)
        return True


def _text(value) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
