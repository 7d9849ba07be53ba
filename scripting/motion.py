"""What lets a robot move and what makes it stand: a simulation's time, or a real robot's controller and drivers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from lifecycle_msgs.msg import State, Transition
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger

from nodes.framework.polled import take
from nodes.framework.qos import COMMAND
from scripting.client import ANSWER_TIMEOUT, GraphClient
from scripting.errors import ScriptError
from scripting.monitor import Monitor
from scripting.world import World

__all__ = ["Motion", "RealMotion", "SimulatedMotion"]

LIFT_TIMEOUT = 5.0  # [s] for a lifted halt to be said; one that is not lifted is the verb's result


class Motion(Protocol):
    """How a robot is let go and brought to a stand."""

    def stands(self) -> bool:
        """Whether the robot is kept from moving."""

    def go(self) -> float | None:
        """Let it move; the time [s] from which on it may, or None where only the first controlled state tells."""

    def stand(self) -> None:
        """Bring it to a stand, and return once it stands."""


class SimulatedMotion:
    """Time runs, or it stands still."""

    def __init__(self, world: World) -> None:
        self._world = world

    def stands(self) -> bool:
        return self._world.stands_still

    def go(self) -> float | None:
        if not self._world.stands_still:
            return None
        begin = self._world.time
        self._world.play()
        return begin

    def stand(self) -> None:
        self._world.pause()


class RealMotion:
    """The controller is active or not; without it the servos enter their own stop state.

    Args:
        client: of the graph. monitor: of what is said in it.
        controller: name of its node.
        drivers: names of drivers that are activated before the robot can move, those that move it last; empty: they are
            somebody else's.
    """

    def __init__(self, client: GraphClient, monitor: Monitor, controller: str, drivers: Sequence[str] = ()) -> None:
        self._client, self._monitor, self._controller, self._drivers = client, monitor, controller, list(drivers)
        self._stopped = False  # by `stand`

    def stands(self) -> bool:
        return bool(self._drivers) or self._client.lifecycle_state(self._controller) != State.PRIMARY_STATE_ACTIVE

    def go(self) -> float | None:
        change = self._client.change_state
        while self._drivers:
            change(self._drivers[0], Transition.TRANSITION_ACTIVATE, State.PRIMARY_STATE_ACTIVE, ANSWER_TIMEOUT)
            self._drivers.pop(0)
        change(self._controller, Transition.TRANSITION_ACTIVATE, State.PRIMARY_STATE_ACTIVE, ANSWER_TIMEOUT)
        if self._stopped:
            # A controller that fell silent is a case for the supervisor; this halt was asked for here, so it is lifted here.
            self._client.call(Trigger, "resume")
            self._client.until(lambda: not self._monitor.halted, LIFT_TIMEOUT, "while the supervisor lifted its halt")
            self._stopped = False
        # Where the supervisor arms by itself, it does so with the first joint states.
        if not self._client.until(
            lambda: not self._monitor.disarmed, LIFT_TIMEOUT, "while the supervisor armed the robot"
        ):
            raise ScriptError(f"nobody may command this robot, {self._monitor.disarmed}: call arm() first")
        return None

    def stand(self) -> None:
        self._client.change_state(
            self._controller, Transition.TRANSITION_DEACTIVATE, State.PRIMARY_STATE_INACTIVE, ANSWER_TIMEOUT
        )
        self._stopped = True
        limits = self._client.parameters("supervisor", ["rest_velocity", "rest_time"])
        states, since = self._client.poll(JointState, "joint_states", COMMAND), None

        def rests() -> bool:
            nonlocal since
            message: Any
            for message, _ in take(states):
                stamp = message.header.stamp.sec + 1e-9 * message.header.stamp.nanosec
                moves = np.max(np.abs(message.velocity), initial=0.0) > limits["rest_velocity"]
                since = None if moves else stamp if since is None else since
                if since is not None and stamp - since >= limits["rest_time"]:
                    return True
            return False

        try:
            if not self._client.until(rests, ANSWER_TIMEOUT, "while the robot came to rest"):
                raise self._client.error(
                    f"the controller is off, but the robot is not at rest after {ANSWER_TIMEOUT:g} s: use its own stop"
                )
        finally:
            self._client.release(states)
