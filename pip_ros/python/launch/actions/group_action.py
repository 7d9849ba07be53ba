"""Several actions under one condition and in one scope."""

from ..action import Action
from .configuration_scope import (
    PopEnvironment,
    PopLaunchConfigurations,
    PushEnvironment,
    PushLaunchConfigurations,
    ResetEnvironment,
)
from .reset_launch_configurations import ResetLaunchConfigurations
from .set_launch_configuration import SetLaunchConfiguration


class GroupAction(Action):
    """Visits the actions.

    Args:
        scoped: changes of launch configurations and environment end with the group.
        forwarding: what is set outside is visible inside; without it only
            `launch_configurations` and the original environment are.
        launch_configurations: set for the group.
    """

    def __init__(self, actions, *, scoped=True, forwarding=True, launch_configurations=None, **kwargs):
        super().__init__(**kwargs)
        actions = list(actions)
        configurations = launch_configurations or {}
        set_configurations = [SetLaunchConfiguration(k, v) for k, v in configurations.items()]
        if not scoped:
            self.__sub_entities = [*set_configurations, *actions]
            return
        enter = set_configurations if forwarding else [ResetEnvironment(), ResetLaunchConfigurations(configurations)]
        self.__sub_entities = [
            PushLaunchConfigurations(),
            PushEnvironment(),
            *enter,
            *actions,
            PopEnvironment(),
            PopLaunchConfigurations(),
        ]

    def get_sub_entities(self):
        return self.__sub_entities

    def execute(self, context):
        return self.__sub_entities
