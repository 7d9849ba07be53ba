"""Add and remove event handlers."""

from ..action import Action


class RegisterEventHandler(Action):
    def __init__(self, event_handler, **kwargs):
        super().__init__(**kwargs)
        self.__event_handler = event_handler

    @property
    def event_handler(self):
        return self.__event_handler

    def execute(self, context):
        context.register_event_handler(self.__event_handler)

    def describe_conditional_sub_entities(self):
        description, entities = self.__event_handler.describe()
        return [(f"conditionally included by {description}", entities)]


class UnregisterEventHandler(Action):
    def __init__(self, event_handler, **kwargs):
        super().__init__(**kwargs)
        self.__event_handler = event_handler

    @property
    def event_handler(self):
        return self.__event_handler

    def execute(self, context):
        context.unregister_event_handler(self.__event_handler)
