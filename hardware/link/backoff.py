"""How long to wait before the next attempt to reach a device."""

import random

from hardware.link.errors import DeviceError

__all__ = ["Backoff"]


class Backoff:
    """Growing delays with jitter, so that devices that failed together do not come back in step.

    Args:
        initial, factor, cap: first delay [s], its growth per attempt, its limit [s].
        jitter: relative half width of the uniform scatter.
        max_attempts: 0: unlimited.
        seed: None: scatter differs from run to run.
    """

    def __init__(
        self,
        initial: float = 0.25,
        factor: float = 2.0,
        cap: float = 5.0,
        jitter: float = 0.2,
        max_attempts: int = 0,
        seed: int | None = None,
    ) -> None:
        self.initial, self.factor, self.cap, self.jitter, self.max_attempts = initial, factor, cap, jitter, max_attempts
        self.attempts = 0
        self._random = random.Random(seed)

    def next(self) -> float:
        """The delay before the next attempt [s].

        Raises:
            DeviceError: max_attempts are used up.
        """
        if self.max_attempts and self.attempts >= self.max_attempts:
            raise DeviceError(f"gave up after {self.attempts} attempts")
        # 64 doublings are beyond any cap, and beyond them powers overflow.
        delay = min(self.cap, self.initial * self.factor ** min(self.attempts, 64))
        self.attempts += 1
        return delay * (1.0 + self.jitter * (2.0 * self._random.random() - 1.0))

    def reset(self) -> None:
        """The device is back."""
        self.attempts = 0
