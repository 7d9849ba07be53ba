"""The link to a Robotiq 2F gripper: activation, go-to, and a status poll that keeps the gripper from missing us."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

from hardware.link import Device, Disconnected, Identity, NotAnswering, SerialPort, WhileOpen
from hardware.link.modbus_rtu import ModbusMaster, read_input_registers, read_write_registers
from hardware.robotiq.protocol import (
    BAUD,
    FAULTS,
    MODELS,
    OUTPUT,
    STATUS,
    UNIT,
    Action,
    Contact,
    Status,
    command_registers,
    decode_status,
    major,
)

__all__ = ["GripperState", "RobotiqGripper"]

# Between a command and a gOBJ that is about it; the manual promises it with the reply, a motor takes a moment.
SETTLING = 0.04  # [s]
PASSING = (0x00, 0x05, 0x09)  # fault codes that ask for nothing: none, motion delayed, a second of silence
ACTIVATION_LIMIT = 10.0  # [s] a 2F-140 takes under four
STOP_LIMIT = 1.5  # [s] within which a stop must be read back; longer than opening at full speed takes

Registers = tuple[int, int, int]
Procedure = Generator[Registers | None, None, None]  # registers to write, or None to poll, turn by turn


@dataclass(frozen=True)
class GripperState:
    """width: between the fingertips [m]; force: that holds the object, as commanded [N], 0 without one; status: registers;
    command: number of the newest command that the status answers, 0 before the first."""

    width: float
    force: float
    status: Status
    command: int


class RobotiqGripper(Device):
    """See the module's docstring. Samples are GripperState.

    Enabling activates the gripper if it is not: its fingers open and close once. A gripper that lost its activation
    later (a power failure, a major fault) is left alone until `reactivate`, as the fingers may hold something.

    Attributes:
        closed: asked at every turn: why nobody may command now, or "". Moving fingers are stopped then, commands are
            dropped, and an activation waits, for it moves the fingers; only the automatic release does not ask.

    Args:
        path: serial port.
        model: a key of MODELS.
        unit: Modbus address.
        rate: status polls [Hz]; the gripper reports fault 09 after a second without.
        reply_timeout: [s].
        stop_policy: "stop": the fingers stay where they are, and an object in them; "open": they let go.
        auto_reactivate: activate again by itself after a power failure.
    """

    _port = WhileOpen[SerialPort]()
    _master = WhileOpen[ModbusMaster]()

    def __init__(
        self,
        path: str | os.PathLike,
        model: str = "2f_85",
        unit: int = UNIT,
        rate: float = 50.0,
        reply_timeout: float = 0.1,
        stop_policy: str = "stop",
        auto_reactivate: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.path, self.model, self.unit = path, MODELS[model], unit
        self.period, self.reply_timeout = 1.0 / rate, reply_timeout
        self.stop_policy, self.auto_reactivate = stop_policy, auto_reactivate
        self.status: Status | None = None
        self.closed: Callable[[], str] = lambda: ""
        self._procedure: Procedure | None = None
        self._asked: str | None = None  # a procedure that another thread asked for
        self._begun = ""  # the one that began last
        self._held_back = False  # nobody may command: what is asked for waits, and is no reason to hurry
        self._pending: tuple[int, Registers] | None = None
        self._number = self._sent = self._answered = 0
        self._sent_at = float("-inf")
        self._force = 0  # rFR that was written last
        self._due = 0.0
        self._was_active = False  # enabled once before: an activation that is missing now was lost

    # -- from any thread ---------------------------------------------------------------------------
    def go_to(self, width: float, speed: float, force: float) -> int:
        """Move the fingertips to `width` apart [m] at `speed` [m/s], gripping with `force` [N].

        Returns:
            The command's number: states whose `command` is at least that answer it.
        """
        counts = self.model.position_count(width), self.model.speed_count(speed), self.model.force_count(force)
        return self._request(command_registers(Action.ACTIVATE | Action.GO_TO, *counts))

    def halt(self) -> int:
        """Stop the fingers where they are. Returns the command's number."""
        return self._request(command_registers(Action.ACTIVATE))

    def reactivate(self) -> None:
        """Reset and activate: clears faults; the fingers open and close once, and drop what they hold."""
        self._ask("activate")

    def release(self) -> None:
        """Automatic release, for after an emergency stop: slowly open, then fault 0F until `reactivate`."""
        self._ask("release")

    @property
    def busy(self) -> bool:
        """Whether an activation or a release is under way or waits."""
        return self._asked is not None or self._procedure is not None

    def _request(self, registers: Registers) -> int:
        with self._wake:
            self._number += 1
            self._pending = self._number, registers
            self._wake.notify_all()
            return self._number

    def _ask(self, procedure: str) -> None:
        with self._wake:
            self._asked, self._pending = procedure, None
            self._wake.notify_all()

    # -- hooks -------------------------------------------------------------------------------------
    def _open(self) -> Identity:
        self._port = SerialPort(self.path, BAUD)
        self._master = ModbusMaster(self._port, self.unit, self.reply_timeout, counters=self.counters)
        self._exchange()
        # The registers name neither model nor serial number: what is configured is all there is to say.
        return Identity(f"Robotiq {self.model.name.upper().replace('_', '-')}")

    def _start(self) -> None:
        self._pending, self._asked, self._procedure = None, None, None
        status, _ = self._exchange()
        self.faults.clear()
        if not status.ready and not self._was_active:
            self._asked = "activate"
        self._was_active = True

    def _serve(self) -> None:
        self._wait_for_turn()
        command, registers = self._stopped() if self._holds_back() else self._commanded()
        status, t = self._exchange(registers)
        if command is not None:
            self._sent, self._sent_at = command, t
        elif t - self._sent_at > SETTLING:
            self._answered = self._sent
        self._judge(status)
        # A gripper that is reset does not know where its fingers are.
        if status.activation or major(status.fault):
            force = self.model.force_of(self._force) if status.object_detected else 0.0
            self._sample(GripperState(self.model.width(status.position), force, status, self._answered), t)

    def _holds_back(self) -> str:
        """Why nothing may be commanded in this turn; "" if it may, and for an automatic release."""
        why = "" if "release" in (self._asked, self._under_way) else self.closed()
        if why and self._asked is not None:
            self.faults["activation"] = f"not activated yet, as that moves the fingers: {why}"
        else:
            self.faults.pop("activation", None)
        self._held_back = bool(why)
        return why

    def _commanded(self) -> tuple[int | None, Registers | None]:
        """The number of the command that goes out in this turn, and what to write."""
        if self._asked is not None:
            procedures = {"activate": self._activation, "release": self._automatic_release}
            self._begun, self._asked = self._asked, None
            self._procedure = procedures[self._begun]()
        if self._procedure is not None:
            return None, next(self._procedure, None)
        with self._wake:
            pending, self._pending = self._pending, None
        return pending or (None, None)

    def _stopped(self) -> tuple[None, Registers | None]:
        """Likewise, while nobody may command: moving fingers stop where they are, resting ones go on holding what they hold."""
        with self._wake:
            self._pending = None
        if self._procedure is not None:  # only a reset ends an activation that is under way
            self._procedure, self._asked = None, "activate"
            return None, command_registers(Action.RESET)
        moving = self._answer.go_to and self._answer.contact is Contact.MOVING
        return None, command_registers(Action.ACTIVATE) if moving else None

    @property
    def _under_way(self) -> str:
        """The procedure that has begun and not ended."""
        return self._begun if self._procedure is not None else ""

    def _idle(self) -> None:
        self._wait_for_turn()
        self._judge(self._exchange()[0])

    def _stop(self) -> None:
        self._procedure = None
        self.faults.pop("activation", None)
        if not self._answer.ready:
            return
        if self.stop_policy == "open":
            self._confirm(
                command_registers(Action.ACTIVATE | Action.GO_TO, 0, 255, 255),
                lambda status: status.go_to and status.requested == 0 and status.contact is not Contact.MOVING,
            )
        self._confirm(command_registers(Action.ACTIVATE), lambda status: not status.go_to)

    def _close(self) -> None:
        with contextlib.suppress(Disconnected):
            self._port.close()

    # -- turns -------------------------------------------------------------------------------------
    @property
    def _answer(self) -> Status:
        """The newest status."""
        assert self.status is not None, "`_open` has asked for one"
        return self.status

    def _wait_for_turn(self) -> None:
        """Until the next poll is due, something was asked for, or `enable` or `disable` changed what is wanted."""
        wanted = self._enabled

        def called() -> bool:
            asked = (self._pending is not None or self._asked is not None) and not self._held_back
            return self._closing or self._enabled is not wanted or (self._enabled and asked)

        with self._wake:
            self._wake.wait_for(called, max(0.0, self._due - time.monotonic()))
        self._due = max(self._due + self.period, time.monotonic())

    def _exchange(self, registers: Registers | None = None) -> tuple[Status, float]:
        """Write the output registers if given, read the status: (status, host time at which it was measured [s])."""
        if registers is None:
            request = read_input_registers(STATUS, 3)
        else:
            request = read_write_registers(STATUS, 3, OUTPUT, registers)
            self._force = registers[2] & 0xFF
        status = self.status = decode_status(self._master.transact(request))
        return status, time.monotonic() - self._port.transmission_time(request.reply_length)

    def _activation(self) -> Procedure:
        """Yields registers to write, or None to poll."""
        end = time.monotonic() + ACTIVATION_LIMIT
        yield command_registers(Action.RESET)
        while self._answer.activated or self._answer.activation:
            self._check_time(end)
            yield None
        yield command_registers(Action.ACTIVATE)
        while not self._answer.ready and not major(self._answer.fault):
            self._check_time(end)
            yield None
        self._procedure = None

    def _automatic_release(self) -> Procedure:
        """Likewise."""
        yield command_registers(Action.ACTIVATE | Action.RELEASE | Action.RELEASE_OPENING)
        while self._answer.fault == 0x0B:
            yield None
        self._procedure = None

    def _check_time(self, end: float) -> None:
        if time.monotonic() > end:
            raise NotAnswering(
                f"the gripper on {self.path} did not complete its activation within {ACTIVATION_LIMIT:.0f} s: "
                "free the fingers' way and check the 24 V supply"
            )

    def _judge(self, status: Status) -> None:
        """Standing faults and warnings from one status."""
        if status.fault == 0x09:
            self.counters.add("silences")
        fault = FAULTS.get(status.fault, f"fault {status.fault:#04x}") if status.fault not in PASSING else ""
        if not fault and not status.ready and self._was_active and not self.busy:
            fault = "the gripper lost its activation, as in a power failure: call reactivate_gripper"
            if self.auto_reactivate and self._enabled:
                self._asked = "activate"
        if fault:
            self.faults["gripper"] = fault
        else:
            self.faults.pop("gripper", None)

    def _confirm(self, registers: Registers, done: Callable[[Status], bool]) -> None:
        """Write, and poll until the read-back says that it is done."""
        end = time.monotonic() + STOP_LIMIT
        status, _ = self._exchange(registers)
        while not done(status):
            if time.monotonic() > end or major(status.fault):
                self.warnings["stop"] = (
                    f"no stop was read back within {STOP_LIMIT:.1f} s: check that the fingers are free to move"
                )
                return
            time.sleep(self.period)
            status, _ = self._exchange()
        self.warnings.pop("stop", None)
