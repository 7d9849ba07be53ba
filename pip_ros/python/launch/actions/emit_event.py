"""Emit an event."""

from ..action import Action
from ..event import Event


class EmitEvent(Action):
    def __init__(self, *, event, **kwargs):
        super().__init__(**kwargs)
        if not isinstance(event, Event):
            raise RuntimeError(f"EmitEvent: expected an Event, found {event!r}")
        self.__event = event

    @property
    def event(self):
        return self.__event

    def execute(self, context):
        context.emit_event_sync(self.__event)
