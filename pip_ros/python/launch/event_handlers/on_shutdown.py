"""React to the end of the launch."""

from ..event_handler import BaseEventHandler
from ..events.shutdown import Shutdown
from ..utilities import normalize_to_list_of_entities


class OnShutdown(BaseEventHandler):
    """Answers with entities, or with the result of on_shutdown(event, context)."""

    def __init__(self, *, on_shutdown, **kwargs):
        super().__init__(matcher=lambda event: isinstance(event, Shutdown), **kwargs)
        self.__on_shutdown = on_shutdown if callable(on_shutdown) else None
        self.__entities = [] if callable(on_shutdown) else normalize_to_list_of_entities(on_shutdown)

    @property
    def entities(self):
        return self.__entities

    def describe(self):
        return "OnShutdown()", self.__entities

    def handle(self, event, context):
        super().handle(event, context)
        return self.__on_shutdown(event, context) if self.__on_shutdown else self.__entities
