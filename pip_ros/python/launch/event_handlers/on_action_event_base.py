"""Handlers of events that concern one action, some actions or any."""

from ..event_handler import BaseEventHandler
from ..launch_description_entity import LaunchDescriptionEntity
from ..utilities import normalize_to_list_of_entities


class OnActionEventBase(BaseEventHandler):
    """Answers an event about a target with entities or with a callable's result.

    Args:
        action_matcher: an action, a predicate over actions, or None for all.
        on_event: entities, or callable(event, context) -> entities or None.
        target_event_cls: the class of the events handled.
        target_action_cls: what the target has to be.
    """

    def __init__(self, *, action_matcher, on_event, target_event_cls, target_action_cls, **kwargs):
        if (
            action_matcher is not None
            and not callable(action_matcher)
            and not isinstance(action_matcher, target_action_cls)
        ):
            raise TypeError(
                f"{type(self).__name__}: target_action is a {type(action_matcher).__name__}, "
                f"expected a {target_action_cls.__name__}, a predicate or None"
            )

        def matches(event):
            if not isinstance(event, target_event_cls):
                return False
            if action_matcher is None:
                return True
            if isinstance(action_matcher, LaunchDescriptionEntity):
                return event.action is action_matcher
            return action_matcher(event.action)

        super().__init__(matcher=matches, **kwargs)
        self.__on_event = on_event if callable(on_event) else None
        self.__entities = [] if callable(on_event) else normalize_to_list_of_entities(on_event)

    @property
    def entities(self):
        """Entities known beforehand."""
        return self.__entities

    def describe(self):
        return f"{type(self).__name__}()", self.__entities

    def handle(self, event, context):
        super().handle(event, context)
        return self.__on_event(event, context) if self.__on_event else self.__entities
