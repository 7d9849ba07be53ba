"""Emulated buses, and servo groups on them."""

import sys
import time
from pathlib import Path

import numpy as np
import pytest

# Test modules are imported by path; what they share is found here.
sys.path.insert(0, str(Path(__file__).parent))

from servo_groups import BAUD, PATIENCE

from hardware.dynamixel.device import GroupOptions, ServoGroup
from hardware.emulation.process import EmulatorProcess
from hardware.link import Backoff


@pytest.fixture
def emulated():
    """Starts emulated buses; all are gone afterwards."""
    processes = []

    def start(servos, *arguments, baud=BAUD, **options):
        processes.append(EmulatorProcess("dynamixel", "--servos", str(servos), "--baud", baud, *arguments, **options))
        return processes[-1]

    yield start
    for process in processes:
        process.stop()


@pytest.fixture
def grouped(emulated):
    """Starts groups, streaming; `grouped(emulator, joints, ...)`."""
    groups = []

    def start(emulator, joints, baud=BAUD, wait=True, **options):
        samples, states = [], []
        # Patient with replies: what a busy machine holds up is not lost.
        options = {"torque_on_activate": True, "latency": 0.1, "bus_watchdog": 1.0, "error_timeout": 2.0, **options}
        group = ServoGroup(
            str(emulator.link),
            baud,
            joints,
            GroupOptions(**options),
            backoff=Backoff(seed=1),
            on_sample=lambda state, t: samples.append((t, state.q.copy(), state.valid.copy())),
        )
        group.samples, group.states = samples, states
        group.on_state = lambda: states.append((time.monotonic(), group.state))
        groups.append(group)
        group.start()
        group.enable()
        if wait:
            begun = group.wait_for(lambda: len(samples) > 2 and np.isfinite(group.joint_state.q).all(), PATIENCE)
            assert begun, group.last_error
        return group

    yield start
    for group in groups:
        group.close()
