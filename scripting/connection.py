"""What a script holds of a graph it is connected to: who is in it, how it moves, what is said in it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lifecycle_msgs.msg import State, Transition
from lifecycle_msgs.srv import GetState
from simulation_interfaces.srv import GetSimulationState
from std_srvs.srv import Trigger

from config import yaml_text
from config.description import CONTROLLERS
from config.robot import node_parameters
from nodes.devices.robot_devices import robot_devices
from scripting.client import GraphClient
from scripting.errors import UsageError
from scripting.launched import LaunchedGraph
from scripting.monitor import Monitor
from scripting.motion import Motion, RealMotion, SimulatedMotion
from scripting.readiness import wait_until_active, wait_until_connected
from scripting.world import World

__all__ = ["Connection", "Facts"]

INSTEAD = {
    "track": "its controller follows a path: follow_path",
    "episode": "its controller runs episodes: run_episode",
    "": "its controller takes velocities from the topic cmd_vel",
}


@dataclass(frozen=True)
class Facts:
    """What its nodes' parameters say of a robot.

    Attributes:
        robot: name in config/robots. controller: name of its node.
        mode: "track", "episode", or "" for a controller that knows neither.
        simulated: whether its nodes live in a simulation's time.
    """

    robot: str
    controller: str
    mode: str
    simulated: bool

    def require(self, verb: str, mode: str) -> None:
        """
        Raises:
            UsageError: this robot does not have the verb, which needs a controller in `mode`.
        """
        if self.mode != mode:
            raise UsageError(f"{self.robot} has no {verb}: {INSTEAD[self.mode]}")


class Connection:
    """See the module's docstring.

    Args:
        client: of the graph.
        prepare: called as prepare(connection, timeout); returns when the graph is ready.

    Attributes:
        monitor: what is said. facts, motion, world: known once the graph is ready; `world` is None for a real robot.
    """

    facts: Facts
    motion: Motion
    world: World | None

    def __init__(self, client: GraphClient, prepare: Callable[[Connection, float], None]) -> None:
        self.client, self.monitor = client, Monitor(client)
        self._prepare, self._preparing, self._ready = prepare, threading.Lock(), False

    def close(self) -> None:
        """Leave the graph."""
        self.client.close()

    def wait_until_ready(self, timeout: float) -> None:
        """Until every node is active and connected.

        Raises:
            GraphError: not within `timeout` [s].
        """
        with self._preparing:
            if not self._ready:
                self._prepare(self, timeout)
                self._ready = True

    def press(self, service: str) -> str:
        """Call a service of the supervisor: resume, arm or disarm; why it was not done, or ""."""
        answer = self.client.call(Trigger, service)
        return "" if answer.success else answer.message

    def learn_facts(self, controller: str, drivers: Sequence[str] = ()) -> None:
        """Ask the nodes who they are.

        Args:
            drivers: names of those that are switched on by the first verb.
        """
        client = self.client
        names = ["robot", "use_sim_time", *(["mode"] if controller == "adaptive_mpc" else [])]
        told = client.parameters(controller, names)
        self.facts = Facts(told["robot"], controller, told.get("mode", ""), bool(told["use_sim_time"]))
        plant = self.facts.simulated or client.has_service(GetSimulationState, "get_simulation_state")
        self.world = World(client) if plant else None
        if self.facts.simulated and self.world is not None:
            self.motion = SimulatedMotion(self.world)
        else:
            self.motion = RealMotion(client, self.monitor, controller, drivers)

    # -- of a graph that was launched here ---------------------------------------------------------

    @classmethod
    def to_launched(
        cls,
        graph: LaunchedGraph,
        robot: str,
        domain: int,
        namespace: str,
        arguments: Mapping[str, object],
    ) -> Connection:
        """To what `graph` starts with these arguments of the launch file."""
        client = GraphClient(domain, namespace, graph.check_alive, graph.error)
        sections = {path.rsplit("/", 1)[-1] for path in yaml_text.load(node_parameters(robot).read_text())}
        controller = next((name for name in CONTROLLERS if name in sections), "adaptive_mpc")
        by_hand = arguments.get("drivers") == "by_hand"
        drivers = [d.path for d in robot_devices(robot, str(arguments.get("devices", "")))] if by_hand else []
        plant = "drivers" not in arguments or bool(arguments.get("use_emulators"))
        recorded, refit = (
            bool(arguments.get("record")),
            bool(arguments.get("refit", True)) and "refit_worker" in sections,
        )
        listeners = [*(["recorder"] * recorded), controller, "supervisor"]
        names = [*listeners, *(["sim_plant"] * plant), *(["refit_worker"] * refit)]

        def prepare(connection: Connection, timeout: float) -> None:
            deadline = time.monotonic() + timeout

            def left() -> float:
                return max(1.0, deadline - time.monotonic())

            wait_until_active(client, names, timeout, graph.dead_nodes)
            for driver in drivers:
                client.change_state(driver, Transition.TRANSITION_CONFIGURE, State.PRIMARY_STATE_INACTIVE, left())
            # Commands are read by the plant, but by a driver only once it is active; the status is read here too.
            readers = {
                "joint_states": len(listeners) + refit,
                "joint_command": 1 + recorded + (plant and not drivers),
                "controller/status": 2 + recorded,
            }
            wait_until_connected(client, readers, left())
            connection.learn_facts(controller, drivers)

        return cls(client, prepare)

    # -- of a graph that runs ----------------------------------------------------------------------

    @classmethod
    def to_running(cls, domain: int, namespace: str, timeout: float) -> Connection:
        """To whoever is there.

        Raises:
            UsageError: nobody is.
        """
        client = GraphClient(domain, namespace)
        try:
            controller = _controller(client, domain, namespace, timeout)

            def prepare(connection: Connection, timeout: float) -> None:
                nodes = [
                    name
                    for name in client.node_names()
                    if name != controller and client.has_service(GetState, f"{name}/get_state")
                ]
                wait_until_active(client, nodes, timeout)
                learns = ["refit/parameters"] if "refit_worker" in nodes else []
                # What was learnt and halted before comes as soon as writer and reader know each other.
                wait_until_connected(client, {}, timeout, ["controller/status", "supervisor/status", *learns])

            connection = cls(client, prepare)
            connection.learn_facts(controller)
        except BaseException:
            client.close()
            raise
        return connection


def _controller(client: GraphClient, domain: int, namespace: str, timeout: float) -> str:
    """Name of the controller that is there.

    Raises:
        UsageError: none is.
    """
    found: list[str] = []

    def look() -> bool:
        found[:] = [name for name in CONTROLLERS if client.has_service(GetState, f"{name}/get_state")]
        return bool(found)

    if client.until(look, timeout, "while looking for a robot"):
        return found[0]
    place = f"ROS domain {domain}" + (f", namespace '{namespace}'" if namespace else "")
    others = client.node_names()
    raise UsageError(
        f"no robot in {place} within {timeout:g} s; "
        + (f"only {', '.join(others)}" if others else "nobody is there")
        + ": start one (./refit launch sim.launch.py), or give its domain and namespace"
    )
