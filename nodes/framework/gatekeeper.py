"""What a command gate hears: the supervisor's leases, and from nobody else.

self.gate = CommandGate(limits, period)
self._gatekeeper = Gatekeeper(self, self.gate)
...
self._gatekeeper.attend()          # on the thread that owns the actuators, before commands are taken
"""

from __future__ import annotations

import time

from refit_interfaces.msg import CommandLease

from nodes.framework.polled import create_polled_subscription, take
from nodes.framework.qos import COMMAND
from nodes.framework.speakers import impostor
from sim_core.gate import CommandGate, Lease

__all__ = ["Gatekeeper"]

TOPIC = "supervisor/lease"


class Gatekeeper:
    """Hands leases to a gate.

    Args:
        node: that owns the actuators. gate: of those actuators.
    """

    def __init__(self, node, gate: CommandGate):
        self._node, self._gate = node, gate
        self._leases = create_polled_subscription(node, CommandLease, TOPIC, COMMAND)

    def attend(self) -> None:
        """Take what has arrived."""
        for message, info in take(self._leases):
            self._hear(message, time.time_ns() - info["received_timestamp"])

    def _hear(self, message: CommandLease, waited: int) -> None:
        """Args: waited: since it arrived [ns]."""
        why = impostor(self._node, TOPIC)
        if why is None:
            return  # the next lease comes before this one would have ended
        if why:
            self._refuse(why)
        elif not message.commander:
            self._gate.withdraw(message.message or "the supervisor gives no reason")
        else:
            try:
                lease = Lease(message.commander, message.duration)
            except ValueError as error:
                self._refuse(str(error))
            else:
                self._gate.grant(lease, time.monotonic() - 1e-9 * max(waited, 0))

    def _refuse(self, why: str) -> None:
        self._gate.withdraw(why)
        self._node.diagnostics.tick("leases_refused")
        self._node.get_logger().error(why, throttle_duration_sec=2.0)

    def destroy(self) -> None:
        """Hear no more; the gate closes when its lease ends."""
        self._node.destroy_subscription(self._leases)
