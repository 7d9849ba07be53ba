import time

import pytest

from hardware.emulation.process import EmulatorProcess


@pytest.fixture(scope="module")
def process():
    """A 2F-85 in a process of its own, that learns its stroke in a tenth of a second instead of one."""
    with EmulatorProcess("robotiq", "--activation-speed", 1.7, seed=3) as emulator:
        yield emulator


@pytest.fixture
def gripper(process):
    """The same, without faults, with nothing between its fingers, as after power-up."""
    process.clear()
    process.set(object_width=None, cavity_width=None)
    process.inject("power_cycle", 0.02)
    while process.stats()["log"][-1][1] != "clear:power_cycle":
        time.sleep(0.01)
    yield process
    process.clear()
