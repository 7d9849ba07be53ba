"""The emulated gripper: what its registers make it do, and what it then reports.

Source: Robotiq, 2F-85 & 2F-140 Instruction Manual, sections 4.3 and 4.4. Where the manual is silent this gripper
decides: a minor fault 09 shows in the first status after a second of silence and is gone with the next; an
activation that meets an object fails (0D); fingers that were stopped hold their place.

It does not imitate: wear, drift and the few counts of play of real fingers; a force that follows from the current;
objects that yield; rARD's meaning on the 2F-200, which is the other way round.
"""

from __future__ import annotations

from dataclasses import dataclass

from hardware.robotiq.fingers import Fingers

__all__ = ["GRIPPERS", "Gripper", "Mechanics"]

RESET, ACTIVATING, ACTIVE = 0, 1, 3  # gSTA
MOVING, STOPPED_OPENING, STOPPED_CLOSING, AT_POSITION = range(4)  # gOBJ
DELAYED, NOT_ACTIVATED, HOT, SILENT, UNDERVOLTAGE, RELEASING = 0x05, 0x07, 0x08, 0x09, 0x0A, 0x0B
INTERNAL, ACTIVATION_FAILED, OVERCURRENT, RELEASED = 0x0C, 0x0D, 0x0E, 0x0F
SILENCE = 1.0  # [s] without a request, after which fault 09 shows
OPEN_COUNT, CLOSED_COUNT = 3, 230


@dataclass(frozen=True)
class Mechanics:
    """stroke [m]; slowest and fastest [m/s]; weakest and strongest [N]."""

    stroke: float
    slowest: float
    fastest: float
    weakest: float
    strongest: float


GRIPPERS = {"2f_85": Mechanics(0.085, 0.020, 0.150, 20.0, 235.0), "2f_140": Mechanics(0.140, 0.030, 0.250, 10.0, 125.0)}


class Gripper:
    """Registers, state machine and fingers.

    Args:
        mechanics: of the model.
        fingers: what moves.
        activation_speed: of the fingers while they learn their stroke [m/s]; None: fastest.
    """

    def __init__(self, mechanics: Mechanics, fingers: Fingers, activation_speed: float | None = None) -> None:
        self.mechanics, self.fingers = mechanics, fingers
        self.activation_speed = activation_speed or mechanics.fastest
        self.hot = False  # fault 08 while true
        self.last_request: float | None = None
        self.power_on()

    def power_on(self) -> None:
        """Registers cleared, not activated; the fingers are where they were."""
        self.output = [0, 0, 0]
        self.state, self.contact = RESET, MOVING
        self.latched = 0  # a major fault, until the next reset
        self.silent = False  # fault 09 shows in the next status
        self._strokes: list[float] = []  # widths the activation has still to visit
        self._hold = self.fingers.width  # where fingers that are told nothing stay, or slowly go

    # -- what the output registers say -------------------------------------------------------------
    @property
    def _action(self) -> int:
        return self.output[0] >> 8

    @property
    def activate(self) -> bool:
        return bool(self._action & 0x01)

    @property
    def go_to(self) -> bool:
        return bool(self._action & 0x08)

    @property
    def release(self) -> bool:
        return bool(self._action & 0x10)

    @property
    def requested(self) -> int:
        return self.output[1] & 0xFF

    @property
    def speed(self) -> float:
        m = self.mechanics
        return m.slowest + (self.output[2] >> 8) / 255.0 * (m.fastest - m.slowest)

    @property
    def force(self) -> float:
        m = self.mechanics
        return m.weakest + (self.output[2] & 0xFF) / 255.0 * (m.strongest - m.weakest)

    # -- requests ----------------------------------------------------------------------------------
    def hear(self, now: float) -> None:
        """A request has arrived at `now` [s]."""
        self.silent = self.last_request is not None and now - self.last_request > SILENCE
        self.last_request = now

    def write(self, address: int, values: list[int]) -> None:
        """The robot's output registers change; those beyond the third are reserved."""
        active, before = self.activate, list(self.output)
        for k, value in enumerate(values, address):
            if k < len(self.output):
                self.output[k] = value
        if not self.activate:
            self.state, self.latched, self._strokes = RESET, 0, []
            self._stop()
        elif not active:
            self.state, self.latched = ACTIVATING, 0
            self._strokes = [0.0, self.mechanics.stroke]
        elif self.release and self.latched not in (RELEASING, RELEASED):
            self.fail(RELEASING)
            self._hold = self.mechanics.stroke if self._action & 0x20 else 0.0
        elif self.state == ACTIVE and not self.go_to:
            self._stop()
        elif self.state == ACTIVE and self.output != before:
            self.contact = MOVING

    def fail(self, fault: int) -> None:
        """A major fault: no motion but that of the release until a reset."""
        self.latched, self.state, self._strokes = fault, RESET, []
        self._stop()

    def _stop(self) -> None:
        self._hold = self.fingers.width

    # -- motion ------------------------------------------------------------------------------------
    def advance(self, dt: float) -> None:
        """Move for dt [s]."""
        if self.state == ACTIVATING:
            self._learn_stroke(dt)
        elif self.latched == RELEASING:
            self._release(dt)
        elif self.state == ACTIVE and self.go_to:
            self._go(dt)
        else:
            self.fingers.move(self._hold, self.mechanics.slowest, self.mechanics.strongest, dt)

    def _learn_stroke(self, dt: float) -> None:
        self.fingers.move(self._strokes[0], self.activation_speed, self.mechanics.weakest, dt)
        if self.fingers.blocked:
            self.fail(ACTIVATION_FAILED)
        elif self.fingers.at(self._strokes[0]):
            self._strokes.pop(0)
            if not self._strokes:
                self.state, self.contact, self._hold = ACTIVE, MOVING, self.mechanics.stroke

    def _release(self, dt: float) -> None:
        self.fingers.move(self._hold, self.mechanics.slowest, self.mechanics.weakest, dt)
        if self.fingers.blocked or self.fingers.at(self._hold):
            self.latched = RELEASED

    def _go(self, dt: float) -> None:
        target = self._width(self.requested)
        closing = target < self.fingers.width
        self.fingers.move(target, self.speed, self.force, dt)
        if self.fingers.at(target):
            self.contact = AT_POSITION
        elif self.fingers.blocked:
            self.contact = STOPPED_CLOSING if closing else STOPPED_OPENING
        else:
            self.contact = MOVING

    def _width(self, count: int) -> float:
        share = (min(max(count, OPEN_COUNT), CLOSED_COUNT) - OPEN_COUNT) / (CLOSED_COUNT - OPEN_COUNT)
        return self.mechanics.stroke * (1.0 - share)

    # -- status ------------------------------------------------------------------------------------
    @property
    def fault(self) -> int:
        """gFLT: the gravest of what there is."""
        if self.latched:
            return self.latched
        if self.hot:
            return HOT
        if self.silent:
            return SILENT
        if self.go_to and not self.activate:
            return NOT_ACTIVATED
        return DELAYED if self.go_to and self.state == ACTIVATING else 0

    def status(self) -> list[int]:
        """Registers 2000-2002."""
        going = self.go_to and self.state == ACTIVE
        bits = self.activate | going << 3 | self.state << 4 | (self.contact if going else 0) << 6
        closed = 1.0 - self.fingers.width / self.mechanics.stroke
        position = round(OPEN_COUNT + closed * (CLOSED_COUNT - OPEN_COUNT))
        moving = self.state == ACTIVATING or self.latched == RELEASING or (going and self.contact == MOVING)
        current = 25 if moving else 0  # x 10 mA; held by the worm gear, an object costs nothing
        return [bits << 8, self.fault << 8 | self.requested, min(max(position, 0), 255) << 8 | current]
