"""Progress as an object that is passed in, so that libraries never print.

A long computation takes `progress` and opens stages:

    with progress.stage("fitting", total=starts) as stage:
        for start in range(starts):
            ...
            stage.advance()
    progress.say("rank 8 of 14")

`SilentProgress` shows nothing, `RichProgress` draws bars with the time left, `LineProgress` writes a
line now and then for logs. `progress_for` picks by the terminal.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as _RichBars

T = TypeVar("T")


class Stage:
    """One stretch of work of `total` steps (None: unknown). A context manager; closing it ends the stage.

    This base shows nothing.
    """

    def advance(self, steps: float = 1) -> None:
        """`steps` more are done."""

    def say(self, text: str) -> None:
        """Replace the text beside the bar (e.g. the current loss)."""

    def close(self) -> None:
        """The stage is over; once is enough, and again does nothing."""

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Progress(Protocol):
    """What a computation may ask of the progress object it is given."""

    def stage(self, text: str, total: float | None = None) -> Stage:
        """Open a stage; stages may nest."""

    def track(self, items: Iterable[T], text: str, total: float | None = None) -> Iterator[T]:
        """Iterate over `items` as one stage."""

    def say(self, text: str) -> None:
        """A line that stays."""


class SilentProgress:
    """Shows nothing; the default wherever progress is optional, and what tests pass."""

    def stage(self, text: str, total: float | None = None) -> Stage:
        return Stage()

    def track(self, items: Iterable[T], text: str, total: float | None = None) -> Iterator[T]:
        if total is None:
            total = len(items) if hasattr(items, "__len__") else None  # type: ignore[arg-type]
        with self.stage(text, total) as stage:
            for item in items:
                yield item
                stage.advance()

    def say(self, text: str) -> None:
        pass

    def __enter__(self) -> SilentProgress:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class _Bar(Stage):
    def __init__(self, bars: _RichBars, text: str, total: float | None) -> None:
        self._bars, self._task = bars, bars.add_task(text, total=total)

    def advance(self, steps: float = 1) -> None:
        self._bars.advance(self._task, steps)

    def say(self, text: str) -> None:
        self._bars.update(self._task, description=text)

    def close(self) -> None:
        # Finished stages are removed: nested loops would otherwise fill the screen.
        if self._task in self._bars.task_ids:
            self._bars.remove_task(self._task)


class RichProgress(SilentProgress):
    """Bars with elapsed and remaining time on a terminal. Use as a context manager."""

    def __init__(self, console: Console | None = None) -> None:
        self._bars = _RichBars(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console or Console(),
            transient=True,
        )

    def stage(self, text: str, total: float | None = None) -> Stage:
        return _Bar(self._bars, text, total)

    def say(self, text: str) -> None:
        self._bars.console.print(text, markup=False, highlight=False)

    def __enter__(self) -> RichProgress:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()


class _Lines(Stage):
    def __init__(self, owner: LineProgress, text: str, total: float | None) -> None:
        self._owner, self._text, self._total = owner, text, total
        self._done, self._start = 0.0, time.monotonic()
        self._last = self._start
        self._closed = False

    def advance(self, steps: float = 1) -> None:
        self._done += steps
        now = time.monotonic()
        if now - self._last < self._owner.period:
            return
        self._last = now
        if self._total and self._done > 0:
            left = (now - self._start) * max(self._total / self._done - 1.0, 0.0)
            self._owner.say(f"{self._text}: {100 * self._done / self._total:.0f} %, about {duration_text(left)} left")
        else:
            self._owner.say(f"{self._text}: {self._done:g} done")

    def say(self, text: str) -> None:
        self._text = text

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        elapsed = time.monotonic() - self._start
        if elapsed >= self._owner.period:
            self._owner.say(f"{self._text}: {duration_text(elapsed)}")


class LineProgress(SilentProgress):
    """A plain line per stage at most every `period` seconds, for logs and pipes."""

    def __init__(self, console: Console | None = None, period: float = 10.0) -> None:
        self._console, self.period = console or Console(), period

    def stage(self, text: str, total: float | None = None) -> Stage:
        return _Lines(self, text, total)

    def say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def progress_for(console: Console | None = None) -> RichProgress | LineProgress:
    """Bars on a terminal, lines anywhere else."""
    console = console or Console()
    return RichProgress(console) if console.is_terminal else LineProgress(console)


def duration_text(seconds: float) -> str:
    """Seconds as a person says them: "8 s", "2 min 05 s", "1 h 10 min"."""
    whole = int(round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
