"""What controller, supervisor and refit say while a script waits."""

from __future__ import annotations

import threading
from typing import Any

from refit_interfaces.msg import ControllerStatus, ParameterSet, SupervisorStatus

from nodes.framework.polled import take
from nodes.framework.qos import COMMAND, LEDGER
from scripting.client import GraphClient
from scripting.learnt import Learnt

__all__ = ["Monitor"]


class Monitor:
    """Listens from its creation on. The controller's status is only read when somebody looks, and wakes nobody.

    Attributes:
        halted: the supervisor's sentence while it halts, else "".
        disarmed: its sentence while nobody may command until somebody arms the robot, else "".
        shut_down: whether the supervisor has ended, after which no controller commands.
        learnt: the newest accepted parameter set.
        lessons: how many accepted parameter sets have come.
        said: what the controller said last of its own state.
    """

    def __init__(self, client: GraphClient) -> None:
        self.halted, self.disarmed, self.said, self.shut_down, self.learnt = "", "", "", False, Learnt({})
        self.lessons = 0
        self._looking = threading.Lock()
        self._status = client.poll(ControllerStatus, "controller/status", COMMAND)
        client.subscribe(SupervisorStatus, "supervisor/status", self._on_supervisor, LEDGER)
        client.subscribe(ParameterSet, "refit/parameters", self._on_parameters, LEDGER)

    def look(self) -> list[tuple[float, float]]:
        """(stamp of the state answered [s], tracking error) of the cycles by plan that were seen since the last look."""
        seen = []
        with self._looking:
            message: Any
            for message, _ in take(self._status):
                self.said = message.message
                if message.state == ControllerStatus.STATE_TRACKING:
                    stamp = message.header.stamp
                    seen.append((stamp.sec + 1e-9 * stamp.nanosec, float(message.tracking_error)))
        return seen

    def _on_supervisor(self, message: SupervisorStatus) -> None:
        self.shut_down = message.state == SupervisorStatus.STATE_SHUTDOWN
        why = message.message or "no reason given"
        self.halted = why if message.state == SupervisorStatus.STATE_HALTED else ""
        self.disarmed = why if message.state == SupervisorStatus.STATE_DISARMED else ""

    def _on_parameters(self, message: ParameterSet) -> None:
        if message.accepted:
            self.learnt = Learnt.from_message(message)
            self.lessons += 1
