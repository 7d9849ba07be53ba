"""The path that a controller in mode `track` follows, for a while."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable

from scripting.client import ANSWER_TIMEOUT, GraphClient
from scripting.errors import ScriptError
from scripting.monitor import Monitor
from scripting.motion import Motion
from scripting.results import Outcome, PathResult

__all__ = ["follow"]

LOOK_PERIOD = (0.002, 0.05)  # [s] between two looks at the controller's status: close to the end, and before


def follow(
    client: GraphClient,
    monitor: Monitor,
    motion: Motion,
    duration: float,
    stop_after: bool,
    progress: Callable[[float], None],
    cancelled: threading.Event,
) -> PathResult:
    """Let the robot follow its path for `duration` [s] of its own clock, then stand; see Robot.follow_path.

    Raises:
        GraphError: the graph ended, or the controller fell silent.
    """
    monitor.look()  # what was before does not count
    try:
        result = _wait(client, monitor, motion.go(), duration, progress, cancelled)
    except BaseException:
        if stop_after:
            with contextlib.suppress(ScriptError):  # the first error is the one to tell
                motion.stand()
        raise
    if stop_after or result.outcome is Outcome.CANCELED:
        motion.stand()
    return result


def _wait(
    client: GraphClient,
    monitor: Monitor,
    begin: float | None,
    duration: float,
    progress: Callable[[float], None],
    cancelled: threading.Event,
) -> PathResult:
    """Until so much time has passed since `begin` [s], or since the first cycle that is seen."""
    followed, moved = 0.0, time.monotonic()
    squares: list[float] = []

    def ended(outcome: Outcome, message: str = "") -> PathResult:
        error = math.sqrt(sum(squares) / len(squares)) if squares else math.nan
        return PathResult(outcome, message, followed, error)

    while followed < duration:
        rest = duration - followed
        if cancelled.wait(min(max(0.25 * rest, LOOK_PERIOD[0]), LOOK_PERIOD[1])):
            return ended(Outcome.CANCELED, f"cancelled after {followed:.2f} of {duration:g} s")
        client.check(f"after {followed:.2f} s of the path")
        for stamp, error in monitor.look():
            begin = stamp if begin is None else begin
            if stamp - begin < followed - 1e-9:
                return ended(Outcome.INTERRUPTED, f"time went back by {followed - (stamp - begin):.2f} s: a reset")
            if stamp - begin > followed:
                followed, moved = stamp - begin, time.monotonic()
                squares.append(error * error)
                progress(followed)
        if monitor.shut_down:
            raise client.error(f"the supervisor shut down after {followed:.2f} s of the path: its graph is ending")
        if monitor.halted:
            return ended(Outcome.HALTED, f"the supervisor halted the robot after {followed:.2f} s: {monitor.halted}")
        if time.monotonic() - moved > ANSWER_TIMEOUT:
            raise client.error(
                f"the controller has been silent for {ANSWER_TIMEOUT:g} s after {followed:.2f} s of the path"
                + (f"; the last it said was: {monitor.said}" if monitor.said else "")
            )
    return ended(Outcome.SUCCEEDED)
