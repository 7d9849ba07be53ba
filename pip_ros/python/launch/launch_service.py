"""Runs launch descriptions: one loop that visits entities and handles events."""

import asyncio
import contextlib
import signal
import threading
import traceback

from .event_handlers.on_include_launch_description import OnIncludeLaunchDescription
from .event_handlers.on_shutdown import OnShutdown
from .events.include_launch_description import IncludeLaunchDescription
from .events.shutdown import Shutdown
from .launch_context import LaunchContext
from .launch_description_entity import LaunchDescriptionEntity
from .logging import DEBUG, get_logger, launch_config, log_launch_config
from .utilities import normalize_to_list_of_entities, visit_all_entities_and_collect_futures


class LaunchService:
    """Visits the included descriptions and runs until nothing is left to do.

    Signals: the first SIGINT shuts everything down, further ones are reported
    and ignored. SIGTERM does the same but makes `run` return 1; a second one,
    or SIGQUIT, kills what is left at once.
    """

    def __init__(self, *, argv=None, noninteractive=False, debug=False):
        """Prepare a service.

        Args:
            argv: kept in the context.
            noninteractive: no terminal is attached, see the context's property.
            debug: log at DEBUG level and switch asyncio's debug mode on.
        """
        self.__debug = debug
        if debug:
            launch_config.level = DEBUG
        self.__logger = get_logger("launch")
        self.__context = LaunchContext(argv=argv, noninteractive=noninteractive)
        self.__context.register_event_handler(OnIncludeLaunchDescription())
        self.__context.register_event_handler(OnShutdown(on_shutdown=self.__on_shutdown))
        self._entity_future_pairs = []
        self.__loop_lock = threading.RLock()
        self.__loop = None
        self.__task = None
        self.__shutting_down = False
        self.__return_code = 0
        self.__terminated = False
        self.interrupted = False  # a SIGINT arrived during the run

    @property
    def context(self):
        return self.__context

    @property
    def event_loop(self):
        """The loop of the current run, or None."""
        return self.__loop

    @property
    def task(self):
        """The asyncio task of the current or last run."""
        return self.__task

    def emit_event(self, event):
        """Queue an event from any thread, also before the run starts; None or a future."""
        with self.__loop_lock:
            if self.__loop is None:
                self.__context.emit_event_sync(event)
                return None
            return asyncio.run_coroutine_threadsafe(self.__context.emit_event(event), self.__loop)

    def include_launch_description(self, launch_description):
        """Visit a launch description as soon as the service runs."""
        self.emit_event(IncludeLaunchDescription(launch_description))

    # -- shutdown ------------------------------------------------------------

    def __on_shutdown(self, event, context):
        self.__shutting_down = True
        context._set_is_shutdown(True)
        return None

    def _shutdown(self, *, reason, due_to_sigint, force_sync=False):
        """Announce the shutdown once; return a coroutine if called from the loop."""
        to_await = None
        if not self.__shutting_down:
            event = Shutdown(reason=reason, due_to_sigint=due_to_sigint)
            if force_sync:
                self.__context.emit_event_sync(event)
            elif self.__loop is _running_loop():
                to_await = self.__context.emit_event(event)
            else:
                self.emit_event(event)
        self.__shutting_down = True
        self.__context._set_is_shutdown(True)
        return to_await

    def shutdown(self, force_sync=False):
        """Stop everything, which makes `run` return; from any thread.

        Returns:
            A coroutine to await if called from within the loop without
            force_sync, else None. Nothing happens if the service does not run.
        """
        with self.__loop_lock:
            if self.__loop is None:
                return None
            return self._shutdown(reason="LaunchService.shutdown() called", due_to_sigint=False, force_sync=force_sync)

    # -- the run -------------------------------------------------------------

    def run(self, *, shutdown_when_idle=True):
        """Run until done; return 0, or 1 after an exception in the launch itself.

        A process that fails does not change the result, as in the real package.
        """
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        try:
            task = loop.create_task(self.run_async(shutdown_when_idle=shutdown_when_idle))
            while True:
                try:
                    return loop.run_until_complete(task)
                except KeyboardInterrupt:  # between start and the own signal handlers
                    self.interrupted = True
                    task.cancel()
                except asyncio.CancelledError:
                    return 0 if self.interrupted else 1
        finally:
            asyncio.set_event_loop(None)
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()

    async def run_async(self, *, shutdown_when_idle=True):
        """Like `run`, in the running loop; main thread only."""
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("LaunchService can only be run in the main thread.")
        with self._running():
            log_launch_config(logger=self.__logger)
            next_event = None
            while True:
                try:
                    idle = self._is_idle()
                    if idle and self.__shutting_down:
                        break
                    if idle and shutdown_when_idle:
                        await self._shutdown(reason="idle", due_to_sigint=False)
                        continue
                    if next_event is None or next_event.done():
                        next_event = asyncio.ensure_future(self._process_one_event())
                    await self._wait(next_event)
                except asyncio.CancelledError:
                    self.__logger.error("run task was canceled")
                    self.__return_code = 1
                    self._kill_processes()
                    break
                except Exception as error:
                    self.__logger.debug(traceback.format_exc())
                    message = f"Caught exception in launch (see debug for traceback): {_one_line(error)}"
                    self.__logger.error(message)
                    self.__return_code = 1
                    await (self._shutdown(reason=message, due_to_sigint=False) or _nothing())
            if next_event is not None and not next_event.done():
                next_event.cancel()
            return self.__return_code

    @contextlib.contextmanager
    def _running(self):
        loop = asyncio.get_running_loop()
        with self.__loop_lock:
            if self.__loop is not None:
                raise RuntimeError("LaunchService cannot be run multiple times concurrently.")
            self.__loop = loop
            self.__task = asyncio.current_task()
            self.__return_code = 0
            self.__terminated = self.interrupted = False
            self.__context._set_asyncio_loop(loop)
            self.__context._set_is_shutdown(False)  # left from an earlier run
        if self.__debug:
            loop.set_debug(True)
        loop.set_exception_handler(self._on_loop_exception)
        try:
            with _signal_handlers(
                loop,
                {signal.SIGINT: self._on_sigint, signal.SIGTERM: self._on_sigterm, signal.SIGQUIT: self._on_sigquit},
            ):
                yield
        finally:
            with self.__loop_lock:
                self.__loop = None
                self.__context._set_asyncio_loop(None)
                self.__shutting_down = False

    def _on_loop_exception(self, loop, context):
        self.__return_code = 1
        loop.default_exception_handler(context)

    def _is_idle(self):
        self._entity_future_pairs = [p for p in self._entity_future_pairs if not p[1].done()]
        futures = self.__context._completion_futures
        for future in [f for f in futures if f.done()]:
            futures.remove(future)
            if not future.cancelled() and future.exception() is not None:
                raise future.exception()
        return not self._entity_future_pairs and not futures and self.__context._event_queue.empty()

    async def _wait(self, next_event):
        """Wait for an event to be handled or for anything to finish; raise what it raised."""
        futures = [next_event]
        if self.__context._event_queue.empty():
            futures += [future for _, future in self._entity_future_pairs]
            futures += self.__context._completion_futures
        done, _ = await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
        errors = [f.exception() for f in done if not f.cancelled() and f.exception() is not None]
        if errors:
            # Forgotten now, or the next look at them would raise them again.
            completions = self.__context._completion_futures
            completions[:] = [f for f in completions if not f.done()]
            for error in errors[1:]:
                self.__logger.error(_one_line(error))
            raise errors[0]

    async def _process_one_event(self):
        event = await self.__context._event_queue.get()
        self.__logger.debug(f"processing event: '{event}'")
        for handler in tuple(self.__context._event_handlers):
            if not handler.matches(event):
                continue
            self.__context._push_locals()
            try:
                for entity in normalize_to_list_of_entities(handler.handle(event, self.__context)):
                    if not isinstance(entity, LaunchDescriptionEntity):
                        raise RuntimeError(f"expected a LaunchDescriptionEntity from event_handler, got {entity!r}")
                    self._entity_future_pairs += visit_all_entities_and_collect_futures(entity, self.__context)
            finally:
                self.__context._pop_locals()

    # -- signals -------------------------------------------------------------

    def _on_sigint(self):
        message = "user interrupted with ctrl-c (SIGINT)"
        if self.interrupted:
            self.__logger.warning(f"{message} again, ignoring...")
            return
        self.interrupted = True
        self.__logger.warning(message)
        self._shutdown(reason="ctrl-c (SIGINT)", due_to_sigint=True, force_sync=True)

    def _on_sigterm(self):
        if self.__terminated:
            self._on_sigquit()
            return
        self.__terminated = True
        self.__logger.error("received SIGTERM, shutting down")
        self.__return_code = 1
        self._shutdown(reason="SIGTERM", due_to_sigint=False, force_sync=True)

    def _on_sigquit(self):
        self.__logger.error("killing all processes at once")
        self.__return_code = 1
        self._kill_processes()
        self._shutdown(reason="SIGQUIT", due_to_sigint=False, force_sync=True)

    def _kill_processes(self):
        for entity, _ in self._entity_future_pairs:
            if hasattr(entity, "_kill"):
                entity._kill()


@contextlib.contextmanager
def _signal_handlers(loop, handlers):
    """Install handlers that run in the loop; restore the previous ones afterwards."""
    previous = {signum: signal.getsignal(signum) for signum in handlers}
    for signum, handler in handlers.items():
        loop.add_signal_handler(signum, handler)
    try:
        yield
    finally:
        for signum, handler in previous.items():
            if not loop.is_closed():
                loop.remove_signal_handler(signum)
            if handler is not None:
                signal.signal(signum, handler)


def _running_loop():
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


async def _nothing():
    return None


def _one_line(error):
    """Return the exception's message, which may be empty, with its kind if need be."""
    return str(error) if str(error) and not isinstance(error, KeyError) else repr(error)
