"""The launch ends."""

from ..event import Event


class Shutdown(Event):
    name = "launch.events.Shutdown"

    def __init__(self, *, reason="reason not given", due_to_sigint=False):
        self.__reason = reason
        self.__due_to_sigint = due_to_sigint

    @property
    def reason(self):
        return self.__reason

    @property
    def due_to_sigint(self):
        return self.__due_to_sigint
