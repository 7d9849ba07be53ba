"""Freed memory that a process keeps is not made anew."""

import subprocess
import sys

import pytest

#: page faults of twenty times eight arrays of 2 MB, made and forgotten together on a thread, after the first few
FAULTS = """
import resource, sys, threading
import numpy as np
from nodes.framework.heap import keep_freed_memory

def work():
    for n in range(25):
        if n == 5:
            before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
        arrays = [np.ones(2_000_000, np.uint8) for _ in range(8)]
        del arrays
    print(resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before)

if sys.argv[1] == "kept":
    assert keep_freed_memory()
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""


def faults(how):
    return int(subprocess.run([sys.executable, "-c", FAULTS, how], capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's malloc")
def test_images_use_the_memory_of_those_before():
    """16 MB are 3900 pages, twenty times, if they are given back."""
    assert faults("kept") < 1000 < 10_000 < faults("given back")
