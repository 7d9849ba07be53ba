"""Jobs for the executors: importable by the workers, which this folder's tests are not."""

import os
import signal
import time
from pathlib import Path

import numpy as np


def draw(seed):
    return np.random.default_rng(seed).normal(size=3)


def fail_at_three(job):
    if job == 3:
        raise ValueError("three")
    return job


def die_once(job):
    """Job 2 ends its process the first time it is tried, in the middle of the others."""
    number, folder = job
    marker = Path(folder) / "died"
    time.sleep(0.05)
    if number == 2 and not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number, draw(number)


def die(job):
    os.kill(os.getpid(), signal.SIGKILL)
