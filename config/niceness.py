"""Niceness between sessions.

Where the kernel weighs sessions (`sched_autogroup_enabled`, as on most desktops), a process's niceness acts within its session alone: a
driver with -10 waits for a loop in another terminal as if it had none. A process that leads a session of its own, as every one
of a launch does without a ROS distribution, gives its niceness to that session.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

__all__ = ["carry_over"]

_TRIES = 5


def carry_over(autogroup: Path = Path("/proc/self/autogroup")) -> None:
    """Give this process's niceness to the session that it leads, if it leads one.

    Less than 0 takes the right that `nice` takes. Where there is no such file, or no right, all stays as it is.
    """
    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    if niceness == 0 or os.getsid(0) != os.getpid():
        return
    for _ in range(_TRIES):
        try:
            autogroup.write_text(str(niceness), encoding="ascii")
            return
        except BlockingIOError:  # the kernel takes ten of these a second from all users together
            time.sleep(0.11)
        except OSError:
            return
