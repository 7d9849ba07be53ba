"""When a device's time stamp was, on the host's clock."""

from __future__ import annotations

from collections import deque

__all__ = ["DeviceClock"]


class DeviceClock:
    """Maps device time to host time by the smallest transport delay seen lately.

    A sample arrives `delay >= d_min` after it was measured, so the minimum over a window of
    (arrival - device time) is the offset between the clocks plus the constant d_min. The offset in use
    follows that minimum with a bounded slew, so that stamps stay smooth while the clocks drift apart. No stamp is
    later than its arrival: where the first samples of all were delayed, the first punctual one sets them right at once.

    Args:
        wrap: period after which the device's time starts at zero again [s]; None: never.
        window: over which the minimum is taken [s].
        slew: fastest change of the offset [s/s].
        minimum_samples: before the clock counts as locked.
    """

    def __init__(
        self, wrap: float | None = None, window: float = 30.0, slew: float = 1e-3, minimum_samples: int = 5
    ) -> None:
        self.wrap, self.window, self.slew, self.minimum_samples = wrap, window, slew, minimum_samples
        self.resets = -1
        self.reset()

    def reset(self) -> None:
        """Forget the device's clock: it was restarted."""
        self.offset: float | None = None
        self._minima: deque[tuple[float, float]] = deque()  # (arrival, offset), offsets increasing
        self._turns = 0
        self._last_device: float | None = None
        self._last_arrival: float | None = None
        self._count = 0
        self.resets += 1

    @property
    def locked(self) -> bool:
        """Whether enough samples came for the offset to be believed."""
        return self._count >= self.minimum_samples

    def to_host(self, device: float, arrival: float) -> float:
        """Host time of a device time stamp [s].

        Args:
            device: the device's stamp [s].
            arrival: host time at which it was received [s].

        A stamp that goes back by less than half a `wrap` (or at all, without one) is a restart of the
        device's clock: the filter starts anew.
        """
        if self._last_device is not None and device < self._last_device:
            if self.wrap is not None and self._last_device - device > 0.5 * self.wrap:
                self._turns += 1
            else:
                self.reset()
        self._last_device = device
        unwrapped = device + self._turns * (self.wrap or 0.0)
        sample = arrival - unwrapped
        while self._minima and self._minima[-1][1] >= sample:
            self._minima.pop()
        self._minima.append((arrival, sample))
        while self._minima[0][0] < arrival - self.window:
            self._minima.popleft()
        wanted = self._minima[0][1]
        if self.offset is None or not self.locked:
            self.offset = wanted
        else:
            assert self._last_arrival is not None  # a locked clock has had samples
            limit = self.slew * max(arrival - self._last_arrival, 0.0)
            self.offset = min(self.offset + min(max(wanted - self.offset, -limit), limit), sample)
        self._last_arrival = arrival
        self._count += 1
        return unwrapped + self.offset
