"""The link to an Ability Hand: at every turn a command, which keeps the hand in its API mode, and its feedback."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hardware.ability_hand.protocol import (
    ADDRESS,
    BAUD,
    JOINTS,
    LOWER,
    UPPER,
    Feedback,
    FrameFinder,
    Reply,
    command,
    decode,
    query,
)
from hardware.link import Device, Disconnected, Identity, NotAnswering, SerialPort, WhileOpen

__all__ = ["AbilityHand", "check_target"]

ATTEMPTS = 4  # without a valid answer, after which the hand counts as gone
AT_REST = np.radians(2.0)  # [rad] less motion than this in STOP_INTERVAL is rest: a tenth of what the slowest grip does
STOP_INTERVAL, STOP_LIMIT = 0.05, 1.5  # [s]


def check_target(position: ArrayLike) -> np.ndarray:
    """Finger positions as an array (6,) [rad], in the order of JOINTS.

    Raises:
        ValueError: not six finite numbers.
    """
    position = np.asarray(position, float)
    if position.shape != (6,) or not np.all(np.isfinite(position)):
        raise ValueError(f"six finite angles are expected ({', '.join(JOINTS)}), found {position.tolist()}")
    return position


class AbilityHand(Device):
    """See the module's docstring. Samples are Feedback.

    Enabled, the hand is held where it is until `move`, and again when targets cease. Disabled, its fingers are brought
    to rest; after that, and when this program ends, commands cease and the hand leaves its API mode after 0.3 s.

    Attributes:
        closed: asked before every command: why nobody may command now, or "". A target is given up then, as when targets
            cease.

    Args:
        path: serial port.
        rate: commands [Hz]; under 4 the hand would leave its API mode.
        touch: feedback has touch instead of velocities.
        address: of the hand.
        baud: of the hand.
        command_timeout: a target older than this [s] is no longer pursued: the fingers are held where they are.
        reply_timeout: for one answer [s]; at 460800 baud the longest takes 2 ms on the line.
    """

    _port = WhileOpen[SerialPort]()

    def __init__(
        self,
        path: str | os.PathLike,
        rate: float = 100.0,
        touch: bool = True,
        address: int = ADDRESS,
        baud: int = BAUD,
        command_timeout: float = 0.1,
        reply_timeout: float = 0.05,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.path, self.period, self.address, self.baud = path, 1.0 / rate, address, baud
        self.reply = Reply.CURRENT_TOUCH if touch else Reply.CURRENT_VELOCITY
        self.command_timeout, self.reply_timeout = command_timeout, reply_timeout
        self.closed: Callable[[], str] = lambda: ""
        self.sent = 0  # commands
        self._target: tuple[float, np.ndarray] | None = None  # when it came, (6,) [rad]
        self._held: np.ndarray | None = None
        self._missed = 0
        self._due = 0.0

    def move(self, position: ArrayLike) -> None:
        """Pursue finger positions (6,) [rad], in the order of JOINTS; clipped. From any thread.

        Raises:
            ValueError: not six finite numbers.
        """
        self._target = time.monotonic(), np.clip(check_target(position), LOWER, UPPER)

    # -- hooks -------------------------------------------------------------------------------------
    def _open(self) -> Identity:
        self._port = SerialPort(self.path, self.baud)
        self._missed, self._target, self._held = 0, None, None
        for _ in range(ATTEMPTS):
            if self._exchange(query(self.reply, self.address)) is not None:
                return Identity("Psyonic Ability Hand")
        raise self._silent()

    def _start(self) -> None:
        self._target, self._held = None, None
        self.faults.clear()

    def _serve(self) -> None:
        self._wait_for_turn()
        target = self._goal(time.monotonic())
        self._turn(query(self.reply, self.address) if target is None else command(target, self.reply, self.address))

    def _idle(self) -> None:
        self._wait_for_turn()
        self._turn(query(self.reply, self.address), publish=False)

    def _stop(self) -> None:
        """Hold the fingers where they are until two positions some time apart say that they rest."""
        self._target = self._held = None
        end = time.monotonic() + STOP_LIMIT
        earlier: tuple[np.ndarray, float] | None = None
        while time.monotonic() < end:
            frame = (
                query(self.reply, self.address) if self._held is None else command(self._held, self.reply, self.address)
            )
            answer = self._exchange(frame)
            if answer is None:
                continue
            position, t = answer[0].position, answer[1]
            if self._held is None:
                self._held = position
            if earlier is None or t - earlier[1] >= STOP_INTERVAL:
                if earlier is not None and np.all(np.abs(position - earlier[0]) < AT_REST):
                    self.warnings.pop("stop", None)
                    return
                earlier = position, t
            time.sleep(self.period)
        self.warnings["stop"] = f"the fingers did not come to rest within {STOP_LIMIT:.1f} s: look at the hand"

    def _close(self) -> None:
        with contextlib.suppress(Disconnected):
            self._port.close()

    # -- turns -------------------------------------------------------------------------------------
    def _goal(self, now: float) -> np.ndarray | None:
        """What to ask of the fingers; None until their position is known."""
        closed = self.closed()
        if self._target is not None and not closed and now - self._target[0] <= self.command_timeout:
            self._held = None
            return self._target[1]
        if self._target is not None:
            # A target that is no longer renewed: stay where the fingers are, not where they were going.
            self._target = None
            self.counters.add("targets_withdrawn" if closed else "command_timeouts")
        return self._held

    def _turn(self, frame: bytes, publish: bool = True) -> None:
        answer = self._exchange(frame)
        if answer is None:
            self._missed += 1
            if self._missed >= ATTEMPTS:
                raise self._silent()
            return
        self._missed = 0
        feedback, t = answer
        if self._held is None and self._target is None:
            self._held = feedback.position
        if feedback.protection:
            self.warnings["protection"] = (
                f"the hand protects itself (status {feedback.protection:#04x}): let it cool down, free its fingers"
            )
        else:
            self.warnings.pop("protection", None)
        if publish:
            self._sample(feedback, t)

    def _wait_for_turn(self) -> None:
        time.sleep(max(0.0, self._due - time.monotonic()))
        self._due = max(self._due + self.period, time.monotonic())

    def _exchange(self, frame: bytes) -> tuple[Feedback, float] | None:
        """Ask, and wait for the feedback: (feedback, host time at which it was sent [s]), or None."""
        if self._port.discard_input():
            self.counters.add("resyncs")  # nobody waited for it: noise, or an answer that came twice
        self._port.write(frame)
        self.sent += 1
        finder, end = FrameFinder(), time.monotonic() + self.reply_timeout
        while (rest := end - time.monotonic()) > 0.0:
            payloads = finder.feed(self._port.read(timeout=rest))
            for k, payload in enumerate(payloads, 1):
                feedback = decode(payload)
                if feedback is None:
                    self.counters.add("crc_errors")
                elif feedback.reply is self.reply:
                    if finder.dropped or k < len(payloads):
                        self.counters.add("resyncs")  # noise before a good answer, or the same once more behind it
                    return feedback, time.monotonic() - self._port.transmission_time(len(payload) + 2)
        self.counters.add("timeouts")
        if finder.dropped:
            self.counters.add("resyncs")
        # Feedback has no number: what comes too late must not be taken for the next answer.
        self._port.drain(self.reply_timeout, limit=self.reply_timeout)
        return None

    def _silent(self) -> NotAnswering:
        return NotAnswering(
            f"no Ability Hand answered on {self.path} at {self.baud} baud: check its power, and that UART and "
            "byte stuffing are enabled (app, developer mode: We16, We46, We47)"
        )
