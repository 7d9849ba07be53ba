"""Every device at once: an emulator and a driver node per device, in processes of their own, and somebody who listens.

with DeviceBench(folder, DEVICES, domain) as bench:
    bench.up()
    bench.inject("urg", "unplug", seconds=2.0)
    bench.listen(1.0)
    bench.health["urg"][-1].level
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

import yaml
from diagnostic_msgs.msg import DiagnosticArray
from lifecycle_msgs.msg import State, Transition
from rclpy.node import Node

from experiments.problems.device_signs import Health, Sign
from hardware.emulation.machine_time import withheld
from hardware.emulation.process import EmulatorProcess
from nodes.framework.polled import take
from nodes.framework.qos import STATE
from scripting.client import GraphClient
from scripting.errors import GraphError

__all__ = ["KILLED", "DeviceBench", "Injection", "Played", "Usage"]

CURE_TIME = 10.0  # [s] for what an operator does
KILLED = "killed"  # the fault that no emulator plays: its process ends by SIGKILL, and a new one takes its place


@dataclass(frozen=True)
class Injection:
    """A fault as the study plays it.

    Attributes:
        sign: what the driver must say of it.
        parameters: of the emulator's fault.
        seconds: shortest and longest that it lasts.
        cure: services of the node, called in order once it is over, as its operator would: SetBool (true) or Trigger.
    """

    sign: Sign
    parameters: dict[str, object] = field(default_factory=dict)
    seconds: tuple[float, float] = (0.7, 2.0)
    cure: tuple[tuple[type, str], ...] = ()


@dataclass(frozen=True)
class Played:
    """One emulated device and the node that drives it.

    Attributes:
        node: name of the node; executable: of nodes/framework/entry.py; emulator: words of `refit emulate`.
        parameters: of the node; {link} and {ip} are filled in, in the emulator's words too.
        faults: fault -> Injection, of those that the device must report.
    """

    node: str
    executable: str
    emulator: tuple[str, ...]
    parameters: dict[str, object]
    faults: dict[str, Injection] = field(default_factory=dict)


@dataclass(frozen=True)
class Usage:
    """Of one process: resident memory [bytes], threads, open descriptors."""

    memory: int
    threads: int
    descriptors: int

    @classmethod
    def of(cls, pid: int) -> Usage:
        status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        return cls(int(status["VmRSS"].split()[0]) * 1024, int(status["Threads"]), len(os.listdir(f"/proc/{pid}/fd")))


class DeviceBench:
    """See the module's docstring.

    Args:
        folder: for logs and parameter files.
        devices: to play.
        domain: ROS domain of this bench alone.
        seed: of the emulators' noise and faults.

    Attributes:
        health: node -> recent Health, oldest first.
        emulators, processes: node -> EmulatorProcess, subprocess.Popen of the driver.
    """

    def __init__(self, folder: Path, devices: list[Played], domain: int, seed: int = 0):
        self.folder, self.devices, self.domain, self.seed = Path(folder), devices, domain, seed
        self.health: dict[str, deque[Health]] = {d.node: deque(maxlen=20_000) for d in devices}
        self.emulators: dict[str, EmulatorProcess] = {}
        self.processes: dict[str, subprocess.Popen] = {}
        self._pool = ThreadPoolExecutor(4, "bench")
        self._mending: dict[str, Future] = {}

    def __enter__(self) -> DeviceBench:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._ports = Path(tempfile.mkdtemp(prefix="refit-bench-"))
        self._client = GraphClient(self.domain)
        # Polled, so that `health` only grows while somebody listens, in the listener's thread.
        self._diagnostics = self._client.poll(DiagnosticArray, "diagnostics", STATE)
        try:
            for k, device in enumerate(self.devices):
                self._start(k, device)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def _start(self, k: int, device: Played) -> None:
        # A short path: sockets' may have 107 characters at most.
        port = self._ports / device.node / "port"
        port.parent.mkdir()
        places = dict(link=str(port), ip=f"127.{60 + self.domain % 150}.{1 + k}.1")

        def fill(value):
            for name, place in places.items() if isinstance(value, str) else ():
                value = value.replace(f"{{{name}}}", place)
            return value

        self.emulators[device.node] = EmulatorProcess(
            *map(fill, device.emulator), link=places["link"], seed=self.seed + k
        )
        filled = {name: fill(value) for name, value in device.parameters.items()}
        parameters = self.folder / f"{device.node}.yaml"
        parameters.write_text(yaml.safe_dump({"/**": {"ros__parameters": filled}}))
        program = f"import sys; from nodes.framework.entry import {device.executable} as main; sys.exit(main())"
        with (self.folder / f"{device.node}.log").open("wb") as log:
            self.processes[device.node] = subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    program,
                    "--ros-args",
                    "-r",
                    f"__node:={device.node}",
                    "-r",
                    "__ns:=/",
                    "--params-file",
                    str(parameters),
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, "ROS_DOMAIN_ID": str(self.domain)},
            )

    def close(self) -> dict[str, int]:
        """End everything; exit codes of the drivers by node.

        One driver after the other: while ten participants leave at once, Fast DDS 2.14 crashes or hangs in about one of
        two hundred of them, in threads of its own, after the driver has done its part.
        """
        self._pool.shutdown(cancel_futures=True)
        codes = {}
        for node, process in self.processes.items():
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGINT)
            try:
                codes[node] = process.wait(15.0)
            except subprocess.TimeoutExpired:
                process.kill()
                codes[node] = process.wait()
        for emulator in self.emulators.values():
            emulator.stop()
        self.processes, self.emulators = {}, {}
        shutil.rmtree(self._ports, ignore_errors=True)
        self._client.close()
        return codes

    # -- the graph ---------------------------------------------------------------------------------
    @property
    def node(self) -> Node:
        """The listener's rclpy node, for subscriptions of one's own; their callbacks run in a thread of its own."""
        return self._client.node

    def _hear(self) -> None:
        """Take in what has been said."""
        now = time.monotonic()
        for message, _ in take(self._diagnostics):
            for status in message.status:
                node = status.name.rsplit("/", 1)[-1]
                if node in self.health:
                    self.health[node].append(
                        Health(now, status.level[0], status.message, {v.key: v.value for v in status.values})
                    )

    def listen(self, seconds: float) -> None:
        """Take in what is said for so long [s]."""
        self.until(lambda: False, seconds)

    def until(self, condition: Callable[[], bool], timeout: float) -> bool:
        """Whether `condition()` becomes true within `timeout` [s], listening meanwhile."""

        def fulfilled() -> bool:
            self._hear()
            return condition()

        return self._client.until(fulfilled, timeout, "while listening to the devices")

    def up(self, timeout: float = 60.0) -> float:
        """Configure and activate every driver; returns how long after the last activation all were well [s].

        Of each device's time counts what the machine did not withhold from it (see `withheld`).

        Raises:
            RuntimeError: one of them did not get there; the text ends with its log.
        """
        for transition in (Transition.TRANSITION_CONFIGURE, Transition.TRANSITION_ACTIVATE):
            for device in self.devices:
                self._change(device.node, transition, timeout)
        begin, before = time.monotonic(), {d.node: self.withheld(d.node) for d in self.devices}
        took: dict[str, float] = {}

        def all_well() -> bool:
            for node in before.keys() - took.keys():
                if self.well(node):
                    took[node] = max(0.0, time.monotonic() - begin - (self.withheld(node) - before[node]))
            return all(self.well(d.node) for d in self.devices)

        if not self.until(all_well, timeout):
            ill = [d.node for d in self.devices if not self.well(d.node)]
            raise RuntimeError("never well: " + "; ".join(f"{n}: {self.said(n)}\n{self.log(n)}" for n in ill))
        return max(took.values())

    def _change(self, node: str, transition: int, timeout: float) -> None:
        wanted = {
            Transition.TRANSITION_CONFIGURE: State.PRIMARY_STATE_INACTIVE,
            Transition.TRANSITION_ACTIVATE: State.PRIMARY_STATE_ACTIVE,
        }[transition]
        try:
            self._client.change_state(
                node, transition, wanted, timeout, lambda: self.processes[node].poll() is not None
            )
        except GraphError as error:
            raise RuntimeError(f"{error}\n{self.log(node)}") from error

    # -- one device --------------------------------------------------------------------------------
    def inject(self, node: str, fault: str, seconds: float | None = None, **parameters) -> None:
        """Begin a fault of a device; KILLED ends its process."""
        if fault == KILLED:
            self.emulators[node].kill()
        else:
            self.emulators[node].inject(fault, seconds, **parameters)

    def clear(self, node: str, fault: str, cure: Sequence[tuple[type, str]] = ()) -> None:
        """End a fault of a device, in the background where that takes its time; `mended` says when it is over."""
        if fault == KILLED:
            self._mending[node] = self._pool.submit(self._revive, node)
        else:
            self.emulators[node].clear(fault)
            if cure:
                self._mending[node] = self._pool.submit(self._cure, node, tuple(cure))

    def mended(self, node: str) -> bool:
        """Whether the end of the last fault is over too. Raises what went wrong with it."""
        mending = self._mending.get(node)
        if mending is None:
            return True
        if not mending.done():
            return False
        del self._mending[node]
        mending.result()
        return True

    def _revive(self, node: str) -> None:
        self.emulators[node] = self.emulators[node].again()

    def _cure(self, node: str, services: Sequence[tuple[type, str]]) -> None:
        """As an operator who asks again until it is done.

        Raises:
            RuntimeError: it has not been done in time; the text ends with the last answer.
        """
        for kind, name in services:
            request, end = kind.Request(), time.monotonic() + CURE_TIME
            if hasattr(request, "data"):
                request.data = True
            while not (answer := self._client.call(kind, f"{node}/{name}", request)).success:
                if time.monotonic() > end:
                    raise RuntimeError(f"{node}/{name} failed for {CURE_TIME:g} s: {answer.message}")
                time.sleep(0.1)

    def withheld(self, node: str) -> float:
        """How long a device and its driver have waited for a core since they were started [s]."""
        return withheld(self.emulators[node].pid) + withheld(self.processes[node].pid)

    def well(self, node: str) -> bool:
        """Whether its newest diagnostics tell of data that flow, at whatever rate this machine allows, and of no fault."""
        return bool(self.health[node]) and self.health[node][-1].flows

    def well_since(self, t: float, timeout: float) -> set[str]:
        """Devices that have been well since host time t [s], each at a time of its own; waits for all of them."""

        def found() -> set[str]:
            return {
                node
                for node, said in self.health.items()
                if any(health.flows for health in takewhile(lambda health: health.t > t, reversed(said)))
            }

        self.until(lambda: len(found()) == len(self.devices), timeout)
        return found()

    def said(self, node: str) -> str:
        """Its newest sentence."""
        return self.health[node][-1].sentence if self.health[node] else "nothing heard"

    def log(self, node: str) -> str:
        """The end of its output."""
        with contextlib.suppress(OSError):
            return "\n".join((self.folder / f"{node}.log").read_text(errors="replace").splitlines()[-8:])
        return ""

    def usage(self) -> dict[str, Usage]:
        """Of every driver that lives."""
        return {node: Usage.of(process.pid) for node, process in self.processes.items() if process.poll() is None}
