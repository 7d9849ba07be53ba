"""Work that may be slower than what it is done on arrives: the newest wins."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

__all__ = ["LatestWins"]


class LatestWins:
    """One thread that works on the newest item offered. Items are worked on in order; one that waits is replaced by the next.

    Args:
        work: called as work(item) on the thread. What it raises ends the thread; `check` hands it on.
        on_skip: called for every item that was replaced, on the offering thread.
        name: of the thread.
    """

    def __init__(self, work: Callable, on_skip: Callable[[], None] = lambda: None, name: str = "latest") -> None:
        self._work, self._on_skip = work, on_skip
        self._waiting: list = []  # at most one item
        self._working = self._closing = False
        self._error: Exception | None = None
        self._turn = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def offer(self, item: Any, wait: bool = False) -> None:
        """The newest item; `wait`: until the one before is taken, so that none is left out."""
        with self._turn:
            if wait:
                self._turn.wait_for(lambda: not self._waiting or self._closing or self._error)
            if self._closing:
                return
            replaced, self._waiting = bool(self._waiting), [item]
            self._turn.notify_all()
        if replaced:
            self._on_skip()

    @property
    def idle(self) -> bool:
        """Nothing waits, nothing is being worked on."""
        with self._turn:
            return not self._waiting and not self._working

    def check(self) -> None:
        """Raise what the work has raised."""
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Forget what waits, let what is being worked on come to its end; afterwards no item is referenced any more."""
        with self._turn:
            self._closing = True
            self._waiting.clear()
            self._turn.notify_all()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while True:
            with self._turn:
                self._turn.wait_for(lambda: self._waiting or self._closing)
                if self._closing:
                    return
                item, self._working = self._waiting.pop(), True
                self._turn.notify_all()
            try:
                self._work(item)
            except Exception as error:
                self._error = error
                return
            finally:
                del item
                with self._turn:
                    self._working = False
                    self._turn.notify_all()
