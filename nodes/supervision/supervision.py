"""The supervisor's state machine: one enumeration, one transition table, no ROS.

A halt latches: the cause going away is not enough, an operator (or a script) has to call `resume`.
What merely degrades control (a lost refit) never halts it. docs/nodes/supervisor.md draws this table
and test/nodes/supervision/test_supervision.py walks it; both read it from here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum

__all__ = ["Code", "Event", "Machine", "State", "TRANSITIONS", "markdown_table"]


class State(IntEnum):
    """What the robot is doing; the values are those of refit_interfaces/SupervisorStatus."""

    STARTING = 0
    READY = 1
    RUNNING = 2
    DEGRADED = 3
    HALTED = 4
    SHUTDOWN = 5
    DISARMED = 6


class Code(IntEnum):
    """Why; the values are those of refit_interfaces/SupervisorStatus."""

    OK = 0
    OPERATOR_STOP = 1
    STATE_LOST = 2
    STATE_INVALID = 3
    COMMAND_LOST = 4
    LIMIT = 5
    REFIT_LOST = 6
    TIME_JUMP = 7
    PLANT_LOST = 8
    HELD_UP = 9
    IMPOSTOR = 10


class Event(Enum):
    """What the watch can observe or a person can ask for."""

    STATES_FLOW = "joint states arrive, complete and finite"
    COMMANDS_FLOW = "joint commands arrive"
    COMMANDS_END = "the controller says that it is idle"
    STATES_SILENT = "no joint states within their age limit"
    STATES_BAD = "joint states are NaN or incomplete for longer than the age limit"
    COMMANDS_SILENT = "a controller that is not idle sends no commands within their age limit"
    LIMIT_EXCEEDED = "a joint is beyond its position or velocity limit"
    REFIT_SILENT = "no parameter proposal within its age limit"
    REFIT_BACK = "parameter proposals arrive again"
    TIME_JUMPED = "stamps went back (a reset)"
    PLANT_SILENT = "time stands still and the plant does not answer"
    HELD_UP = "the supervisor itself was not run for longer than its lease"
    IMPOSTOR = "another node speaks in the supervisor's or the clock's name"
    STOP = "service stop"
    ARM = "service arm, or auto_arm once all is well"
    DISARM = "service disarm"
    RESUME = "service resume, granted while no fault is present"
    SHUTDOWN = "the node is shutting down"


_HALTS = {
    Event.STOP: (State.HALTED, Code.OPERATOR_STOP),
    Event.STATES_SILENT: (State.HALTED, Code.STATE_LOST),
    Event.STATES_BAD: (State.HALTED, Code.STATE_INVALID),
    Event.LIMIT_EXCEEDED: (State.HALTED, Code.LIMIT),
    Event.PLANT_SILENT: (State.HALTED, Code.PLANT_LOST),
    Event.IMPOSTOR: (State.HALTED, Code.IMPOSTOR),
}
_MOVING = _HALTS | {
    Event.COMMANDS_END: (State.READY, Code.OK),
    Event.COMMANDS_SILENT: (State.HALTED, Code.COMMAND_LOST),
    # Where nobody commands, gates that closed for a moment are opened by the next lease, and nothing has happened.
    Event.HELD_UP: (State.HALTED, Code.HELD_UP),
    # A reset is an ordinary event in simulation: everyone forgets the past and commands go on.
    Event.TIME_JUMPED: (State.READY, Code.TIME_JUMP),
    Event.DISARM: (State.DISARMED, Code.OK),
}
_END = {Event.SHUTDOWN: (State.SHUTDOWN, Code.OK)}

#: TRANSITIONS[state][event] = (next state, code); an event that is not listed changes nothing.
TRANSITIONS: dict[State, dict[Event, tuple[State, Code]]] = {
    State.STARTING: {
        Event.STATES_FLOW: (State.DISARMED, Code.OK),
        Event.STOP: (State.HALTED, Code.OPERATOR_STOP),
        **_END,
    },
    State.DISARMED: {
        Event.ARM: (State.READY, Code.OK),
        Event.STOP: (State.HALTED, Code.OPERATOR_STOP),
        **_END,
    },
    State.READY: {
        Event.COMMANDS_FLOW: (State.RUNNING, Code.OK),
        Event.TIME_JUMPED: (State.READY, Code.TIME_JUMP),
        Event.DISARM: (State.DISARMED, Code.OK),
        **_HALTS,
        **_END,
    },
    State.RUNNING: {
        Event.REFIT_SILENT: (State.DEGRADED, Code.REFIT_LOST),
        **_MOVING,
        **_END,
    },
    State.DEGRADED: {
        Event.REFIT_BACK: (State.RUNNING, Code.OK),
        **_MOVING,
        **_END,
    },
    State.HALTED: {
        Event.RESUME: (State.READY, Code.OK),
        # The operator's word outranks the fault that halted first: it is the one to be lifted.
        Event.STOP: (State.HALTED, Code.OPERATOR_STOP),
        **_END,
    },
    State.SHUTDOWN: {},
}


@dataclass
class Machine:
    """Walks TRANSITIONS.

    Attributes:
        state, code: where the machine is and why.
        message: the sentence that came with the event which led here.
    """

    state: State = State.STARTING
    code: Code = Code.OK
    message: str = "waiting for joint states"

    def handle(self, event: Event, message: str = "") -> bool:
        """Take one event; True if state or code changed."""
        target = TRANSITIONS[self.state].get(event)
        if target is None or target == (self.state, self.code):
            return False
        (self.state, self.code), self.message = target, message or event.value
        return True

    @property
    def armed(self) -> bool:
        """True where somebody may command."""
        return self.state in (State.READY, State.RUNNING, State.DEGRADED)

    @property
    def halted(self) -> bool:
        """True where actuators must be in their stop state."""
        return self.state in (State.HALTED, State.SHUTDOWN)


def markdown_table() -> str:
    """TRANSITIONS as the Markdown table of docs/nodes/supervisor.md."""
    rows = ["| state | event | next state | code |", "|---|---|---|---|"]
    for state, events in TRANSITIONS.items():
        for event in Event:
            if event in events:
                target, code = events[event]
                rows.append(f"| {state.name} | {event.name}: {event.value} | {target.name} | {code.name} |")
    return "\n".join(rows)
