"""One client of the link: who it is, what waits to be said to it, and what has been counted of it.

What is said goes out in order; of the status only the newest waits, so that a client with a slow network gets the present,
late by one message, and not the past. A client for which too much waits is given up.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from nodes.telepresence.meter import Meter
from nodes.telepresence.protocol import Message, write
from nodes.telepresence.quota import Quota

if TYPE_CHECKING:
    from nodes.telepresence.sample_stream import SampleStream
    from nodes.telepresence.session_log import SessionLog
    from nodes.telepresence.video import VideoLink

__all__ = ["Client", "Outbox"]

#: messages that may wait beside a status
WAITING = 64


class Outbox:
    """Messages on their way to one client.

    Args:
        send: sends one text; it may take as long as the network does.
    """

    def __init__(self, send: Callable[[str], Awaitable[None]]) -> None:
        self._send = send
        self._waiting: deque[Message] = deque()
        self._newest: Message | None = None
        self._filled = asyncio.Event()
        self._ended = False
        self.meter = Meter()

    def say(self, message: Message) -> None:
        """Send after everything that waits; too many that wait end the sending."""
        self._waiting.append(message)
        self._ended = self._ended or len(self._waiting) > WAITING
        self._filled.set()

    def show(self, message: Message) -> None:
        """Send when nothing else waits, unless another has been shown by then."""
        self._newest = message
        self._filled.set()

    def end(self) -> None:
        """Send what waits, and no more."""
        self._ended = True
        self._filled.set()

    async def run(self) -> None:
        """Send until the end, or until the network is gone.

        Raises:
            OSError: it is gone.
        """
        clock = asyncio.get_running_loop().time
        while True:
            await self._filled.wait()
            while self._waiting or self._newest is not None:
                if self._ended and (not self._waiting or len(self._waiting) > WAITING):
                    break
                if self._waiting:
                    message = self._waiting.popleft()
                else:
                    assert self._newest is not None
                    message, self._newest = self._newest, None
                text = write(message)
                await self._send(text)
                self.meter.add(len(text), clock())
            if self._ended:
                return
            self._filled.clear()


class Client:
    """Somebody who has said hello, or is about to.

    Attributes:
        address: from where. abort: ends the connection without waiting for the other side. name, role, axes: as it said; role "" before its hello. session: of its present role.
        heard: when it last said anything [s]. dismissed: it is sent away, and nothing it says counts. stream: clock and gate of its samples. video: what it sees and hears, if it does. speaks: its voice is wanted; off in every new role.
    """

    def __init__(
        self, send: Callable[[str], Awaitable[None]], abort: Callable[[], None], address: str, now: float
    ) -> None:
        self.address, self.abort = address, abort
        self.name = self.role = self.session = ""
        self.axes = "openxr"
        self.heard = now
        self.dismissed = self.speaks = False
        self.outbox = Outbox(send)
        self.quota = Quota()
        self.samples = Meter()
        self.stream: SampleStream | None = None
        self.log: SessionLog | None = None
        self.how_it_ended = "left"
        self.video: VideoLink | None = None
        self.video_lock = asyncio.Lock()

    @property
    def is_in(self) -> bool:
        """Whether it has been welcomed."""
        return bool(self.role)

    @property
    def drives(self) -> bool:
        """Whether it has the operator's seat."""
        return self.role == "operator"

    def say(self, message: Message) -> None:
        """Send a message."""
        self.outbox.say(message)
