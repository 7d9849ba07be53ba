"""What actions and substitutions share while a launch runs."""

import asyncio
import collections
import os


class _Locals:
    """Values of the current scope as attributes."""

    def __init__(self, values):
        self.__dict__["_values"] = values

    def __getattr__(self, name):
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(f"context.locals has no '{name}' here") from None

    def __contains__(self, name):
        return name in self._values


class LaunchContext:
    """Configurations, environment, scoped values, event queue and event handlers.

    `environment` is the environment of this very process, as in the real
    package: what SetEnvironmentVariable sets is also what os.environ and
    libraries loaded here see.
    """

    def __init__(self, *, argv=None, noninteractive=False):
        self.__argv = list(argv or [])
        self.__noninteractive = noninteractive
        self._event_queue = asyncio.Queue()
        self._event_handlers = collections.deque()
        self._completion_futures = []
        self.__globals = {}
        self.__locals = {}
        self.__locals_stack = []
        self.__launch_configurations = {}
        self.__launch_configurations_stack = []
        self.__environment_stack = []
        self.__initial_environment = dict(os.environ)
        self.__is_shutdown = False
        self.__asyncio_loop = None

    @property
    def argv(self):
        return self.__argv

    @property
    def noninteractive(self):
        return self.__noninteractive

    # -- state of the run ----------------------------------------------------

    @property
    def is_shutdown(self):
        return self.__is_shutdown

    def _set_is_shutdown(self, value):
        self.__is_shutdown = value

    @property
    def asyncio_loop(self):
        return self.__asyncio_loop

    def _set_asyncio_loop(self, loop):
        self.__asyncio_loop = loop

    def add_completion_future(self, future):
        """Keep the launch alive until the future is done."""
        self._completion_futures.append(future)

    # -- scoped values -------------------------------------------------------

    def _push_locals(self):
        self.__locals_stack.append(dict(self.__locals))

    def _pop_locals(self):
        self.__locals = self._pop(self.__locals_stack, "locals")

    @staticmethod
    def _pop(stack, what):
        if not stack:
            raise RuntimeError(f"{what}: more pops than pushes")
        return stack.pop()

    def extend_globals(self, values):
        self.__globals.update(values)

    def extend_locals(self, values):
        self.__locals.update(values)

    def _remove_locals(self, names):
        for name in names:
            self.__locals.pop(name, None)

    def get_locals_as_dict(self):
        return {**self.__globals, **self.__locals}

    @property
    def locals(self):
        return _Locals(self.get_locals_as_dict())

    @property
    def launch_configurations(self):
        return self.__launch_configurations

    def _push_launch_configurations(self):
        self.__launch_configurations_stack.append(dict(self.__launch_configurations))

    def _pop_launch_configurations(self):
        self.__launch_configurations = self._pop(self.__launch_configurations_stack, "launch configurations")

    @property
    def environment(self):
        return os.environ

    def _push_environment(self):
        self.__environment_stack.append(dict(os.environ))

    def _pop_environment(self):
        self._replace_environment(self._pop(self.__environment_stack, "environment"))

    def _reset_environment(self):
        self._replace_environment(self.__initial_environment)

    @staticmethod
    def _replace_environment(environment):
        # Only differences are written: os.environ.clear() would for a moment
        # leave other threads (rclpy's) without an environment.
        for name in [n for n in os.environ if n not in environment]:
            del os.environ[name]
        for name, value in environment.items():
            if os.environ.get(name) != value:
                os.environ[name] = value

    # -- events --------------------------------------------------------------

    def register_event_handler(self, event_handler, append=False):
        """Add a handler, by default so that it is asked before older ones."""
        if append:
            self._event_handlers.append(event_handler)
        else:
            self._event_handlers.appendleft(event_handler)

    def unregister_event_handler(self, event_handler):
        """Remove a handler; ValueError if it is not registered."""
        self._event_handlers.remove(event_handler)

    def would_handle_event(self, event):
        return any(handler.matches(event) for handler in tuple(self._event_handlers))

    async def emit_event(self, event):
        await self._event_queue.put(event)

    def emit_event_sync(self, event):
        self._event_queue.put_nowait(event)

    def perform_substitution(self, sub):
        return sub.perform(self)
