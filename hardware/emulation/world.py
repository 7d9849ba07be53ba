"""Where emulated devices meet the simulated robot: one file in shared memory, written by both sides.

The plant publishes the joints' state and the wrench at its sensor; emulated servos publish the torque their
motors exert. Two numbers written at once must not be read half new and half old, and a writer that waits for a
processor in the middle, or dies there, must hold up nobody. So every record is a ring of a few slots and a count of
the finished writes: what is written goes into the next slot, which nobody reads before it is counted.

The plant's state is one record with one writer. Efforts are one record per joint, because the joints of an arm and of
its gripper have emulators, and so writers, of their own.
"""

from __future__ import annotations

import json
import mmap
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from config.whole_file import whole_file

__all__ = ["DEAD_AFTER", "PLANT_TIMEOUT", "SharedWorld", "WorldState", "world_of_plant"]

_MAGIC = b"refit-world-2\n\0\0"
# Slots of a ring: what is being read is overwritten by the third write from then on at the earliest.
_SLOTS = 4
# [s] without a word of an emulator: it has died. Not sooner: a busy machine does not run it for a while, and the dxl_arm,
# limp, lies on its scanner after 0.4 s.
DEAD_AFTER = 0.2

# [s] for the plant to create the world: both are started at once, and a busy machine loads the plant in half a minute.
PLANT_TIMEOUT = 120.0
# [s] after which an emulator says that it waits: a plant that was started with it is usually there by then.
SAY_AFTER = 2.0


@dataclass(frozen=True)
class WorldState:
    """The robot at one moment.

    Attributes:
        t: simulated time [s].
        host: monotonic host time at which the plant reached it [s].
        q, v: joints, shape (n,) [rad or m], [rad/s or m/s].
        wrench: at the force-torque sensor, in its axes, shape (6,) [N, N m].
    """

    t: float
    host: float
    q: np.ndarray
    v: np.ndarray
    wrench: np.ndarray


class SharedWorld:
    """See the module's docstring. Both sides map the same file; the plant creates it.

    Attributes:
        joints: names, in the order of every array.
        mjcf: the robot's model as MJCF text.
    """

    def __init__(self, path: Path, memory: mmap.mmap, joints: list[str], mjcf: str, offset: int) -> None:
        self.path, self.joints, self.mjcf, self._memory = path, joints, mjcf, memory
        n = len(joints)
        self._index = {name: i for i, name in enumerate(joints)}
        self._every = np.arange(n)
        counts = np.frombuffer(memory, np.int64, 1 + n, offset)
        numbers = np.frombuffer(memory, np.float64, _SLOTS * (2 * n + 8 + 3 * n), offset + counts.nbytes)
        self._state_count, self._effort_counts = counts[:1], counts[1:]
        self._states = numbers[: _SLOTS * (2 * n + 8)].reshape(_SLOTS, 2 * n + 8)  # t, host, wrench, q, v
        self._efforts = numbers[self._states.size :].reshape(_SLOTS, n, 3)  # tau, host, driven

    @classmethod
    def create(cls, path: str | os.PathLike, joints: Sequence[str], mjcf: str) -> SharedWorld:
        """The plant's side: a fresh world, put in place in one piece."""
        path = Path(path)
        text = json.dumps({"joints": list(joints), "mjcf": mjcf}).encode()
        offset = -(-(len(_MAGIC) + 8 + len(text)) // 64) * 64
        with whole_file(path) as fresh, fresh.open("wb") as file:
            file.write(_MAGIC + len(text).to_bytes(8, "little") + text)
            file.truncate(offset + 8 * (1 + len(joints)) + 8 * _SLOTS * (5 * len(joints) + 8))
        return cls.open(path)

    @classmethod
    def open(cls, path: str | os.PathLike, timeout: float = 0.0) -> SharedWorld:
        """The side of whoever is not the plant.

        Args:
            timeout: for the plant to create it [s].

        Raises:
            ValueError: no such file within the time, or no world in it.
        """
        path, end = Path(path), time.monotonic() + timeout
        while not path.exists():
            if time.monotonic() >= end:
                raise ValueError(f"no shared world at {path}: start the plant with this path first")
            time.sleep(0.02)
        with path.open("r+b") as file:
            memory = mmap.mmap(file.fileno(), 0)
        if memory[: len(_MAGIC)] != _MAGIC:
            raise ValueError(f"{path} is no shared world of this version")
        size = int.from_bytes(memory[len(_MAGIC) : len(_MAGIC) + 8], "little")
        begin = len(_MAGIC) + 8
        about = json.loads(memory[begin : begin + size])
        return cls(path, memory, about["joints"], about["mjcf"], -(-(begin + size) // 64) * 64)

    # -- the plant ---------------------------------------------------------------------------------
    def publish(self, t: float, q: ArrayLike, v: ArrayLike, wrench: ArrayLike | None = None) -> None:
        """The robot's state at simulated time t; q, v (n,), wrench (6,) or None: as before."""
        n, count = len(self.joints), int(self._state_count[0])
        last, state = self._states[count % _SLOTS], self._states[(count + 1) % _SLOTS]
        state[0], state[1] = t, time.monotonic()
        state[2:8] = last[2:8] if wrench is None else wrench
        state[8 : 8 + n], state[8 + n :] = q, v
        self._state_count[0] = count + 1

    def efforts(self, age_limit: float = DEAD_AFTER) -> tuple[np.ndarray, np.ndarray]:
        """What the motors exert: tau (n,) [N m], held until nobody has written for age_limit [s], then zero; and which are driven, (n,) bool."""
        tau, host, driven = _newest(self._effort_counts, lambda count: self._efforts[count % _SLOTS, self._every]).T
        alive = time.monotonic() - host <= age_limit
        return np.where(alive, tau, 0.0), alive & (driven > 0.5)

    def silent_for(self) -> np.ndarray:
        """How long each motor has not been heard of, (n,) [s]; since the machine started where it never was."""
        host = _newest(self._effort_counts, lambda count: self._efforts[count % _SLOTS, self._every, 1])
        return time.monotonic() - host

    # -- the emulators -----------------------------------------------------------------------------
    def state(self) -> WorldState:
        """The robot's newest state; t = 0 and all zero before the plant's first."""
        n = len(self.joints)
        s = _newest(self._state_count, lambda count: self._states[count[0] % _SLOTS].copy())
        return WorldState(float(s[0]), float(s[1]), s[8 : 8 + n], s[8 + n :], s[2:8])

    def indices(self, names: Sequence[str]) -> np.ndarray:
        """Places of joints in every array.

        Raises:
            ValueError: a joint that the robot has not.
        """
        unknown = [name for name in names if name not in self._index]
        if unknown:
            raise ValueError(f"the world has no joint {', '.join(unknown)}, only {', '.join(self.joints)}")
        return np.array([self._index[name] for name in names], dtype=int)

    def apply(self, joints: np.ndarray, tau: ArrayLike, driven: ArrayLike = True) -> None:
        """Torques of motors (k,) [N m] on joints (k,), as `indices` numbers them; `driven`: whether they follow a goal, with
        their torque on.

        One emulator process per joint: whoever writes must repeat it within `age_limit` of `efforts`.
        """
        count = self._effort_counts[joints] + 1
        rows = np.empty((len(joints), 3))
        rows[:, 0], rows[:, 1], rows[:, 2] = tau, time.monotonic(), driven
        self._efforts[count % _SLOTS, joints] = rows
        self._effort_counts[joints] = count


def world_of_plant(path: str | os.PathLike) -> SharedWorld:
    """An emulator's side: waits for the plant, however long that takes, and says once on stderr that it does.

    Raises:
        ValueError: what is at `path` is no world.
    """
    path, say_at, said = Path(path), time.monotonic() + SAY_AFTER, False
    while not path.exists():
        if not said and time.monotonic() >= say_at:
            said = True
            print(
                f"Waiting for the simulated robot at {path}: start sim_plant with the parameter world:={path}. "
                "Ctrl-C ends the wait.",
                file=sys.stderr,
                flush=True,
            )
        time.sleep(0.02)
    return SharedWorld.open(path)


def _newest(counts: np.ndarray, read: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """read(counts), again if the writer has come round to the slot that was read meanwhile."""
    while True:
        before = counts.copy()
        value = read(before)
        # A write beyond the counted ones may be under way: it is in the slot after theirs.
        if (counts - before < _SLOTS - 1).all():
            return value
