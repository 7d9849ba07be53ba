"""Whether this node may command, by the word of the supervisor and of nobody else."""

from __future__ import annotations

from collections.abc import Callable

from refit_interfaces.msg import SupervisorStatus

from nodes.framework.qos import LATCHED
from nodes.framework.speakers import impostor

__all__ = ["Permission"]

TOPIC = "supervisor/status"
GRANTED = (SupervisorStatus.STATE_READY, SupervisorStatus.STATE_RUNNING, SupervisorStatus.STATE_DEGRADED)


class Permission:
    """Hears the supervisor. The gate before the actuators decides; this spares it commands that it would refuse.

    Call `attend` some times a second.

    Args:
        node: that wants to command.
        on_change: called when permission comes or goes.

    Attributes:
        denied: why this node may not command; "" while it may, and before the supervisor's first word.
        starting: whether the supervisor is still waiting for the robot; what is asked for meanwhile may wait with it.
    """

    def __init__(self, node, on_change: Callable[[], None]):
        self._node, self._on_change = node, on_change
        self.denied, self.starting = "", False
        self._unheard: SupervisorStatus | None = None  # until discovery has told who speaks
        self._deceived = self._stale = False
        self._listen()

    def _listen(self) -> None:
        # The supervisor's newest word, which a late joiner gets too.
        self._subscription = self._node.create_subscription(SupervisorStatus, TOPIC, self._on_status, LATCHED)

    def _on_status(self, message: SupervisorStatus) -> None:
        self._unheard, self._stale = message, False
        self.attend()

    def attend(self) -> None:
        """Listen anew once it is known by whom something was said, and when a stranger who spoke too has gone."""
        if (self._unheard is None and not self._deceived) or (why := impostor(self._node, TOPIC)) is None:
            self._stale = self._unheard is not None
            return
        if (self._deceived or self._stale) and not why:
            # What waited for a name may be history: a busy node has not taken yet what was said since.
            self._deceived, self._stale, self._unheard = False, False, None
            self.destroy()
            self._listen()
        if self._unheard is None:
            return
        message, self._unheard = self._unheard, None
        if why:
            self._deceived = True
            self._node.get_logger().error(why, throttle_duration_sec=2.0)
            self._set(why, False)
        elif message.state in GRANTED:
            self._set("", False)
        elif message.state == SupervisorStatus.STATE_STARTING:
            self._set(f"the supervisor is starting: {message.message}", True)
        elif message.state == SupervisorStatus.STATE_DISARMED:
            self._set(f"disarmed by the supervisor: {message.message}", False)
        else:
            self._set(f"halted by the supervisor: {message.message}", False)

    def destroy(self) -> None:
        """Hear no more."""
        self._node.destroy_subscription(self._subscription)

    def _set(self, denied: str, starting: bool) -> None:
        changed = bool(denied) != bool(self.denied) or starting != self.starting
        self.denied, self.starting = denied, starting
        if changed:
            self._on_change()
