"""What the tests of servo groups on emulated buses share."""

import time
from pathlib import Path

import numpy as np

from hardware.dynamixel.commands import PositionStream
from hardware.dynamixel.tables import MODELS

ROOT = Path(__file__).resolve().parents[3]
BAUD = 1_000_000
XM = MODELS["XM430-W350"]
CURRENT, VELOCITY, POSITION, GRIP = 0, 1, 3, 5
PATIENCE = 60.0  # [s] for whatever has to happen


def servo(id, model="XM430-W350", **more):
    return {"id": id, "model": model, **more}


def until(condition, what="condition", timeout=PATIENCE):
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, f"{what} did not come within {timeout:g} s"
        time.sleep(0.01)


def truth(emulator, id):
    return next(entry for entry in emulator.stats()["servos"] if entry["id"] == id)


def position_goals(group, values, timeout=0.1):
    stream = PositionStream(range(len(group.names)), timeout)
    stream.set(np.asarray(values, dtype=float), time.monotonic())
    assert group.take(stream) == ""
    return stream
