"""A verb that goes on while the script does something else, and the rule that one at a time moves a robot."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from scripting.errors import UsageError

__all__ = ["OneAtATime", "Task"]

R = TypeVar("R")

CANCEL_TIMEOUT = 40.0  # [s] for a task to end: as long as a robot may take to come to rest
LOOK_PERIOD = 0.1  # [s] between two moments at which a wait can be interrupted by Ctrl-C


class Task(Generic[R]):
    """Work in a thread of its own, which may be asked to end early.

    Args:
        work: called with the event that is set when the work is to be cancelled; returns the result, also then.
        name: of the thread, for people who look at one.
    """

    def __init__(self, work: Callable[[threading.Event], R], name: str) -> None:
        self._future: Future[R] = Future()
        self._cancelled = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(work,), name=name, daemon=True)
        self._thread.start()

    def _run(self, work: Callable[[threading.Event], R]) -> None:
        try:
            self._future.set_result(work(self._cancelled))
        except BaseException as error:  # handed to whoever asks for the result
            self._future.set_exception(error)

    def is_done(self) -> bool:
        """Whether the result is there."""
        return self._future.done()

    def cancel(self) -> None:
        """Ask for an early end; returns at once, `result` then tells how far it got."""
        self._cancelled.set()

    def result(self, timeout: float | None = None) -> R:
        """The result, waited for.

        Args:
            timeout: [s]; None: as long as it takes.

        Raises:
            TimeoutError: it is not there yet; the task goes on.
            ScriptError: the task failed.
        """
        waited = 0.0
        while not self._future.done():
            # In slices: a wait without end in a lock cannot be interrupted on every platform.
            slice_ = LOOK_PERIOD if timeout is None else min(LOOK_PERIOD, timeout - waited)
            if slice_ <= 0.0:
                raise TimeoutError(f"{self._thread.name} is not done after {timeout:g} s; it goes on, ask again")
            self._thread.join(slice_)
            waited += slice_
        return self._future.result()


class OneAtATime:
    """Lets one verb run, here or as a task.

    Args:
        who: is busy meanwhile, for the error's text.
    """

    def __init__(self, who: str) -> None:
        self._who, self._busy = who, threading.Lock()
        self._task: Task[Any] | None = None

    def _take(self) -> None:
        if not self._busy.acquire(blocking=False):
            raise UsageError(f"{self._who} is busy with another verb: wait for it, or cancel its task")

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """
        Raises:
            UsageError: another verb runs.
        """
        self._take()
        try:
            yield
        finally:
            self._busy.release()

    def run(self, work: Callable[[threading.Event], R]) -> R:
        """Do the work here; nobody cancels it but Ctrl-C."""
        with self.turn():
            return work(threading.Event())

    def begin(self, work: Callable[[threading.Event], R], name: str) -> Task[R]:
        """Do the work in a task."""
        self._take()

        def run(cancelled: threading.Event) -> R:
            try:
                return work(cancelled)
            finally:
                self._busy.release()

        task = Task(run, name)
        self._task = task
        return task

    def cancel(self, timeout: float = CANCEL_TIMEOUT) -> None:
        """End the task that runs, if there is one, and wait for its end.

        Raises:
            TimeoutError: it did not end within `timeout` [s].
            ScriptError: it failed.
        """
        if self._task is not None and not self._task.is_done():
            self._task.cancel()
            self._task.result(timeout)
