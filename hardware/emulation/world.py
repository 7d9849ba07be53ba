"""Where emulated devices meet the simulated robot: one file in shared memory, written by both sides.

The plant publishes the joints' state and the wrench at its sensor; emulated servos publish the torque their
motors exert. Two numbers written at once must not be read half new and half old, so that each side's block
carries a counter that is odd while it is written (a seqlock).
"""

from __future__ import annotations

import json
import mmap
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

__all__ = ["DEAD_AFTER", "SharedWorld", "WorldState"]

_MAGIC = b"refit-world-1\n\0\0"
_PATIENCE = 0.05            # [s] with a writer that began and does not end: it may wait for a processor, or be dead
# [s] without a word of an emulator: it has died. Not sooner: a motor keeps its torque while a busy machine does not run its
# emulator, and the dxl_arm, limp, lies on its scanner after 0.4 s.
DEAD_AFTER = 0.2


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

    def __init__(self, path: Path, memory: mmap.mmap, joints: list[str], mjcf: str, offset: int):
        self.path, self.joints, self.mjcf, self._memory = path, joints, mjcf, memory
        n = len(joints)
        self._index = {name: i for i, name in enumerate(joints)}
        numbers = np.frombuffer(memory, np.float64, 2 * n + 8 + 3 * n, offset + 16)
        counters = np.frombuffer(memory, np.uint64, 2, offset)
        self._state_count, self._effort_count = counters[:1], counters[1:]
        self._state = numbers[: 2 * n + 8]          # t, host, wrench, q, v
        self._tau, self._host, self._powered = numbers[2 * n + 8 :].reshape(3, n)

    @classmethod
    def create(cls, path: str | os.PathLike, joints: Sequence[str], mjcf: str) -> SharedWorld:
        """The plant's side: a fresh world, put in place in one piece."""
        path = Path(path)
        text = json.dumps({"joints": list(joints), "mjcf": mjcf}).encode()
        offset = -(-(len(_MAGIC) + 8 + len(text)) // 64) * 64
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f"{path.name}.{os.getpid()}.part")
        with fresh.open("wb") as file:
            file.write(_MAGIC + len(text).to_bytes(8, "little") + text)
            file.truncate(offset + 16 + 8 * (5 * len(joints) + 8))
        os.replace(fresh, path)
        return cls.open(path)

    @classmethod
    def open(cls, path: str | os.PathLike, timeout: float = 0.0) -> SharedWorld:
        """The emulators' side.

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
    def publish(self, t: float, q, v, wrench=None) -> None:
        """The robot's state at simulated time t; q, v (n,), wrench (6,) or None: as before."""
        n, state = len(self.joints), self._state
        self._state_count += 1
        state[0], state[1] = t, time.monotonic()
        if wrench is not None:
            state[2:8] = wrench
        state[8 : 8 + n], state[8 + n :] = q, v
        self._state_count += 1

    def efforts(self, age_limit: float = DEAD_AFTER) -> tuple[np.ndarray, np.ndarray]:
        """What the motors exert: tau (n,) [N m], held until nobody has written for age_limit [s], then zero; and which are powered, (n,) bool."""
        def read():
            return self._tau.copy(), self._host.copy(), self._powered.copy()

        tau, host, powered = _consistent(self._effort_count, read)
        alive = time.monotonic() - host <= age_limit
        return np.where(alive, tau, 0.0), alive & (powered > 0.5)

    # -- the emulators -----------------------------------------------------------------------------
    def state(self) -> WorldState:
        """The robot's newest state; t = 0 and all zero before the plant's first."""
        n = len(self.joints)
        s = _consistent(self._state_count, self._state.copy)
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

    def apply(self, joints: np.ndarray, tau, powered=True) -> None:
        """Torques of motors (k,) [N m] on joints (k,), as `indices` numbers them; `powered`: whether their torque is on.

        One emulator process per joint: whoever writes must repeat it within `age_limit` of `efforts`.
        """
        self._effort_count += 1
        self._tau[joints] = tau
        self._powered[joints] = powered
        self._host[joints] = time.monotonic()
        self._effort_count += 1


def _consistent(count: np.ndarray, read):
    """A copy made while nobody wrote; whatever is there if a writer died half-way."""
    until = None
    while True:
        before = int(count[0])
        value = read()
        if before % 2 == 0 and int(count[0]) == before:
            return value
        now = time.monotonic()
        until = until or now + _PATIENCE
        if now > until:
            return value
        time.sleep(20e-6)
