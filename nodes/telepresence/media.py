"""The robot's pictures and sound for all clients, and each client's connection to them.

What WebRTC needs is loaded with the first offer: a bridge that nobody looks through is small.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from nodes.telepresence.sound import Microphone
    from nodes.telepresence.video import Cameras, Ears, VideoLink

__all__ = ["Media"]


class Media:
    """On one asyncio loop.

    Args:
        streams: names of the cameras that may be asked for. local: the one address to send from; "": any of this machine's.
    """

    def __init__(self, streams: tuple[str, ...], local: str) -> None:
        self._streams, self._local = streams, local
        self._cameras: Cameras | None = None
        self._microphone: Microphone | None = None

    def picture(self, name: str, data: bytes, kind: str, at: float) -> None:
        """A camera's newest picture: its bytes, as of `kind` ("jpeg", "png"), taken at a time [s] of the loop's clock."""
        if self._cameras is not None:
            self._cameras.take(name, data, kind, at)

    def sound(self, samples: np.ndarray, rate: int, at: float) -> None:
        """A chunk of the microphone's sound: 16-bit samples (frames, 1 or 2), the first at a time [s] of the loop's clock."""
        if self._microphone is not None:
            self._microphone.take(samples, rate, at)

    @property
    def counts(self) -> Mapping[str, int]:
        """What happened to the robot's sound, by name."""
        return {} if self._microphone is None else {f"sound_{k}": n for k, n in self._microphone.counts.items()}

    async def connect(self, sdp: str, peer: str, ears: Ears) -> tuple[VideoLink, str]:
        """A client's connection, and the answer to its offer.

        Args:
            sdp: the offer. peer: address of the client. ears: for what it says and shows.

        Raises:
            ValueError: the offer cannot be used.
        """
        from nodes.telepresence.sound import Microphone
        from nodes.telepresence.video import Cameras, VideoLink

        if self._cameras is None or self._microphone is None:
            self._cameras, self._microphone = Cameras(), Microphone()
        link = VideoLink(self._cameras, self._microphone, self._streams, ears)
        try:
            return link, await link.answer(sdp, peer, self._local)
        except ValueError:
            await link.close()
            raise
