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
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

import yaml
from diagnostic_msgs.msg import DiagnosticArray
from lifecycle_msgs.msg import State, Transition
from rclpy.node import Node

from hardware.emulation.machine_time import withheld
from hardware.emulation.process import EmulatorProcess
from nodes.framework.polled import take
from nodes.framework.qos import STATE
from scripting.client import GraphClient
from scripting.errors import GraphError

__all__ = ["DeviceBench", "Health", "Played", "Usage"]

#: what drivers count of things that went wrong, beside *_errors
COUNTERS = (
    "crc_errors",
    "resyncs",
    "dropped",
    "timeouts",
    "reconnects",
    "unexpected",
    "late",
    "duplicates",
    "malformed",
    "restarts",
    "overruns",
    "gaps",
    "watchdog_stops",
    "servos_lost",
)


@dataclass(frozen=True)
class Played:
    """One emulated device and the node that drives it.

    Attributes:
        node: name of the node; executable: of nodes/framework/entry.py; emulator: words of `refit emulate`.
        parameters: of the node; {link} and {ip} are filled in, in the emulator's words too.
        faults: fault -> parameters, of those that the device must report.
    """

    node: str
    executable: str
    emulator: tuple[str, ...]
    parameters: dict[str, object]
    faults: dict[str, dict] = field(default_factory=dict)


@dataclass(frozen=True)
class Health:
    """One diagnostics message: when it came (monotonic [s]), level 0 to 3, sentence, counters and other values."""

    t: float
    level: int
    sentence: str
    values: dict[str, str]

    @property
    def flows(self) -> bool:
        """Streaming, and no worse than warnings of the past or a rate that a busy machine keeps down."""
        return self.values.get("state") == "streaming" and (self.level in (0, 1) or self.sentence.startswith("rate "))

    def errors(self) -> int:
        """All counted errors of the link's life."""
        return sum(
            int(value)
            for key, value in self.values.items()
            if (key in COUNTERS or key.endswith("_errors")) and value.isdigit()
        )


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
        """Begin a fault of a device."""
        self.emulators[node].inject(fault, seconds, **parameters)

    def clear(self, node: str, fault: str) -> None:
        """End a fault of a device."""
        self.emulators[node].clear(fault)

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
