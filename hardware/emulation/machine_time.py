"""What a busy machine withholds from a process: to be taken off before a duration is held against a driver or a device."""

from __future__ import annotations

from pathlib import Path

__all__ = ["withheld"]


def withheld(pid: int | str = "self") -> float:
    """How long the threads of a process have been ready to run and had to wait for a core, in all [s].

    The difference of two calls is the most that other processes can have added to what the process did between them; the
    waits of threads that waited at the same time add up.

    Args:
        pid: of the process; it may have ended. "self": this one.

    Returns:
        The sum of all threads that live; 0 where the system does not count it.

    Source: Linux, Documentation/scheduler/sched-stats.rst, "/proc/<pid>/schedstat".
    """
    total = 0
    for schedstat in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            total += int(schedstat.read_text().split()[1])  # [ns]
        except (OSError, IndexError):  # the thread has ended meanwhile
            continue
    return 1e-9 * total
