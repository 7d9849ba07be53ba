"""An asyncio loop beside rclpy's executor: a thread of its own, into which others hand work, and which ends when told."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from typing import Any, TypeVar

__all__ = ["LinkThread"]

Value = TypeVar("Value")
#: [s] for a step of its own, such as the end of all connections
PATIENCE = 5.0


class LinkThread:
    """Runs coroutines on a thread.

    Args:
        failed: told, on that thread, of an exception that nobody waited for.
    """

    def __init__(self, failed: Callable[[str], None]) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(lambda loop, context: failed(_said(context)))
        self._thread = threading.Thread(target=self._run, name="telepresence link", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            for task in asyncio.all_tasks(self._loop):
                task.cancel()
            self._loop.run_until_complete(asyncio.sleep(0))
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()

    def wait(self, work: Coroutine[Any, Any, Value], patience: float = PATIENCE) -> Value:
        """Do something there, and wait for its outcome.

        Raises:
            TimeoutError: it took longer than `patience` [s]; whatever the work raises.
        """
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(patience)
        except CancelledError:
            raise TimeoutError("the telepresence link has ended") from None
        except TimeoutError:
            future.cancel()
            raise

    def soon(self, step: Callable[..., None], *arguments: Any) -> None:
        """Do something there, without waiting; nothing once the thread has ended."""
        try:
            self._loop.call_soon_threadsafe(step, *arguments)
        except RuntimeError:  # the loop is closed
            return

    def end(self) -> None:
        """End the thread, and whatever still runs on it."""
        self.soon(self._loop.stop)
        self._thread.join(PATIENCE)


def _said(context: dict[str, Any]) -> str:
    error = context.get("exception")
    return (
        f"{context.get('message', 'In the telepresence link')}: {type(error).__name__}: {error}"
        if error
        else str(context.get("message"))
    )
