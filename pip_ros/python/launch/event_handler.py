"""Reactions to events."""

from .utilities.entities import normalize_to_list_of_entities


class BaseEventHandler:
    """Decides by `matches(event)` and answers by `handle(event, context)`."""

    def __init__(self, *, matcher, handle_once=False):
        self.__matcher = matcher
        self.__handle_once = handle_once

    @property
    def handle_once(self):
        return self.__handle_once

    @property
    def handler_description(self):
        return type(self).__name__

    def matches(self, event):
        return self.__matcher(event)

    def describe(self):
        return f"{type(self).__name__}(matcher='{self.__matcher}')", []

    def handle(self, event, context):
        """Return entities to visit, or None; subclasses call this first."""
        context.extend_locals({"event": event})
        if self.handle_once:
            context.unregister_event_handler(self)
        return None


class EventHandler(BaseEventHandler):
    """Visits given entities when the event matches."""

    def __init__(self, *, matcher, entities=None, handle_once=False):
        super().__init__(matcher=matcher, handle_once=handle_once)
        self.__entities = normalize_to_list_of_entities(entities)

    @property
    def entities(self):
        return self.__entities

    def describe(self):
        return super().describe()[0], self.__entities

    def handle(self, event, context):
        super().handle(event, context)
        return self.__entities
