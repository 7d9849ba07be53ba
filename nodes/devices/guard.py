"""The command gate of a driver: who may move its joints, and how far.

    self._guard = Guard(self, limits, period)
    device.closed = self._guard.closed                  # asked on the device's own thread, every cycle
    ...
    self._guard.admit(command)                          # a JointCommand, which names its commander
    self._guard.admit(self._guard.positions(values, by=self._guard.author(publishers(self, topic))))

Standard messages do not name who sends them. Where the right to command belongs to one node, a topic or an action counts
as its own while no other node of the graph publishes there, or is a client.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from rclpy.action import get_action_client_names_and_types_by_node

from nodes.devices.device_node import DeviceConfig
from nodes.framework.config import setting
from nodes.framework.gatekeeper import Gatekeeper
from sim_core.command import Command, CommandRefused, Mode, Refusal
from sim_core.gate import CommandGate, JointLimits

__all__ = ["Guard", "GuardedConfig", "clients", "publishers"]


@dataclass(frozen=True)
class GuardedConfig(DeviceConfig):
    """Parameters of every driver that moves something."""

    require_supervisor: bool = setting(
        True,
        "",
        None,
        "follow commands only while a supervisor says whose; without, those of anybody, within the limits all the same",
        read_only=True,
    )


def publishers(node, topic: str) -> set[tuple[str, str]]:
    """(name, namespace) of the nodes that publish on a topic."""
    return {(each.node_name, each.node_namespace) for each in node.get_publishers_info_by_topic(topic)}


def clients(node, action: str) -> set[tuple[str, str]]:
    """(name, namespace) of the nodes that have a client of an action."""
    action = node.resolve_topic_name(action)
    return {
        each
        for each in node.get_node_names_and_namespaces()
        if any(name == action for name, _ in get_action_client_names_and_types_by_node(node, *each))
    }


class Guard:
    """See the module's docstring. Safe to use from any thread.

    Args:
        node: a driver whose configuration is a GuardedConfig.
        limits: of its joints.
        period: between two calls of `bound` [s].
    """

    def __init__(self, node, limits: JointLimits, period: float) -> None:
        supervised = node.config.require_supervisor
        self._node, self._limits = node, limits
        self._gate = CommandGate(limits, period, supervised)
        self._keeper = Gatekeeper(node, self._gate) if supervised else None
        self._lock = threading.Lock()

    def destroy(self) -> None:
        """Hear the supervisor no more."""
        with self._lock:
            keeper, self._keeper = self._keeper, None
            if keeper is not None:
                keeper.destroy()
                self._gate.withdraw("the node was cleaned up")

    # -- authority ---------------------------------------------------------------------------------
    def closed(self) -> str:
        """Why nothing may move now; "" while the gate is open."""
        with self._lock:
            return self._hear()

    @property
    def standing(self) -> str:
        """The gate's state in words, for diagnostics."""
        if not self._node.config.require_supervisor:
            return "open to anybody, as require_supervisor says"
        return self.closed() or f"open to {self._gate.commander}"

    def _hear(self) -> str:
        if self._keeper is not None:
            self._keeper.attend()
        return self._gate.closed(time.monotonic())

    # -- commands ----------------------------------------------------------------------------------
    def admit(self, command: Command) -> None:
        """Let a checked command pass. Raises CommandRefused."""
        with self._lock:
            self._hear()
            self._gate.admit(command, time.monotonic())

    def positions(self, position, velocity=0.0, by: str | None = None) -> Command:
        """A command to go to positions (n,) at velocities (n,) [rad or m, rad/s or m/s].

        Args:
            by: name of who commands; None: anybody may, while the gate is open.
        """
        n = len(self._limits.joints)
        position, velocity = (np.broadcast_to(np.asarray(x, dtype=float), n) for x in (position, velocity))
        author = self._gate.commander if by is None else by
        return Command(
            Mode.POSITION, 0.0, self._limits.joints, np.zeros(n), position, velocity, np.zeros(0), commander=author
        )

    def author(self, senders: Iterable[tuple[str, str]]) -> str:
        """In whose name a message counts that names nobody: the commander's, or that of somebody else who may have sent it.

        Args:
            senders: (name, namespace) of all who may have.
        """
        senders, commander, own = set(senders), self._gate.commander, self._node.get_name()
        others = senders - {(commander, self._node.get_namespace())}
        if commander == own or senders and not others:
            return commander
        return next((f"{namespace.rstrip('/')}/{name}" for name, namespace in sorted(others)), "a node that has gone")

    def refuse(self, error: CommandRefused) -> str:
        """Count a refusal and say it; returns its sentence."""
        diagnostics = self._node.diagnostics
        diagnostics.tick("commands_refused")
        diagnostics.tick(f"refused_{error.reason.name.lower()}")
        diagnostics.warn(str(error))
        self._node.get_logger().warning(str(error), throttle_duration_sec=2.0)
        return str(error)

    def refusal(self, command: Command) -> str:
        """Why a command does not pass, counted; "" if it does."""
        try:
            self.admit(command)
        except CommandRefused as error:
            return self.refuse(error)
        return ""

    def out_of_reach(self, found: str) -> str:
        """Refuse what a driver itself knows to be beyond its limits; returns the sentence."""
        return self.refuse(CommandRefused(Refusal.LIMIT, found))

    # -- motion ------------------------------------------------------------------------------------
    def bound(self, effort: np.ndarray, q: np.ndarray, v: np.ndarray, t: float, lag: float) -> np.ndarray:
        """As CommandGate.bound; on the device's thread."""
        return self._gate.bound(effort, q, v, t, lag)
