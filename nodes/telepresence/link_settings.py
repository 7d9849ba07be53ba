"""What the server of the link is given: where it listens, whom it lets in, and who is told of what clients say."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from nodes.telepresence.access import Door
from nodes.telepresence.client import Client
from nodes.telepresence.protocol import Message, Sample
from nodes.telepresence.protocol_robot import Limits

__all__ = ["LinkSettings", "Listener"]


@dataclass(frozen=True)
class LinkSettings:
    """What a server is given.

    Attributes:
        host, port: to listen on; port 0: a free one. tls: to encrypt with; None: in clear, on loopback.
        door: lets clients in. robot, title: its name, and what a person calls it. streams: cameras that may be asked for.
        page: folder of the page's files. clients: how many at once. limits: for the welcome.
    """

    door: Door
    host: str = "127.0.0.1"
    port: int = 0
    tls: ssl.SSLContext | None = None
    robot: str = ""
    title: str = ""
    streams: tuple[str, ...] = ()
    page: Path = Path(__file__).parent / "page"
    clients: int = 8
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True)
class Listener:
    """Who is told, on the loop's thread.

    Attributes:
        sample: of an operator, with its client and its age [s] by both clocks; it has passed every check.
        button: its name and value, and by what to answer. adjust: likewise, of what is set to a number.
        audience: clients came or went, or other cameras are looked at.
        face: a picture of the operator's face as JPEG; wants_face: whether anybody looks at it.
        voice: of the operator, 16-bit samples (frames, 1) at 48 kHz, and how old the first is [s]; hears_voice: whether anybody
            listens to it.
    """

    sample: Callable[[Client, Sample, float], None]
    button: Callable[[str, bool, Callable[[Message], None]], None]
    audience: Callable[[], None]
    face: Callable[[bytes], None] = lambda data: None
    wants_face: Callable[[], bool] = lambda: False
    voice: Callable[[np.ndarray, float], None] = lambda samples, age: None
    hears_voice: Callable[[], bool] = lambda: False
    adjust: Callable[[str, float, Callable[[Message], None]], None] = lambda name, value, reply: None
