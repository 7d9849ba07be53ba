"""What goes wrong on demand: deterministic under a seed, logged with time."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

__all__ = ["COMMON", "Faults"]

#: fault -> what it does; (p) per frame, times in seconds
COMMON = {
    "unplug": "the port vanishes, for `seconds`",
    "silence": "nothing is sent",
    "delay": "every frame leaves `by` seconds later",
    "jitter": "every frame leaves 0 to `by` seconds later",
    "corrupt": "one byte of a frame is changed, with probability p",
    "truncate": "a frame ends too early, with probability p",
    "garbage": "1 to 20 random bytes come before a frame, with probability p",
    "duplicate": "a frame is sent twice, with probability p",
    "wrong_baud": "the device listens and speaks at `baud`",
    "power_cycle": "off for `seconds` (default 0.5), then as after power-up",
    "overtemp": "the device reports overheating",
}


class Faults:
    """Faults in force, and what they do to outgoing frames.

    Attributes:
        log: (time since the start [s], fault, parameters) of every injection; "clear:<fault>" when one ends.
        counts: frames hit, by fault.
        on_fault, on_clear: hooks of the emulator, (name, parameters) and (name).
    """

    def __init__(self, seed: int = 0) -> None:
        self.rng = random.Random(seed)
        self.log: list[tuple[float, str, dict]] = []
        self.counts: dict[str, int] = {}
        self.on_fault: Callable[[str, dict], None] = lambda name, parameters: None
        self.on_clear: Callable[[str], None] = lambda name: None
        self._active: dict[str, tuple[float, dict]] = {}
        self._began = time.monotonic()

    def inject(self, name: str, seconds: float | None = None, **parameters: Any) -> None:
        """A fault begins; it ends after `seconds`, or when cleared."""
        now = time.monotonic()
        self._active[name] = (float("inf") if seconds is None else now + seconds, parameters)
        self.log.append((now - self._began, name, {**parameters, **({} if seconds is None else {"seconds": seconds})}))
        self.on_fault(name, parameters)

    def clear(self, name: str | None = None) -> None:
        """A fault ends; all of them without a name."""
        for each in [name] if name else list(self._active):
            if self._active.pop(each, None) is not None:
                self.log.append((time.monotonic() - self._began, f"clear:{each}", {}))
                self.on_clear(each)

    def expire(self) -> None:
        """End what has lasted its time."""
        now = time.monotonic()
        for name, (until, _) in list(self._active.items()):
            if now >= until:
                self.clear(name)

    def active(self, name: str) -> dict | None:
        """Parameters of a fault in force, else None."""
        found = self._active.get(name)
        return None if found is None or time.monotonic() >= found[0] else found[1]

    def chance(self, p: float) -> bool:
        """True with probability p."""
        return self.rng.random() < p

    def hit(self, name: str) -> bool:
        """Whether a fault with a probability `p` (default 1) strikes now; counted."""
        parameters = self.active(name)
        if parameters is None or not self.chance(float(parameters.get("p", 1.0))):
            return False
        self.counts[name] = self.counts.get(name, 0) + 1
        return True

    def frames(self, data: bytes) -> list[tuple[float, bytes]]:
        """What becomes of one outgoing frame: (delay [s], bytes), in order; empty if it is lost."""
        if not self._active:
            return [(0.0, data)]
        if self.active("silence") is not None or self.active("power_cycle") is not None:
            return []
        delay = float((self.active("delay") or {}).get("by", 0.0))
        delay += self.rng.random() * float((self.active("jitter") or {}).get("by", 0.0))
        if data and self.hit("corrupt"):
            at = self.rng.randrange(len(data))
            data = data[:at] + bytes([data[at] ^ self.rng.randrange(1, 256)]) + data[at + 1 :]
        if data and self.hit("truncate"):
            data = data[: self.rng.randrange(len(data))]
        copies = [data, data] if self.hit("duplicate") else [data]
        if self.hit("garbage"):
            copies.insert(0, self.rng.randbytes(self.rng.randint(1, 20)))
        return [(delay, copy) for copy in copies if copy]
