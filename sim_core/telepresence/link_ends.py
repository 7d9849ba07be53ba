"""Both ends of the link without a network: who joins, how old a sample is, and when an operator dials again.

    robot, operator = RobotEnd("robot"), OperatorEnd()
    operator.hear(message, now); out = operator.speak(devices, now)
    sample = robot.hear(message, now); out = robot.speak(now)

The messages are those of docs/telepresence_protocol.md as objects, and both ends keep its times: pings five times a second,
silence of 2 s after which an operator's end dials again by itself, pauses between its attempts. What they carry them by is the
caller's, for instance two `operator_link.Channel`s.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sim_core.telepresence.clutch import Pose
from sim_core.telepresence.link_clock import LinkClock, Transit
from sim_core.telepresence.operator_sample import OperatorSample, SampleGate

__all__ = ["Button", "Devices", "Hello", "OperatorEnd", "Ping", "Pong", "RobotEnd", "Sample", "Welcome"]

#: [s] between two pings of either side; without a word after which the operator's end dials again; between its attempts
PING_PERIOD, SILENCE_LIMIT, DIAL_PERIOD = 0.2, 2.0, 1.0
#: pings whose answers are waited for
WAITING = 64


@dataclass(frozen=True, eq=False)
class Devices:
    """What the operator's devices say, as in `OperatorSample`, in VR axes."""

    head: Pose | None = None
    hands: tuple[Pose | None, Pose | None] = (None, None)
    clutch: tuple[bool, bool] = (False, False)
    trigger: tuple[float, float] = (0.0, 0.0)
    stick: tuple[float, float, float] = (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Hello:
    """An operator's end wants to join."""

    nonce: int


@dataclass(frozen=True)
class Welcome:
    """It is in."""

    nonce: int
    session: str


@dataclass(frozen=True)
class Ping:
    """Asks for a `Pong`; t: the sender's clock [s]."""

    id: int
    t: float


@dataclass(frozen=True)
class Pong:
    """Answers; t: the answerer's clock [s]."""

    id: int
    t: float


@dataclass(frozen=True, eq=False)
class Sample:
    """Devices at t [s] on the operator's clock; sent: the true time [s], which nobody at the robot reads."""

    seq: int
    t: float
    session: str
    devices: Devices
    sent: float


@dataclass(frozen=True)
class Button:
    """A button was pressed, as "home" or "reset_fault"."""

    name: str
    t: float
    session: str


class RobotEnd:
    """What the bridge and the controller's gate do with a message.

    Args:
        age_limit: [s] from which on a sample is too old.

    Attributes:
        session: of who is in; "" before the first.
        refusal: what was wrong with the last sample; "" for nothing.
        clock: the operator's beside the robot's. transit: of the samples. gate: which it lets through.
        ages: of the samples taken, by the aligned clocks, and true_ages: as they were [s].
        buttons: that were pressed and nobody has taken yet.
    """

    def __init__(self, age_limit: float = 0.25) -> None:
        self.session, self.refusal = "", ""
        self.gate = SampleGate(age_limit)
        self.ages: list[float] = []
        self.true_ages: list[float] = []
        self.trips: list[float] = []
        self.buttons: deque[str] = deque()
        self._nonces: dict[int, str] = {}
        self._number, self._pinged = 0, -np.inf
        self._join("")

    def _join(self, session: str) -> None:
        self.session, self.clock, self.transit = session, LinkClock(), Transit()
        self._pings: dict[int, float] = {}

    def hear(self, message: Any, now: float) -> tuple[OperatorSample | None, list[Any]]:
        """(the sample, if it is one that passes, and what is answered)."""
        match message:
            case Hello(nonce):
                if nonce not in self._nonces:  # one that comes twice joins once
                    self._nonces[nonce] = f"session {len(self._nonces) + 1}"
                    self._join(self._nonces[nonce])
                return None, [Welcome(nonce, self._nonces[nonce])]
            case Ping(id, _):
                return None, [Pong(id, now)]
            case Pong(id, t):
                sent = self._pings.pop(id, None)
                if sent is not None:
                    self.clock.pong(sent, t, now)
                    self.trips.append(now - sent)
            case Button(name, _, session):
                if session == self.session:
                    self.buttons.append(name)
            case Sample() as sample if sample.session == self.session:
                return self._take(sample, now), []
        return None, []

    def _take(self, sample: Sample, now: float) -> OperatorSample | None:
        if not self.clock.known:
            self.refusal = "The operator's clock is not known yet."
            return None
        stamp, devices = self.clock.ours(sample.t), sample.devices
        self.transit.arrive(sample.seq, stamp, now)
        read = OperatorSample(
            stamp,
            sample.seq,
            sample.session,
            devices.head,
            devices.hands,
            devices.clutch,
            devices.trigger,
            devices.stick,
        )
        taken, self.refusal = self.gate.read(read, now)
        if taken is not None:
            self.ages.append(now - stamp)
            self.true_ages.append(now - sample.sent)
        return taken

    def speak(self, now: float) -> list[Any]:
        """What is said without being asked."""
        if not self.session or now - self._pinged < PING_PERIOD - 1e-9:
            return []
        self._pinged = now
        self._number += 1
        self._pings[self._number] = now
        if len(self._pings) > WAITING:
            del self._pings[next(iter(self._pings))]
        return [Ping(self._number, now)]


@dataclass
class OperatorEnd:
    """The page's part: it joins, answers, stamps and numbers samples, and joins again after a silence.

    Attributes:
        ahead: of the operator's clock before the robot's [s]; drift: of its rate [1].
        period: between two samples [s].
        session: that it is in; "" while it dials.
        joined: times at which it was let in [s], on the true clock.
    """

    ahead: float = 0.0
    drift: float = 0.0
    period: float = 1.0 / 90.0
    session: str = ""
    joined: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._nonce, self._seq, self._pings = 0, 0, 0
        self._dialled = self._pinged = self._sampled = self._heard = -np.inf

    def clock(self, now: float) -> float:
        """The operator's clock at the true time now [s]."""
        return (1.0 + self.drift) * now + self.ahead

    def hear(self, message: Any, now: float) -> list[Any]:
        """A message of the robot; what is answered."""
        if isinstance(message, Welcome):
            if message.nonce == self._nonce and message.session != self.session:
                self.session, self._seq, self._heard = message.session, 0, now
                self.joined.append(now)
            return []
        self._heard = now
        return [Pong(message.id, self.clock(now))] if isinstance(message, Ping) else []

    def press(self, button: str, now: float) -> list[Any]:
        """A button."""
        return [Button(button, self.clock(now), self.session)] if self.session else []

    def speak(self, devices: Devices, now: float) -> list[Any]:
        """What is due now, with the devices as they are."""
        if self.session and now - self._heard > SILENCE_LIMIT:
            self.session = ""
        if not self.session:
            if now - self._dialled < DIAL_PERIOD - 1e-9:
                return []
            self._dialled = now
            self._nonce += 1
            return [Hello(self._nonce)]
        said: list[Any] = []
        if now - self._pinged >= PING_PERIOD - 1e-9:
            self._pinged = now
            self._pings += 1
            said.append(Ping(self._pings, self.clock(now)))
        if now - self._sampled >= self.period - 1e-9:
            # The beat is kept: what the caller's steps cost one sample, the next one gets back.
            self._sampled = max(self._sampled + self.period, now - self.period)
            self._seq += 1
            said.append(Sample(self._seq, self.clock(now), self.session, devices, now))
        return said
