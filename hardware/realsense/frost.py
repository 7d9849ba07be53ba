"""Imagers that repeat one image: a sensor's noise never does."""

from __future__ import annotations

import numpy as np

__all__ = ["Frost"]

EQUAL_IMAGES = 10  # in a row under new numbers
STRIDE = 997  # every so-manyth value is compared: 400 of a depth image


class Frost:
    """Watches the images of each stream.

    Attributes:
        frozen: streams that have repeated their image too often.
    """

    def __init__(self) -> None:
        self.frozen: set[str] = set()
        self._seen: dict[str, tuple[bytes, int]] = {}

    def begins(self, stream: str, pixels: np.ndarray) -> bool:
        """Look at a new image; True at the moment in which its stream counts as frozen."""
        sample = pixels.reshape(-1)[::STRIDE].tobytes()
        before, equal = self._seen.get(stream, (b"", 0))
        # An image of zeros shows that nothing is in sight, not that the imager has stopped.
        equal = equal + 1 if sample == before and any(sample) else 0
        self._seen[stream] = sample, equal
        began = equal == EQUAL_IMAGES
        (self.frozen.add if equal >= EQUAL_IMAGES else self.frozen.discard)(stream)
        return began
