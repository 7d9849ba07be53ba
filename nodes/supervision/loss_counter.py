"""Messages lost on the way, from the sequence numbers their publisher gave them."""

from __future__ import annotations

__all__ = ["LossCounter"]


class LossCounter:
    """Counts what one publisher sent and this reader never got.

    Late arrivals count as arrived: losses are (highest - first + 1) - received, so a message that
    overtook others is no loss. What was sent before the first message seen is unknown.

    Two publishers interleave their numbers, which looks like losses. Whoever counts knows of the second one
    only after its first messages came, so a loss stands once it is settled that nobody else was there.

    Attributes:
        lost: so far.
        settled: of these, what stands.
    """

    REORDER = 1000  # further back than a reader's history is a new publisher, not a late message

    def __init__(self) -> None:
        self._first = self._highest = self._received = 0
        self._before = 0  # lost of publishers that are gone
        self.settled = 0

    @property
    def lost(self) -> int:
        return self._before + self._present()

    def _present(self) -> int:
        return max(0, self._highest - self._first + 1 - self._received) if self._received else 0

    def see(self, number: int) -> None:
        """A message with this publication sequence number arrived; numbers begin at 1."""
        restarted = number == 1 or number < self._first or number < self._highest - self.REORDER
        if not self._received or restarted:
            self._before += self._present()
            self._first = self._highest = number
            self._received = 1
            return
        self._highest = max(self._highest, number)
        self._received += 1

    def settle(self) -> None:
        """All that was seen until now came from one publisher."""
        self.settled = self.lost
