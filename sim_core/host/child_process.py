"""What a worker process owes to the one that started it."""

from __future__ import annotations

import os
import signal
import threading
import time

__all__ = ["belong_to"]

PERIOD = 0.5  # [s] between two looks for the parent


def belong_to(parent: int) -> None:
    """Leave Ctrl-C to the process with the id `parent`, and do not outlive it. Called first in a child's main thread."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch():
        while os.getppid() == parent:
            time.sleep(PERIOD)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
