"""A launch description is to be visited."""

from ..event import Event


class IncludeLaunchDescription(Event):
    name = "launch.events.IncludeLaunchDescription"

    def __init__(self, launch_description):
        self.__launch_description = launch_description

    @property
    def launch_description(self):
        return self.__launch_description
