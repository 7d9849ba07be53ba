"""A watch in every node's process, so that none falls silent: it says when a loop stands still, and when nothing was run.

    watchdog = Watchdog(say=logger.warning, not_run=print)
    turns = watchdog.loop("executor")
    watchdog.start()
    while True:
        turns.turn()
        ...

A thread looks once a second. A loop that has made no turn for its patience is named, with the stack of every thread. If the
thread itself comes late, then the process was stopped or the machine gave it no time, and no loop is blamed for that.

A call that hangs in a library and keeps the interpreter silences every thread of Python, this one too. For that case the
thread arms `faulthandler` anew with every look: unless it comes back, the stacks are printed by a thread that needs no
interpreter ("Timeout (0:00:30)!").
"""

from __future__ import annotations

import faulthandler
import sys
import threading
import time
import traceback
from collections.abc import Callable

__all__ = ["Loop", "Watchdog", "watch_interpreter"]

PERIOD = 1.0  # between two looks [s]
PATIENCE = 5.0  # without a turn after which a loop is said to stand still [s]
AGAIN = 30.0  # after which it is said again [s]
NOT_RUN = 2.0  # by which a look has to come late before it is said [s]
INTERPRETER_PATIENCE = 30.0  # without a look after which every thread's stack is printed, and again after as long [s]

STDERR = 2  # its descriptor: a stream of Python may be held by the thread that hangs


def watch_interpreter() -> None:
    """Print every thread's stack each INTERPRETER_PATIENCE until this is called again, or another limit is set."""
    faulthandler.dump_traceback_later(INTERPRETER_PATIENCE, repeat=True, file=STDERR)


class Loop:
    """A loop that is expected to turn.

    Args:
        name: as sentences call it, "executor".
        watched: whether it has to turn at the moment.
        patience: without a turn after which it stands still [s].
    """

    def __init__(self, name: str, watched: Callable[[], bool], patience: Callable[[], float]) -> None:
        self.name, self.watched, self.patience = name, watched, patience
        self.said: float | None = None  # when it was last said to stand still
        self.turn()

    def turn(self) -> None:
        """A turn was made by the thread that calls."""
        self.turned, self.thread = time.monotonic(), threading.get_ident()


class Watchdog:
    """Looks after the loops of one process.

    Args:
        say: takes a sentence, which stacks may follow; called on the watch's thread.
        not_run: takes the seconds for which the process was not run; called on the watch's thread.
    """

    def __init__(self, say: Callable[[str], object], not_run: Callable[[float], object]) -> None:
        self._say, self._not_run = say, not_run
        self._loops: list[Loop] = []
        self._closing = threading.Event()
        self._arming = threading.RLock()  # taken by signal handlers too, of which a second may interrupt the first
        self._ending = False
        self._thread: threading.Thread | None = None

    def loop(
        self,
        name: str,
        watched: Callable[[], bool] = lambda: True,
        patience: Callable[[], float] = lambda: PATIENCE,
    ) -> Loop:
        """A loop to be watched from now on; its arguments are those of `Loop`."""
        self._loops.append(Loop(name, watched, patience))
        return self._loops[-1]

    def start(self) -> None:
        """Begin to look."""
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)
        self._thread.start()

    def end_within(self, limit: float) -> None:
        """The process has to end within `limit` [s], else it prints its stacks and ends itself. For signal handlers."""
        with self._arming:
            self._ending = True
            # Needs no interpreter: it also ends a process that hangs in a library or while Python is torn down.
            faulthandler.dump_traceback_later(limit, exit=True)

    def close(self) -> None:
        """Look no more. A limit set by `end_within` stays."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join(PERIOD)
        with self._arming:
            if not self._ending:
                faulthandler.cancel_dump_traceback_later()

    def _run(self) -> None:
        looked = resumed = time.monotonic()
        computed = time.process_time()
        while not self._closing.wait(PERIOD):
            with self._arming:
                if not self._ending:
                    watch_interpreter()
            now, late = time.monotonic(), time.monotonic() - looked - PERIOD
            busy = time.process_time() - computed
            looked, computed = now, computed + busy
            if late > NOT_RUN:
                resumed = now
                if busy < 0.5 * late:  # else it was run: a call in a library kept the interpreter from this thread
                    self._not_run(late)
            for loop in self._loops:
                self._look_at(loop, now, resumed)

    def _look_at(self, loop: Loop, now: float, resumed: float) -> None:
        turned = loop.turned
        if loop.said is not None and (turned > loop.said or not loop.watched()):
            loop.said = None
            self._say(f"The {loop.name} turns again.")
        if not loop.watched() or now - max(turned, resumed) < loop.patience():
            return
        if loop.said is None or now - loop.said >= AGAIN:
            loop.said = now
            self._say(
                f"The {loop.name} has made no turn for {now - turned:.1f} s: it hangs, or takes too long. "
                f"This is where each thread stands, its own first.\n{_stacks(loop.thread)}"
            )


def _stacks(first: int) -> str:
    """Where each thread of Python stands, save the one that asks; `first` (an identifier) comes first."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = sys._current_frames()
    frames.pop(threading.get_ident())
    return "\n".join(
        f"Thread '{names.get(thread, thread)}':\n{''.join(traceback.format_stack(frames[thread]))}"
        for thread in sorted(frames, key=lambda thread: thread != first)
    )
