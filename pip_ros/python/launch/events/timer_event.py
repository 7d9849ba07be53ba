"""A timer's period is over."""

from ..event import Event


class TimerEvent(Event):
    name = "launch.events.TimerEvent"

    def __init__(self, *, timer_action):
        self.__timer_action = timer_action

    @property
    def timer_action(self):
        return self.__timer_action
