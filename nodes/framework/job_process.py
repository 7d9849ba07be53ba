"""Work of minutes in a process of its own: the node stays responsive, and a job that dies takes nobody with it."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Callable

from config.tiers import MissingTierError
from sim_core.host.child_process import belong_to

__all__ = ["JobProcess", "Told"]


class Told:
    """What a job has for its parent. Call it with anything picklable; it answers whether the job is to end early."""

    def __init__(self, pipe) -> None:
        self._pipe, self._cancelled = pipe, False

    def __call__(self, news) -> bool:
        self._pipe.send(("news", news))
        self._cancelled = self._cancelled or self._pipe.poll()
        return self._cancelled


class JobProcess:
    """One run of work(job, told) in a fresh process.

    Args:
        work: importable function; its result, and what it tells, must be picklable.
        job: its argument.
        sentences: exceptions whose text is meant for people; of others the type is said as well.
    """

    def __init__(self, work: Callable, job, sentences: tuple = (ValueError, OSError, MissingTierError)) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would copy the middleware's threads' locks
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_run, args=(work, job, theirs, sentences, os.getpid()), daemon=True)
        self._process.start()
        theirs.close()

    def poll(self) -> list[tuple[str, object]]:
        """What has come since the last time: ("news", ...), and at the end ("done", result) or ("failed", sentence)."""
        messages = []
        with contextlib.suppress(EOFError, OSError):
            while self._pipe.poll():
                messages.append(self._pipe.recv())
            return messages
        self._process.join(1.0)
        if not any(kind in ("done", "failed") for kind, _ in messages):
            messages.append(
                ("failed", f"the process that did the work ended with code {self._process.exitcode} (memory?)")
            )
        return messages

    def take(self, feedback, say: Callable) -> tuple[str, object] | None:
        """Set what the job told as fields of an action's feedback, and say it.

        Args:
            feedback: message with the field `stage`.
            say: called with `feedback` for the newest of every stage: a stage that passes between two looks is said too.

        Returns:
            the job's end, ("done", result) or ("failed", sentence), or None.
        """
        unsaid = False
        for kind, content in self.poll():
            if unsaid and (kind != "news" or content.get("stage", feedback.stage) != feedback.stage):
                say(feedback)
            if kind != "news":
                self.close()
                return kind, content
            for name, value in content.items():
                setattr(feedback, name, value)
            unsaid = True
        if unsaid:
            say(feedback)
        return None

    def cancel(self) -> None:
        """Ask it to end with what it has."""
        with contextlib.suppress(OSError):
            self._pipe.send("cancel")

    def close(self) -> None:
        """End it now."""
        if self._process.is_alive():
            self._process.kill()
        self._process.join(2.0)
        self._pipe.close()


def _run(work, job, pipe, sentences, parent: int) -> None:
    belong_to(parent)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        answer = ("done", work(job, Told(pipe)))
    except Exception as error:
        text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
        answer = (
            "failed",
            text if isinstance(error, (*sentences, KeyError)) and text else f"{type(error).__name__}: {text}",
        )
    with contextlib.suppress(OSError):
        pipe.send(answer)
