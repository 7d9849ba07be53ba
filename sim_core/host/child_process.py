"""Child processes that end with the process that started them."""

from __future__ import annotations

import os
import signal
import threading
import time

__all__ = ["belong_to"]

PERIOD = 0.5  # [s] between two looks for the parent


def belong_to(parent: int) -> None:
    """Leave Ctrl-C to the process with the id `parent`, and do not outlive it.

    The child calls this first, in its main thread.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PERIOD)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
