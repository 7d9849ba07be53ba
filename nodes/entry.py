"""Console scripts: the first lines that run, so that Ctrl-C during the slow imports is quiet too."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess

__all__ = ["adaptive_mpc", "recorder", "refit_worker", "shield", "sim_plant", "supervisor"]


def shield() -> str:
    """Launch prefix under which a Ctrl-C waits until a node can take it.

    Before its first line runs, Python answers SIGINT with a traceback, for some tenths of a second
    on a busy machine. `env` starts the process with the signal blocked, `_main` lets it through.
    Empty where `env` cannot (GNU coreutils before 8.31).
    """
    prefix = ["env", "--block-signal=INT"]
    try:
        works = subprocess.run([*prefix, "true"], capture_output=True, timeout=5.0).returncode == 0
    except (OSError, subprocess.SubprocessError):
        works = False
    return " ".join(prefix) if works else ""


def _main(module: str) -> int:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: os._exit(0))     # nothing has started: nothing to end
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    return importlib.import_module(f"nodes.{module}").main()


def sim_plant() -> int:
    return _main("sim_plant")


def adaptive_mpc() -> int:
    return _main("adaptive_mpc")


def refit_worker() -> int:
    return _main("refit_worker")


def recorder() -> int:
    return _main("recorder")


def supervisor() -> int:
    return _main("supervisor")
