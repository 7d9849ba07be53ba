"""What a planner waits for, in steps: a generator that yields wherever it waits, and returns what it has waited for.

found = yield from thread.waited(lambda: ...)             # in the steps of a goal
found = await awaited(thread.waited(lambda: ...))         # in a service
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from nodes.framework.lifecycle import turn

__all__ = ["SideThread", "awaited"]


async def awaited(steps: Iterator[None]) -> Any:
    """What steps return, for a coroutine; other callbacks run while they wait."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            return ended.value
        await turn()


class SideThread:
    """A thread on which what takes seconds is computed, beside a node's other business and one thing after the other.

    Args:
        name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(1, name)

    def submit(self, deed: Callable[[], Any]) -> Future:
        """Have a function called there."""
        return self._pool.submit(deed)

    def waited(self, deed: Callable[[], Any]) -> Iterator[None]:
        """Steps that return what a function returns, which is called there."""
        asked = self.submit(deed)
        while not asked.done():
            yield
        return asked.result()

    def destroy(self) -> None:
        """End it, without waiting for what is computed; what has not begun is given up."""
        self._pool.shutdown(wait=False, cancel_futures=True)
