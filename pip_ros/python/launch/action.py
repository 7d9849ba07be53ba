"""An entity with a condition and an effect."""

from .events.execution_complete import ExecutionComplete
from .launch_description_entity import LaunchDescriptionEntity


class Action(LaunchDescriptionEntity):
    """Base class of all actions; subclasses define `execute(context)`."""

    def __init__(self, *, condition=None):
        self.__condition = condition

    @property
    def condition(self):
        return self.__condition

    def describe(self):
        return f"{type(self).__name__}({hex(id(self))})"

    def get_sub_entities(self):
        """Return the entities that this action yields, as far as known beforehand."""
        return []

    def describe_sub_entities(self):
        return self.get_sub_entities() if self.condition is None else []

    def describe_conditional_sub_entities(self):
        if self.condition is None:
            return []
        return [("Conditionally included by " + self.describe(), self.get_sub_entities())]

    def visit(self, context):
        if self.condition is not None and not self.condition.evaluate(context):
            return None
        try:
            return self.execute(context)
        finally:
            self._announce_completion(context)

    def execute(self, context):
        """Do the work; return entities to visit next, or None."""
        return None

    def _announce_completion(self, context):
        event = ExecutionComplete(action=self)
        if not context.would_handle_event(event):
            return
        future = self.get_asyncio_future()
        if future is None:
            context.emit_event_sync(event)
        else:
            future.add_done_callback(lambda _: context.emit_event_sync(event))
