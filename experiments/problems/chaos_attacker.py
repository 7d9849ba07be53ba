"""A hostile node in a process of its own: it floods, forges and garbles whatever a graph's nodes listen to.

    with Attacker(domain, target) as attacker:
        attacker.start(Attack("commands", "far", rate=2000.0, seconds=0.7, seed=3))
        attacker.wait()                                     # how many messages it sent

It is called `stranger`, unless an attack says that it calls itself the supervisor. Whatever it sends carries the frame
TAG, by which an observer, who is not part of the chain, tells it from the truth.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import rclpy
from builtin_interfaces.msg import Time
from rclpy.context import Context
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from refit_interfaces.msg import CommandLease, ControllerStatus, JointCommand, ParameterSet, SupervisorStatus
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState

from config.network import enclose
from nodes.framework.messages import seconds, to_stamp
from nodes.framework.polled import create_polled_subscription, take
from nodes.framework.qos import CLOCK, COMMAND, LEDGER, STATE

__all__ = ["TAG", "Attack", "Attacker", "Target"]

TAG, STRANGER = "forged", "stranger"
#: [s] for readers to find a publisher; for a job beyond its own time
DISCOVERY, PATIENCE = 2.0, 20.0
FAR, HUGE = 100.0, 1e300


@dataclass(frozen=True)
class Target:
    """What the attacker knows of its robot: joints with limits (n,), who commands, and what parameter sets look like."""

    joints: tuple[str, ...]
    lower: np.ndarray
    upper: np.ndarray
    velocity: np.ndarray
    effort: np.ndarray
    commander: str
    robot: str
    model_hash: str
    parameters: np.ndarray


@dataclass(frozen=True)
class Attack:
    """One job.

    Attributes:
        topic: commands, states, status, lease, parameters, controller or clock.
        content: what is wrong with the messages; the functions of this module list them.
        rate: [Hz]. seconds: for how long [s]. seed: of what is random in them.
        author: name of the node that sends them. commander: whom commands and leases name.
        offset: of stamps or clocks, from the true one [s].
    """

    topic: str
    content: str
    rate: float
    seconds: float
    seed: int
    author: str = STRANGER
    commander: str = STRANGER
    offset: float = 0.0


class Attacker:
    """See the module's docstring: the handle on the process.

    Args:
        domain: of the graph.
    """

    def __init__(self, domain: int, target: Target) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, domain, target), daemon=True)
        self._process.start()
        other.close()
        if not self._connection.poll(60.0):
            raise RuntimeError("the attacker's process did not start within 60 s")
        self._connection.recv()

    def start(self, attack: Attack) -> None:
        """Let it begin."""
        self._connection.send(attack)

    def wait(self) -> int:
        """How many messages the attack sent, once it is over and its publisher gone."""
        if not self._connection.poll(PATIENCE + 10.0):
            raise RuntimeError("the attacker did not come back")
        answer = self._connection.recv()
        if isinstance(answer, str):
            raise RuntimeError(f"the attack failed: {answer}")
        return answer

    def close(self) -> None:
        """End the process."""
        self._connection.close()
        self._process.join(5.0)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def _serve(connection: Connection, domain: int, target: Target) -> None:
    """The process: one attack after the other until the connection closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever holds the connection
    enclose(os.environ)
    context = Context()
    rclpy.init(context=context, domain_id=domain, signal_handler_options=SignalHandlerOptions.NO)
    stranger = Node(STRANGER, context=context)
    states = create_polled_subscription(stranger, JointState, "joint_states", COMMAND)
    connection.send("ready")
    while True:
        try:
            attack = connection.recv()
        except (EOFError, OSError):
            break
        try:
            connection.send(_attack(context, stranger, states, target, attack))
        except Exception as error:  # handed to whoever asked for it
            connection.send(f"{type(error).__name__}: {error}")
    stranger.destroy_node()
    rclpy.try_shutdown(context=context)


def _attack(context: Context, stranger: Node, states: Any, target: Target, attack: Attack) -> int:
    """Send what an attack asks for; how many messages that were."""
    rng = random.Random(attack.seed)
    node = stranger if attack.author == STRANGER else Node(attack.author, context=context)
    kind, topic, qos, make = _KINDS[attack.topic]
    publisher = node.create_publisher(kind, topic, qos)
    try:
        found = time.monotonic() + DISCOVERY
        while publisher.get_subscription_count() < 1 and time.monotonic() < found:
            time.sleep(0.01)
        time.sleep(0.1)
        true: JointState | None = None
        sent, begin = 0, time.monotonic()
        while (now := time.monotonic() - begin) < attack.seconds:
            message: Any
            for message, _ in take(states):
                true = true if message.header.frame_id else message
            if true is not None:
                due = int(now * attack.rate) + 1
                for _ in range(min(due - sent, 50)):
                    publisher.publish(make(attack, target, true, rng))
                    sent += 1
            time.sleep(0.0005)
        return sent
    finally:
        time.sleep(0.05)
        node.destroy_publisher(publisher)
        if node is not stranger:
            node.destroy_node()


# -- contents ------------------------------------------------------------------------------------------------------


def _shifted(stamp: Time, by: float) -> Time:
    return to_stamp(max(0.0, seconds(stamp) + by))


def _where(target: Target, true: JointState) -> np.ndarray:
    index = {name: k for k, name in enumerate(true.name)}
    return np.array([true.position[index[name]] for name in target.joints])


def _command(attack: Attack, target: Target, true: JointState, rng: random.Random) -> JointCommand:
    """hold, far, posture, bang; nan, lengths, names, mode; late and early by `offset`."""
    n, content = len(target.joints), attack.content
    message = JointCommand(mode=JointCommand.MODE_POSITION, joint_names=list(target.joints), commander=attack.commander)
    message.header.frame_id, message.header.stamp = TAG, _shifted(true.header.stamp, attack.offset)
    q = np.clip(_where(target, true), target.lower, target.upper)
    if content == "far":
        q = np.full(n, FAR * rng.choice((-1.0, 1.0)))
    elif content == "posture":
        # The same one for a while: a posture that changes with every message leads nowhere.
        pick = random.Random(attack.seed)
        q = np.array([pick.uniform(low, high) for low, high in zip(target.lower, target.upper)])
    elif content == "bang":
        signs = random.Random(attack.seed + int(4.0 * time.monotonic()))
        message.mode = JointCommand.MODE_EFFORT
        message.effort = [float(limit) * signs.choice((-1.0, 1.0)) for limit in target.effort]
        return message
    elif content == "nan":
        q = q.copy()
        q[rng.randrange(n)] = rng.choice((np.nan, np.inf, -np.inf))
    elif content == "lengths":
        q = np.zeros(rng.choice([k for k in range(2 * n) if k != n]))
    elif content == "names":
        message.joint_names = rng.choice(
            ([*target.joints[:-1], "joint99"], list(target.joints[:-1]), [target.joints[0]] * n)
        )
    elif content == "mode":
        message.mode = rng.randrange(3, 256)
    message.position = [float(x) for x in q]
    return message


def _state(attack: Attack, target: Target, true: JointState, rng: random.Random) -> JointState:
    """elsewhere, fast, nan, lengths, names, frame; late and early by `offset`."""
    content = attack.content
    message = JointState(name=list(true.name))
    message.header.frame_id, message.header.stamp = TAG, _shifted(true.header.stamp, attack.offset)
    q, v, effort = (np.array(field) for field in (true.position, true.velocity, true.effort))
    if content == "elsewhere":
        q = q + np.array([rng.uniform(-0.5, 0.5) for _ in q])
    elif content == "fast":
        v = v + np.array([rng.choice((-10.0, 10.0)) for _ in v])
    elif content == "nan":
        q[rng.randrange(len(q))] = rng.choice((np.nan, np.inf))
    elif content == "lengths":
        v = v[: rng.randrange(len(v))]
    elif content == "names":
        message.name = message.name[:-1] + ["joint99"]
    elif content == "frame":
        message.header.frame_id = rng.choice(("world", "moon", "\x7f" * 50))
    message.position, message.velocity, message.effort = q.tolist(), v.tolist(), effort.tolist()
    return message


def _status(attack: Attack, target: Target, true: JointState, rng: random.Random) -> SupervisorStatus:
    """ready, halted, or any."""
    states = {"ready": SupervisorStatus.STATE_READY, "halted": SupervisorStatus.STATE_HALTED}
    message = SupervisorStatus(state=states.get(attack.content, rng.randrange(7)), message="forged")
    message.header.frame_id, message.header.stamp = TAG, true.header.stamp
    return message


def _lease(attack: Attack, target: Target, true: JointState, rng: random.Random) -> CommandLease:
    """grant, withdraw, or nonsense."""
    message = CommandLease(commander=attack.commander, duration=60.0)
    if attack.content == "withdraw":
        message.commander, message.message = "", "forged"
    elif attack.content == "nonsense":
        message.duration = rng.choice((np.nan, np.inf, -1.0, 0.0, HUGE))
    message.header.frame_id = TAG
    return message


def _parameters(attack: Attack, target: Target, true: JointState, rng: random.Random) -> ParameterSet:
    """huge, nan, negative, or short."""
    vector = target.parameters.copy()
    if attack.content == "huge":
        vector[:] = HUGE
    elif attack.content == "nan":
        vector[rng.randrange(len(vector))] = np.nan
    elif attack.content == "negative":
        vector = -vector
    else:
        vector = vector[: rng.randrange(len(vector))]
    message = ParameterSet(
        robot=target.robot, model_hash=target.model_hash, revision=rng.randrange(1, 10**6), accepted=True
    )
    message.vector = vector.tolist()
    message.header.frame_id = TAG
    return message


def _controller(attack: Attack, target: Target, true: JointState, rng: random.Random) -> ControllerStatus:
    """idle."""
    message = ControllerStatus(state=ControllerStatus.STATE_IDLE, message="forged")
    message.header.frame_id, message.header.stamp = TAG, true.header.stamp
    return message


def _clock(attack: Attack, target: Target, true: JointState, rng: random.Random) -> Clock:
    """Off by `offset`."""
    return Clock(clock=_shifted(true.header.stamp, attack.offset))


_KINDS: dict[str, tuple[type, str, Any, Callable[..., Any]]] = {
    "commands": (JointCommand, "joint_command", COMMAND, _command),
    "states": (JointState, "joint_states", STATE, _state),
    "status": (SupervisorStatus, "supervisor/status", LEDGER, _status),
    "lease": (CommandLease, "supervisor/lease", COMMAND, _lease),
    "parameters": (ParameterSet, "refit/parameters", LEDGER, _parameters),
    "controller": (ControllerStatus, "controller/status", STATE, _controller),
    "clock": (Clock, "/clock", CLOCK, _clock),
}
