"""Which servos of a group are there: made ready for the cycle, lost, looked for, back."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Sequence

import numpy as np

from hardware.dynamixel.health import stand
from hardware.dynamixel.joints import GroupState, Joint, some
from hardware.dynamixel.limits import Limits
from hardware.dynamixel.servo_setup import ServoLimits, prepare
from hardware.dynamixel.transport import StatusError, Transport
from hardware.link import NotAnswering

__all__ = ["Presence"]

PROBE_PERIOD = 0.5  # [s] between two looks for absent servos
UNANSWERED = 2  # readings in a row at least: a process that stood still for a while has asked nobody meanwhile


class Presence:
    """Of the servos of one group, by index of their joints.

    Args:
        joints: of the group.
        limits: of the group; the temperature limit that a servo tells is kept there.
        silence: after which a servo leaves the cycle, as long as others answer [s].

    Attributes:
        here: who takes part in the cycle, shape (n,) bool.
        accepts: what each servo accepts, as it said when it was made ready; None: it has not answered.
        torque_due: whose torque follows when they come, shape (n,) bool.
    """

    def __init__(self, joints: Sequence[Joint], limits: Limits, silence: float) -> None:
        n = len(joints)
        self.joints, self.limits, self.silence = tuple(joints), limits, silence
        self.here = np.zeros(n, bool)
        self.accepts: list[ServoLimits | None] = [None] * n
        self.torque_due = np.zeros(n, bool)
        self._heard = np.zeros(n)
        self._unanswered = np.zeros(n, int)
        self._last_look = 0.0

    def which(self) -> list[int]:
        """Those who are here."""
        return np.flatnonzero(self.here).tolist()

    def forget(self) -> None:
        """The connection is new: nobody has answered on it."""
        self.accepts = [None] * len(self.joints)

    def accepted(self, k: int) -> ServoLimits:
        """What the servo of joint k accepts, which takes part in the cycle."""
        accepts = self.accepts[k]
        assert accepts is not None, "a servo takes part only after it was made ready"
        return accepts

    def make_ready(self, bus: Transport, k: int, release: bool) -> None:
        """Check servo k and give it its settings; `release`: switch its torque off first. Raises DeviceError."""
        self.accepts[k] = None
        self.here[k] = False
        accepts = prepare(bus, self.joints[k], release)
        self.accepts[k] = accepts
        self.here[k] = True
        self._heard[k], self._unanswered[k] = time.monotonic(), 0
        self.limits.temperature_limit[k] = accepts.temperature

    def begin(self, now: float) -> None:
        """The cycle begins: nobody has been asked yet."""
        self._heard[:] = now
        self._unanswered[:] = 0

    def quiet_for(self, now: float) -> float:
        """Time since anybody answered [s]; 0 after a reading that somebody answered, or the first that nobody did."""
        return now - float(self._heard.max()) if self._unanswered.min() >= UNANSWERED else 0.0

    def watch(self, state: GroupState, now: float) -> int:
        """Note who answered a reading; how many left the cycle, because they were silent or have restarted unnoticed.

        A servo that has restarted maps its block to nothing, so what is read there is not its position.
        """
        self._heard[state.valid] = now
        self._unanswered += 1
        self._unanswered[state.valid] = 0
        silent = (now - self._heard > self.silence) & (self._unanswered >= UNANSWERED)
        gone = self.here & (silent & some(state.valid) | state.restarted)
        self.here &= ~gone
        return int(gone.sum())

    def look_is_due(self, state: GroupState, now: float) -> bool:
        """Whether it is time to look for those who are absent; at once after a restart."""
        if not some(~self.here) or now - self._last_look < PROBE_PERIOD and not some(state.restarted):
            return False
        self._last_look = now
        return True

    def look(self, bus: Transport) -> list[int]:
        """Ask those who are absent; who has come back and is ready. Raises Disconnected."""
        back = []
        for k in np.flatnonzero(~self.here).tolist():
            with contextlib.suppress(NotAnswering, StatusError):
                self.make_ready(bus, k, release=bool(self.torque_due[k]))
                back.append(k)
        return back

    def dismiss(self, which: Iterable[int]) -> None:
        """These restart by request: they are out until they answer again, and get time for it."""
        for k in which:
            self.here[k] = False
        self._last_look = time.monotonic()

    def report(self, faults: dict[str, str]) -> None:
        """Keep a fault for everybody who is absent."""
        for k, joint in enumerate(self.joints):
            stand(
                faults,
                f"{joint.name}/absent",
                not self.here[k],
                f"joint {joint.name} (id {joint.id}) does not answer: check its cable and power",
            )
