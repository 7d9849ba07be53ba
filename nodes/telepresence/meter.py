"""How much runs through a stream: its size over the last second, and in all."""

from __future__ import annotations

from collections import deque

__all__ = ["Meter"]

#: [s] over which a rate is taken
WINDOW = 1.0


class Meter:
    """Counts what passes.

    Attributes:
        size: in all [bytes]. count: pieces in all.
    """

    def __init__(self, window: float = WINDOW) -> None:
        self._window = window
        self._pieces: deque[tuple[float, int]] = deque()
        self._inside = 0
        self.size = self.count = 0

    def add(self, size: int, now: float) -> None:
        """A piece of so many bytes passes, at a time [s] of a clock that never goes back."""
        self._pieces.append((now, size))
        self._inside += size
        self.size += size
        self.count += 1
        self._forget(now)

    def kbit(self, now: float) -> float:
        """What passed within the window before a time [kbit/s]."""
        self._forget(now)
        return self._inside * 8e-3 / self._window

    def _forget(self, now: float) -> None:
        while self._pieces and self._pieces[0][0] < now - self._window:
            self._inside -= self._pieces.popleft()[1]
