"""Visit actions later."""

import asyncio

from ..action import Action
from ..event_handler import EventHandler
from ..event_handlers.on_shutdown import OnShutdown
from ..events.timer_event import TimerEvent
from ..utilities import perform_substitutions
from ..utilities.type_utils import is_substitution, normalize_to_list_of_substitutions
from .opaque_function import OpaqueFunction


class TimerAction(Action):
    """Visits the actions once, `period` seconds after it was visited itself.

    Args:
        period: seconds, a number or substitutions.
        cancel_on_shutdown: forget the actions when the launch ends.
    """

    def __init__(self, *, period, actions, cancel_on_shutdown=True, **kwargs):
        super().__init__(**kwargs)
        self.__period = normalize_to_list_of_substitutions(
            period if is_substitution(period) or isinstance(period, str) else str(float(period))
        )
        self.__actions = list(actions)
        self.__cancel_on_shutdown = cancel_on_shutdown
        self.__context_locals = {}
        self.__canceled = False
        self.__handle = None
        self.__completed = None

    @property
    def period(self):
        return self.__period

    @property
    def actions(self):
        return self.__actions

    def describe(self):
        return f"TimerAction(period={' + '.join(s.describe() for s in self.__period)})"

    def describe_conditional_sub_entities(self):
        return [(f"{self.describe()} elapsed", self.__actions)]

    def cancel(self):
        """Do not visit the actions; harmless at any time."""
        self.__canceled = True
        if self.__handle is not None:
            self.__handle.cancel()
            self.__finish()

    def __finish(self):
        if not self.__completed.done():
            self.__completed.set_result(None)

    def execute(self, context):
        if self.__canceled:
            return
        self.__completed = context.asyncio_loop.create_future()
        self.__context_locals = context.get_locals_as_dict()
        context.register_event_handler(
            EventHandler(
                matcher=lambda event: isinstance(event, TimerEvent) and event.timer_action is self,
                entities=OpaqueFunction(function=self.__on_elapsed),
                handle_once=True,
            )
        )
        if self.__cancel_on_shutdown:
            if context.is_shutdown:
                self.__finish()
                return
            context.register_event_handler(OnShutdown(on_shutdown=lambda event, context: self.cancel()))

        def elapse():
            context.emit_event_sync(TimerEvent(timer_action=self))
            self.__finish()

        period = float(perform_substitutions(context, self.__period))
        self.__handle = asyncio.get_running_loop().call_later(period, elapse)

    def __on_elapsed(self, context):
        context.extend_locals(self.__context_locals)
        return self.__actions

    def get_asyncio_future(self):
        return self.__completed
