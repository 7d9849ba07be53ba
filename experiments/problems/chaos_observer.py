"""Somebody who only watches: the arm's true state at its full rate, and every word that its nodes say.

The truth comes past all nodes where it can: that of the servo arm is read from the memory that plant and emulated servos
share. The Panda's is what its plant publishes, which stands for the encoders; messages do not tell who sends them, so
those that this study forges carry a frame, which the plant's never do, and are left out here.
"""

from __future__ import annotations

import contextlib
import threading
import time
from bisect import bisect_left, bisect_right
from dataclasses import dataclass

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy
from refit_interfaces.msg import CommandLease, ControllerStatus, SupervisorStatus
from sensor_msgs.msg import JointState

from experiments.problems.chaos_arm import Arm, Hand
from experiments.problems.chaos_judge import Limits, Trace, following
from hardware.emulation.world import PLANT_TIMEOUT, SharedWorld
from nodes.framework.polled import take
from nodes.framework.qos import LEDGER
from scripting.client import GraphClient

__all__ = ["Observer", "Said", "Status"]

#: [s] between two looks at topics, at the shared memory, and at where the hand is
LOOK, TRUTH, HAND = 0.02, 0.002, 0.05
#: [s] over which an arm has to follow, to be said to follow
WINDOW = 1.0
#: [s] for which a message of the diagnostics holds, and one of the controller's status
DIAGNOSTICS_HOLD, STATUS_HOLD = 1.5, 0.5
#: [s] without a word of the emulated servos: a real one has a processor of its own, which no busy machine takes from it
EMULATED = 0.02
#: nodes whose warnings explain why an arm does not follow
MOVERS = ("supervisor", "adaptive_mpc", "sim_plant", "dynamixel")

HALTED, DISARMED, DEGRADED = (
    SupervisorStatus.STATE_HALTED,
    SupervisorStatus.STATE_DISARMED,
    SupervisorStatus.STATE_DEGRADED,
)
EXPLAINING = (HALTED, DISARMED, DEGRADED, SupervisorStatus.STATE_SHUTDOWN)
ARMED = (SupervisorStatus.STATE_READY, SupervisorStatus.STATE_RUNNING, DEGRADED)


@dataclass(frozen=True)
class Status:
    """One word of the supervisor."""

    t: float
    state: int
    code: int
    message: str


@dataclass(frozen=True)
class Said:
    """One node's diagnostics."""

    t: float
    node: str
    level: int
    message: str
    values: dict[str, str]


def _deep(depth: int) -> QoSProfile:
    return QoSProfile(
        history=HistoryPolicy.KEEP_LAST,
        depth=depth,
        reliability=ReliabilityPolicy.RELIABLE,
        durability=DurabilityPolicy.VOLATILE,
    )


class Observer:
    """See the module's docstring. Times are the system's [s].

    Args:
        client: of the graph; it is only listened to.
        arm, limits, hand: of the robot.

    Attributes:
        statuses, leases, diagnostics: what was said, oldest first; a lease is (t, duration), 0: withdrawn.
        published: when joint states arrived that the robot's own driver or plant had sent.
    """

    def __init__(self, client: GraphClient, arm: Arm, limits: Limits, hand: Hand) -> None:
        self._client, self._limits, self._hand = client, limits, hand
        self.statuses: list[Status] = []
        self.leases: list[tuple[float, float]] = []
        self.diagnostics: list[Said] = []
        self.published: list[float] = []
        self._controller: list[tuple[float, str]] = []
        self._t: list[float] = []
        self._rows: list[tuple[np.ndarray, np.ndarray, np.ndarray, bool]] = []
        self._points_t: list[float] = []
        self._points: list[np.ndarray] = []
        self._world: SharedWorld | None = None
        self._simulated = arm.simulated
        self._readers = [
            (client.poll(JointState, "joint_states", _deep(5000)), self._on_state),
            (client.poll(SupervisorStatus, "supervisor/status", LEDGER), self._on_status),
            (client.poll(CommandLease, "supervisor/lease", _deep(2000)), self._on_lease),
            (client.poll(DiagnosticArray, "diagnostics", _deep(500)), self._on_diagnostics),
            (client.poll(ControllerStatus, "controller/status", _deep(500)), self._on_controller),
        ]
        self._closing = threading.Event()
        self._threads = [threading.Thread(target=self._listen, name="observer", daemon=True)]
        self._threads[0].start()

    def watch_world(self, path: str) -> None:
        """Read the truth from the memory that emulated servos and plant share, from now on."""
        self._world = SharedWorld.open(path, PLANT_TIMEOUT)
        self._threads.append(threading.Thread(target=self._watch, name="truth", daemon=True))
        self._threads[-1].start()

    def close(self) -> None:
        """Watch no more."""
        self._closing.set()
        for thread in self._threads:
            thread.join(2.0)

    # -- listening -----------------------------------------------------------------------------------------------
    def _listen(self) -> None:
        while not self._closing.wait(LOOK):
            for reader, see in self._readers:
                for message, info in take(reader):
                    see(1e-9 * info["received_timestamp"], message)
            if self._t and self._t[-1] > (self._points_t[-1] if self._points_t else 0.0) + HAND:
                self._points.append(self._hand(self._rows[-1][0]))
                self._points_t.append(self._t[-1])

    def _watch(self) -> None:
        world, last = self._world, None
        assert world is not None
        while not self._closing.wait(TRUTH):
            state = world.state()
            if state.host != last:
                last = state.host
                effort, driven = world.efforts(EMULATED)
                self._see(time.time(), state.q, state.v, effort, bool(driven.all()))

    def _see(self, t: float, q: np.ndarray, v: np.ndarray, effort: np.ndarray, driven: bool) -> None:
        self._rows.append((q, v, effort, driven))
        self._t.append(max(t, self._t[-1]) if self._t else t)

    def _on_state(self, t: float, message: JointState) -> None:
        if message.header.frame_id:
            return
        self.published.append(t)
        if self._simulated:
            self._see(t, np.array(message.position), np.array(message.velocity), np.array(message.effort), True)

    def _on_status(self, t: float, message: SupervisorStatus) -> None:
        if not message.header.frame_id:
            self.statuses.append(Status(t, message.state, message.code, message.message))

    def _on_lease(self, t: float, message: CommandLease) -> None:
        if not message.header.frame_id:
            self.leases.append((t, message.duration if message.commander else 0.0))

    def _on_diagnostics(self, t: float, message: DiagnosticArray) -> None:
        for status in message.status:
            values = {value.key: value.value for value in status.values}
            self.diagnostics.append(Said(t, status.name.rsplit("/", 1)[-1], status.level[0], status.message, values))

    def _on_controller(self, t: float, message: ControllerStatus) -> None:
        if not message.header.frame_id and message.message:
            self._controller.append((t, message.message))

    # -- what was seen -------------------------------------------------------------------------------------------
    def trace(self, begin: float, end: float) -> Trace:
        """The truth from begin to end [s]."""
        low, high = bisect_left(self._t, begin), bisect_right(self._t, end)
        rows, n = self._rows[low:high], len(self._limits.joints)
        if not rows:
            nothing = np.zeros((0, n))
            return Trace(np.zeros(0), nothing, nothing, nothing, np.zeros(0, bool))
        q, v, effort, driven = (np.array(column) for column in zip(*rows))
        return Trace(np.array(self._t[low : low + len(rows)]), q, v, effort, driven)

    def follows(self, t: float) -> bool:
        """Whether the arm followed its path over the second before t."""
        low, high = bisect_left(self._points_t, t - WINDOW), bisect_right(self._points_t, t)
        return high - low >= 5 and following(np.array(self._points[low:high]), self._hand.curve)

    @property
    def state(self) -> int | None:
        """The supervisor's last state; None before its first word."""
        return self.statuses[-1].state if self.statuses else None

    def armed(self) -> bool:
        """Whether somebody may command, by the supervisor's last word."""
        return self.state in ARMED

    def explained(self) -> bool:
        """Whether the supervisor says now why the robot stands."""
        return self.state in (HALTED, DISARMED)

    def voices(self, begin: float, end: float) -> list[tuple[float, float]]:
        """(from, to) of every word that explains why the arm does not follow."""
        found = [
            (status.t, after.t if after is not None else end)
            for status, after in zip(self.statuses, [*self.statuses[1:], None])
            if status.state in EXPLAINING and status.message
        ]
        found += [(t, t + STATUS_HOLD) for t, _ in self._controller[-5000:] if t >= begin - WINDOW]
        for said in reversed(self.diagnostics):
            if said.t < begin - DIAGNOSTICS_HOLD:
                break
            if _explains(said):
                found.append((said.t, said.t + DIAGNOSTICS_HOLD))
        return found

    def newest(self, node: str) -> Said | None:
        """What a node said last."""
        return next((said for said in reversed(self.diagnostics) if said.node == node), None)

    def refusals(self) -> dict[str, int]:
        """What has been refused so far, over all nodes, by reason."""
        counts: dict[str, int] = {}
        for node in {said.node for said in self.diagnostics[-50:]}:
            said = self.newest(node)
            for key, value in (said.values if said else {}).items():
                if "refused" in key and not key.endswith("_rate") and key != "commands_refused":
                    with contextlib.suppress(ValueError):
                        counts[f"{node}/{key}"] = int(value)
        return counts


def _explains(said: Said) -> bool:
    """Whether diagnostics tell why nothing follows: a warning of a node that moves the arm, or its gate's own words."""
    if said.node not in MOVERS:
        return False
    servos, gate = said.values.get("servos", "following commands"), said.values.get("gate", "open")
    return (said.level >= 1 and bool(said.message)) or servos != "following commands" or not gate.startswith("open")
