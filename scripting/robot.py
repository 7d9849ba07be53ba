"""A robot as a script sees it: verbs that a person would say, on the actions, services and topics that all others use."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from config.robot import node_parameters
from scripting.errors import GraphError, ScriptError, UsageError
from scripting.learnt import Learnt
from scripting.own_domain import given_or_own_domain
from scripting.results import EpisodeResult, PathResult
from scripting.tasks import OneAtATime, Task
from sim_core.adoption import AdoptionError, adopted

if TYPE_CHECKING:
    from scripting.connection import Connection
    from scripting.launched import LaunchedGraph
    from scripting.world import World

__all__ = ["Robot"]

START_TIMEOUT = 120.0  # [s] for processes to start, kernels to load and nodes to be active
JOIN_TIMEOUT = 10.0  # [s] for the nodes of a running graph to be discovered
EPISODE_TIMEOUT = 300.0  # [s] for one episode and its refits
LEARNT_TIMEOUT = 60.0  # [s] for a proposal under way to be judged


class Robot:
    """See docs/scripting.md. Made by `start` or `join`; ends with the `with` block, or by `close`.

    A robot that was started here stands still until a verb lets it move. Waits end with a GraphError whose text says what
    was missing. Any thread may call; one verb that moves the robot runs at a time.

    Attributes:
        name: in config/robots.
        domain, namespace: where its graph is, for `Robot.join` and for `ROS_DOMAIN_ID`.
    """

    def __init__(
        self,
        connect: Callable[[], Connection],
        name: str,
        domain: int,
        namespace: str,
        graph: LaunchedGraph | None,
        claim: contextlib.ExitStack,
    ) -> None:
        self.name, self.domain, self.namespace = name, domain, namespace
        self._connect, self._graph = connect, graph
        self._claim = claim  # of the domain
        self._connection: Connection | None = None
        self._closed = False
        self._state = threading.RLock()  # of the attributes above
        self._verbs = OneAtATime(name)  # those that move the robot

    # -- beginning and end -------------------------------------------------------------------------

    @classmethod
    def start(
        cls,
        robot: str,
        *,
        record: str | Path | None = None,
        launch: str = "sim.launch.py",
        domain: int | None = None,
        namespace: str = "",
        **arguments: object,
    ) -> Robot:
        """Launch a robot's graph; returns at once, `wait_until_ready` or the first verb waits.

        Args:
            robot: name in config/robots, or path of a robot's folder or of its URDF, xacro or MJCF file.
            record: folder for the bag, accepted parameter sets and `graph.log`; None: nothing is kept.
            launch: launch file. A simulation starts with its time standing still (`paused=True`), the drivers of a real or
                emulated robot (`robot.launch.py`) are switched on by the first verb that moves it (`drivers="by_hand"`).
            domain: ROS domain; None: ROS_DOMAIN_ID, else one that nobody of this machine has who asks in the same way.
            namespace: of all nodes.
            **arguments: of the launch file (`./refit launch sim --show-args` lists them), as bools, numbers and texts.

        Raises:
            UsageError: no such robot, or none that a graph runs.
        """
        from scripting.launched import LaunchedGraph

        try:
            robot = adopted(robot)
            name = node_parameters(robot).parent.name
        except (FileNotFoundError, AdoptionError) as error:
            raise UsageError(str(error)) from None
        claim = contextlib.ExitStack()
        if domain is None:
            domain = claim.enter_context(given_or_own_domain())
        first = ("paused", True) if Path(launch).name.startswith("sim") else ("drivers", "by_hand")
        given: dict[str, object] = {"robot": robot, "namespace": namespace, first[0]: first[1], **arguments}
        if record is not None:
            given |= {"record": True, "run_directory": record}
        graph = LaunchedGraph(launch, given, domain, None if record is None else Path(record))

        def connect() -> Connection:
            from scripting.connection import Connection

            return Connection.to_launched(graph, robot, domain, namespace, given)

        return cls(connect, name, domain, namespace, graph, claim)

    @classmethod
    def join(cls, *, namespace: str = "", domain: int | None = None, timeout: float = JOIN_TIMEOUT) -> Robot:
        """Join a robot whose graph somebody else started; it goes on when this script leaves.

        Args:
            namespace: of its nodes.
            domain: ROS domain; None: ROS_DOMAIN_ID, else 0.
            timeout: for its controller to be seen [s].

        Raises:
            UsageError: no robot is there.
        """
        from scripting.connection import Connection

        domain = int(os.environ.get("ROS_DOMAIN_ID", 0)) if domain is None else domain
        connection = Connection.to_running(domain, namespace, timeout)
        made = cls(lambda: connection, connection.facts.robot, domain, namespace, None, contextlib.ExitStack())
        made._connection = connection
        return made

    def __enter__(self) -> Robot:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End what was started here, every process of it; leave what was joined. May be called again, from any thread."""
        with self._state:
            self._closed = True
            connection, self._connection = self._connection, None
        try:
            if self._graph is not None:
                self._graph.close()
            self._claim.close()
            # What moves a robot that was joined stands before it is left alone; with its graph a task has ended anyway.
            with contextlib.suppress(Exception):
                self._verbs.cancel()
        finally:
            if connection is not None:
                connection.close()

    def wait_until_ready(self, timeout: float = START_TIMEOUT) -> Robot:
        """Until every node is active and hears the others; returns itself.

        Args:
            timeout: [s].

        Raises:
            GraphError: it did not get ready; the text says which node is in which state, and what the log said last.
            UsageError: the launch file refused an argument.
        """
        self._connected.wait_until_ready(timeout)
        return self

    @property
    def _connected(self) -> Connection:
        with self._state:
            if self._closed:
                raise UsageError(f"this {self.name} is closed; start or join it anew")
            if self._connection is None:
                self._connection = self._connect()
            return self._connection

    @property
    def _ready(self) -> Connection:
        connection = self._connected
        connection.wait_until_ready(START_TIMEOUT)
        return connection

    # -- moving ------------------------------------------------------------------------------------

    def follow_path(
        self, duration: float, *, stop_after: bool = True, progress: Callable[[float], None] = lambda t: None
    ) -> PathResult:
        """Have the controller follow its path, from where it stopped; returns when the time is over.

        Args:
            duration: [s] of the robot's clock. It ends with the control cycle that the script sees first thereafter: up to
                some 20 ms of wall time later; the result says how long it was.
            stop_after: let the robot stand afterwards, see `stop`; False: it goes on while the script does something else.
            progress: called with the time followed so far [s].

        Raises:
            UsageError: this robot follows no path, or another verb moves it.
            GraphError: the graph ended, or the controller fell silent.
        """
        return self._verbs.run(self._path(duration, stop_after, progress))

    def start_path(self, duration: float, *, stop_after: bool = True) -> Task[PathResult]:
        """`follow_path` that does not wait: ask the task `is_done()`, for its `result()`, or to `cancel()`."""
        return self._verbs.begin(self._path(duration, stop_after), "follow_path")

    def _path(
        self, duration: float, stop_after: bool, progress: Callable[[float], None] = lambda t: None
    ) -> Callable[[threading.Event], PathResult]:
        from scripting.following import follow

        connection = self._ready
        connection.facts.require("follow_path", "track")
        if not 0.0 < duration < float("inf"):
            raise UsageError(f"follow_path({duration!r}): expected a duration above 0 [s]")
        graph = connection.client, connection.monitor, connection.motion
        return lambda cancelled: follow(*graph, duration, stop_after, progress, cancelled)

    def run_episode(
        self, *, refit_at_end: bool = True, steps: int = 0, timeout: float = EPISODE_TIMEOUT
    ) -> EpisodeResult:
        """Put a simulated robot back to its (scattered) start, and run one episode of its task.

        Time and changes of the world stay. Where time stood still before, it does so again afterwards.

        Args:
            refit_at_end: fit the physics to the episode when it is over.
            steps: of control; 0: as many as the controller is configured for.
            timeout: [s] of wall time.

        Raises:
            UsageError: this robot runs no episodes, or another verb moves it.
            GraphError: the graph ended, or there was no result in time.
        """
        return self._verbs.run(self._episode(refit_at_end, steps, timeout))

    def start_episode(
        self, *, refit_at_end: bool = True, steps: int = 0, timeout: float = EPISODE_TIMEOUT
    ) -> Task[EpisodeResult]:
        """`run_episode` that does not wait: ask the task `is_done()`, for its `result()`, or to `cancel()`."""
        return self._verbs.begin(self._episode(refit_at_end, steps, timeout), "run_episode")

    def _episode(self, refit_at_end: bool, steps: int, timeout: float) -> Callable[[threading.Event], EpisodeResult]:
        from scripting.episodes import run_episode

        connection = self._ready
        connection.facts.require("run_episode", "episode")
        graph = connection.client, connection.monitor, connection.motion, connection.world
        return lambda cancelled: run_episode(*graph, steps, refit_at_end, timeout, cancelled)

    def stop(self) -> None:
        """Bring the robot to a stand, and return once it stands. A task that moves it is cancelled first.

        In a simulation time stands still. Of a real or emulated robot the controller is deactivated, its servos enter their
        own stop state, and this waits until the joints rest; the next verb activates it again and its path goes on. The
        supervisor then says that commands have ceased, a halt which that verb lifts; its service `stop` is not used, and
        this is no emergency stop.

        Raises:
            GraphError: it could not be confirmed that the robot stands.
        """
        self._verbs.cancel()
        with self._verbs.turn():
            self._ready.motion.stand()

    def go(self) -> None:
        """Let the robot move on its own until `stop`: a simulation's time runs, a real robot's devices are switched on."""
        with self._verbs.turn():
            self._ready.motion.go()

    def resume(self) -> None:
        """Lift the supervisor's halt.

        Raises:
            ScriptError: it is not lifted, because its cause persists or because there is none; the text says which.
        """
        if why := self._ready.press("resume"):
            raise ScriptError(f"the halt was not lifted: {why}")

    def arm(self) -> None:
        """Let the controller command: on hardware nobody may until this was called (launch argument `arm:=by_hand`).

        Raises:
            ScriptError: the robot is not armed, because of a fault or because it is not disarmed; the text says which.
        """
        if why := self._ready.press("arm"):
            raise ScriptError(f"the robot was not armed: {why}")

    def disarm(self) -> None:
        """Let nobody command, until `arm`: the joints enter their declared stop state at once.

        Raises:
            ScriptError: the supervisor halts the robot already, or is starting.
        """
        if why := self._ready.press("disarm"):
            raise ScriptError(f"the robot was not disarmed: {why}")

    # -- the world, and what is known of the robot -------------------------------------------------

    @property
    def world(self) -> World:
        """The simulated world: its time, resets, objects.

        Raises:
            UsageError: this robot is real.
        """
        if (world := self._ready.world) is None:
            raise UsageError(f"{self.name} is real: its world is changed by hand")
        return world

    def change_world(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Change the simulated robot or what it holds; nobody tells the controller.

        Args:
            events: of the plant's scenario (docs/nodes/sim_plant.md), as in
                [{"action": "attach", "frame": "hand", "mass": 2.0}]; with `time` [s] of the plant's clock, or at once.

        Raises:
            UsageError: this robot is real, or an event cannot happen on it; then nothing is changed.
        """
        self.world.change(events)

    def learnt(self, quantity: str = "", timeout: float = LEARNT_TIMEOUT) -> Learnt:
        """The newest accepted parameters: a mapping of names to value, deviation, 95 % interval and unit; prints as a table.

        Args:
            quantity: wait until this one is among them, as a proposal under way may bring it. "": do not wait.
            timeout: of that wait [s].

        Raises:
            GraphError: it was not learnt in time; the text says what was.
        """
        ready = self._ready
        if quantity and not ready.client.until(
            lambda: quantity in ready.monitor.learnt, timeout, f"while {quantity} was learnt"
        ):
            raise GraphError(f"{quantity} was not learnt within {timeout:g} s; known is:\n{ready.monitor.learnt}")
        return ready.monitor.learnt

    @property
    def halted(self) -> str:
        """The supervisor's sentence while it halts the robot, else ""."""
        return self._ready.monitor.halted
