"""Whether the streams that a recorder has heard still arrive. Pure; time is an argument."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["Silence"]


class Silence:
    """Notices that nothing arrives any more of what has publishers: they are silent, or whoever listens is deaf.

    Args:
        limit: without a message of any stream, after which it is silence [s].
    """

    FEW = 10  # messages of a topic that is no stream yet: a description, a few events

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self._arrived, self._since = 0, 0.0

    def look(self, now: float, counts: Mapping[str, int], publishers: Mapping[str, int]) -> str:
        """A sentence if there is silence, else "".

        Args:
            now: [s].
            counts: messages so far, by topic.
            publishers: now, by topic.
        """
        arrived = sum(count for count in counts.values() if count > self.FEW)
        if arrived != self._arrived:
            self._arrived, self._since = arrived, now
        streams = [topic for topic, count in counts.items() if count > self.FEW and publishers.get(topic)]
        if not streams or now - self._since < self.limit:
            return ""
        return (
            f"Nothing has arrived for {now - self._since:.0f} s of {', '.join(sorted(streams))}, which have publishers: "
            "they are silent, as in a pause, or this process is deaf; then start it anew."
        )
