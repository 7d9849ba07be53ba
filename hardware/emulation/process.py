"""An emulator in a process of its own, for tests, benchmarks and demos."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

__all__ = ["EmulatorProcess"]


class EmulatorProcess:
    """Starts `hardware.emulate DEVICE` and waits until it can be used; a context manager.

    Args:
        device: as `hardware.emulate` names it.
        *arguments: further command-line words.
        link: path of the port; None: one in a folder of its own.
        seed: of noise and faults.
        timeout: for READY [s]. program: module that plays the device, taking the same words as hardware.emulate.

    Attributes:
        link: path that clients open.
        pid: of the process.

    Raises:
        RuntimeError: it ended, or was not ready in time; the text ends with what it said.
    """

    def __init__(
        self,
        device: str,
        *arguments: object,
        link: str | os.PathLike | None = None,
        seed: int = 0,
        timeout: float = 30.0,
        program: str = "hardware.emulate",
    ) -> None:
        self.device = device
        self._arguments = arguments
        self._settings: dict[str, Any] = {"link": link, "seed": seed, "timeout": timeout, "program": program}
        self._folder = Path(tempfile.mkdtemp(prefix=f"refit-{device}-"))
        self.link = Path(link) if link else self._folder / "port"
        self._control = self._folder / "control"
        self._said: deque[str] = deque(maxlen=50)
        self._ready = threading.Event()
        words = ["--link", self.link, "--control", self._control, "--seed", seed, "--with-parent", *arguments]
        # A session of its own: Ctrl-C reaches whoever runs this, who ends the emulator in order.
        self._process = subprocess.Popen(
            [sys.executable, "-m", program, device, *map(str, words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.pid = self._process.pid
        threading.Thread(target=self._listen, name=f"{device} says", daemon=True).start()
        end = time.monotonic() + timeout
        while not self._ready.wait(0.05):
            if self._process.poll() is not None or time.monotonic() > end:
                self.stop()
                raise RuntimeError(f"the emulated {device} did not start:\n  " + "\n  ".join(self._said))

    def _listen(self) -> None:
        assert self._process.stdout is not None  # a pipe
        for line in self._process.stdout:
            self._said.append(line.rstrip())
            if line.strip() == "READY":
                self._ready.set()

    def inject(self, fault: str, seconds: float | None = None, **parameters: Any) -> None:
        """Begin a fault."""
        self._ask(do="inject", fault=fault, seconds=seconds, **parameters)

    def clear(self, fault: str | None = None) -> None:
        """End a fault; all without a name."""
        self._ask(do="clear", fault=fault)

    def set(self, **values: Any) -> None:
        """Change what the device senses."""
        self._ask(do="set", **values)

    def stats(self) -> dict:
        """What the emulator counted."""
        return self._ask(do="stats")

    def _ask(self, **request: Any) -> Any:
        """Raises ValueError: refused; RuntimeError: it has ended."""
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(10.0)
                connection.connect(str(self._control))
                with connection.makefile("rwb") as stream:
                    stream.write(json.dumps(request).encode() + b"\n")
                    stream.flush()
                    line = stream.readline()
        except (ConnectionError, FileNotFoundError):
            line = b""
        if not line:
            raise RuntimeError(
                f"the emulated {self.device} has ended (exit code {self._process.poll()}); it said last:\n{self.said}"
            )
        answer = json.loads(line)
        if not answer["ok"]:
            raise ValueError(answer["error"])
        return answer["value"]

    @property
    def said(self) -> str:
        """Its last lines of output."""
        return "\n".join(self._said)

    def kill(self) -> None:
        """As if the device exploded: SIGKILL. Its port vanishes, as the kernel removes the node of an adapter that is gone:
        the pseudo-terminal behind a link left behind might soon be another emulator's."""
        self.link.unlink(missing_ok=True)
        self._process.kill()
        self._process.wait(5.0)

    def again(self) -> EmulatorProcess:
        """The same device, started anew at the same place; of the old one nothing is left."""
        self.stop()
        return EmulatorProcess(self.device, *self._arguments, **self._settings)

    def stop(self) -> int:
        """End it; returns its exit code."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(5.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(5.0)
        assert self._process.stdin is not None  # a pipe
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        return self._process.returncode

    def __enter__(self) -> EmulatorProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
