"""The processes of one launch, which end with whoever started them, however that ends."""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from scripting.errors import GraphError, UsageError

__all__ = ["LaunchedGraph"]

ENDING = ((20.0, signal.SIGTERM), (5.0, signal.SIGKILL))  # patience [s] after SIGINT, and what comes when it is over
LAST_LINES = 6
EXIT_USAGE = 2  # of `refit launch`: an argument that makes no sense, said in one line

# The shell holds the reading end of a pipe whose writing end is ours alone: when it breaks, we are gone.
_GUARD = """
trap "" INT TERM HUP QUIT
read -r _
kill -s INT "$1" 2>/dev/null
left=200
while [ $left -gt 0 ] && kill -0 "$1" 2>/dev/null; do sleep 0.1; left=$((left - 1)); done
kill -s KILL -- "-$1" 2>/dev/null
"""


class LaunchedGraph:
    """A launch file that runs in a process group and a ROS domain of its own.

    Leaving the interpreter ends it, and so does the end of this process by a signal: a small guard process watches.

    Args:
        launch: name of the launch file, as for `refit launch`.
        arguments: of that file; bools and numbers are written as launch wants them, empty texts are left out.
        domain: ROS domain.
        folder: for `graph.log`; None: a temporary one that goes with the graph.

    Attributes:
        log: path of what all nodes say.
    """

    def __init__(self, launch: str, arguments: Mapping[str, object], domain: int, folder: Path | None = None) -> None:
        self._temporary = None if folder else Path(tempfile.mkdtemp(prefix="refit-script-"))
        folder = folder or self._temporary or Path()
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / "graph.log"
        self._closing = threading.Lock()
        self._closed = False
        words = [f"{name}:={_text(value)}" for name, value in arguments.items() if value != ""]
        with self.log.open("wb") as log:
            # A session of its own: Ctrl-C reaches this process alone, which ends the graph in order.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "cli.main", "launch", launch, *words],
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "ROS_DOMAIN_ID": str(domain), "PYTHONUNBUFFERED": "1"},
                start_new_session=True,
            )
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, "guard", str(self._process.pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        atexit.register(self.close)

    @property
    def pid(self) -> int:
        """Of the launch itself, which leads the process group."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Of the launch; None while it runs."""
        return self._process.poll()

    def close(self) -> None:
        """End every process of the graph, in order; a Ctrl-C meanwhile cannot leave one behind. May be called again."""
        with self._closing, _uninterrupted():
            if self._closed:
                return
            self._closed = True
            atexit.unregister(self.close)
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGINT)
            for patience, stronger in ENDING:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(patience)
                    break
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, stronger)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)  # whoever outlived the launch process
            self._process.wait()
            self._guard.kill()
            self._guard.wait()
            if self._guard.stdin is not None:
                self._guard.stdin.close()
            if self._temporary is not None:
                shutil.rmtree(self._temporary, ignore_errors=True)

    # -- what it says ------------------------------------------------------------------------------

    def check_alive(self, when: str) -> None:
        """
        Args:
            when: what was being waited for, for the error's text.

        Raises:
            UsageError: the launch file refused its arguments.
            GraphError: the launch has ended.
        """
        code = self._process.poll()
        if code == EXIT_USAGE:
            raise UsageError(self._lines()[-1])
        if code is not None:
            raise self.error(f"the graph ended {when} (exit code {code})")

    def dead_nodes(self) -> list[str]:
        """Names of processes that the launch has reported dead."""
        return re.findall(r"\[ERROR\] \[([\w.]+?)-\d+\]: process has died", "\n".join(self._lines()))

    def last_line(self, containing: str) -> str:
        """The last line of the log with this text in it, from there on; "" if there is none."""
        return next((line[line.index(containing) :] for line in reversed(self._lines()) if containing in line), "")

    def error(self, text: str) -> GraphError:
        """A GraphError with this text and the last lines of the log."""
        lines = self._lines()
        if lines:
            # The nodes' own complaints first; without any, whatever was said last.
            said = [line for line in lines if "ERROR" in line or "WARN" in line or "Error" in line] or lines
            text += f"\n  log {self.log}, last lines:\n" + "\n".join(f"    {line[:200]}" for line in said[-LAST_LINES:])
        return GraphError(text)

    def _lines(self) -> list[str]:
        with contextlib.suppress(OSError):
            return self.log.read_text(errors="replace").splitlines()
        return []


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C is put off; signals are the main thread's, so that others need nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous if previous is not None else signal.default_int_handler)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
