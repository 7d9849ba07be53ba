"""What all force-torque sensors have in common: blocks of wrenches, and whether they may be acted upon."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hardware.link import Device

__all__ = ["WrenchBlock", "WrenchSensor"]


@dataclass(frozen=True, slots=True)
class WrenchBlock:
    """Consecutive samples that came together.

    Attributes:
        t: when they were measured, host's monotonic clock, increasing, shape (n,) [s].
        wrench: force and torque that acts on the sensor's measuring side, sensor's axes, shape (n, 6) [N, N m].
        saturated: beyond what the sensor can measure, shape (n,) bool.
    """

    t: np.ndarray
    wrench: np.ndarray
    saturated: np.ndarray


class WrenchSensor(Device):
    """A Device whose samples are `WrenchBlock`s, with a verdict for whoever guards motion by them.

    Samples are valid while they come and nothing saturates. The verdict falls when no sample came for
    `silence_timeout`, with the first saturated one, and when the link ends; it rises again after `RECOVERY` seconds
    without a reason against it, so that a load at the limit does not make it flicker.

    Attributes:
        valid: the verdict.
        invalid_reason: why not, one sentence; "" while valid.
        rated: largest load of each axis, (6,) [N, N m]; inf where unknown.
        nominal_rate: samples per second that the device promises [Hz].

    Args:
        on_valid: called as on_valid(valid, reason, t) on the device's thread at every change; t: host time [s].
        silence_timeout: [s].
        max_load: load that counts as saturation, (6,) [N, N m]; NaN: the device's own rating.
        **common: as for `Device`.
    """

    RECOVERY = 0.1

    def __init__(
        self,
        *,
        on_valid: Callable[[bool, str, float], None] = lambda valid, reason, t: None,
        silence_timeout: float = 0.02,
        max_load: ArrayLike = np.nan,
        **common: Any,
    ) -> None:
        super().__init__(**common)
        self.on_valid, self.silence_timeout = on_valid, silence_timeout
        self._max_load = np.broadcast_to(np.asarray(max_load, float), 6)
        self.valid, self.invalid_reason = False, "not streaming"
        self.rated = np.full(6, np.inf)
        self.nominal_rate = 0.0
        self._bad_until = float("-inf")

    @property
    def max_load(self) -> np.ndarray:
        """Load that counts as saturation, (6,) [N, N m]."""
        return np.where(np.isnan(self._max_load), self.rated, self._max_load)

    # -- for the device ----------------------------------------------------------------------------
    def _block(self, t: np.ndarray, wrench: np.ndarray, saturated: np.ndarray) -> None:
        """Judge and hand on samples; `saturated`: what the device itself says."""
        saturated = saturated | (np.abs(wrench) >= self.max_load).any(axis=1)
        now = time.monotonic()
        if saturated.any():
            self._bad_until = now + self.RECOVERY
            load = ", ".join(f"{value:.4g}" for value in wrench[np.argmax(saturated)])
            self.faults["saturation"] = f"The load exceeds what the sensor can measure: [{load}] N, N m."
            self._judge(False, self.faults["saturation"], now)
        elif now >= self._bad_until:
            self.faults.pop("saturation", None)
            if not self.faults:
                self._judge(True, "", now)
        self._sample(WrenchBlock(t, wrench, saturated), float(t[-1]), len(t))

    def _watch_silence(self) -> float:
        """To be called on every turn without data; returns how long the next may wait for some [s]."""
        now = time.monotonic()
        rest = self._arrived + self.silence_timeout - now
        if rest > 0.0:
            return rest
        self._bad_until = now + self.RECOVERY
        self._judge(False, f"No sample for {1e3 * (now - self._arrived):.0f} ms.", now)
        return self.silence_timeout

    def _distrust(self, name: str, sentence: str) -> None:
        """A fault of the sensor itself, until removed from `faults`."""
        now = time.monotonic()
        self.faults[name] = sentence
        self._bad_until = now + self.RECOVERY
        self._judge(False, sentence, now)

    def _not_streaming(self, reason: str = "Not streaming.") -> None:
        """To be called by `_stop` and `_close`."""
        self.faults.pop("saturation", None)
        self._judge(False, reason, time.monotonic())

    def _judge(self, valid: bool, reason: str, t: float) -> None:
        changed = valid != self.valid
        self.valid, self.invalid_reason = valid, reason
        if changed:
            self.on_valid(valid, reason, t)
