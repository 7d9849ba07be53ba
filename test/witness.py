"""What a busy machine takes from a test that is about time."""

import threading
import time

__all__ = ["Witness"]


class Witness(threading.Thread):
    """Sleeps, and notes by how much it overslept: what a busy machine takes from everybody.

    Attributes:
        lost: time beyond what it meant to sleep [s].
    """

    def __init__(self, period=0.005):
        super().__init__(daemon=True)
        self.lost, self._period, self._end = 0.0, period, threading.Event()

    def run(self):
        last = time.monotonic()
        while not self._end.wait(self._period):
            now = time.monotonic()
            self.lost, last = self.lost + max(now - last - 2.0 * self._period, 0.0), now

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        self.join()
