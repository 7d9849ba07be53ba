"""Visit launch descriptions that are included from outside."""

from ..event_handler import BaseEventHandler
from ..events.include_launch_description import IncludeLaunchDescription


class OnIncludeLaunchDescription(BaseEventHandler):
    def __init__(self, **kwargs):
        super().__init__(matcher=lambda event: isinstance(event, IncludeLaunchDescription), **kwargs)

    def handle(self, event, context):
        super().handle(event, context)
        return event.launch_description
