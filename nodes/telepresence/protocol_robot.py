"""What the robot says to a client, version 1 of the protocol. docs/telepresence_protocol.md.

    message = parse_robot(text)      # Welcome, Refused, Status, Ping, Pong, Answer, Operator or Texture

Writing is `protocol.write`; reading is for clients in Python, and as strict as the robot itself is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from nodes.telepresence.protocol import (
    MAX_TIME,
    ROLES,
    VERSION,
    Message,
    Ping,
    Place,
    Pong,
    read_beat,
    read_place,
)
from nodes.telepresence.strict_json import Fields, read_object

__all__ = [
    "REFUSALS",
    "STATES",
    "Answer",
    "Joints",
    "Limits",
    "LinkNumbers",
    "Operator",
    "Refused",
    "RobotMessage",
    "Status",
    "SupervisorWords",
    "Texture",
    "Welcome",
    "parse_robot",
]

#: of one message [bytes]: a status of a robot of many joints
MAX_ROBOT_BYTES = 65536
REFUSALS = ("version", "token", "replay", "occupied", "schema", "rate", "busy")
#: by the numbers of TeleopStatus.msg
STATES = ("disconnected", "handshake", "idle", "teleop", "hold", "fault", "recovering")
_TEXT = 1000


@dataclass(frozen=True)
class Limits:
    """What the robot will do at most.

    Attributes:
        base: speed of the base at full stick [m/s], [rad/s]. leash: [m] of a target from its end effector.
        stale_ms: age [ms] from which a sample is dropped. hold_ms: [ms] without samples after which the robot holds.
    """

    base: tuple[float, ...] = (0.2, 0.4)
    leash: float = 0.125
    stale_ms: float = 250.0
    hold_ms: float = 200.0


@dataclass(frozen=True)
class Welcome(Message):
    """The client is let in; said again where its role changes.

    Attributes:
        session: new for every hand-shake. role: that it has now. robot: name. title: what a person calls it.
        streams: cameras that it may ask for, in the order of the video lines of an offer.
    """

    type = "welcome"
    version: int
    session: str
    role: str
    robot: str
    title: str
    streams: tuple[str, ...]
    limits: Limits


@dataclass(frozen=True)
class Refused(Message):
    """Something is not done. Before the welcome the connection is closed after it.

    Attributes:
        code: one of REFUSALS. sentence: why, and what to do.
    """

    type = "refused"
    code: str
    sentence: str


@dataclass(frozen=True)
class SupervisorWords:
    """The supervisor's state by its name, its code, and its sentence."""

    state: str = "UNKNOWN"
    code: int = 0
    message: str = "The supervisor has said nothing."


@dataclass(frozen=True)
class LinkNumbers:
    """The link to this client; None: not known yet.

    Attributes:
        rtt_ms: there and back [ms]. loss: share of the samples that got lost. jitter_ms: of their travel [ms].
        age_ms: of the newest sample when it came [ms]. bandwidth_kbit: [kbit/s] of every stream, by its name.
    """

    rtt_ms: float | None = None
    loss: float | None = None
    jitter_ms: float | None = None
    age_ms: float | None = None
    bandwidth_kbit: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Joints:
    """The robot's joints by name, with positions [rad] or [m]."""

    names: tuple[str, ...] = ()
    positions: tuple[float, ...] = ()


@dataclass(frozen=True)
class Status(Message):
    """What the robot does now: the fields of refit_interfaces/TeleopStatus, and what else a page shows.

    Attributes:
        t: [ms] of the robot's clock. state: one of STATES. Lists have the right side first; the units are the message's.
    """

    type = "status"
    t: float
    state: str
    code: int
    message: str
    session: str
    clutched: tuple[bool, ...]
    arm_mode: tuple[str, ...]
    arm_message: tuple[str, ...]
    effectors: tuple[Place, ...]
    targets: tuple[Place, ...]
    force: tuple[float | None, ...]
    cue: tuple[float | None, ...]
    precision: float | None
    base_velocity: tuple[float | None, ...]
    supervisor: SupervisorWords
    link: LinkNumbers
    joints: Joints


@dataclass(frozen=True)
class Answer(Message):
    """The robot's half of a WebRTC connection, as a session description."""

    type = "answer"
    sdp: str


@dataclass(frozen=True)
class Operator(Message):
    """Who drives now; None: nobody."""

    type = "operator"
    name: str | None


@dataclass(frozen=True)
class Texture(Message):
    """A surface that was scanned: roughness [mm] and dominant frequency of its vibration [Hz], and a sound or None."""

    type = "texture"
    roughness_mm: float
    frequency_hz: float
    sound: tuple[float, ...] | None


RobotMessage = Welcome | Refused | Status | Ping | Pong | Answer | Operator | Texture


def parse_robot(text: str | bytes) -> RobotMessage:
    """A robot's message.

    Raises:
        SchemaError: it is none.
    """
    fields = Fields(read_object(text, MAX_ROBOT_BYTES), "a message")
    kind = fields.choice("type", tuple(_PARSERS))
    fields = fields.named(f"a message of type '{kind}'")
    message = _PARSERS[kind](fields)
    fields.end()
    return message


def _welcome(fields: Fields) -> Welcome:
    limits = fields.child("limits", "the limits of a welcome")
    message = Welcome(
        version=fields.integer("version", VERSION),
        session=fields.text("session", 64, 1),
        role=fields.choice("role", ROLES),
        robot=fields.text("robot", 200),
        title=fields.text("title", 200),
        streams=fields.texts("streams", None, 64),
        limits=Limits(
            limits.numbers("base", 2, 1e3),
            limits.number("leash", 0.0, 1e3),
            limits.number("stale_ms", 0.0, 1e6),
            limits.number("hold_ms", 0.0, 1e6),
        ),
    )
    limits.end()
    return message


def _status(fields: Fields) -> Status:
    supervisor, link, joints = (fields.child(name, f"'{name}'") for name in ("supervisor", "link", "joints"))
    message = Status(
        t=fields.number("t", -MAX_TIME, MAX_TIME),
        state=fields.choice("state", STATES),
        code=fields.integer("code"),
        message=fields.text("message", _TEXT),
        session=fields.text("session", 64),
        clutched=fields.flags("clutched", 2),
        arm_mode=fields.texts("arm_mode", 2, _TEXT),
        arm_message=fields.texts("arm_message", 2, _TEXT),
        effectors=_places(fields, "effectors"),
        targets=_places(fields, "targets"),
        force=fields.optional_numbers("force", 2),
        cue=fields.optional_numbers("cue", 2),
        precision=fields.optional_number("precision"),
        base_velocity=fields.optional_numbers("base_velocity", 3),
        supervisor=SupervisorWords(
            supervisor.text("state", 64), supervisor.integer("code"), supervisor.text("message", _TEXT)
        ),
        link=LinkNumbers(
            link.optional_number("rtt_ms"),
            link.optional_number("loss"),
            link.optional_number("jitter_ms"),
            link.optional_number("age_ms"),
            link.number_table("bandwidth_kbit"),
        ),
        joints=Joints(joints.texts("names", None, 200), joints.numbers("positions", None, math.inf)),
    )
    for part in (supervisor, link, joints):
        part.end()
    return message


def _places(fields: Fields, name: str) -> tuple[Place, ...]:
    places = []
    for child in fields.children(name, 2, f"'{name}'"):
        places.append(Place(*read_place(child)))
        child.end()
    return tuple(places)


def _texture(fields: Fields) -> Texture:
    return Texture(
        fields.number("roughness_mm", 0.0, 1e3),
        fields.number("frequency_hz", 0.0, 1e5),
        None if fields.is_null("sound") else fields.numbers("sound", None, 1.0),
    )


_PARSERS: dict[str, Callable[[Fields], RobotMessage]] = {
    "welcome": _welcome,
    "refused": lambda fields: Refused(fields.choice("code", REFUSALS), fields.text("sentence", _TEXT)),
    "status": _status,
    "ping": lambda fields: Ping(*read_beat(fields)),
    "pong": lambda fields: Pong(*read_beat(fields)),
    "answer": lambda fields: Answer(fields.text("sdp", MAX_ROBOT_BYTES, 1, lines=True)),
    "operator": lambda fields: Operator(fields.optional_text("name", 40)),
    "texture": _texture,
}
