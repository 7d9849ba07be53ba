"""A device that is not there: the loop, its faults, its control socket."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import json
import os
import queue
import socketserver
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from hardware.emulation.faults import COMMON, Faults

__all__ = ["Control", "Emulator", "running"]


class Emulator(ABC):
    """One device. Everything runs on the thread that calls `run`.

    Attributes:
        name: of the device.
        port: what clients are connected to: anything with write, unplug, replug, close, stats; None if the subclass
            overrides what needs it.
        own_faults: fault -> what it does, beyond the common ones.
    """

    name = "device"
    own_faults: dict[str, str] = {}
    longest_step = 0.02  # [s] that a turn may wait: control requests and fault ends are looked at in between
    overtaking = False  # whether a frame that is not delayed may pass one that is, as on a network and never on a line

    def __init__(self, faults: Faults | None = None) -> None:
        self.faults = faults or Faults()
        self.faults.on_fault, self.faults.on_clear = self._fault_begins, self._fault_ends
        self.port: Any = None
        self._late: list[tuple[float, int, bytes]] = []
        self._latest = 0.0  # when the last delayed frame leaves [s]
        self._number = itertools.count()
        self._inbox: queue.SimpleQueue = queue.SimpleQueue()

    # -- of the device -----------------------------------------------------------------------------
    @abstractmethod
    def step(self, timeout: float) -> None:
        """One turn: wait at most `timeout` [s] for a request, answer it, move on in time."""

    def power_on(self) -> None:
        """Volatile state as after power-up."""

    def on_fault(self, name: str, parameters: dict) -> None:
        """A fault has begun that the base does not know how to play."""

    def on_clear(self, name: str) -> None:
        """It has ended."""

    def stats(self) -> dict:
        """Facts for the control socket, JSON-able."""
        return {
            "faults": dict(self.faults.counts),
            "log": self.faults.log[-200:],
            **({"port": dict(self.port.stats)} if self.port else {}),
        }

    def set(self, **values: Any) -> None:
        """Change the state of the world that the device senses.

        Raises:
            ValueError: no such value.
        """
        if values:
            raise ValueError(f"{self.name} has no value {', '.join(values)} to set")

    def close(self) -> None:
        """Free everything."""
        if self.port is not None:
            self.port.close()

    # -- for the device ----------------------------------------------------------------------------
    def send(self, data: bytes) -> None:
        """Towards the client, through the faults in force."""
        now = time.monotonic()
        for delay, frame in self.faults.frames(data):
            due = now + delay
            if not self.overtaking:
                due = self._latest = max(due, self._latest)
            if due > now or self._late and not self.overtaking:
                heapq.heappush(self._late, (due, next(self._number), frame))
            else:
                self.port.write(frame)

    @property
    def powered(self) -> bool:
        """False during a power cycle: requests must be ignored."""
        return self.faults.active("power_cycle") is None

    def unplug(self) -> None:
        self.port.unplug()

    def replug(self) -> None:
        self.port.replug()

    # -- the loop ----------------------------------------------------------------------------------
    def run(self, stop: threading.Event) -> None:
        """Until `stop` is set."""
        try:
            while not stop.is_set():
                self._turn()
        finally:
            self.close()

    def call(self, function: Callable[[], Any], timeout: float = 5.0) -> Any:
        """`function()` on the emulator's thread, from another."""
        future: Future = Future()
        self._inbox.put((function, future))
        return future.result(timeout)

    def _turn(self) -> None:
        while not self._inbox.empty():
            function, future = self._inbox.get()
            try:
                future.set_result(function())
            except Exception as error:
                future.set_exception(error)
        self.faults.expire()
        now, timeout = time.monotonic(), self.longest_step
        while self._late and self._late[0][0] <= now:
            self.port.write(heapq.heappop(self._late)[2])
        if self._late:
            timeout = min(timeout, self._late[0][0] - now)
        self.step(timeout)

    def inject(self, fault: str, seconds: float | None = None, **parameters: Any) -> None:
        """Begin a fault, on the emulator's thread.

        Raises:
            ValueError: unknown fault; the text lists those there are.
        """
        if fault not in COMMON and fault not in self.own_faults:
            raise ValueError(
                f"{self.name} knows no fault '{fault}', only {', '.join(sorted({*COMMON, *self.own_faults}))}"
            )
        if fault == "power_cycle" and seconds is None:
            seconds = 0.5
        self.faults.inject(fault, seconds, **parameters)

    def _fault_begins(self, name: str, parameters: dict) -> None:
        if name == "unplug":
            self._late.clear()  # what was under way is lost
            self._latest = 0.0
            self.unplug()
        elif name == "wrong_baud" and getattr(self.port, "baud", None):
            self._true_baud, self.port.baud = self.port.baud, int(parameters.get("baud", 9600))
        self.on_fault(name, parameters)

    def _fault_ends(self, name: str) -> None:
        if name == "unplug":
            self.replug()
        elif name == "power_cycle":
            self.power_on()
        elif name == "wrong_baud" and hasattr(self, "_true_baud"):
            self.port.baud = self._true_baud
        self.on_clear(name)


@contextlib.contextmanager
def running(emulator: Emulator) -> Iterator[Emulator]:
    """The emulator in a thread of this process; faults through `emulator.call(lambda: emulator.inject(...))`."""
    stop = threading.Event()
    thread = threading.Thread(target=emulator.run, args=(stop,), name=f"emulated {emulator.name}", daemon=True)
    thread.start()
    try:
        yield emulator
    finally:
        stop.set()
        thread.join(5.0)


class Control(socketserver.ThreadingUnixStreamServer):
    """JSON lines on a Unix socket: {"do": "inject", "fault": ..., "seconds": ..., ...}, "clear", "stats", "set".

    Each is answered by one line {"ok": true, "value": ...} or {"ok": false, "error": sentence}.
    """

    daemon_threads = True

    def __init__(self, path: str | os.PathLike, emulator: Emulator) -> None:
        self.emulator = emulator
        with contextlib.suppress(FileNotFoundError):
            Path(path).unlink()
        super().__init__(str(path), _Lines)
        self._path = Path(path)
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.1}, name="control", daemon=True).start()

    def close(self) -> None:
        self.shutdown()
        self.server_close()
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()

    def answer(self, line: bytes) -> dict:
        """The answer to one request."""
        emulator = self.emulator
        try:
            request = json.loads(line)
            what = request.pop("do")
            actions = {
                "inject": lambda: emulator.inject(request.pop("fault"), request.pop("seconds", None), **request),
                "clear": lambda: emulator.faults.clear(request.get("fault")),
                "stats": emulator.stats,
                "set": lambda: emulator.set(**request),
            }
            if what not in actions:
                raise ValueError(f"'{what}' is none of {', '.join(actions)}")
            return {"ok": True, "value": emulator.call(actions[what])}
        except Exception as error:
            return {
                "ok": False,
                "error": f"{type(error).__name__}: {error}" if not isinstance(error, ValueError) else str(error),
            }


class _Lines(socketserver.StreamRequestHandler):
    server: Control

    def handle(self) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for line in self.rfile:
                self.wfile.write(json.dumps(self.server.answer(line)).encode() + b"\n")
                self.wfile.flush()
