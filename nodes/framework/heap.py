"""Memory that a process has used once stays its own.

glibc gives a large block back to the system as soon as it is freed, and the next of its size is made of fresh pages, which
the kernel fills with zeros one fault at a time. A node that makes and forgets images spends as much on that as on their
contents: a cloud of 848x480 points costs 2000 faults.
"""

from __future__ import annotations

import ctypes

__all__ = ["keep_freed_memory"]

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD of malloc.h
LARGEST_KEPT = 32 << 20  # [bytes], the most that mallopt(3) takes as M_MMAP_THRESHOLD
KEPT = 1 << 30  # [bytes]


def keep_freed_memory() -> bool:
    """Blocks up to 32 MiB are no longer given back when they are freed; for the whole process, from now on.

    The process stays as large as it was at its largest.

    Returns:
        False where the C library has no `mallopt` (it is not glibc); nothing has changed then.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_MMAP_THRESHOLD, LARGEST_KEPT) and mallopt(_TRIM_THRESHOLD, KEPT))
