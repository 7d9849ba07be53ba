"""What a client says to the robot, version 1 of the protocol: JSON text, one object a message. docs/telepresence_protocol.md.

    message = parse(text)            # Hello, Sample, Button, Adjust, Ping, Pong, Take, Release or Offer
    text = write(message)

Every key of a message is there, and no other; every number is finite and within its range. A text that is not so is
refused with one sentence. What the robot says is in `protocol_robot`. Knows neither the network nor ROS.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from nodes.telepresence.strict_json import Fields, SchemaError, read_object

__all__ = [
    "ADJUSTMENTS",
    "AXES",
    "BUTTONS",
    "MAX_BYTES",
    "MAX_TIME",
    "ROLES",
    "VERSION",
    "Adjust",
    "Button",
    "ClientMessage",
    "Hand",
    "Hello",
    "Message",
    "Offer",
    "Ping",
    "Place",
    "Pong",
    "Release",
    "Sample",
    "Take",
    "VersionError",
    "parse",
    "read_beat",
    "read_place",
    "write",
]

VERSION = 1
#: of one message [bytes]
MAX_BYTES = 16384
ROLES = ("operator", "watcher")
AXES = ("openxr", "unity")
BUTTONS = ("stop", "resume", "home", "narrow", "precision", "reset_fault", "texture_scan", "face_video", "speak")
#: what may be set to a number, and its range: yaw of the head while the operator looks straight ahead [rad], to the left; distance of
#: the robot's eyes [m]
ADJUSTMENTS = {"head_yaw": (-math.pi, math.pi), "eye_distance": (0.05, 0.08)}

#: [ms] of a sender's clock, whatever its origin: thirty thousand years
MAX_TIME = 1e15
#: [m] from the origin of the operator's room
MAX_DISTANCE = 100.0
#: [rad] of an angle of the glove
MAX_ANGLE = 2.0 * math.pi
GLOVE_ANGLES = 20
#: by which a quaternion's norm may differ from 1; it is normalised
NORM_MARGIN = 0.05


class VersionError(SchemaError):
    """Somebody speaks another version."""

    code = "version"


@dataclass(frozen=True)
class Message:
    """Anything that is said in either direction."""

    type: ClassVar[str]


@dataclass(frozen=True)
class Place:
    """Where something is, in the sender's axes.

    Attributes:
        p: position (3,) [m]. q: orientation (4,), a unit quaternion x, y, z, w.
    """

    p: tuple[float, ...]
    q: tuple[float, ...]


@dataclass(frozen=True)
class Hand(Place):
    """A tracked hand: its place, whether its clutch is pressed, and its trigger from 0 (open) to 1."""

    clutch: bool
    trigger: float


@dataclass(frozen=True)
class Hello(Message):
    """The first message of a client.

    Attributes:
        token: of the robot's token file. nonce: 16 hexadecimal digits that nobody has used before.
        name: by which others know this client. role: that it asks for. axes: of its poses.
    """

    type = "hello"
    version: int
    token: str
    nonce: str
    name: str
    role: str
    axes: str


@dataclass(frozen=True)
class Sample(Message):
    """What the operator's devices say at one moment.

    Attributes:
        seq: rises from message to message. t: [ms] when the devices were read, on the sender's clock.
        head, right, left: None: not tracked. stick: forward, left, anticlockwise (3,), each -1 to 1.
        glove: angles (20,) [rad] of the left hand, or None.
    """

    type = "sample"
    seq: int
    t: float
    head: Place | None
    right: Hand | None
    left: Hand | None
    stick: tuple[float, ...]
    glove: tuple[float, ...] | None


@dataclass(frozen=True)
class Button(Message):
    """A button was pressed or let go; `name` is one of BUTTONS."""

    type = "button"
    seq: int
    t: float
    name: str
    value: bool


@dataclass(frozen=True)
class Adjust(Message):
    """Something shall be set to a number; `name` is one of ADJUSTMENTS."""

    type = "adjust"
    seq: int
    t: float
    name: str
    value: float


@dataclass(frozen=True)
class Ping(Message):
    """Asks for a `Pong` of the same id; t: [ms] of the sender's clock."""

    type = "ping"
    id: int
    t: float


@dataclass(frozen=True)
class Pong(Message):
    """Answers a `Ping`; t: [ms] of the clock of whoever answers."""

    type = "pong"
    id: int
    t: float


@dataclass(frozen=True)
class Take(Message):
    """A watcher asks to become the operator."""

    type = "take"


@dataclass(frozen=True)
class Release(Message):
    """The operator becomes a watcher."""

    type = "release"


@dataclass(frozen=True)
class Offer(Message):
    """The client's half of a WebRTC connection, as a session description."""

    type = "offer"
    sdp: str


ClientMessage = Hello | Sample | Button | Adjust | Ping | Pong | Take | Release | Offer


def parse(text: str | bytes) -> ClientMessage:
    """A client's message.

    Raises:
        SchemaError: it is none; of these VersionError: a hello of another version.
    """
    fields = Fields(read_object(text, MAX_BYTES), "a message")
    kind = fields.choice("type", tuple(_PARSERS))
    fields = fields.named(f"a message of type '{kind}'")
    message = _PARSERS[kind](fields)
    fields.end()
    return message


def write(message: Message) -> str:
    """A message of either direction as text; numbers that are not finite become null."""
    return json.dumps({"type": message.type, **_plain(message)}, allow_nan=False, separators=(",", ":"))


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {item.name: _plain(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def read_place(fields: Fields) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The fields p and q of a `Place`.

    Raises:
        SchemaError
    """
    p, q = fields.numbers("p", 3, MAX_DISTANCE), fields.numbers("q", 4, 1.0 + NORM_MARGIN)
    norm = math.sqrt(sum(item * item for item in q))
    if abs(norm - 1.0) > NORM_MARGIN:
        raise SchemaError(f"'q' of {fields.what}: expected a quaternion of norm 1, found norm {norm:.3g}.")
    return p, tuple(item / norm for item in q)


def read_beat(fields: Fields) -> tuple[int, float]:
    """The fields id and t of a `Ping` or `Pong`.

    Raises:
        SchemaError
    """
    return fields.integer("id"), fields.number("t", -MAX_TIME, MAX_TIME)


def _hello(fields: Fields) -> Hello:
    version = fields.integer("version")
    if version != VERSION:
        older = "the page is older: reload it" if version < VERSION else "the robot is older: update it"
        raise VersionError(
            f"The robot speaks version {VERSION} of the protocol and the page version {version}; {older}."
        )
    nonce = fields.text("nonce", 16, 16)
    if not set(nonce) <= set("0123456789abcdefABCDEF"):
        raise SchemaError("'nonce' of a message of type 'hello': expected 16 hexadecimal digits, found others.")
    return Hello(
        version=version,
        token=fields.text("token", 256),
        nonce=nonce.lower(),
        name=fields.text("name", 40, 1),
        role=fields.choice("role", ROLES),
        axes=fields.choice("axes", AXES),
    )


def _sample(fields: Fields) -> Sample:
    head = fields.optional_child("head", "the head of a sample")
    sides = [_hand(fields.optional_child(side, f"the {side} hand of a sample")) for side in ("right", "left")]
    glove = None if fields.is_null("glove") else fields.numbers("glove", GLOVE_ANGLES, MAX_ANGLE)
    place = None
    if head is not None:
        place = Place(*read_place(head))
        head.end()
    return Sample(
        seq=fields.integer("seq"),
        t=fields.number("t", -MAX_TIME, MAX_TIME),
        head=place,
        right=sides[0],
        left=sides[1],
        stick=fields.numbers("stick", 3, 1.0),
        glove=glove,
    )


def _hand(fields: Fields | None) -> Hand | None:
    if fields is None:
        return None
    hand = Hand(*read_place(fields), clutch=fields.flag("clutch"), trigger=fields.number("trigger", 0.0, 1.0))
    fields.end()
    return hand


def _button(fields: Fields) -> Button:
    return Button(
        seq=fields.integer("seq"),
        t=fields.number("t", -MAX_TIME, MAX_TIME),
        name=fields.choice("name", BUTTONS),
        value=fields.flag("value"),
    )


def _adjust(fields: Fields) -> Adjust:
    name = fields.choice("name", tuple(ADJUSTMENTS))
    return Adjust(
        seq=fields.integer("seq"),
        t=fields.number("t", -MAX_TIME, MAX_TIME),
        name=name,
        value=fields.number("value", *ADJUSTMENTS[name]),
    )


_PARSERS: dict[str, Callable[[Fields], ClientMessage]] = {
    "hello": _hello,
    "sample": _sample,
    "button": _button,
    "adjust": _adjust,
    "ping": lambda fields: Ping(*read_beat(fields)),
    "pong": lambda fields: Pong(*read_beat(fields)),
    "take": lambda fields: Take(),
    "release": lambda fields: Release(),
    "offer": lambda fields: Offer(fields.text("sdp", MAX_BYTES, 1, lines=True)),
}
