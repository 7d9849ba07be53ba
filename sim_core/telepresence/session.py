"""The state of a telepresence session: one machine beside the supervisor, which keeps the last word.

    session = Session()
    session.heard(sample.session, any(sample.clutch), now)       # a sample that was taken
    session.look(now)                                            # in every cycle: what silence means
    if session.state is State.TELEOP: ...

Every event has an outcome in every state: that of `TRANSITIONS`, or none. Time is the caller's.

Source: Zhu, PhD thesis, University of Illinois (2023), section 8.8, whose second run was lost to a link that came back only
by restarting the station and to brakes that could not be released from afar.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["TRANSITIONS", "Event", "Session", "SessionLimits", "State", "diagram"]


class State(enum.IntEnum):
    """As in refit_interfaces/TeleopStatus."""

    DISCONNECTED = 0
    HANDSHAKE = 1
    IDLE = 2
    TELEOP = 3
    HOLD = 4
    FAULT = 5
    RECOVERING = 6


class Event(enum.Enum):
    """What may happen."""

    JOINED = "a page has joined with a new session"
    HEARD = "samples arrive, all clutches open"
    CLUTCHED = "samples arrive, a clutch pressed"
    SILENT = "no sample within the hold limit"
    LOST = "no sample within the loss limit"
    FAULT = "an arm's protective stop, a failure, or the supervisor"
    RESET = "somebody asks for the fault to be cleared"
    CLEARED = "what caused the fault is gone"


S, E = State, Event
#: where an event leads; a pair that is not here leads nowhere
TRANSITIONS: dict[tuple[State, Event], State] = {
    **{(state, E.JOINED): S.HANDSHAKE for state in (S.DISCONNECTED, S.HANDSHAKE, S.IDLE, S.TELEOP, S.HOLD)},
    (S.HANDSHAKE, E.HEARD): S.IDLE,
    (S.HANDSHAKE, E.LOST): S.DISCONNECTED,
    (S.IDLE, E.CLUTCHED): S.TELEOP,
    (S.IDLE, E.SILENT): S.HOLD,
    (S.IDLE, E.LOST): S.DISCONNECTED,
    (S.TELEOP, E.HEARD): S.IDLE,
    (S.TELEOP, E.SILENT): S.HOLD,
    (S.HOLD, E.HEARD): S.IDLE,
    (S.HOLD, E.CLUTCHED): S.TELEOP,
    (S.HOLD, E.LOST): S.DISCONNECTED,
    **{(state, E.FAULT): S.FAULT for state in S if state is not S.FAULT},
    (S.FAULT, E.RESET): S.RECOVERING,
    (S.RECOVERING, E.CLEARED): S.IDLE,
}

SENTENCES = {
    S.DISCONNECTED: "nobody is connected; the robot stays as it is",
    S.HANDSHAKE: "a page has joined; release both clutches to begin",
    S.IDLE: "ready; press a clutch to move an arm",
    S.TELEOP: "the robot follows the operator",
    S.HOLD: "nothing was heard from the operator: arms hold and the base stands until samples arrive",
    S.RECOVERING: "the fault is being cleared",
}


@dataclass(frozen=True)
class SessionLimits:
    """Of silence [s].

    Attributes:
        hold: after which arms hold and the base stops.
        loss: after which clutches are released; the head keeps its last pose.

    Raises:
        ValueError: not 0 < hold < loss.
    """

    hold: float = 0.2
    loss: float = 2.0

    def __post_init__(self) -> None:
        if not 0.0 < self.hold < self.loss:
            raise ValueError(f"expected 0 < hold < loss [s], found {self.hold:g} and {self.loss:g}")


class Session:
    """See the module's docstring.

    Args:
        limits: of silence.
        on_change: called with the new state.

    Attributes:
        state: where it is.
        name: of the link's session; "" before the first.
        code, sentence: of a fault, 0 and what the state means else.
        armed: whether a clutch may move an arm: after joining, a loss or a fault every clutch has to be open once, so that
            nobody's arm moves because a hand was clenched all the time.
    """

    def __init__(
        self, limits: SessionLimits = SessionLimits(), on_change: Callable[[State], object] = lambda state: None
    ) -> None:
        self.limits, self._on_change = limits, on_change
        self.state, self.name = State.DISCONNECTED, ""
        self.code, self.sentence = 0, SENTENCES[State.DISCONNECTED]
        self.armed = False
        self._heard = float("-inf")

    @property
    def follows(self) -> bool:
        """Whether the operator's samples move anything."""
        return self.state in (State.IDLE, State.TELEOP)

    def heard(self, name: str, clutched: bool, now: float) -> None:
        """A sample was taken.

        Args:
            name: of its session. clutched: whether any of its clutches is pressed. now: [s].
        """
        if name != self.name or self.state is State.DISCONNECTED:
            self.name = name
            self._heard = now
            self._happens(Event.JOINED)
        self._heard = now
        if not clutched:
            self.armed = True
            self._happens(Event.HEARD)
        elif self.armed:
            self._happens(Event.CLUTCHED)

    def look(self, now: float) -> None:
        """What has happened by now because nothing has."""
        silence = now - self._heard
        if silence > self.limits.hold:
            self._happens(Event.SILENT)
        if silence > self.limits.loss:
            self._happens(Event.LOST)

    def fault(self, code: int, sentence: str) -> None:
        """Something forbids to go on; `sentence` says what and what to do. The first reason stays until it is cleared."""
        if self.state is not State.FAULT:
            self.code, self.sentence = code, sentence
            self._happens(Event.FAULT)

    def reset(self) -> bool:
        """Somebody asks for the fault to be cleared; whether there was one."""
        was = self.state is State.FAULT
        self._happens(Event.RESET)
        return was

    def cleared(self) -> None:
        """What caused the fault is gone."""
        self._happens(Event.CLEARED)

    def _happens(self, event: Event) -> None:
        state = TRANSITIONS.get((self.state, event))
        if state is None or (state is self.state and event is not Event.JOINED):
            return
        if state in (State.HANDSHAKE, State.DISCONNECTED, State.FAULT, State.RECOVERING):
            self.armed = False
        self.state = state
        if state is not State.FAULT:
            self.code, self.sentence = 0, SENTENCES[state]
        self._on_change(state)


def diagram() -> str:
    """The machine as a Mermaid state diagram, for the page that explains it."""
    lines = ["stateDiagram-v2", "    [*] --> DISCONNECTED"]
    for (state, event), target in TRANSITIONS.items():
        lines.append(f"    {state.name} --> {target.name}: {event.value}")
    return "\n".join(lines)
