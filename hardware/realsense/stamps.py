"""Host times of a camera's frames, whatever clock their stamps are of."""

from __future__ import annotations

import time

from hardware.link.clock import DeviceClock

__all__ = ["LiveStamps", "PlaybackStamps"]

LEAP = 0.5  # [s] by which a device's clock may run ahead of the host's between two frames of a stream

SEAM = 0.01  # [s] between the end of a recording and its beginning anew


class LiveStamps:
    """Of a camera. `global_time` and `system_time` are the host's wall clock; `hardware_clock` goes through the offset filter.

    All streams share one clock, so that frames exposed together keep equal stamps.

    Attributes:
        clock: the offset filter.
        jumps: leaps of the device's clock seen.
    """

    def __init__(self) -> None:
        self.clock = DeviceClock()
        self.jumps = 0
        self._last: dict[str, tuple[float, float]] = {}
        self._newest = float("-inf")

    def restart(self) -> None:
        """The camera has started anew, and its clock with it."""
        self.clock.reset()
        self._last.clear()
        self._newest = float("-inf")

    def host_time(self, stream: str, device: float, domain: str, arrival: float) -> float:
        """Host time [s] of a frame of `stream` with device stamp `device` [s] that arrived at `arrival` [s]."""
        if domain != "hardware_clock":
            return device - (time.time() - time.monotonic())
        last = self._last.get(stream)
        if last is not None and (device < last[0] or device - last[0] > arrival - last[1] + LEAP):
            self.restart()
            self.jumps += 1
        self._last[stream] = device, arrival
        if device >= self._newest:
            self._newest = device
            return self.clock.to_host(device, arrival)
        # Streams interleave: an image that took longer to read out than the motion sample after it.
        assert self.clock.offset is not None, "the newest frame went through the filter"
        return device + self.clock.offset


class PlaybackStamps:
    """Of a recording: as far apart as they were recorded, beginning now; a loop continues where the last one ended.

    A recording that is read faster than it was made has stamps ahead of the clock.
    """

    clock: None = None
    jumps = 0

    def __init__(self) -> None:
        self._newest = float("-inf")
        self.restart()

    def restart(self) -> None:
        self._shift: float | None = None

    def host_time(self, stream: str, device: float, domain: str, arrival: float) -> float:
        """As LiveStamps."""
        if self._shift is None:
            self._shift = max(arrival, self._newest + SEAM) - device
        t = device + self._shift
        self._newest = max(self._newest, t)
        return t
