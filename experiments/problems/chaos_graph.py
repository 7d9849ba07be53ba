"""The whole launched graph of one arm, with who watches it, who attacks it, and what an operator can do.

with ChaosGraph(arm, limits, hand, folder, domain) as graph:
    graph.signal("supervisor", signal.SIGSTOP)
    graph.observer.explained()
    graph.recover()
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from lifecycle_msgs.msg import State, Transition
from refit_interfaces.msg import SupervisorStatus
from refit_interfaces.srv import HandOver
from std_srvs.srv import Trigger

from experiments.problems.chaos_arm import Arm, Hand
from experiments.problems.chaos_attacker import Attacker, Target
from experiments.problems.chaos_judge import Limits
from experiments.problems.chaos_observer import Observer
from hardware.emulation.machine_time import withheld
from scripting.client import GraphClient
from scripting.errors import GraphError
from scripting.launched import LaunchedGraph

__all__ = ["ChaosGraph", "Recovery"]

#: [s] for a graph to start and the arm to follow its path; for a graph that has to end; for one answer of a service
START, END, ANSWER = 240.0, 30.0, 8.0
#: [s] for an operator to have the arm follow again; between two presses of a button
RECOVERY, PRESS = 45.0, 0.5
#: [s] without a halt and without motion, after which an operator stops and resumes
STUCK = 8.0
LOOK = 0.02
#: processes that real servos, and a driver on a machine of its own, have no need to wait for
REAL_TIME = ("sim_plant", "emulator", "dynamixel")


@dataclass(frozen=True)
class Recovery:
    """How an operator got the arm to follow again.

    Attributes:
        way: what was pressed, in order; "" if nothing had to be.
        took: until the arm followed, of which the last second is the look at it [s]; NaN: it did not.
        answers: what the services said where they refused.
    """

    way: str
    took: float
    answers: tuple[str, ...] = ()


class ChaosGraph:
    """See the module's docstring.

    Args:
        folder: for log and bags. domain: ROS domain.

    Attributes:
        client, observer, attacker: of this graph.
        pids: of its processes, by name.
        hash, width: of the robot's model, and the length of its parameter vector.
        started: how long it took until the arm followed its path [s].
    """

    def __init__(self, arm: Arm, limits: Limits, hand: Hand, folder: Path, domain: int) -> None:
        self.arm, self.folder, self.domain = arm, folder, domain
        self._limits, self._hand = limits, hand
        self._dead: set[str] = set()
        self.hash, self.width = hand.hash, len(hand.parameters)

    def __enter__(self) -> ChaosGraph:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> ChaosGraph:
        """Start it, and wait until the arm follows its path.

        Raises:
            GraphError: it does not.
        """
        limits, hand, arm = self._limits, self._hand, self.arm
        begin = time.monotonic()
        arguments = {"robot": arm.robot, **arm.arguments, "record": True, "run_directory": str(self.folder.resolve())}
        self.client = GraphClient(self.domain)
        self.observer = Observer(self.client, arm, limits, hand)
        self._launched = LaunchedGraph(arm.launch, arguments, self.domain, self.folder)
        target = Target(
            limits.joints, limits.lower, limits.upper, limits.velocity, limits.effort, "adaptive_mpc", arm.robot,
            hand.hash, hand.parameters,
        )  # fmt: skip
        try:
            self.attacker = Attacker(self.domain, target)
            self._until(self._complete, START, "its processes start")
            if not arm.simulated:
                world = self.client.parameters("sim_plant", ["world"], START)["world"]
                self.observer.watch_world(world)
            if not np.isfinite(self.recover(START).took):  # a busy machine may halt an arm that has just started
                raise self._launched.error(f"{arm.robot}: the arm does not follow its path within {START:g} s")
        except BaseException:
            self.close()
            raise
        self.started = time.monotonic() - begin
        return self

    def close(self) -> None:
        """End everything."""
        for name in self.pids if hasattr(self, "pids") else ():
            self.signal(name, signal.SIGCONT)
        if hasattr(self, "attacker"):
            self.attacker.close()
        self._launched.close()
        self.observer.close()
        self.client.close()

    def _until(self, condition: Callable[[], object], timeout: float, what: str) -> None:
        if not self.client.until(condition, timeout, what) or self.ended:
            raise self._launched.error(f"{self.arm.robot}: it did not happen within {timeout:g} s that {what}")

    # -- processes -----------------------------------------------------------------------------------------------
    def _complete(self) -> bool:
        """Whether all processes run; a process that becomes another program has no name for a moment."""
        self._born: dict[str, int] = {}
        self.pids = self._find()
        return set(self.pids) == set(self.arm.processes)

    def _find(self) -> dict[str, int]:
        """Process ids by name: the oldest child of the launch that names the node."""
        found: dict[str, int] = {}
        for entry in sorted(int(e.name) for e in Path("/proc").iterdir() if e.name.isdigit()):
            with contextlib.suppress(OSError, IndexError, ProcessLookupError):
                if _stat(entry, PARENT) == self._launched.pid and (name := _name(entry)) and name not in found:
                    found[name] = entry
                    self._born[name] = _stat(entry, BORN)
        return found

    def signal(self, name: str, number: int) -> None:
        """Send a signal to a process; one that has ended hears nothing."""
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            if _stat(self.pids[name], BORN) != self._born[name]:
                return  # the number belongs to somebody else by now
            os.kill(self.pids[name], number)
            if number == signal.SIGKILL:
                self._dead.add(name)

    def waited(self) -> float:
        """How long the processes that stand for servos and their bus have waited for a core since they started [s]."""
        return sum(withheld(self.pids[name]) for name in REAL_TIME if name in self.pids)

    def died(self) -> list[str]:
        """Processes that have ended although nobody ended them, since this was last asked; none once the launch ends."""
        lost = (
            []
            if self.ended or "supervisor" in self._dead
            else [
                name for name, pid in self.pids.items() if name not in self._dead and not Path(f"/proc/{pid}").exists()
            ]
        )
        self._dead.update(lost)
        return lost

    @property
    def ended(self) -> bool:
        """Whether the launch has ended."""
        return self._launched.exit_code is not None

    @property
    def exit_code(self) -> int | None:
        """Of the launch."""
        return self._launched.exit_code

    @property
    def hopeless(self) -> bool:
        """Whether it has to be started anew: it has ended, or lacks what nothing else brings back."""
        return self.ended or bool(self._dead & set(self.arm.essential))

    def wait_end(self) -> bool:
        """Whether the launch ends in time."""
        deadline = time.monotonic() + END
        while not self.ended and time.monotonic() < deadline:
            time.sleep(LOOK)
        return self.ended

    def last_words(self) -> str:
        """Why the launch ended, by its own log."""
        return next(
            (
                line
                for text in ("the supervisor has ended", "the plant has ended")
                if (line := self._launched.last_line(text))
            ),
            self._launched.last_line("process has died"),
        )

    # -- the operator --------------------------------------------------------------------------------------------
    def press(self, service: str) -> str:
        """Call a service of the supervisor; why it was not done, or ""."""
        try:
            answer = self.client.call(Trigger, service, timeout=ANSWER)
        except GraphError as error:
            return str(error).partition("\n")[0]
        return "" if answer.success else answer.message

    def hand_over(self, commander: str) -> str:
        """Give the right to command to somebody; why it was not done, or ""."""
        try:
            answer = self.client.call(HandOver, "hand_over", HandOver.Request(commander=commander), timeout=ANSWER)
        except GraphError as error:
            return str(error).partition("\n")[0]
        return "" if answer.success else answer.message

    def record_anew(self) -> None:
        """Have the recorder begin another bag."""
        for transition, state in (
            (Transition.TRANSITION_DEACTIVATE, State.PRIMARY_STATE_INACTIVE),
            (Transition.TRANSITION_ACTIVATE, State.PRIMARY_STATE_ACTIVE),
        ):
            self.client.change_state("recorder", transition, state, RECOVERY)

    def recover(self, timeout: float = RECOVERY) -> Recovery:
        """Do what an operator would until the arm follows its path again, for `timeout` [s] at most."""
        begin = time.time()
        pressed: list[str] = []
        answers: list[str] = []
        since = begin  # when somebody last changed something
        while time.time() < begin + timeout and not self.ended:
            state = self.observer.state
            if self.observer.armed() and self.observer.follows(time.time()):
                return Recovery(", ".join(pressed), time.time() - begin, tuple(answers))
            button = {SupervisorStatus.STATE_HALTED: "resume", SupervisorStatus.STATE_DISARMED: "arm"}.get(state, "")
            if not button and time.time() > since + STUCK:
                button = "stop"  # a halt that is resumed sets everybody going anew
            if button:
                why = self.press(button)
                if why:
                    answers.append(why)
                else:
                    pressed.append(button)
                    since = time.time()
                time.sleep(PRESS)
            time.sleep(LOOK)
        return Recovery(", ".join(pressed), float("nan"), tuple(answers))


#: fields of /proc/PID/stat behind the name: the parent, and when it was born [ticks since the machine started]
PARENT, BORN = 1, 19


def _stat(pid: int, field: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[field])


def _name(pid: int) -> str:
    """Of a node, or "emulator"; "" for what is neither."""
    words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    if b"hardware.emulate" in words or b"nodes.plant.lidar_emulator" in words:
        return "emulator"
    return next((w[8:].decode() for w in words if w.startswith(b"__node:=")), "")
