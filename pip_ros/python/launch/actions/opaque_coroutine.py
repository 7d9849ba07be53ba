"""Run a coroutine when visited."""

import asyncio

from ..action import Action
from ..event_handlers.on_shutdown import OnShutdown


class OpaqueCoroutine(Action):
    """Runs coroutine([context,] *args, **kwargs) as a task, cancelled at shutdown.

    Args:
        ignore_context: leave the context out of the arguments.
    """

    def __init__(self, *, coroutine, args=None, kwargs=None, ignore_context=False, **left_over_kwargs):
        super().__init__(**left_over_kwargs)
        if not asyncio.iscoroutinefunction(coroutine):
            raise TypeError(f"OpaqueCoroutine: expected an async function, found {coroutine!r}")
        self.__coroutine = coroutine
        self.__args = list(args or [])
        self.__kwargs = dict(kwargs or {})
        self.__ignore_context = ignore_context
        self.__future = None

    def execute(self, context):
        args = self.__args if self.__ignore_context else [context, *self.__args]
        self.__future = context.asyncio_loop.create_task(self.__coroutine(*args, **self.__kwargs))
        context.register_event_handler(OnShutdown(on_shutdown=self.__on_shutdown))

    def __on_shutdown(self, event, context):
        self.__future.cancel()

    def get_asyncio_future(self):
        return self.__future
