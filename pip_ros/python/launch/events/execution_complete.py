"""An action has finished."""

from ..event import Event


class ExecutionComplete(Event):
    name = "launch.events.ExecutionComplete"

    def __init__(self, *, action):
        self.__action = action

    @property
    def action(self):
        return self.__action
